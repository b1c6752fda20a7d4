"""Small pictures, of which a page holds hundreds.

They are written without matplotlib, which takes a tenth of a second and ten kilobytes for each.
Their texts and lines have the page's classes; a class `kN` gives the colour of the N-th look.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape
from matplotlib.ticker import LogLocator, MaxNLocator

from qlog_analysis.drawing.style import COLOURS
from qlog_analysis.drawing.svg import Picture, polyline, short
from qlog_analysis.metrics.series import Series, thinned
from qlog_analysis.metrics.statistics import Ellipse

_WIDTH, _HEIGHT = 260, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 18, 30

_OUTLINE = 32
"""The corners of a drawn ellipse."""

_COLUMNS = 48
"""The columns of a picture over time whose extremes are kept, shared among its lines."""

_FEWEST_COLUMNS = 12

MOST_LINES = 6
"""The lines that a picture over time has room for."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places along an axis, of which 0 is the left or lower end."""

    low: float
    high: float
    length: float
    log: bool = False
    reversed: bool = False
    ticks: tuple[float, ...] = ()

    def at(self, value: float) -> float:
        """The place of a value, beyond the ends for values that are."""
        if self.log:
            value = max(value, self.low / 1e3)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.length * (1 - part if self.reversed else part)


_LOG_FROM = 5
"""An axis of delays is logarithmic if the greatest is so many times the least."""


def from_zero(values: Iterable[float], length: float) -> Scale:
    """An axis from zero to a round number."""
    high = max(values, default=0.0)
    ticks = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(0.0, high if high > 0 else 1.0)
    return Scale(0.0, float(ticks[-1]), length, ticks=tuple(map(float, ticks)))


def delays(values: Sequence[float], length: float) -> Scale:
    """An axis with the least value at its right end; logarithmic where values differ by much."""
    low, high = min(values), max(values)
    if low > 0 and high / low > _LOG_FROM:
        low, high = low / 1.2, high * 1.2
        logarithmic = LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,))
        ticks = _within(logarithmic.tick_values(low, high), low, high)
        return Scale(low, high, length, log=True, reversed=True, ticks=ticks)
    margin = max((high - low) * 0.15, high * 0.02, 1e-9)
    low, high = max(0.0, low - margin), high + margin
    ticks = _within(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high), low, high)
    return Scale(low, high, length, reversed=True, ticks=ticks)


def _within(ticks: Iterable[float], low: float, high: float) -> tuple[float, ...]:
    return tuple(float(tick) for tick in ticks if low <= tick <= high)


def number(value: float) -> str:
    """The number at a tick."""
    return f"{value:,.5g}".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True, slots=True)
class Frame:
    """The place between the axes."""

    x: Scale
    y: Scale
    left: float
    top: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The place of a pair of values in the picture."""
        return self.left + self.x.at(x), self.top + self.y.length - self.y.at(y)

    def axes(self, title: str, x_label: str) -> str:
        """The grid, the numbers at it, the title above and the label below."""
        bottom = self.top + self.y.length
        right = self.left + self.x.length
        lines = "".join(
            f"M{short(self.left)} {short(bottom - self.y.at(tick))}h{short(self.x.length)}"
            for tick in self.y.ticks
        )
        ys = "".join(
            f'<text x="{short(self.left - 4)}" y="{short(bottom - self.y.at(tick) + 3)}">'
            f"{number(tick)}</text>"
            for tick in self.y.ticks
        )
        xs = "".join(
            f'<text x="{short(self.left + self.x.at(tick))}" y="{short(bottom + 12)}">'
            f"{number(tick)}</text>"
            for tick in self.x.ticks
        )
        middle = (self.left + right) / 2
        return (
            f'<path class="grid" d="{lines}"/><g class="end">{ys}</g><g class="mid">{xs}'
            f'<text x="{short(middle)}" y="{short(bottom + 25)}">{escape(x_label)}</text></g>'
            f'<text class="head" x="2" y="10">{escape(title)}</text>'
        )

    def within(self, content: str) -> str:
        """Content of which nothing is seen beyond the axes; it counts from the frame's corner."""
        return (
            f'<svg x="{short(self.left)}" y="{short(self.top)}" width="{short(self.x.length)}" '
            f'height="{short(self.y.length)}">{content}</svg>'
        )


# Each shape is drawn about the origin, and all have about the same area.
_SHAPES = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "M-3.1-3.1h6.2v6.2h-6.2z",
    "M0-4.2L4.2 3.2H-4.2z",
    "M0-4.6L4.2 0L0 4.6L-4.2 0z",
    "M0 4.2L4.2-3.2H-4.2z",
)


def marker(look: int, x: float, y: float, tip: str = "", *, hollow: bool = False) -> str:
    """A mark in the colour and shape of a look: colours and shapes recur, but not both at once."""
    title = f"<title>{escape(tip)}</title>" if tip else ""
    place = f' transform="translate({short(x)} {short(y)})"' if x or y else ""
    return (
        f'<path class="{"hollow" if hollow else "mark"} k{look % len(COLOURS)}"{place} '
        f'd="{_SHAPES[look % len(_SHAPES)]}">{title}</path>'
    )


def sample(look: int) -> Markup:
    """A mark for a legend."""
    # A shape is made of numbers of this module only.
    return Markup(
        f'<svg class="sample" viewBox="-6 -6 12 12" aria-hidden="true">{marker(look, 0, 0)}</svg>'
    )


