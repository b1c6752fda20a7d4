"""Runs over one path drawn over time: several on shared axes, and each by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from qlog_analysis.drawing.reduction import COLUMNS, Course, FlowCourse, beginning_s
from qlog_analysis.drawing.style import BAND, FAINT, INK, SOFT, Look, step, style
from qlog_analysis.drawing.svg import Picture, picture
from qlog_analysis.metrics.series import Series, thinned

MOST_FLOWS = 10
"""Flows drawn of a run: more would hide each other."""


@dataclass(frozen=True, slots=True)
class RunCourse:
    """One run over time.

    Attributes:
        name: its name.
        look: its look in all plots.
        flows: its flows.
        queue: packets at the bottleneck; empty if it was not recorded.
        alpha: the lower threshold of the backlog in packets, if the controller has one.
        beta: the upper threshold.
        available_window: between which windows it would keep its thresholds, in packets.
    """

    name: str
    look: Look
    flows: tuple[FlowCourse, ...]
    queue: Series
    alpha: float | None
    beta: float | None
    available_window: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class PathCourses:
    """Runs over one path.

    Attributes:
        name: tells the path from others of a page and names its files.
        runs: the runs.
        duration_s: their duration.
        payload_bps: the bottleneck's rate less IP and UDP headers.
        rate_bin_s: the time over which sending rates are means.
        buffer_packets: the bottleneck's buffer, if it is counted in packets.
    """

    name: str
    runs: tuple[RunCourse, ...]
    duration_s: float
    payload_bps: float
    rate_bin_s: float
    buffer_packets: float | None


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, with the name of its file; `run` is empty where it shows all runs."""

    name: str
    title: str
    run: str
    picture: Picture


def count(path: PathCourses) -> int:
    """The number of plots that `draw` makes."""
    return len(_OVERLAYS) + 1 + len(path.runs)


def draw(path: PathCourses) -> Iterator[Plot]:
    """Draws all runs on shared axes, then each by itself."""
    for key, overlay in _OVERLAYS.items():
        yield _plot(path, key, overlay.title, None, overlay)
    yield _plot(path, "start", "The start", None, None)
    for run in path.runs:
        yield _plot(path, f"run-{run.name}", run.name, run, None)


def _plot(
    path: PathCourses, key: str, title: str, run: RunCourse | None, overlay: "_Overlay | None"
) -> Plot:
    name = f"{path.name}--{key}"
    with style():
        if run is not None:
            figure = _run(path, run)
        else:
            figure = _start(path) if overlay is None else _overlay(path, overlay)
        return Plot(name, title, "" if run is None else run.name, picture(figure, name))


def _finish(axes: Sequence[Axes], end_s: float) -> None:
    for ax in axes:
        ax.set_xlim(0, end_s)
        ax.set_ylim(bottom=0)
    axes[-1].set_xlabel("time (s)")


def _queue(run: RunCourse, end_s: float) -> Series:
    return thinned(run.queue.between(0, end_s), COLUMNS)


def _total(series: Sequence[Series]) -> Series:
    """The sum of series over the same bins, in megabits per second."""
    total = np.sum([one.value for one in series], axis=0) / 1e6
    return Series(series[0].time_s, total)


@dataclass(frozen=True, slots=True)
class _Overlay:
    """A quantity of all runs on shared axes.

    Attributes:
        title: its name.
        unit: its unit.
        take: its series of a flow; None for the bottleneck's queue.
        total: true if the flows of a run are added.
        from_zero: true if the axis starts at zero.
    """

    title: str
    unit: str
    take: Callable[[Course], Series] | None
    total: bool = False
    from_zero: bool = True


_OVERLAYS = {
    "window": _Overlay("Congestion window", "packets", lambda flow: flow.window_packets),
    "rate": _Overlay("Sending rate", "Mbit/s", lambda flow: flow.sent_bps, total=True),
    "rtt": _Overlay("Round-trip time", "ms", lambda flow: flow.rtt_ms, from_zero=False),
    "queue": _Overlay("Queue at the bottleneck", "packets", None),
}


def _overlay(path: PathCourses, overlay: _Overlay) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    _draw_overlay(axes, path, overlay, path.duration_s, beginning=False)
    _finish([axes], path.duration_s)
    if not overlay.from_zero:
        axes.set_ylim(*_rtt_limits(path.runs))
    _legend_of_runs(figure, path)
    return figure


def _start(path: PathCourses) -> Figure:
    figure = Figure(figsize=(10, 10.5), layout="constrained")
    axes = figure.subplots(len(_OVERLAYS), sharex=True)
    end_s = beginning_s(path.duration_s)
    for ax, overlay in zip(axes, _OVERLAYS.values(), strict=True):
        _draw_overlay(ax, path, overlay, end_s, beginning=True)
    _finish(axes, end_s)
    for ax, overlay in zip(axes, _OVERLAYS.values(), strict=True):
        if not overlay.from_zero:
            ax.set_ylim(*_rtt_limits(path.runs))
    _legend_of_runs(figure, path)
    return figure


def _rtt_limits(runs: Sequence[RunCourse]) -> tuple[float, float]:
    """From a little below the least RTT: what matters is the queue's part of it."""
    rtts = [flow.whole.rtt_ms.value for run in runs for flow in run.flows]
    rtts = [values for values in rtts if len(values)]
    if not rtts:
        return 0.0, 1.0
    low, high = min(map(np.min, rtts)), max(map(np.max, rtts))
    margin = 0.05 * max(high - low, 0.02 * high, 0.1)
    return float(low - margin), float(high + margin)


