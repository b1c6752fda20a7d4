"""The command line."""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from qlog_analysis.commands import traces as trace_commands
from qlog_analysis.commands.progress import bar
from qlog_analysis.commands.terminal import table
from qlog_analysis.errors import AnalysisError, SeveralTracesError, UsageError
from qlog_analysis.experiments.results import analyse, summary, summary_csv, summary_json
from qlog_analysis.reading.reader import read_trace

_REPORT = """\
Reads the directory of a comparison (comparison.json and, under runs/, for each run its run.json,
traces and queue.csv) and writes into it:

  report.html    tables, plots and definitions in one file that needs no network
  plots/*.svg    the same plots
  summary.json   all numbers; null where a thing did not happen
  summary.csv    one line per run

The table of the first group is printed.
"""

_PLOT = """\
Draws the qlog of a sender.

  trace-graph    the graphs of Brakmo et al. 1994: packets sent, acknowledged and lost, timeouts,
                 windows, sending rate, Vegas' congestion avoidance, and the router's queue if it
                 is given
  overview       window, RTT, backlog, rates and losses
"""

_PAPERS = """\
Reads the results of experiments (DIR/*/experiment.json and what gallop-sim sweep wrote beside it)
and writes into DIR:

  report.html    tables, plots, and every claim of the papers beside what was measured
  papers.json    the claims with their verdicts, and what was run
  papers.md      the claims as a table for each paper

A claim that is not reproduced is no error. Exit code 1: a file is missing or senseless.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0, 1 on an error, 2 on wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except AnalysisError as error:
        print(f"qlog-analysis: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"qlog-analysis: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="qlog-analysis",
        description="Metrics, plots and reports from qlog traces of congestion controllers.",
        epilog="example: qlog-analysis report compare-2026-01-31",
    )
    parser.add_argument("--version", action="version", version=version("qlog-analysis"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "report",
        help="report on a directory of runs",
        description=_REPORT,
        epilog="example: qlog-analysis report compare-2026-01-31 --json summary.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("directory", type=Path, metavar="DIR", help="the comparison's directory")
    command.add_argument(
        "--json", type=Path, metavar="FILE", help="write what is in summary.json to FILE too"
    )
    command.set_defaults(run=lambda options: _report(options.directory, options.json))

    command = commands.add_parser(
        "papers",
        help="hold the papers' claims against what experiments measured",
        description=_PAPERS,
        epilog="example: qlog-analysis papers target/papers --json papers.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "directory", type=Path, metavar="DIR", help="the directory with those of the experiments"
    )
    command.add_argument(
        "names", nargs="*", metavar="NAME", help="only these experiments [default: all in DIR]"
    )
    command.add_argument(
        "--json", type=Path, metavar="FILE", help="write what is in papers.json to FILE too"
    )
    command.set_defaults(
        run=lambda options: _papers(options.directory, options.names, options.json)
    )

    command = commands.add_parser(
        "plot",
        help="draw a trace",
        description=_PLOT,
        epilog="example: qlog-analysis plot flow-0.server.sqlog --from 2 --to 5 --out start.svg",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_plot_arguments(command)
    command.set_defaults(run=_plot)
    trace_commands.add(commands)
    return parser


def _add_plot_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("trace", type=Path, metavar="TRACE", help="a qlog of any program")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="FILE.svg or FILE.png [default: TRACE with .KIND.svg added]",
    )
    add("--kind", choices=("trace-graph", "overview"), default="trace-graph")
    add("--connection", metavar="NAME", help='which one of a file with several: "trace 2"')
    add("--from", dest="start", type=_seconds, default=0.0, metavar="S", help="from this time on")
    add("--to", dest="end", type=_seconds, metavar="S", help="up to this time")
    add(
        "--queue",
        type=Path,
        metavar="FILE",
        help="the router's queue: a CSV with the columns time_s and packets",
    )
    add(
        "--alpha",
        type=float,
        metavar="N",
        help="Vegas' lower threshold in packets [default: as the trace's title has it]",
    )
    add("--beta", type=float, metavar="N", help="its upper threshold")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _report(directory: Path, json_file: Path | None) -> None:
    # The processes that read traces import this module too, and have no use for matplotlib.
    from qlog_analysis.drawing import runs
    from qlog_analysis.reports import comparison as report

    with bar("reading traces", "B") as start:
        results = analyse(directory, start)
    with bar("drawing", " plots") as start:
        on_plot = _one_by_one(start(sum(map(runs.count, report.courses(results)))))
        html = report.write(results, directory, on_plot)
    content = summary(results, html)
    text = summary_json(content)
    for path in filter(None, (directory / "summary.json", json_file)):
        path.write_text(text, encoding="utf-8")
    (directory / "summary.csv").write_text(summary_csv(content), encoding="utf-8")
    for warning in results.warnings():
        print(f"qlog-analysis: {warning}", file=sys.stderr)
    first = results.groups[0]
    print(f"{first.group.title}\n\n{table(first)}\n")
    if results.verdicts:
        good = sum(verdict.reproduced for verdict in results.verdicts)
        print(f"Of the papers' {len(results.verdicts)} claims {good} are reproduced.")
    print(f"Report: {html}")


def _papers(directory: Path, names: Sequence[str], json_file: Path | None) -> None:
    from qlog_analysis.experiments import verdicts
    from qlog_analysis.reports import papers as report

    with bar("reading results", " experiments") as start:
        outcomes = verdicts.read_outcomes(directory, names, lambda total: _one_by_one(start(total)))
    text = verdicts.papers_json(outcomes)
    for path in filter(None, (directory / "papers.json", json_file)):
        path.write_text(text, encoding="utf-8")
    with bar("drawing", " experiments") as start:
        page = report.write(outcomes, directory, _one_by_one(start(len(outcomes))))
    print(report.summary(outcomes))
    print(f"Report: {page}")


def _plot(options: argparse.Namespace) -> None:
    from qlog_analysis.drawing import trace_plot

    out = options.out or options.trace.with_name(f"{options.trace.name}.{options.kind}.svg")
    part = trace_plot.Part(
        kind=options.kind,
        start_s=options.start,
        end_s=options.end,
        alpha=options.alpha,
        beta=options.beta,
        queue=options.queue,
    )
    trace_plot.check(part, out)
    size = options.trace.stat().st_size if options.trace.is_file() else 0
    with bar("reading the trace", "B") as start:
        try:
            trace = read_trace(options.trace, start(size), connection=options.connection)
        except SeveralTracesError as error:
            raise UsageError(f"{error}; choose one with --connection NAME") from error
    trace_plot.save(trace, part, out)
    print(out)


def _one_by_one(count: Callable[[int], None]) -> Callable[[], None]:
    return lambda: count(1)
