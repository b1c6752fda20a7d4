"""The report on a comparison, as one HTML file that needs nothing else, and its table as CSV.

Numbers come from the tables of results, with means and intervals over all seeds. Plots over time
come from the qlogs that were kept of the first seed, and the queue's from series.parquet.
"""

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from qlog_analysis.drawing import panels
from qlog_analysis.drawing.chart import Chart, Line
from qlog_analysis.drawing.chart import Point as Place
from qlog_analysis.drawing.chart import draw as draw_chart
from qlog_analysis.drawing.panels import Spot
from qlog_analysis.drawing.runs import PathCourses, Plot, count, draw
from qlog_analysis.drawing.style import COLOURS, look
from qlog_analysis.experiments.comparison import Comparison
from qlog_analysis.experiments.estimates import estimate
from qlog_analysis.experiments.measured import Measured, Missing
from qlog_analysis.experiments.model import (
    RUN_AXIS,
    Dumbbell,
    Experiment,
    Flow,
    Point,
    Quantity,
)
from qlog_analysis.experiments.verdicts import Outcome, Verdict
from qlog_analysis.metrics.definitions import metric_of
from qlog_analysis.metrics.statistics import Interval, ellipse
from qlog_analysis.reports import live, tables
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
    page.write_text(html(comparison, traces, plots, paths), encoding="utf-8")
    return page


def html(comparison: Comparison, traces: Traces, plots: Plots, paths: Sequence[PathCourses]) -> str:
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
            looks=len(COLOURS),
            command=comparison.command,
            warnings=warnings(comparison, traces),
            experiments=[
                _experiment(
                    name,
                    outcome,
                    plots.get(file_name(name), ()),
                    [
                        (number, path)
                        for number, path in enumerate(paths)
                        if path.name == file_name(name)
                    ],
                    comparison.command,
                )
                for name, outcome in comparison.outcomes.items()
            ],
            # In HTML a script ends at the first "</".
            live=Markup(json.dumps([live.data(path) for path in paths]).replace("</", "<\\/")),
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


def _experiment(
    name: str,
    outcome: Outcome,
    plots: Sequence[Plot],
    paths: Sequence[tuple[int, PathCourses]],
    command: str,
) -> dict[str, Any]:
    measured = outcome.measured
    experiment = measured.experiment
    runs_of_each = f"{len(experiment.seeds)} ({seeds(experiment)})"
    path = next((point.path for point in experiment.points.values() if point.path), None)
    runs = []
    for point in experiment.points.values():
        run = point.axes.get(RUN_AXIS, "")
        runs.append(
            {
                "key": file_name(run),
                "anchor": _anchor(name, run),
                "files": _files(name, run, experiment, point, plots),
                "command": _command(command, point),
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
        "live": paths[0][0] if paths else None,
        "tables_of": [
            "summary.csv",
            *(f"{name}/{table}.parquet" for table in ("results", "series")),
        ],
        **_scatter(name, measured),
        **_delays(name, [path for _, path in paths]),
    }


def _anchor(name: str, run: str) -> str:
    return f"run-{file_name(name)}-{file_name(run)}"


def _files(
    name: str, run: str, experiment: Experiment, point: Point, plots: Sequence[Plot]
) -> list[dict[str, str]]:
    """The files of a run, as they are named from the report's directory."""
    files = []
    for flow in point.flows:
        for trace in flow.traces:
            href = f"{name}/{trace.relative_to(experiment.directory).as_posix()}"
            files.append(
                {
                    "label": "Trace",
                    "href": href,
                    "command": f"qlog-analysis convert {shlex.quote(href)}  # for qvis",
                }
            )
    files += [
        {"label": "Picture", "href": f"plots/{plot.name}.svg", "command": ""}
        for plot in plots
        if plot.run == file_name(run)
    ]
    return files


# Flags that a run has of its own, or whose files it must not write over.
_OWN = re.compile(r"\s--(cc|out)[ =]\S+")


def _command(command: str, point: Point) -> str:
    """The comparison's command for the controllers of one run; empty if it is not known."""
    found = {flow.cc for flow in point.flows if not flow.background}
    if "gallop-sim compare" not in command or len(found) != 1:
        return ""
    return f"{_OWN.sub('', command)} --cc {shlex.quote(found.pop())}"


_THROUGHPUT = metric_of("run", "throughput_sum_bps")
_DELAY = metric_of("run", "rtt_mean_s")


def _scatter(name: str, measured: Measured) -> dict[str, Any]:
    """Throughput against delay, a mark for each run."""
    spots = []
    marks = []
    for place, (number, point) in enumerate(measured.experiment.points.items()):
        run = point.axes.get(RUN_AXIS, "")
        values = [measured.samples("run", metric.name, number) for metric in (_THROUGHPUT, _DELAY)]
        if any(isinstance(one, Missing) for one in values):
            continue
        rates, rtts = (list(one.values()) for one in values if not isinstance(one, Missing))
        rate = float(np.mean(rates)) * _THROUGHPUT.scale
        rtt = float(np.mean(rtts)) * _DELAY.scale
        title = tables.heading_of(RUN_AXIS, run, measured).text
        spots.append(
            Spot(
                look=place,
                delay=rtt,
                throughput=rate,
                ellipse=ellipse(
                    [one * _DELAY.scale for one in rtts],
                    [one * _THROUGHPUT.scale for one in rates],
                ),
                tip=f"{title}: {rate:.4g} {_THROUGHPUT.shown_unit}, {rtt:.4g} {_DELAY.shown_unit}",
            )
        )
        marks.append((title, panels.sample(place), _anchor(name, run)))
    return {
        "scatter": panels.scatter(spots, "Throughput against delay") if spots else None,
        "ellipses": any(spot.ellipse is not None for spot in spots),
        "marks": marks,
    }


def _delays(name: str, paths: Sequence[PathCourses]) -> dict[str, Any]:
    """The distribution of the queueing delay, a line for each run."""
    lines = [
        Line(
            title,
            look_of,
            [Place(delay, Interval(share), f"{delay:.4g} ms") for delay, share in points],
        )
        for path in paths
        for title, look_of, points in live.queueing_delays(path)
    ]
    if not lines:
        return {"delays": None, "delay_legend": ()}
    chart = Chart(lines, "queueing delay (ms)", "share of the time (%)", marks=False)
    return {
        "delays": draw_chart(chart, "Distribution of the queueing delay", f"{name}-delays"),
        "delay_legend": [(line.name, look(line.look)) for line in lines],
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
