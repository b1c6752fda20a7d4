"""Trace graphs as in Brakmo et al. 1994 (§2.2, Figures 1 to 3 and 7 to 9), from a qlog.

Time runs to the right. Every graph of a figure has the same marks at its edges. The graphs show
the windows, the sending rate, Vegas' congestion avoidance and the router's queue, as far as the
trace has them.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from qlog_analysis.drawing.style import FAINT, INK, SOFT, step
from qlog_analysis.metrics.delivery import delivered
from qlog_analysis.metrics.series import Series, changes, thinned
from qlog_analysis.metrics.timeline import RATE_SEGMENTS, Timeline, timeline
from qlog_analysis.names import showable
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

KILOBYTE = 1000
"""Bytes of a KB in the graphs."""

# Marks that are closer together than this part of the width are drawn once.
_MARKS = 2000


def _digit(text: str) -> Path:
    """A digit as a marker, with its middle at the origin."""
    outline = TextPath((0, 0), text)
    vertices = np.asarray(outline.vertices)
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    return Path(vertices - middle, outline.codes)


_SEVEN = _digit("7")

_THRESHOLDS = re.compile(r"\b(alpha|beta)=([0-9.]+)")


@dataclass(frozen=True, slots=True)
class View:
    """The part of a trace to draw.

    Attributes:
        start_s: the time at which the graph begins.
        end_s: the time at which it ends; None for the trace's end.
        alpha: Vegas' lower threshold in packets; None if unknown.
        beta: its upper threshold.
        queue: packets in the router over time.
    """

    start_s: float = 0.0
    end_s: float | None = None
    alpha: float | None = None
    beta: float | None = None
    queue: Series | None = None


@dataclass(slots=True)
class _Canvas:
    """A trace with its moments, the part that is drawn, and the legend so far."""

    trace: Trace
    marks: Timeline
    start_s: float
    end_s: float
    view: View
    legend: dict[str, Line2D] = field(default_factory=dict)

    def within(self, times: Floats) -> Floats:
        """The moments that are drawn, once for each place."""
        inside = times[(times >= self.start_s) & (times <= self.end_s)]
        place = np.floor((inside - self.start_s) / (self.end_s - self.start_s) * _MARKS)
        return inside[np.unique(place, return_index=True)[1]]

    def metric(self, name: str, scale: float) -> Series:
        """A metric over the time that is drawn, thinned."""
        metrics = self.trace.metrics
        values = metrics[name].cast(pl.Float64).fill_null(np.nan).to_numpy() * scale
        return self.shown(changes(metrics["time_ms"].to_numpy() / 1000, values)).until(self.end_s)

    def shown(self, series: Series) -> Series:
        """The part of a series that is drawn, thinned."""
        return thinned(series.between(self.start_s, self.end_s))

    def explain(self, text: str, **kwargs: str | float | Path) -> str:
        """Adds an entry to the legend; returns its text, which names a group of marks."""
        look = {"linestyle": "none", "color": INK, "markersize": 7, **kwargs}
        self.legend.setdefault(text, Line2D([], [], **look))  # type: ignore[arg-type]
        return text


def thresholds(name: str) -> tuple[float | None, float | None]:
    """Vegas' α and β, if a trace's title gives them as options of a controller."""
    found = {key: float(value) for key, value in _THRESHOLDS.findall(name)}
    return found.get("alpha"), found.get("beta")


def thresholds_of(trace: Trace) -> tuple[float | None, float | None]:
    """Vegas' α and β as a trace last logged them, else as its title gives them."""
    logged = trace.metrics.select("vegas_alpha_packets", "vegas_beta_packets").drop_nulls()
    if len(logged):
        alpha, beta = logged.row(-1)
        return float(alpha), float(beta)
    return thresholds(title_of(trace))


def title_of(trace: Trace) -> str:
    """The title that a trace has, else the name of its file."""
    inner = trace.header.get("trace")
    titles = (trace.header.get("title"), inner.get("title") if isinstance(inner, dict) else None)
    title = next((title for title in titles if isinstance(title, str) and title), trace.path.name)
    return showable(title)


