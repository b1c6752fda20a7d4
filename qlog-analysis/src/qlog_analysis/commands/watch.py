"""The connections whose traces are being written into a folder, as a table in the terminal."""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qlog_analysis.errors import UsageError
from qlog_analysis.names import showable

_RS = b"\x1e"
_CLEAR = "\x1b[H\x1b[J"

# Of what was added to a trace no more is read than this.
_MOST_BYTES_AT_ONCE = 4 << 20

QUIET_S = 30.0
"""A connection without news for so long is not shown any more."""

_COLUMNS = (
    "connection", "controller", "age", "state", "window", "in flight", "RTT", "least", "pacing",
    "lost", "quiet",
)  # fmt: skip

# So many of them are texts, which stand to the left.
_TEXTS = 2


@dataclass(slots=True)
class Connection:
    """A connection as its trace has it so far; sizes in bytes, times in milliseconds."""

    path: Path
    offset: int = 0
    rest: bytes = b""
    controller: str = ""
    pacing_bits: int = 8
    state: str = ""
    now_ms: float = 0.0
    lost: int = 0
    closed: bool = False
    values: dict[str, Any] = field(default_factory=dict)

    def read(self) -> None:
        """Takes the records that were added since the last time; what is none is passed over."""
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(self.offset)
            text = self.rest
            if size - self.offset > _MOST_BYTES_AT_ONCE:
                # The header, if it has not been read yet, and the end of what there is.
                text = b"" if self.offset else file.readline()
                file.seek(size - _MOST_BYTES_AT_ONCE)
            text += file.read(size - file.tell())
        self.offset = size
        *records, self.rest = text.split(b"\n")
        for record in records:
            try:
                self._take(json.loads(record.lstrip(_RS)))
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
                continue

    def _take(self, record: dict[str, Any]) -> None:
        if "trace" in record:
            self.controller = showable(str(record.get("title", "")))
            # NOTE: quiche logs bytes per second; a trace for qvis has bits per second.
            self.pacing_bits = 1 if "converter" in record else 8
            return
        kind = record["name"].partition(":")[2]
        data = record["data"]
        self.now_ms = float(record["time"])
        if kind in {"recovery_metrics_updated", "metrics_updated"}:
            self.values |= data
            if "cf_lost_packets" in data:
                self.lost = int(data["cf_lost_packets"]["total"])
        elif kind == "congestion_state_updated":
            self.state = showable(str(data["new"]))
        elif kind == "connection_closed":
            self.closed = True

    def row(self, quiet_s: float) -> list[str]:
        """The cells of its line."""
        return [
            showable(self.path.name)[:20],
            self.controller[:28],
            f"{self.now_ms / 1000:.1f} s",
            "closed" if self.closed else self.state,
            self._size("congestion_window"),
            self._size("bytes_in_flight"),
            self._number("smoothed_rtt", 1, "ms"),
            self._number("min_rtt", 1, "ms"),
            self._number("pacing_rate", 1e-6 * self.pacing_bits, "Mbit/s"),
            str(self.lost),
            f"{quiet_s:.0f} s",
        ]

    def _size(self, name: str) -> str:
        return self._number(name, 1e-3, "kB")

    def _number(self, name: str, scale: float, unit: str) -> str:
        value = self.values.get(name)
        return f"{value * scale:.1f} {unit}" if isinstance(value, int | float) else ""


class Watched:
    """A folder of traces."""

    def __init__(self, folder: Path) -> None:
        """Takes a folder.

        Raises:
            UsageError: there is no such folder.
        """
        if not folder.is_dir():
            raise UsageError(f"{folder}: is no folder; expected that of gallop-server --qlog-dir")
        self._folder = folder
        self._known: dict[Path, Connection] = {}

    def table(self, now_s: float, most: int) -> Iterator[str]:
        """Reads what is new; yields the lines of a table, the latest connection first."""
        shown: list[tuple[float, Connection]] = []
        for path in sorted(self._folder.glob("*.sqlog")):
            try:
                stat = path.stat()
                quiet_s = max(0.0, now_s - stat.st_mtime)
                if quiet_s > QUIET_S:
                    self._known.pop(path, None)
                    continue
                one = self._known.get(path)
                if one is None or stat.st_size < one.offset:
                    one = self._known[path] = Connection(path)
                one.read()
            except OSError:
                # It was removed meanwhile.
                self._known.pop(path, None)
                continue
            shown.append((quiet_s, one))
        shown.sort(key=lambda pair: (pair[1].closed, pair[0], pair[1].path))
        rows = [list(_COLUMNS), *(one.row(quiet_s) for quiet_s, one in shown[:most])]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        open_now = sum(not one.closed for _, one in shown)
        yield f"{self._folder}: {open_now} open, {len(shown) - open_now} just closed"
        for row in rows:
            left = "  ".join(
                cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)
            )
            right = "  ".join(
                cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)
            )
            yield f"{left}  {right}"
        if len(shown) > most:
            yield f"and {len(shown) - most} more"


def watch(folder: Path, every_s: float, once: bool) -> None:
    """Shows the connections again and again, or once; ends with SIGINT.

    Raises:
        UsageError: there is no such folder.
    """
    watched = Watched(folder)
    while True:
        size = shutil.get_terminal_size()
        most = 10_000 if once else max(1, size.lines - 4)
        lines = list(watched.table(time.time(), most))
        if once or not sys.stdout.isatty():
            print("\n".join(lines), flush=True)
        else:
            print(_CLEAR + "\n".join(line[: size.columns] for line in lines), flush=True)
        if once:
            return
        time.sleep(every_s)
