"""The speed and memory of reading traces, beside the cost of their JSON alone.

    python benchmarks/reading.py TRACE [--sizes 10,100,1000] [--serde PROGRAM] [--json FILE]

A trace (JSON-SEQ, a full one of quiche say) is repeated to each size, later in time each time, and
read by processes of their own:

    load            `qlog_analysis.load`: all tables
    summary         `load(…).summary()`, as `qlog-analysis summary` does it
    scan            msgspec finds the records and checks their JSON, the least that can be done
    fields          msgspec decodes the fields that `load` reads, and no tables are made of them
    objects         msgspec makes Python's objects of all
    json            the standard library makes Python's objects of all, in a loop over the lines
    serde           PROGRAM: every event into the types of the qlog crate, as qlog-dancer has it

MB/s are of JSON per second of CPU time, of all threads; memory is the most that was resident. Of
several runs over a short trace the fastest counts, since disturbances only make it slower.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# As the commands do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import msgspec
import polars as pl

from qlog_analysis import load as load_trace
from qlog_analysis.reading.events import ACKED, LOST, METRICS, RECEIVED, SENT, STATES
from qlog_analysis.reading.regular import Regular

BLOCK_BYTES = 1 << 20
RS = b"\x1e"
RUNS = 3
LONG_BYTES = 500_000_000
"""A trace of this size is read once, since starting takes little beside it."""
LEAST = 0.5
"""The least ratio of reading to starting at which their difference says anything."""


def load(path: Path) -> int:
    """Reads all tables; returns the number of records."""
    return load_trace(path).trace.records


def summary(path: Path) -> int:
    """Reads and reduces the trace to numbers; returns the number of records."""
    return load_trace(path).summary().records


def _blocks(path: Path) -> Iterator[bytes]:
    """The records of a trace after its header, some whole ones at a time."""
    rest = b""
    with path.open("rb") as file:
        file.readline()
        while block := file.read(BLOCK_BYTES):
            block = rest + block
            cut = block.rfind(RS) + 1
            rest = block[cut:]
            yield block[:cut]
    yield rest


def _decoded(path: Path, decoder: msgspec.json.Decoder[Any]) -> int:
    return sum(len(decoder.decode_lines(block.replace(RS, b" "))) for block in _blocks(path))


def scan(path: Path) -> int:
    """Finds the records; returns their number."""
    return _decoded(path, msgspec.json.Decoder(msgspec.Raw))


def objects(path: Path) -> int:
    """Decodes all of the records; returns their number."""
    return _decoded(path, msgspec.json.Decoder())


def fields(path: Path) -> int:
    """Decodes the fields of the records that are read; returns their number."""
    regular = Regular((SENT, RECEIVED, METRICS, STATES, LOST, ACKED))
    records = 0
    for block in _blocks(path):
        if not records:
            regular.learn(pl.Series(block.decode().split("\x1e")))
        decoded = regular.decode(block, RS)
        records += decoded.records if decoded else 0
    return records


def plain(path: Path) -> int:
    """Decodes records by the standard library; returns their number."""
    records = 0
    with path.open("rb") as file:
        for line in file:
            json.loads(line.strip(b"\x1e\n"))
            records += 1
    return records


READERS: dict[str, Callable[[Path], int]] = {
    "load": load,
    "summary": summary,
    "scan": scan,
    "fields": fields,
    "objects": objects,
    "json": plain,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A measured value."""

    name: str
    unit: str
    value: float


def repeated(trace: Path, size_bytes: int, out: Path) -> None:
    """Writes the events of a trace again and again, each time later, until the size is reached."""
    time_of = re.compile(rb'"time":([0-9.]+)')
    later_ms = at_ms = 0.0
    with trace.open("rb") as events, out.open("wb") as file:
        written = file.write(events.readline())
        first = events.tell()
        while written < size_bytes:
            for event in events:
                match = time_of.search(event)
                if match is None:
                    raise SystemExit(f"{trace}: an event without time: {event[:80]!r}")
                at_ms = float(match[1]) + later_ms
                written += file.write(
                    b'%s"time":%.6f%s' % (event[: match.start()], at_ms, event[match.end() :])
                )
                if written >= size_bytes:
                    return
            events.seek(first)
            later_ms = at_ms + 1.0


def measured(name: str, command: list[str], path: Path) -> list[Row]:
    """CPU time and memory of a process that reads a trace, and of one that reads next to nothing.

    The second shows the cost of starting. If reading adds little to it, there is no speed.
    """
    size = path.stat().st_size
    start_s, _ = _fastest(command, path.with_suffix(".start"), RUNS)
    cpu_s, peak_bytes = _fastest(command, path, 1 if size >= LONG_BYTES else RUNS)
    reading_s = cpu_s - start_s
    speeds = [size / 1e6 / reading_s] if reading_s > LEAST * start_s else []
    print(
        f"{size / 1e6:8.0f} MB  {name:8}  {speeds[0] if speeds else math.nan:8.1f} MB/s  "
        f"{cpu_s:8.2f} s CPU  {peak_bytes / 1e6:8.0f} MB",
        flush=True,
    )
    label = f"analysis/{size / 1e6:.0f} MB/{name}"
    return [
        *(Row(f"{label}/speed", "MB/s", speed) for speed in speeds),
        Row(f"{label}/cpu", "s", cpu_s),
        Row(f"{label}/memory", "MB", peak_bytes / 1e6),
    ]


def _fastest(command: list[str], path: Path, runs: int) -> tuple[float, int]:
    return min(_run(command, path) for _ in range(runs))


def _run(command: list[str], path: Path) -> tuple[float, int]:
    process = subprocess.Popen([*command, str(path)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} {path}: exit status {process.returncode}")
    # ru_maxrss is in kilobytes on Linux, in bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit


def main() -> None:
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python benchmarks/reading.py flow-0.server.sqlog --json reading.json",
    )
    parser.add_argument("trace", type=Path, help="a trace in JSON-SEQ, to be repeated")
    parser.add_argument("--sizes", default="10,100,1000", help="in MB, parted by commas")
    parser.add_argument("--serde", type=Path, help="a program that takes a trace and parses it")
    parser.add_argument("--json", type=Path, dest="out", help="write name, unit and value here")
    parser.add_argument("--only", choices=READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        READERS[arguments.only](arguments.trace)
        return
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=arguments.out and arguments.out.parent) as directory:
        for size in map(int, arguments.sizes.split(",")):
            path = Path(directory) / f"{size}.sqlog"
            repeated(arguments.trace, size * 1_000_000, path)
            repeated(arguments.trace, 20_000, path.with_suffix(".start"))
            for name in READERS:
                command = [sys.executable, __file__, "--only", name]
                rows += measured(name, command, path)
            if arguments.serde:
                rows += measured("serde", [str(arguments.serde)], path)
            path.unlink()
    if arguments.out:
        partial = arguments.out.with_name(f"{arguments.out.name}.part")
        partial.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
        partial.replace(arguments.out)


if __name__ == "__main__":
    main()
