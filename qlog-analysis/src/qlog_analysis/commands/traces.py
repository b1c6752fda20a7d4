"""The commands for traces of any program: convert, summary, to-parquet, compare."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qlog_analysis.commands.progress import bar
from qlog_analysis.errors import UsageError
from qlog_analysis.library import Log, load_all

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_TRACES = "a qlog trace of any program: JSON-SEQ, JSON lines or contained JSON, also .gz and .zst"

_CONVERT = """\
Writes traces in a form that qvis or qlog-dancer opens: with the names, units, losses and lengths
that it looks for. TRACE.sqlog becomes TRACE.converted.sqlog beside it. If views of qvis will be
empty, it says which and why.

No file is clean in both programs: qvis takes events by the names of main-schema-03, qlog-dancer by
those of main-schema-14.
"""

_PARQUET = """\
Writes the tables of all traces into DIR, one file per kind: traces, metrics, packets, acks, losses
and states (.parquet). Each row names its trace, connection, vantage point and program. A file
that is not a qlog trace is left out with a warning, and the exit code is 1.
"""

_FLEET = """\
Reads all traces below folders and adds them to a data set: DIR/TABLE/date=…/part-….parquet. A
run that is interrupted goes on where it stopped, and a later one reads only files that are new or
have changed. Broken files are left out, counted, and named in DIR/done/*.json with the reason.
"""

_WATCH = """\
Shows the connections whose traces are being written into a folder, as by gallop-server --qlog-dir:
window, RTT, losses and state of the controller. Those that are closed go after half a minute. A
server writes traces in pieces of some kilobytes, so that sparse ones are behind by a moment.
"""

_COMPARE = """\
Compares traces of any programs in a table, which is printed. With --out DIR it also writes
report.html with plots, summary.json, summary.csv and plots/*.svg.
"""


def add(commands: "Commands") -> None:
    """Adds the commands to the command line."""
    raw = argparse.RawDescriptionHelpFormatter

    command = commands.add_parser(
        "convert",
        help="write traces in a form that qvis or qlog-dancer opens",
        description=_CONVERT,
        epilog="example: qlog-analysis convert flow-0.server.sqlog --for qvis --out flow-0.sqlog",
        formatter_class=raw,
    )
    _traces_argument(command)
    command.add_argument("--out", type=Path, metavar="FILE", help="the file to write, of one trace")
    command.add_argument(
        "--for",
        dest="target",
        choices=("qvis", "dancer"),
        default="qvis",
        help="the program that is to open it [default: qvis]",
    )
    command.add_argument(
        "--trace",
        dest="number",
        type=int,
        metavar="N",
        help="one of a file with several traces, from 1",
    )
    command.set_defaults(run=_convert)

    command = commands.add_parser(
        "summary",
        help="print throughput, round-trip times and losses of traces",
        description="Prints the numbers of traces, whichever program wrote them.",
        epilog="example: qlog-analysis summary *.sqlog --json",
    )
    _traces_argument(command)
    command.add_argument("--json", action="store_true", help="as JSON, one object per trace")
    command.set_defaults(run=_summary)

    command = commands.add_parser(
        "to-parquet",
        help="write traces as Parquet, for DuckDB and Spark",
        description=_PARQUET,
        epilog="example: qlog-analysis to-parquet /var/log/qlog/*.sqlog --out qlog-tables",
        formatter_class=raw,
    )
    _traces_argument(command)
    command.add_argument("--out", type=Path, metavar="DIR", required=True, help="the directory")
    command.set_defaults(run=_to_parquet)

    command = commands.add_parser(
        "fleet",
        help="gather the traces of a fleet as partitioned Parquet, on all cores",
        description=_FLEET,
        epilog="example: qlog-analysis fleet /srv/qlog --out fleet --labels '/(?P<network>[^/]+)/'",
        formatter_class=raw,
    )
    command.add_argument(
        "sources", type=Path, nargs="+", metavar="FOLDER", help="a folder of traces, or a trace"
    )
    command.add_argument("--out", type=Path, metavar="DIR", required=True, help="the data set")
    command.add_argument(
        "--tables",
        default="traces,losses,states",
        metavar="NAME,…",
        help="of traces, metrics, packets, acks, losses, states [default: traces,losses,states]",
    )
    command.add_argument(
        "--labels",
        default="",
        metavar="REGEX",
        help="searched in each path; its named groups, as (?P<host>[^/]+), become columns",
    )
    command.set_defaults(run=_fleet)

    command = commands.add_parser(
        "watch",
        help="show the connections whose traces are being written",
        description=_WATCH,
        epilog="example: qlog-analysis watch /var/log/qlog",
        formatter_class=raw,
    )
    command.add_argument("folder", type=Path, metavar="DIR", help="the folder of the traces")
    command.add_argument(
        "--every", type=_interval, default=1.0, metavar="SECONDS", help="the time between tables"
    )
    command.add_argument("--once", action="store_true", help="one table, then end")
    command.set_defaults(run=_watch)

    command = commands.add_parser(
        "compare",
        help="compare traces of any programs",
        description=_COMPARE,
        epilog="example: qlog-analysis compare vegas.sqlog cubic.sqlog --out vegas-cubic",
        formatter_class=raw,
    )
    _traces_argument(command)
    command.add_argument("--out", type=Path, metavar="DIR", help="write the report into DIR")
    command.set_defaults(run=_compare)


def _traces_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument("traces", type=Path, nargs="+", metavar="TRACE", help=_TRACES)


def _size(paths: Sequence[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())


def _load(paths: Sequence[Path]) -> list[Log]:
    with bar("reading traces", "B") as start:
        on_bytes = start(_size(paths))
        logs = [log for path in paths for log in load_all(path, on_bytes)]
    for log in logs:
        of = f", {log.trace.connection}" if log.trace.connection else ""
        for text in log.warnings():
            _warn(f"{log.trace.path}{of}: {text}")
    return logs


def _warn(text: str) -> None:
    print(f"qlog-analysis: {text}", file=sys.stderr)


def _convert(options: argparse.Namespace) -> int:
    from qlog_analysis.export.convert import convert, out_path

    if options.out is not None and len(options.traces) > 1:
        raise UsageError(f"--out {options.out}: expected one trace, not {len(options.traces)}")
    with bar("converting", "B") as start:
        on_bytes = start(2 * _size(options.traces))
        for path in options.traces:
            out = options.out or out_path(path, options.number)
            done = convert(path, out, options.target, on_bytes, options.number)
            if done.skipped:
                _warn(f"{path}: {done.skipped} records could not be read and are left out")
            for note in done.notes:
                _warn(f"{path}: {note}")
            derived = f", {done.derived_losses} losses derived" if done.derived_losses else ""
            print(f"{done.path}: {done.events} events{derived}")
    return 0


def _summary(options: argparse.Namespace) -> int:
    from qlog_analysis.reports.summaries import named, text_table

    logs = _load(options.traces)
    if options.json:
        summaries = [asdict(log.summary()) | {"trace": str(log.trace.path)} for log in logs]
        print(json.dumps({"traces": summaries}, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n\n".join(text_table([one]) for one in named(logs)))
    return 0


def _to_parquet(options: argparse.Namespace) -> int:
    from qlog_analysis.export.parquet import to_parquet

    bad: list[Path] = []

    def on_error(path: Path, error: Exception) -> None:
        bad.append(path)
        _warn(f"{error}; left out")

    with bar("reading traces", "B") as start:
        written = to_parquet(options.traces, options.out, start(_size(options.traces)), on_error)
    for path in written:
        print(path)
    return 1 if bad else 0


def _fleet(options: argparse.Namespace) -> int:
    from qlog_analysis.export.fleet import fill

    with bar("reading traces", "B") as start:
        names = options.tables.split(",")
        filled = fill(options.sources, options.out, names, options.labels, start)
    for one in filled.broken[:_NAMED]:
        _warn(f"{one.reason}; left out" if one.path in one.reason else f"{one.path}: {one.reason}")
    if len(filled.broken) > _NAMED:
        _warn(f"{len(filled.broken) - _NAMED} more files are broken: {options.out / 'done'}")
    print(
        f"{options.out}: {filled.files} files read, {filled.connections} connections added; "
        f"{filled.known} files were known; {filled.all_broken} of all are broken"
    )
    return 0


_NAMED = 5
"""So many broken files are named."""


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.05 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"expected 0.05 to 3600 seconds, not {text!r}")
    return seconds


def _watch(options: argparse.Namespace) -> int:
    from qlog_analysis.commands.watch import watch

    watch(options.folder, options.every, options.once)
    return 0


def _compare(options: argparse.Namespace) -> int:
    from qlog_analysis.reports.summaries import named, text_table

    traces = named(_load(options.traces))
    print(text_table(traces))
    if options.out is not None:
        from qlog_analysis.reports.traces import write

        with bar("drawing", " plots") as start:
            report = write(traces, options.out, start(len(traces) + 1))
        print(f"\nReport: {report}")
    return 0
