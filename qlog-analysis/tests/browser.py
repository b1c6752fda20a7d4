"""A headless Chromium that is driven as a person would, through its devtools protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

_PATIENCE_S = 120.0


class Browser:
    """A page of Chromium."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._held = b""
        self._last = 0
        self._session = ""
        self.errors: list[str] = []

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the protocol and returns its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            got = self._message()
            if got.get("id") == self._last:
                assert "error" not in got, got
                return got["result"]
            if got.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.errors.append(json.dumps(got["params"]))

    def _message(self) -> Any:
        while b"\0" not in self._held:
            more = os.read(self._reads, 1 << 16)
            assert more, "Chromium has ended"
            self._held += more
        text, _, self._held = self._held.partition(b"\0")
        return json.loads(text)

    def attach(self) -> None:
        """Takes the first page."""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        session = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def open(self, path: Path, width: int = 1200, height: int = 900, mobile: bool = False) -> None:
        """Opens a file in a window of this size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=mobile,
        )  # fmt: skip
        self.call("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        out = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in out, out
        return out["result"].get("value")

    def until(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + _PATIENCE_S
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def box(self, element: str) -> dict[str, float]:
        """The place of an element, which is scrolled into view."""
        out = self.value(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect();"
            " return {x: b.x, y: b.y, width: b.width, height: b.height}; })()"
        )
        assert isinstance(out, dict)
        return out

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """An event of the mouse: moved, pressed, released or wheel."""
        name = "mouseWheel" if kind == "wheel" else f"mouse{kind.capitalize()}"
        self.call("Input.dispatchMouseEvent", type=name, x=x, y=y, **more)

    def click(self, element: str) -> None:
        """Clicks in the middle of an element."""
        box = self.box(element)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.mouse("moved", x, y)
        self.mouse("pressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("released", x, y, button="left", clickCount=1)

    def drag(self, element: str, start: float, end: float) -> None:
        """Drags over an element, from one share of its width to another."""
        box = self.box(element)
        y = box["y"] + box["height"] / 2
        places = [box["x"] + box["width"] * share for share in (start, (start + end) / 2, end)]
        self.mouse("moved", places[0], y)
        self.mouse("pressed", places[0], y, button="left", buttons=1, clickCount=1)
        for x in places[1:]:
            self.mouse("moved", x, y, button="left", buttons=1)
        self.mouse("released", places[-1], y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """Saves what is seen as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Starts Chromium with a profile of its own, and ends it."""
    assert CHROMIUM
    (from_us, to_it), (from_it, to_us) = os.pipe(), os.pipe()
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
        f"--user-data-dir={profile}", "about:blank",
    ]  # fmt: skip
    # Chromium reads from descriptor 3 and writes to 4.
    script = f'exec "$@" 3<&{from_us} 4>&{to_us}'
    process = subprocess.Popen(
        ["bash", "-c", script, "chromium", *command],
        pass_fds=(from_us, to_us),
        stderr=subprocess.DEVNULL,
    )
    os.close(from_us)
    os.close(to_us)
    page = Browser(from_it, to_it)
    try:
        page.attach()
        yield page
    finally:
        process.terminate()
        process.wait()
        os.close(to_it)
        os.close(from_it)
