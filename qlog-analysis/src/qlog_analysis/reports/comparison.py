"""The report on a comparison, as one HTML file that needs nothing else, and its table as CSV.

Numbers come from the tables of results, with means and intervals over all seeds. Plots over time
come from the qlogs that were kept of the first seed, and the queue's from series.parquet.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qlog_analysis.drawing.runs import Plot, count, draw
from qlog_analysis.experiments.comparison import Comparison
from qlog_analysis.experiments.estimates import estimate
from qlog_analysis.experiments.measured import Missing
from qlog_analysis.experiments.model import RUN_AXIS, Dumbbell, Flow, Quantity
from qlog_analysis.experiments.verdicts import Outcome, Verdict
from qlog_analysis.metrics.definitions import metric_of
from qlog_analysis.reports import tables
from qlog_analysis.reports.courses import Traces, courses, file_name, warnings
from qlog_analysis.reports.experiments import (
    controllers,
    definitions,
    named,
    reproduced,
    section,
    seeds,
)
from qlog_analysis.reports.pages import environment

Plots = Mapping[str, Sequence[Plot]]
"""The plots of each experiment, by its name in file names."""


def write(
    comparison: Comparison,
    traces: Traces,
    directory: Path,
    on_start: Callable[[int], Callable[[int], None]],
) -> Path:
    """Writes report.html, summary.csv and plots/*.svg.

    Args:
        comparison: the comparison.
        traces: its traces.
        directory: the directory to write into.
        on_start: given the number of plots; returns a function that is told of each.

    Returns:
        The path of the report.
    """
    folder = directory / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    paths = courses(comparison, traces)
    on_plot = on_start(sum(map(count, paths)))
    plots: dict[str, list[Plot]] = {}
    for path in paths:
        for plot in draw(path):
            (folder / f"{plot.name}.svg").write_text(plot.picture.document(), encoding="utf-8")
            plots.setdefault(path.name, []).append(plot)
            on_plot(1)
    (directory / "summary.csv").write_text(summary_csv(comparison), encoding="utf-8")
    page = directory / "report.html"
    page.write_text(html(comparison, traces, plots), encoding="utf-8")
    return page


def html(comparison: Comparison, traces: Traces, plots: Plots) -> str:
    """The report as one page."""
    outcomes = comparison.outcomes.values()
    names = [
        name
        for outcome in outcomes
        for name in (
            *((*quantity, False) for quantity in tables.overview(outcome.measured)),
            *named(outcome.measured.experiment),
        )
    ]
    return (
        environment()
        .get_template("comparison.html")
        .render(
            title=comparison.title,
            command=comparison.command,
            warnings=warnings(comparison, traces),
            experiments=[
                _experiment(outcome, plots.get(file_name(name), ()))
                for name, outcome in comparison.outcomes.items()
            ],
            controllers=controllers(outcome.measured.experiment for outcome in outcomes),
            definitions=definitions(names),
        )
    )


def judged(comparison: Comparison) -> list[Verdict]:
    """The claims about points that were run."""
    return [
        verdict
        for outcome in comparison.outcomes.values()
        for verdict in outcome.verdicts
        if verdict.status != "not run"
    ]


def _experiment(outcome: Outcome, plots: Sequence[Plot]) -> dict[str, Any]:
    measured = outcome.measured
    experiment = measured.experiment
    runs_of_each = f"{len(experiment.seeds)} ({seeds(experiment)})"
    path = next((point.path for point in experiment.points.values() if point.path), None)
    runs = []
    for point in experiment.points.values():
        run = point.axes.get(RUN_AXIS, "")
        runs.append(
            {
                "title": tables.heading_of(RUN_AXIS, run, measured).text,
                "flows": ", ".join(_controller(flow) for flow in point.flows),
                "plots": [plot for plot in plots if plot.run == file_name(run)],
            }
        )
    return {
        **section(outcome),
        "overview": tables.compare(measured),
        "path": [*([] if path is None else path_facts(path)), ("Runs of each", runs_of_each)],
        "seed": experiment.seeds[0],
        "reproduced": reproduced(outcome.verdicts),
        "runs": runs,
        "plots": [plot for plot in plots if not plot.run],
    }


def _controller(flow: Flow) -> str:
    """A flow's controller with the values of its parameters."""
    values = ", ".join(f"{name} = {value:g}" for name, value in flow.parameters.items())
    return f"{flow.cc} ({values})" if values else flow.cc


def path_facts(path: Dumbbell) -> list[tuple[str, str]]:
    """A path in words; what it says beyond the usual comes last, under its own name."""
    known = {
        "rate_bps": ("Bottleneck", f"{path.rate_bps / 1e6:g} Mbit/s"),
        "rtt_s": ("RTT without queues", f"{path.rtt_s * 1000:g} ms"),
        "buffer": ("Buffer", ", ".join(f"{size:g} {unit}" for unit, size in path.buffer.items())),
        "datagram_bytes": ("Datagrams", f"{path.datagram_bytes} bytes"),
        "packet_wire_bytes": ("On the wire", f"{path.packet_wire_bytes} bytes"),
        "duration_s": ("Duration", f"{path.duration_s:g} s"),
    }
    facts = list(known.values())
    for key, value in path.raw.items():
        match key:
            case "flows":
                facts.append(("Flows", f"{value}"))
            case "initial_window_packets":
                facts.append(("Initial window", f"{value} packets"))
            case "ack_every":
                facts.append(("Packets per ACK", f"{value}"))
            case "max_ack_delay_s":
                facts.append(("Longest ACK delay", f"{float(value) * 1000:g} ms"))
            case _ if key not in known:
                facts.append((key, f"{value}"))
    return facts


_COLUMNS = (
    "experiment", "run", "subject", "metric", "unit", "seeds", "mean", "low", "high",
)  # fmt: skip


def summary_csv(comparison: Comparison) -> str:
    """The tables of all experiments, a line for each number; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for name, outcome in comparison.outcomes.items():
        measured = outcome.measured
        count = len(measured.experiment.seeds)
        for run in measured.experiment.axes.get(RUN_AXIS, ()):
            for subject, metric in tables.overview(measured):
                value = estimate(measured, Quantity(metric, subject, {RUN_AXIS: (run,)}), None)
                row = [name, run, subject, metric, metric_of(subject, metric).unit, count]
                if not isinstance(value, Missing):
                    row += [value.value, value.low, value.high]
                writer.writerow([*row, *[None] * (len(_COLUMNS) - len(row))])
    return out.getvalue()