def trace_graph(trace: Trace, view: View) -> Figure:
    """The graphs of a trace, under each other."""
    marks = timeline(trace)
    end_s = end_of(trace) if view.end_s is None else view.end_s
    canvas = _Canvas(trace, marks, view.start_s, max(end_s, view.start_s + 1e-3), view)
    panels: list[Callable[[Axes, _Canvas], None]] = [_windows]
    if len(marks.sent_s) > RATE_SEGMENTS:
        panels.append(_rate)
    if len(marks.decisions_s):
        panels.append(_congestion_avoidance)
    if view.queue is not None:
        panels.append(_queue)
    heights = [1.5, *[1.0] * (len(panels) - 1)]
    figure = Figure(figsize=(11, 1.4 + 2.1 * sum(heights)), layout="constrained")
    all_axes = np.atleast_1d(
        figure.subplots(len(panels), sharex=True, gridspec_kw={"height_ratios": heights})
    )
    for axes, panel in zip(all_axes, panels, strict=True):
        panel(axes, canvas)
        _common(axes, canvas)
    _top(all_axes[0], canvas)
    all_axes[0].set_xlim(canvas.start_s, canvas.end_s)
    all_axes[-1].set_xlabel("time (s)")
    figure.suptitle(_title(trace), x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.legend(
        list(canvas.legend.values()),
        list(canvas.legend),
        loc="outside lower left",
        ncols=3,
        fontsize=9,
        handletextpad=0.6,
    )
    return figure


def _title(trace: Trace) -> str:
    times, sizes = delivered(trace)
    if len(times) < 2:
        return title_of(trace)
    rate = sizes.sum() / (times[-1] - trace.sent["time_ms"][0]) * 1000 / KILOBYTE
    return f"{title_of(trace)} (throughput {rate:,.0f} KB/s)"


def end_of(trace: Trace) -> float:
    """The time of the last event that is drawn, in seconds."""
    last = [
        float(table["time_ms"].tail(1).item())
        for table in (trace.sent, trace.acks, trace.metrics, trace.states)
        if len(table)
    ]
    return max(last, default=0.0) / 1000


def _common(axes: Axes, canvas: _Canvas) -> None:
    """Draws the marks at the edges of all graphs (Brakmo et al. 1994, Figure 2)."""
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.07 * (high - low), high + 0.11 * (high - low))
    edges = axes.get_xaxis_transform()
    marks = canvas.marks
    text = canvas.explain("ACK received", marker=2, color=INK)
    _ticks(axes, edges, canvas.within(marks.acks_s), 0, 0.035, text)
    text = canvas.explain("packet sent", marker=3, color=INK)
    _ticks(axes, edges, canvas.within(marks.sent_s), 0.965, 1, text)
    lost = canvas.within(marks.lost_s)
    if len(lost):
        text = canvas.explain(
            "sent now, lost later", marker="|", markersize=13, color=INK, markeredgewidth=1.2
        )
        _ticks(axes, edges, lost, 0, 1, text, linewidth=0.7, zorder=1.5)


def _ticks(
    axes: Axes,
    transform: Transform,
    times: Floats,
    low: float | Floats,
    high: float | Floats,
    name: str,
    linewidth: float = 0.5,
    zorder: float = 2,
) -> None:
    """Draws vertical strokes as one line with gaps, which takes far less room in a file."""
    gap = np.full(len(times), np.nan)
    heights = [np.broadcast_to(np.asarray(end, dtype=float), times.shape) for end in (low, high)]
    axes.plot(
        np.column_stack([times, times, gap]).ravel(),
        np.column_stack([*heights, gap]).ravel(),
        transform=transform,
        color=INK,
        linewidth=linewidth,
        zorder=zorder,
        solid_capstyle="butt",
        gid=name,
    )


def _top(axes: Axes, canvas: _Canvas) -> None:
    """Draws the marks above the first graph: kilobytes, timers, timeouts, packets held back."""
    edges = axes.get_xaxis_transform()
    marks = canvas.marks

    def draw(times: Floats, height: float, text: str, marker: str, size: float) -> None:
        times = canvas.within(times)
        if len(times):
            look: dict[str, str | float] = {"marker": marker, "markersize": size}
            look |= {"markerfacecolor": "none", "markeredgecolor": INK}
            axes.plot(
                times,
                np.full(len(times), height),
                transform=edges,
                linestyle="none",
                clip_on=False,
                gid=canvas.explain(text, **look),
                **look,  # type: ignore[arg-type]
            )

    draw(marks.timers_s, 1.035, "loss detection timer fired", "D", 4.5)
    draw(marks.timeouts_s, 1.035, "timeout (PTO)", "o", 9)
    draw(marks.held_s, 0.94, "packet held back although the window had room", "o", 2.5)
    for time, kilobytes in _kilobytes(canvas):
        axes.annotate(
            f"{kilobytes:g}",
            (time, 1),
            xycoords=edges,
            xytext=(0, 15),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=SOFT,
        )
    if len(marks.sent_s):
        canvas.explain("numbers on top: the n-th KB was sent", marker=_SEVEN, color=SOFT)


def _kilobytes(canvas: _Canvas) -> list[tuple[float, float]]:
    """About a dozen times by which round numbers of kilobytes had been sent."""
    times, total = canvas.marks.sent_s, canvas.marks.sent_bytes / KILOBYTE
    inside = (times >= canvas.start_s) & (times <= canvas.end_s)
    if not inside.any():
        return []
    low, high = total[inside][0], total[inside][-1]
    rough = max(high - low, 1) / 12
    power = 10.0 ** math.floor(math.log10(rough))
    width = next((n * power for n in (1, 2, 5) if n * power >= rough), 10 * power)
    marks = np.arange(math.ceil(low / width), math.floor(high / width) + 1) * width
    marks = marks[marks > 0]
    index = np.searchsorted(total, marks, side="left")
    return list(zip(times[index].tolist(), marks.tolist(), strict=True))


