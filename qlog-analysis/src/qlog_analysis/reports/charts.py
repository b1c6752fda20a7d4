"""The plots of an experiment, filled with its results."""

import re
from dataclasses import dataclass

from markupsafe import Markup

from qlog_analysis.drawing.chart import Chart, Line, Point, draw
from qlog_analysis.drawing.style import Look, look
from qlog_analysis.experiments.estimates import estimate
from qlog_analysis.experiments.measured import Measured, Missing
from qlog_analysis.experiments.model import Plot, Quantity
from qlog_analysis.metrics.definitions import Metric, metric_of
from qlog_analysis.metrics.series import thinned
from qlog_analysis.metrics.statistics import Interval
from qlog_analysis.reports.tables import at, describe, heading_of, over, subject_of

# Fewer than a plot has pixels: a report holds many plots.
_COLUMNS = 250


@dataclass(frozen=True, slots=True)
class ChartView:
    """A plot to be shown; `missing` has the reasons why parts are not in it."""

    title: str
    caption: str
    drawing: Markup
    legend: tuple[tuple[str, Look], ...]
    missing: tuple[str, ...]


def fill(plot: Plot, measured: Measured, key: str) -> ChartView:
    """A plot of kind "axis" or "time" with its lines; `key` tells it from others in a page."""
    metric = metric_shown(plot)
    draw_lines = _over_axis if plot.kind == "axis" else _over_time
    lines, missing = draw_lines(plot, measured, 1.0 if plot.ratio_to else metric.scale)
    unit = "" if plot.ratio_to else metric.unit_to_show
    label = "ratio" if plot.ratio_to else metric.label
    chart = Chart(
        lines=lines,
        x_label="time (s)" if plot.kind == "time" else _axis_label(plot.x, measured),
        y_label=f"{label} ({unit})" if unit else label,
        log_x=plot.log_x,
        marks=plot.kind == "axis",
    )
    return ChartView(
        title=plot.title,
        caption=_caption(plot, measured, metric),
        drawing=draw(chart, plot.title, key) if lines else Markup(""),
        legend=tuple((line.name, look(line.look)) for line in lines),
        missing=tuple(missing) if lines or missing else ("not run",),
    )


# The units of an axis' numbers, by the unit in its texts.
_BASE_UNITS = {
    "p": "packets",
    "pps": "packets/s",
    **dict.fromkeys(("s", "ms", "us", "ns"), "s"),
    **dict.fromkeys(("bit", "kbit", "mbit", "gbit"), "bit/s"),
    **dict.fromkeys(("b", "kb", "mb", "gb"), "bytes"),
}


def metric_shown(plot: Plot) -> Metric:
    """The metric of a plot of kind "axis" or "time"."""
    return metric_of(plot.subjects[0], plot.metric, over_time=plot.kind == "time")


def _axis_label(axis: str, measured: Measured) -> str:
    """An axis with the unit of its numbers."""
    texts = measured.experiment.axes.get(axis, ())
    units = {_BASE_UNITS.get(re.sub(r"^[-+.\d]+(e[-+]?\d+)?", "", text), "") for text in texts}
    unit = units.pop() if len(units) == 1 else ""
    return f"{axis} ({unit})" if unit else axis


def _names(plot: Plot, measured: Measured) -> list[tuple[str, str]]:
    """The keys and names of a plot's lines."""
    if plot.lines == "subject":
        return [(subject, subject_of(subject)) for subject in plot.subjects]
    out = []
    points = measured.experiment.points.values()
    there = {point.axes.get(plot.lines) for point in points}
    for value in filter(there.__contains__, measured.experiment.axes.get(plot.lines, ())):
        heading = heading_of(plot.lines, value, measured)
        out.append((value, f"{heading.text} ({heading.small})" if heading.small else heading.text))
    return out


def _of_line(plot: Plot, key: str) -> Quantity:
    if plot.lines == "subject":
        return Quantity(plot.metric, key, plot.where)
    return Quantity(plot.metric, plot.subjects[0], {**plot.where, plot.lines: (key,)})


def _over_axis(plot: Plot, measured: Measured, scale: float) -> tuple[list[Line], list[str]]:
    numbers = measured.numbers.get(plot.x, {})
    lines, missing = [], []
    for number, (key, name) in enumerate(_names(plot, measured)):
        whole = _of_line(plot, key)
        points = []
        for text, x in sorted(numbers.items(), key=lambda pair: pair[1]):
            if plot.x in whole.where and text not in whole.where[plot.x]:
                continue
            where = {**whole.where, plot.x: (text,)}
            if not measured.experiment.points_where(where):
                continue
            value = estimate(measured, Quantity(whole.metric, whole.subject, where), plot.ratio_to)
            if isinstance(value, Missing):
                missing.append(f"{name} at {plot.x} = {text}: {value.reason}")
            else:
                points.append(Point(x, _scaled(value, scale), f"{plot.x} = {text}"))
        if points:
            lines.append(Line(name, number, points))
    if not numbers:
        missing.append(f"the axis {plot.x} has no numbers")
    return lines, missing


def _scaled(value: Interval, scale: float) -> Interval:
    return Interval(
        value.value * scale,
        None if value.low is None else value.low * scale,
        None if value.high is None else value.high * scale,
    )


def _over_time(plot: Plot, measured: Measured, scale: float) -> tuple[list[Line], list[str]]:
    """A line for each key, of its first point under the first seed."""
    lines, missing = [], []
    for number, (key, name) in enumerate(_names(plot, measured)):
        quantity = _of_line(plot, key)
        points = measured.experiment.points_where(quantity.where)
        if not points:
            continue
        values = measured.over_time(quantity, points[0])
        if not len(values.time_s):
            missing.append(f"{name}: no series of {quantity.metric}")
            continue
        thin = thinned(values, _COLUMNS)
        lines.append(
            Line(
                name,
                number,
                [
                    Point(time, Interval(value * scale), f"{time:.2f} s")
                    for time, value in zip(thin.time_s.tolist(), thin.value.tolist(), strict=True)
                ],
            )
        )
    return lines, missing


def _caption(plot: Plot, measured: Measured, metric: Metric) -> str:
    subject = "" if plot.lines == "subject" else plot.subjects[0]
    parts = [describe(metric, subject, plot.ratio_to), at(plot.where)]
    if plot.kind == "axis":
        parts.append(over(measured, plot.where, {plot.x, plot.lines}))
    else:
        parts.append(f"One run with seed {measured.experiment.seeds[0]}")
    return ". ".join(filter(None, parts)) + "."
