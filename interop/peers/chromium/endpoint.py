"""Chromium as a client of the QUIC interop runner, by its devtools protocol over a pipe."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

DOWNLOADS, LOGS = Path("/downloads"), Path("/logs")
UNSUPPORTED = 127

# Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
COMMANDS_FD, ANSWERS_FD = 3, 4


class Browser:
    """A headless Chromium that speaks QUIC with one server, and to nobody else."""

    def __init__(self, host: str, port: int, profile: str) -> None:
        """Starts it."""
        program = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
        commands_out, commands_in = os.pipe()
        answers_out, answers_in = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--no-proxy-server",
            "--enable-quic",
            f"--origin-to-force-quic-on={host}:{port}",
            f"--ignore-certificate-errors-spki-list={key_hash()}",
            f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {host}",
            f"--user-data-dir={profile}",
            f"--log-net-log={LOGS / 'netlog.json'}",
            "--remote-debugging-pipe",
        ]
        pipes = f'exec "$0" "$@" {COMMANDS_FD}<&{commands_out} {ANSWERS_FD}>&{answers_in}'
        self.process = subprocess.Popen(
            ["bash", "-c", pipes, program, *flags], pass_fds=(commands_out, answers_in)
        )
        os.close(commands_out)
        os.close(answers_in)
        self.commands = os.fdopen(commands_in, "wb", buffering=0)
        self.answers = os.fdopen(answers_out, "rb")
        self.unread = b""
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def read(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.unread:
            more = os.read(self.answers.fileno(), 1 << 16)
            if not more:
                raise ConnectionError("the browser has ended")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol; events that come before the answer are kept."""
        self.number += 1
        command: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        self.commands.write(json.dumps(command).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") == self.number:
                if "error" in message:
                    raise ConnectionError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of this kind."""
        while True:
            message = self.events.pop(0) if self.events else self.read()
            if message.get("method") == method:
                params: dict[str, Any] = message["params"]
                return params


def key_hash() -> str:
    """What the browser knows the server's key by: base64 of SHA-256 of the public key."""
    command = (
        "openssl x509 -in /certs/cert.pem -noout -pubkey | openssl pkey -pubin -outform der"
        " | openssl dgst -sha256 -binary"
    )
    digest = subprocess.run(["bash", "-c", command], check=True, capture_output=True).stdout
    return base64.b64encode(digest).decode()


def fetch(browser: Browser, urls: list[str]) -> None:
    """Shows pages and downloads other files; all have to come over HTTP/3."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.call("Network.enable", session)
    browser.call("Page.enable", session)
    browser.call(
        "Browser.setDownloadBehavior",
        behavior="allow",
        downloadPath=str(DOWNLOADS),
        eventsEnabled=True,
    )
    for url in urls:
        name = Path(urlsplit(url).path).name
        browser.events.clear()
        browser.call("Page.navigate", session, url=url)
        received = browser.wait("Network.responseReceived")
        response = received["response"]
        print(f"{url}: {response['status']} over {response['protocol']}")
        if response["protocol"] != "h3" or response["status"] != 200:
            raise ConnectionError(f"{url}: {response['status']} over {response['protocol']}")
        if name.endswith(".html"):
            browser.wait("Page.loadEventFired")
            body = browser.call("Network.getResponseBody", session, requestId=received["requestId"])
            content = body["body"]
            (DOWNLOADS / name).write_bytes(
                base64.b64decode(content) if body["base64Encoded"] else content.encode()
            )
        else:
            while (state := browser.wait("Browser.downloadProgress")["state"]) != "completed":
                if state == "canceled":
                    raise ConnectionError(f"{url}: the download was cancelled")
    browser.call("Browser.close")
    browser.process.wait()


def main() -> int:
    """Gets the files over HTTP/3, which is all that a browser speaks."""
    role, case = os.environ.get("ROLE"), os.environ.get("TESTCASE", "")
    if role != "client" or case != "http3":
        print(f"test case {case} is not supported as {role}", file=sys.stderr)
        return UNSUPPORTED
    urls = os.environ.get("REQUESTS", "").split()
    server = urlsplit(urls[0])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(server.hostname or "", server.port or 443, profile)
        try:
            fetch(browser, urls)
        finally:
            browser.process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