def _label(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=10, pad=27 if title == _WINDOWS else 6)
    axes.set_ylabel(unit)


_WINDOWS = "Windows"


def _windows(axes: Axes, canvas: _Canvas) -> None:
    """Draws Figure 3, without the send window, since flow control is not traced."""
    _label(axes, _WINDOWS, "KB")
    window = canvas.metric("window_bytes", 1 / KILOBYTE)
    in_flight = canvas.metric("in_flight_bytes", 1 / KILOBYTE)
    threshold = canvas.metric("ssthresh_bytes", 1 / KILOBYTE)
    text = canvas.explain("congestion window", linestyle="-", color=FAINT, linewidth=2.5)
    step(axes, window, color=FAINT, linewidth=2.5, gid=text, zorder=2.2)
    text = canvas.explain("in transit: sent, not acknowledged", linestyle="-", linewidth=0.8)
    step(axes, in_flight, color=INK, linewidth=0.8, gid=text)
    tops = [float(np.nanmax(one.value)) for one in (window, in_flight) if len(one.value)]
    if not np.isnan(threshold.value).all():
        text = canvas.explain("slow start threshold", linestyle="--", linewidth=1.1)
        step(axes, threshold, color=INK, linestyle="--", linewidth=1.1, gid=text)
    # A threshold far above the windows must not flatten them.
    axes.set_ylim(0, max(tops, default=0) or 1)


def _rate(axes: Axes, canvas: _Canvas) -> None:
    _label(axes, f"Sending rate, from the last {RATE_SEGMENTS} packets", "KB/s")
    rate = canvas.marks.rate()
    rate = canvas.shown(Series(rate.time_s, rate.value / KILOBYTE))
    step(axes, rate, color=INK, linewidth=0.9, gid="sending rate")
    if len(rate.value):
        # Packets back to back go as fast as the sender's own link, a peak that would hide the rest.
        axes.set_ylim(0, min(float(rate.value.max()), 5 * float(np.median(rate.value))) or 1)


def _congestion_avoidance(axes: Axes, canvas: _Canvas) -> None:
    """Draws Figure 8: the expected and the actual rate, and the thresholds for the latter."""
    _label(axes, "Congestion avoidance", "KB/s")
    expected = canvas.metric("vegas_expected_bps", 1 / 8 / KILOBYTE)
    actual = canvas.metric("vegas_actual_bps", 1 / 8 / KILOBYTE)
    text = canvas.explain("expected rate", linestyle="-", color=FAINT, linewidth=2.5)
    step(axes, expected, color=FAINT, linewidth=2.5, gid=text)
    text = canvas.explain("actual rate", linestyle="-", linewidth=1.3)
    step(axes, actual, color=INK, linewidth=1.3, gid=text)
    for name, packets, dash in (("α", canvas.view.alpha, "--"), ("β", canvas.view.beta, ":")):
        line = _threshold(canvas, expected, packets)
        if line is not None:
            text = canvas.explain(f"threshold {name}", linestyle=dash, linewidth=1.0)
            step(axes, line, color=INK, linestyle=dash, linewidth=1.0, gid=text)
    top = max((float(np.nanmax(s.value)) for s in (expected, actual) if len(s.value)), default=1)
    axes.set_ylim(0, top or 1)
    decisions = canvas.within(canvas.marks.decisions_s)
    if len(decisions) and len(actual.value):
        at = np.searchsorted(actual.time_s, decisions, side="right") - 1
        height = actual.value[np.maximum(at, 0)]
        text = canvas.explain("decision on the window", marker="|", markersize=9)
        low, high = height - 0.04 * top, height + 0.04 * top
        _ticks(axes, axes.transData, decisions, low, high, text, linewidth=0.8)


def _threshold(canvas: _Canvas, expected: Series, packets: float | None) -> Series | None:
    """The actual rate at which so many packets are queued: packets per BaseRTT below expected."""
    sizes, base = canvas.trace.sent["length_bytes"], canvas.metric("vegas_base_rtt_ms", 1e-3)
    if packets is None or sizes.is_empty() or not len(base.value):
        return None
    at = np.searchsorted(base.time_s, expected.time_s, side="right") - 1
    base_s = base.value[np.maximum(at, 0)]
    below = packets * float(np.max(sizes.to_numpy())) / base_s / KILOBYTE
    return Series(expected.time_s, np.maximum(0.0, expected.value - below))


def _queue(axes: Axes, canvas: _Canvas) -> None:
    _label(axes, "Queue at the router", "packets")
    queue = canvas.view.queue
    if queue is not None:
        step(axes, canvas.shown(queue), color=INK, linewidth=0.9, gid="queue at the router")
        axes.set_ylim(bottom=0)