@dataclass(frozen=True, slots=True)
class Spot:
    """A controller's throughput and delay, in the units that are shown."""

    look: int
    delay: float
    throughput: float
    ellipse: Ellipse | None
    tip: str
    hollow: bool = False


def scatter(spots: Sequence[Spot], label: str) -> Markup:
    """Throughput against delay, which grows to the left, so that better is up and to the right."""
    frame = Frame(
        delays([spot.delay for spot in spots], _WIDTH - _LEFT - _RIGHT),
        from_zero([spot.throughput * 1.05 for spot in spots], _HEIGHT - _TOP - _BOTTOM),
        _LEFT,
        _TOP,
    )
    inner = Frame(frame.x, frame.y, 0, 0)
    ellipses = "".join(
        f'<path class="ellipse k{spot.look % len(COLOURS)}" '
        f'd="{polyline(inner.place(x, y) for x, y in spot.ellipse.outline(_OUTLINE))}z"/>'
        for spot in spots
        if spot.ellipse is not None
    )
    marks = "".join(
        marker(spot.look, *frame.place(spot.delay, spot.throughput), spot.tip, hollow=spot.hollow)
        for spot in spots
    )
    content = frame.axes("Mbit/s", "\N{LEFTWARDS ARROW} RTT, ms") + frame.within(ellipses) + marks
    return Picture(_WIDTH, _HEIGHT, content).inline(label, {"class": "panel"})


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar; `look` is None of other traffic than what is tested."""

    value: float
    look: int | None
    tip: str


_BAR, _STEP, _NAMES = 10, 15, 88

_MOST_MARKS = 8
"""So many equal shares are marked; more would hide the bars."""

MOST_PARTS = 64
"""The parts of a bar that are drawn; the others are one part together."""


def bars(rows: Sequence[tuple[str, Sequence[Part]]], members: int, label: str) -> Markup:
    """Shares of a whole, a bar each; broken lines stand where few shares would be equal."""
    width = _WIDTH - _NAMES - _RIGHT
    height = _STEP * len(rows) + 16
    out = []
    for number_of, (name, parts) in enumerate(rows):
        top = _STEP * number_of + 2
        out.append(f'<text class="end" x="{_NAMES - 5}" y="{top + 8.5}">{escape(name)}</text>')
        whole = sum(part.value for part in parts)
        more = parts[MOST_PARTS:]
        if more:
            rest = Part(sum(part.value for part in more), None, f"{len(more)} more flows")
            parts = [*parts[:MOST_PARTS], rest]
        x = float(_NAMES)
        for part in parts:
            length = width * part.value / whole if whole > 0 else 0.0
            colour = "other" if part.look is None else f"mark k{part.look % len(COLOURS)}"
            out.append(
                f'<rect class="{colour}" x="{short(x)}" y="{top}" width="{short(length)}" '
                f'height="{_BAR}"><title>{escape(part.tip)}</title></rect>'
            )
            x += length
    equal = "".join(
        f"M{short(_NAMES + width * number_of / members)} 0V{height - 13}"
        for number_of in range(1, members if members <= _MOST_MARKS else 1)
    )
    ends = "".join(
        f'<text x="{short(_NAMES + width * part)}" y="{height - 3}">{part * 100:g}</text>'
        for part in (0.0, 0.5, 1.0)
    )
    content = f'{"".join(out)}<path class="equal" d="{equal}"/><g class="mid">{ends}</g>'
    return Picture(_WIDTH, height, content).inline(label, {"class": "panel"})


@dataclass(frozen=True, slots=True)
class Line:
    """Values over time; `look` is None of other traffic than what is tested."""

    name: str
    look: int | None
    series: Series


def over_time(
    title: str, lines: Sequence[Line], until_s: float, label: str, ticks: Series | None = None
) -> Markup:
    """Lines over time, reduced to few points, with ticks at the bottom for events."""
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    steps = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0.0, until_s)
    columns = max(_FEWEST_COLUMNS, _COLUMNS // max(1, len(lines)))
    thin = [thinned(line.series, columns) for line in lines]
    frame = Frame(
        Scale(0.0, until_s, width, ticks=_within(steps, 0.0, until_s)),
        from_zero((float(one.value.max()) for one in thin if len(one.value)), height),
        _LEFT,
        _TOP,
    )
    drawn = []
    for number_of, (line, series) in enumerate(zip(lines, thin, strict=True)):
        if not len(series.value):
            continue
        colour = "others" if line.look is None else f"line k{line.look % len(COLOURS)}"
        places = map(frame.place, series.time_s.tolist(), series.value.tolist())
        drawn.append(
            f'<path class="{colour} d{number_of % 3}" d="{polyline(places)}">'
            f"<title>{escape(line.name)}</title></path>"
        )
    if ticks is not None and len(ticks.time_s):
        columns_hit = sorted({round(frame.x.at(time)) for time in ticks.time_s.tolist()})
        marks = "".join(f"M{_LEFT + x} {_TOP + height}v-7" for x in columns_hit)
        drawn.append(f'<path class="drop" d="{marks}"><title>drops</title></path>')
    content = frame.axes(title, "s") + "".join(reversed(drawn))
    return Picture(_WIDTH, _HEIGHT, content).inline(label, {"class": "panel"})
