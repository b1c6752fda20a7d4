"""The command line."""

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from qlog_analysis.commands import traces as trace_commands
from qlog_analysis.commands.progress import bar
from qlog_analysis.errors import AnalysisError, SeveralTracesError, UsageError
from qlog_analysis.reading.reader import read_trace

_REPORT = """\
Reads the directory of a comparison (comparison.json, and what gallop-sim compare wrote beside it)
and writes into it:

  report.html    tables, plots and definitions in one file that needs no network
  plots/*.svg    the same plots
  summary.csv    the numbers of the tables
  claims.json    the papers' claims with their verdicts, if there are any

A claim that is not reproduced is not an error.
"""

_PLOT = """\
Draws the qlog of a sender.

  trace-graph    the graphs of Brakmo et al. 1994: packets sent, acknowledged and lost, timeouts,
                 windows, sending rate, Vegas' congestion avoidance, and with --queue the router's
                 queue
  overview       window, RTT, backlog, rates and losses
"""

_PAPERS = """\
Reads the results of experiments (experiment.json in each directory below DIR, and what
gallop-sim sweep wrote beside it) and writes into DIR:

  report.html    tables, plots, and every claim of the papers with its measurement
  papers.json    the claims with their verdicts, and what was run
  papers.md      the claims as a table for each paper

A claim that is not reproduced is not an error. The exit code is 1 if a file is missing or
senseless.
"""

_EVALUATION = """\
Reads the directory of an evaluation (evaluation.json, and what gallop-sim evaluate wrote beside
it) and writes the page on it: the controllers' tallies, a map of all scenarios, and for each
controller and scenario the limits with the measured values, as one file that needs no network.

A limit that is not kept is not an error. The exit code is 1 if a file is missing or senseless.
"""


_SWEEP = """\
Cuts a sweep or an evaluation of gallop-sim into parts and runs each as a task of Dask, on a cluster
or on this machine. All workers need the program, the experiments and DIR at the same paths. A part
whose worker is lost is done by another one; the same command again goes on with what is left. The
results have the same bytes as those of one machine.
"""


