"""Line charts of results, with their values for the pointer."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from qlog_analysis.drawing.style import look, style
from qlog_analysis.drawing.svg import picture
from qlog_analysis.metrics.numbers import half_width, show, show_half
from qlog_analysis.metrics.statistics import Interval

# In points, which are the units of the SVG.
_WIDTH, _HEIGHT = 540, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 44

_POINTS_PER_INCH = 72


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line; `text` names x."""

    x: float
    y: Interval
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A named line; its look goes by its number."""

    name: str
    look: int
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over two axes; `marks` draws the points and their intervals."""

    lines: Sequence[Line]
    x_label: str
    y_label: str
    log_x: bool = False
    marks: bool = True


def draw(chart: Chart, title: str, key: str) -> Markup:
    """The chart as an element for a page.

    Args:
        chart: the chart.
        title: its title, for people who do not see it.
        key: tells it from others on the same page.
    """
    # On a phone a chart is half as wide as it is drawn.
    with style(), mpl.rc_context({"font.size": 13}):
        figure = Figure(
            figsize=(_WIDTH / _POINTS_PER_INCH, _HEIGHT / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH
        )
        axes = figure.add_axes(
            (
                _LEFT / _WIDTH,
                _BOTTOM / _HEIGHT,
                (_WIDTH - _LEFT - _RIGHT) / _WIDTH,
                (_HEIGHT - _TOP - _BOTTOM) / _HEIGHT,
            )
        )
        _frame(axes, chart)
        for line in chart.lines:
            _line(axes, line, chart.marks)
        values = {
            "top": _TOP,
            "bottom": _HEIGHT - _BOTTOM,
            "lines": [_values(axes, line) for line in chart.lines],
        }
        return picture(figure, key).inline(
            title,
            {
                "class": "chart",
                "tabindex": "0",
                "data-values": json.dumps(values, separators=(",", ":")),
            },
        )


def _frame(axes: Axes, chart: Chart) -> None:
    points = [point for line in chart.lines for point in line.points]
    xs = [point.x for point in points] or [0.0, 1.0]
    log_x = chart.log_x and min(xs) > 0
    ys = [
        y for point in points for y in (point.y.value, point.y.low, point.y.high) if y is not None
    ] or [0.0]
    left, right = min(xs), max(xs)
    if left == right:
        left, right = (left / 2, right * 2) if log_x else (left - 0.5, right + 0.5)
    low, high = min(0.0, *ys), max(0.0, *ys)
    if low == high:
        high = 1.0
    ticks = MaxNLocator(6, steps=[1, 2, 5, 10])
    edges = ticks.tick_values(low, high)
    if log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if right / left < 300 else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(ticks)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axes.set_xlim(left, right)
    axes.set_ylim(float(edges[0]), float(edges[-1]))
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", bottom=True)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)


def _number(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _line(axes: Axes, line: Line, marks: bool) -> None:
    drawn = look(line.look)
    xs = [point.x for point in line.points]
    axes.plot(
        xs,
        [point.y.value for point in line.points],
        color=drawn.colour,
        linestyle=drawn.dash,
        linewidth=2,
        marker="o" if marks else "",
        markersize=5.5,
        clip_on=not marks,
    )
    bars = [
        (point.x, point.y.low, point.y.high)
        for point in line.points
        if marks and point.y.low is not None and point.y.high is not None
    ]
    if bars:
        x, low, high = zip(*bars, strict=True)
        axes.vlines(x, low, high, color=drawn.colour, linewidth=1.3)


def _values(axes: Axes, line: Line) -> dict[str, object]:
    """The places of a line's points in the picture, and the texts for the pointer."""
    places = axes.transData.transform(
        [(point.x, point.y.value) for point in line.points] or [(math.nan, math.nan)]
    )
    return {
        "name": line.name,
        "colour": look(line.look).variable,
        "points": [
            [round(float(x), 1), round(_HEIGHT - float(y), 1)]
            for (x, y), _ in zip(places, line.points, strict=False)
        ],
        "texts": [[point.text, _value(point.y)] for point in line.points],
    }


def _value(y: Interval) -> str:
    half = half_width(y)
    return f"{show(y.value, half)} {show_half(half)}".strip()
