"""Line plots as inline SVG: coloured by the page's style sheet, with their data for the pointer."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from qlog_analysis.metrics.quantities import half_width, show, show_half
from qlog_analysis.metrics.statistics import Interval

WIDTH, HEIGHT = 540, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 44

COLOURS = 7
"""Colours that the style sheet has; when they run out they come again with another dash."""

_DASHES = ("", "7 4", "2 3")


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line; `text` is what x is called."""

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
    x_scale: float = 1.0


def draw(chart: Chart, title: str) -> Markup:
    """The plot as an element for HTML."""
    points = [point for line in chart.lines for point in line.points]
    frame = _Frame.around(points, chart.log_x)
    parts = [_axes(frame, chart)]
    parts += [_line(frame, line, chart.marks) for line in chart.lines]
    data = {
        "lines": [
            {
                "name": line.name,
                "look": line.look % COLOURS,
                "points": [
                    [round(frame.x(point.x), 1), round(frame.y(point.y.value), 1)]
                    for point in line.points
                ],
                "texts": [[point.text, _value(point.y)] for point in line.points],
            }
            for line in chart.lines
        ]
    }
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}" tabindex="0" '
        'data-lines="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, title, json.dumps(data, separators=(",", ":")), Markup("").join(parts))


def legend(lines: Sequence[tuple[str, int]]) -> Markup:
    """Names and looks of lines, for beside a plot."""
    return Markup("").join(
        Markup(
            '<span class="key"><svg viewBox="0 0 28 10" width="28" height="10" aria-hidden="true">'
            '<path class="line c{}" {} d="M1 5H27"/></svg>{}</span> '
        ).format(look % COLOURS, _dash(look), name)
        for name, look in lines
    )


def _value(y: Interval) -> str:
    half = half_width(y)
    return f"{show(y.value, half)} {show_half(half)}".strip()


def _dash(look: int) -> Markup:
    dash = _DASHES[look // COLOURS % len(_DASHES)]
    return Markup('stroke-dasharray="{}"').format(dash) if dash else Markup("")


@dataclass(frozen=True, slots=True)
class _Frame:
    """The ranges of the axes, and where values lie in the picture."""

    left: float
    right: float
    bottom: float
    top: float
    log_x: bool

    @staticmethod
    def around(points: Sequence[Point], log_x: bool) -> "_Frame":
        xs = [point.x for point in points] or [0.0, 1.0]
        log_x = log_x and min(xs) > 0
        ys = [
            y
            for point in points
            for y in (point.y.value, point.y.low, point.y.high)
            if y is not None
        ] or [0.0, 1.0]
        left, right = min(xs), max(xs)
        if left == right:
            left, right = (left / 2, right * 2) if log_x else (left - 0.5, right + 0.5)
        low, high = min(0.0, *ys), max(0.0, *ys)
        if low == high:
            high = 1.0
        step = _step(high - low)
        return _Frame(
            left, right, math.floor(low / step) * step, math.ceil(high / step) * step, log_x
        )

    def x(self, value: float) -> float:
        if self.log_x:
            part = math.log(value / self.left) / math.log(self.right / self.left)
        else:
            part = (value - self.left) / (self.right - self.left)
        return _LEFT + part * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        part = (value - self.bottom) / (self.top - self.bottom)
        return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)


def _step(span: float, most: int = 6) -> float:
    """A distance of ticks of 1, 2 or 5 times a power of ten, so that there are at most `most`."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next((power * n for n in (1, 2, 5) if power * n >= rough), power * 10)


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high - low)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [f * 10.0**n for n in decades for f in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _axes(frame: _Frame, chart: Chart) -> Markup:
    parts = []
    for tick in _ticks(frame.bottom, frame.top):
        y = f"{frame.y(tick):.1f}"
        parts.append(
            Markup(
                '<path class="grid" d="M{} {}H{}"/><text x="{}" y="{}" dy="4" class="y">{}</text>'
            ).format(_LEFT, y, WIDTH - _RIGHT, _LEFT - 7, y, _number(tick))
        )
    ticks = _log_ticks if frame.log_x else _ticks
    for tick in ticks(frame.left, frame.right):
        x = f"{frame.x(tick):.1f}"
        parts.append(
            Markup(
                '<path class="grid" d="M{} {}v5"/><text x="{}" y="{}" class="x">{}</text>'
            ).format(x, HEIGHT - _BOTTOM, x, HEIGHT - _BOTTOM + 19, _number(tick * chart.x_scale))
        )
    middle = _TOP + (HEIGHT - _TOP - _BOTTOM) / 2
    parts.append(
        Markup(
            '<text x="{}" y="{}" class="x label">{}</text>'
            '<text transform="translate(14 {}) rotate(-90)" class="x label">{}</text>'
        ).format(
            _LEFT + (WIDTH - _LEFT - _RIGHT) / 2, HEIGHT - 6, chart.x_label, middle, chart.y_label
        )
    )
    return Markup("").join(parts)


def _number(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")


def _line(frame: _Frame, line: Line, marks: bool) -> Markup:
    colour = f"c{line.look % COLOURS}"
    at = [(frame.x(point.x), frame.y(point.y.value)) for point in line.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at) if at else ""
    parts = [
        Markup('<path class="line {}" {} d="{}"><title>{}</title></path>').format(
            colour, _dash(line.look), path, line.name
        )
    ]
    if marks:
        for point, (x, y) in zip(line.points, at, strict=True):
            if point.y.low is not None and point.y.high is not None:
                low, high = frame.y(point.y.low), frame.y(point.y.high)
                parts.append(
                    Markup('<path class="line bar {}" d="M{:.1f} {:.1f}V{:.1f}"/>').format(
                        colour, x, low, high
                    )
                )
            parts.append(
                Markup(
                    '<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3">'
                    "<title>{}</title></circle>"
                ).format(colour, x, y, f"{line.name}, {point.text}: {_value(point.y)}")
            )
    return Markup("").join(parts)