_INTERRUPTED = 130
"""The exit code that shells give for SIGINT."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code: 0, 1 on an error, 2 on wrong usage."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a file may have bytes that are not text.
        sys.stdout.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    try:
        code = int(options.run(options) or 0)
        sys.stdout.flush()
    except AnalysisError as error:
        print(f"qlog-analysis: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of a pipe, such as `head`, has all that it wants. Python would report the
        # same again when it flushes stdout at the end.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"qlog-analysis: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


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
        help="write the report on a comparison of the simulator",
        description=_REPORT,
        epilog="example: qlog-analysis report target/compare/default",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("directory", type=Path, metavar="DIR", help="the comparison's directory")
    command.set_defaults(run=lambda options: _report(options.directory))

    command = commands.add_parser(
        "papers",
        help="hold the papers' claims against the results of experiments",
        description=_PAPERS,
        epilog="example: qlog-analysis papers target/papers --json papers.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "directory",
        type=Path,
        metavar="DIR",
        help="the parent of the experiments' directories",
    )
    command.add_argument(
        "names", nargs="*", metavar="NAME", help="only these experiments [default: all in DIR]"
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="also write papers.json to FILE")
    command.set_defaults(
        run=lambda options: _papers(options.directory, options.names, options.json)
    )

    command = commands.add_parser(
        "evaluation",
        help="write the page on an evaluation of controllers",
        description=_EVALUATION,
        epilog="example: qlog-analysis evaluation target/evaluation",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("directory", type=Path, metavar="DIR", help="the evaluation's directory")
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="the page [default: DIR/evaluation.html]"
    )
    command.set_defaults(run=lambda options: _evaluation(options.directory, options.out))

    command = commands.add_parser(
        "sweep",
        help="run a sweep or an evaluation of gallop-sim on a cluster of Dask",
        description=_SWEEP,
        epilog="example: qlog-analysis sweep --dask tcp://10.0.0.1:8786 --out /shared/papers "
        "-- sweep experiments/*/*.toml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("--dask", default="local", metavar="ADDRESS", help="the scheduler [default: local]")
    add("--workers", type=_count, default=os.cpu_count() or 1, metavar="N", help="if it is local")
    add("--parts", type=_count, default=64, metavar="N", help="the tasks to cut it into")
    add("--out", type=Path, required=True, metavar="DIR", help="a folder that all workers share")
    add("--simulator", default="gallop-sim", metavar="PROGRAM", help="[default: gallop-sim]")
    add("arguments", nargs="+", metavar="ARGUMENT", help="a command of gallop-sim, after --")
    command.set_defaults(run=_sweep)

    command = commands.add_parser(
        "plot",
        help="draw a trace",
        description=_PLOT,
        epilog="example: qlog-analysis plot flow-0.server.sqlog --from 2s --to 5s --out start.svg",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_plot_arguments(command)
    command.set_defaults(run=_plot)
    trace_commands.add(commands)
    return parser


def _add_plot_arguments(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("trace", type=Path, metavar="TRACE", help="a qlog trace of any program")
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="FILE.svg or FILE.png [default: TRACE with .KIND.svg added]",
    )
    add("--kind", choices=("trace-graph", "overview"), default="trace-graph")
    add(
        "--connection",
        metavar="NAME",
        help='one of several connections, such as "trace 2"',
    )
    add(
        "--from",
        dest="start",
        type=_seconds,
        default=0.0,
        metavar="TIME",
        help="such as 2s",
    )
    add("--to", dest="end", type=_seconds, metavar="TIME", help="end at this time")
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
        help="Vegas' lower threshold in packets [default: the trace's own]",
    )
    add(
        "--beta",
        type=float,
        metavar="N",
        help="Vegas' upper threshold",
    )


_TIME = re.compile(r"([0-9]*\.?[0-9]+)(s|ms|)")


def _seconds(text: str) -> float:
    """A time such as 2s, 500ms or, in seconds, 2."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 2s or 500ms, not {text!r}")
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def _report(directory: Path) -> None:
    # The processes that read traces import this module too, and have no use for matplotlib.
    from qlog_analysis.experiments.comparison import read_comparison
    from qlog_analysis.experiments.verdicts import claims_json
    from qlog_analysis.reports import comparison as report
    from qlog_analysis.reports import courses

    comparison = read_comparison(directory)
    with bar("reading traces", "B") as start:
        traces = courses.read_traces(comparison, start)
    with bar("drawing", " plots") as start:
        page = report.write(comparison, traces, directory, start)
    for warning in courses.warnings(comparison, traces):
        print(f"qlog-analysis: {warning}", file=sys.stderr)
    claims = report.judged(comparison)
    if claims:
        text = claims_json(list(comparison.outcomes.values()))
        (directory / "claims.json").write_text(text, encoding="utf-8")
        good = sum(verdict.reproduced for verdict in claims)
        print(f"Of the papers' {len(claims)} claims {good} are reproduced.")
    print(f"Report: {page}")


def _papers(directory: Path, names: Sequence[str], json_file: Path | None) -> None:
    from qlog_analysis.experiments import verdicts
    from qlog_analysis.reports import papers as report

    with bar("reading results", " experiments") as start:
        outcomes = verdicts.read_outcomes(directory, names, lambda total: _one_by_one(start(total)))
    text = verdicts.claims_json(outcomes)
    for path in filter(None, (directory / "papers.json", json_file)):
        path.write_text(text, encoding="utf-8")
    with bar("drawing", " experiments") as start:
        page = report.write(outcomes, directory, _one_by_one(start(len(outcomes))))
    print(report.summary(outcomes))
    print(f"Report: {page}")


def _evaluation(directory: Path, out: Path | None) -> None:
    from qlog_analysis.experiments.evaluation import read_evaluation
    from qlog_analysis.reports import evaluation as report

    evaluation = read_evaluation(directory)
    with bar("drawing", " families") as start:
        page = report.write(evaluation, directory, out or directory / report.PAGE, start)
    print(f"Report: {page}")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, not {text!r}")
    return int(text)


def _sweep(options: argparse.Namespace) -> int:
    from qlog_analysis.commands import sweep

    job = sweep.job_of(options.simulator, options.arguments, options.out, options.parts, Path.cwd())
    with bar("running", " parts") as start:
        return sweep.run(job, options.dask, options.workers, start)


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