def _draw_overlay(
    axes: Axes, path: PathCourses, overlay: _Overlay, end_s: float, beginning: bool
) -> None:
    each_flow = overlay.take is not None and not overlay.total
    most = max(path.runs, key=lambda run: len(run.flows))
    axes.set_title(overlay.title + (_which(most) if each_flow else ""))
    axes.set_ylabel(overlay.unit)
    for order, run in enumerate(path.runs):
        lines: list[Series]
        if overlay.take is None:
            lines = [_queue(run, end_s)]
        else:
            lines = [overlay.take(f.beginning if beginning else f.whole) for f in run.flows]
        if overlay.total and lines:
            lines = [_total(lines)]
        for line in lines[:MOST_FLOWS]:
            # The first run lies on top: it is the one that is compared with the others.
            step(
                axes,
                line,
                color=run.look.colour,
                linestyle=run.look.dash,
                alpha=0.9 if len(lines) == 1 else 0.5,
                zorder=2 + (len(path.runs) - order) / 100,
            )


def _legend_of_runs(figure: Figure, path: PathCourses) -> None:
    handles = [
        Line2D([], [], color=run.look.colour, linestyle=run.look.dash, linewidth=3)
        for run in path.runs
    ]
    names = [run.name for run in path.runs]
    figure.legend(handles, names, loc="outside upper left", ncols=6)


_Panel = Callable[[Axes, PathCourses, RunCourse], None]


def _run(path: PathCourses, run: RunCourse) -> Figure:
    panels: list[_Panel] = [_window_panel, _rtt_panel, _rate_panel, _queue_panel]
    if any(len(flow.backlog_packets.value) for flow in _drawn(run)):
        panels.insert(2, _backlog_panel)
    figure = Figure(figsize=(10, 2.7 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True)
    for axes, panel in zip(all_axes, panels, strict=True):
        panel(axes, path, run)
        if axes.get_autoscaley_on():
            axes.set_ylim(bottom=0)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1, 0.98), ncols=4)
    all_axes[0].set_xlim(0, path.duration_s)
    all_axes[-1].set_xlabel("time (s)")
    return figure


def _drawn(run: RunCourse) -> list[Course]:
    return [flow.whole for flow in run.flows[:MOST_FLOWS]]


def _which(run: RunCourse) -> str:
    """An addition to a title when not all flows of a run are drawn."""
    return f" (first {MOST_FLOWS} of {len(run.flows)} flows)" if len(run.flows) > MOST_FLOWS else ""


def _once(label: str) -> Iterator[str | None]:
    """The label for the first of several lines that share it."""
    yield label
    while True:
        yield None


def _title(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)


def _window_panel(axes: Axes, _: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Congestion window{_which(run)}", "packets")
    top_of_band = 0.0
    if run.available_window is not None:
        axes.axhspan(*run.available_window, color=BAND, label="available window")
        top_of_band = run.available_window[1]
    flows = _drawn(run)
    names = zip(_once("in flight"), _once("ssthresh"), _once("window"), strict=False)
    for flow, (in_flight, ssthresh, window) in zip(flows, names, strict=False):
        step(axes, flow.in_flight_packets, in_flight, color=FAINT, linewidth=0.8)
        step(axes, flow.ssthresh_packets, ssthresh, color=SOFT, linestyle="--", linewidth=1.1)
        step(axes, flow.window_packets, window, color=run.look.colour)
    # A threshold far above the window, or a band, must not flatten it.
    tops = [
        float(series.value.max())
        for flow in flows
        for series in (flow.window_packets, flow.in_flight_packets)
        if len(series.value)
    ]
    if tops and max(tops) > 0:
        axes.set_ylim(0, 1.08 * max(*tops, min(top_of_band, 1.5 * max(tops))))


def _rtt_panel(axes: Axes, _: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Round-trip time{_which(run)}", "ms")
    names = zip(_once("RTT"), _once("BaseRTT"), strict=False)
    for flow, (rtt, base) in zip(_drawn(run), names, strict=False):
        step(axes, flow.rtt_ms, rtt, color=run.look.colour, linewidth=1.0)
        step(axes, flow.base_rtt_ms, base, color=INK, linestyle="--", linewidth=1.1)
    axes.set_ylim(*_rtt_limits([run]))


def _backlog_panel(axes: Axes, _: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Backlog as the sender sees it{_which(run)}", "packets")
    for flow, label in zip(_drawn(run), _once("backlog"), strict=False):
        step(axes, flow.backlog_packets, label, color=run.look.colour)
    for value, sign, dash in ((run.alpha, "α", "--"), (run.beta, "β", ":")):
        if value is not None:
            axes.axhline(
                value, color=INK, linestyle=dash, linewidth=1.1, label=f"{sign} = {value:g}"
            )


def _rate_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Sending rate, means of {path.rate_bin_s:g} s", "Mbit/s")
    if run.flows:
        total = _total([flow.whole.sent_bps for flow in run.flows])
        step(axes, total, "sent", color=run.look.colour)
    axes.axhline(
        path.payload_bps / 1e6,
        color=INK,
        linestyle="--",
        linewidth=1.1,
        label="the bottleneck's rate, less IP and UDP headers",
    )


def _queue_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, "Queue at the bottleneck", "packets")
    queue = _queue(run, path.duration_s)
    step(axes, queue, "queue", color=run.look.colour, linewidth=1.0)
    limit = path.buffer_packets
    if limit is not None and len(queue.value) and queue.value.max() > limit / 4:
        axes.axhline(limit, color=INK, linestyle="--", linewidth=1.1, label="buffer")
