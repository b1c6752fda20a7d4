"""Draws runs over one path over time: all on shared axes, and each by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from qlog_analysis.drawing.reduction import COLUMNS, Course, FlowCourse, beginning_s
from qlog_analysis.drawing.style import BAND, FAINT, INK, SOFT, Look, legend, look, step, style
from qlog_analysis.drawing.svg import Picture, picture
from qlog_analysis.metrics.series import Series, thinned

MOST_FLOWS = 10
"""The number of flows of a run that are drawn; more would hide each other."""


@dataclass(frozen=True, slots=True)
class RunCourse:
    """One run over time.

    Attributes:
        key: its name in the names of files.
        name: its name.
        look: its look in all plots.
        flows: its flows.
        queue: packets at the bottleneck; empty if it was not recorded.
        goodput_bps: stream bytes that all flows delivered, as a rate; empty if it was not recorded.
        alpha: the lower threshold of the backlog in packets, if the controller has one.
        beta: the upper threshold.
        available_window: the windows, in packets, between which it keeps its thresholds.
    """

    key: str
    name: str
    look: Look
    flows: tuple[FlowCourse, ...]
    queue: Series
    goodput_bps: Series
    alpha: float | None
    beta: float | None
    available_window: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class PathCourses:
    """Runs over one path.

    Attributes:
        name: tells the path from others of a page, and begins the names of its files.
        runs: the runs.
        duration_s: their duration.
        payload_bps: the bottleneck's rate less IP and UDP headers.
        packet_s: the time that the bottleneck takes for a packet.
        rate_bin_s: the time over which sending rates are averaged.
        buffer_packets: the bottleneck's buffer, if it is counted in packets.
    """

    name: str
    runs: tuple[RunCourse, ...]
    duration_s: float
    payload_bps: float
    packet_s: float
    rate_bin_s: float
    buffer_packets: float | None


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot, with the name of its file; `run` is a run's key, or empty if it shows all runs.

    Its caption is empty if the picture itself says what it shows.
    """

    name: str
    title: str
    caption: str
    run: str
    picture: Picture


_START = "start"


def count(path: PathCourses) -> int:
    """The number of plots that `draw` makes."""
    return len(_overlays(path)) + 1 + len(path.runs)


def _overlays(path: PathCourses) -> dict[str, "_Overlay"]:
    """The quantities that were recorded."""
    recorded = any(len(run.goodput_bps.value) for run in path.runs)
    return {key: one for key, one in _OVERLAYS.items() if recorded or key != "goodput"}


def draw(path: PathCourses) -> Iterator[Plot]:
    """Draws all runs on shared axes, then each by itself."""
    for key, overlay in _overlays(path).items():
        yield _plot(path, key, overlay.title, None, overlay)
    yield _plot(path, _START, f"The first {beginning_s(path.duration_s):g} s", None, None)
    for run in path.runs:
        yield _plot(path, f"run-{run.key}", f"{run.name} over time", run, None)


def _plot(
    path: PathCourses, key: str, title: str, run: RunCourse | None, overlay: "_Overlay | None"
) -> Plot:
    name = f"{path.name}--{key}"
    with style():
        if run is not None:
            figure = _run(path, run)
        else:
            figure = _start(path) if overlay is None else _overlay(path, overlay)
        caption = title if key == _START else ""
        return Plot(name, title, caption, "" if run is None else run.key, picture(figure, name))


def _queue(run: RunCourse, end_s: float) -> Series:
    return thinned(run.queue.between(0, end_s), COLUMNS)


def _losses(run: RunCourse, end_s: float) -> Series:
    """The number of packets of all flows that were declared lost up to each time."""
    times = np.sort(np.concatenate([[0.0], *(flow.lost_s for flow in run.flows)]))
    count = Series(times, np.arange(len(times), dtype=np.float64))
    return thinned(count.between(0, end_s), COLUMNS).until(end_s)


def _goodput(part: "_Part") -> Series:
    whole = part.run.goodput_bps
    return Series(whole.time_s, whole.value / 1e6).between(0, part.end_s).until(part.end_s)


def wander(series: Series) -> float:
    """The sum of all changes, by which a line covers others."""
    values = series.value[~np.isnan(series.value)]
    return float(np.abs(np.diff(values)).sum())


def _total(series: Sequence[Series]) -> Series:
    """The sum of series over the same bins, in megabits per second."""
    total = np.sum([one.value for one in series], axis=0) / 1e6
    return Series(series[0].time_s, total)


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a run that is drawn, up to a time: its beginning or all of it."""

    run: RunCourse
    end_s: float
    beginning: bool

    def flows(self) -> list[Course]:
        return [flow.beginning if self.beginning else flow.whole for flow in self.run.flows]


@dataclass(frozen=True, slots=True)
class _Overlay:
    """A quantity of all runs on shared axes.

    Attributes:
        title: its name.
        unit: its unit.
        lines: the series that are drawn of a run.
        each_flow: true if there is a line for each flow.
        from_zero: true if the axis starts at zero.
        capacity: true if the bottleneck's rate is drawn too.
    """

    title: str
    unit: str
    lines: Callable[[_Part], list[Series]]
    each_flow: bool = False
    from_zero: bool = True
    capacity: bool = False


_OVERLAYS = {
    "goodput": _Overlay(
        "Goodput of all flows", "Mbit/s", lambda part: [_goodput(part)], capacity=True
    ),
    "window": _Overlay(
        "Congestion window",
        "packets",
        lambda part: [flow.window_packets for flow in part.flows()],
        each_flow=True,
    ),
    "rate": _Overlay(
        "Sending rate",
        "Mbit/s",
        lambda part: [_total([flow.sent_bps for flow in part.flows()])],
        capacity=True,
    ),
    "rtt": _Overlay(
        "Round-trip time, smoothed",
        "ms",
        lambda part: [flow.smoothed_rtt_ms for flow in part.flows()],
        each_flow=True,
        from_zero=False,
    ),
    "queue": _Overlay(
        "Queue at the bottleneck", "packets", lambda part: [_queue(part.run, part.end_s)]
    ),
    "losses": _Overlay(
        "Packets declared lost, in all", "packets", lambda part: [_losses(part.run, part.end_s)]
    ),
}


def _overlay(path: PathCourses, overlay: _Overlay) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    _draw_overlay(axes, path, overlay, path.duration_s, beginning=False)
    axes.set_xlabel("time (s)")
    _legend_of_runs(figure, path)
    return figure


def _start(path: PathCourses) -> Figure:
    overlays = _overlays(path)
    figure = Figure(figsize=(10, 2.6 * len(overlays)), layout="constrained")
    all_axes = figure.subplots(len(overlays), sharex=True)
    for axes, overlay in zip(all_axes, overlays.values(), strict=True):
        _draw_overlay(axes, path, overlay, beginning_s(path.duration_s), beginning=True)
    all_axes[-1].set_xlabel("time (s)")
    _legend_of_runs(figure, path)
    return figure


def _rtt_limits(rtts: Sequence[Series], end_s: float) -> tuple[float, float]:
    """From a little below the least RTT, since the queue's part of it is what matters."""
    known = [one.between(0, end_s).value for one in rtts]
    known = [values[~np.isnan(values)] for values in known]
    known = [values for values in known if len(values)]
    if not known:
        return 0.0, 1.0
    low, high = min(map(np.min, known)), max(map(np.max, known))
    margin = 0.05 * max(high - low, 0.02 * high, 0.1)
    return float(low - margin), float(high + margin)


def _draw_overlay(
    axes: Axes, path: PathCourses, overlay: _Overlay, end_s: float, beginning: bool
) -> None:
    most = max(path.runs, key=lambda run: len(run.flows))
    axes.set_title(overlay.title + (_which(most) if overlay.each_flow else ""))
    axes.set_ylabel(overlay.unit)
    drawn = [(run, overlay.lines(_Part(run, end_s, beginning))[:MOST_FLOWS]) for run in path.runs]
    # The lines that wander most would hide the others, and lie below them.
    drawn.sort(key=lambda one: -max(map(wander, one[1]), default=0.0))
    for order, (run, lines) in enumerate(drawn):
        for line in lines:
            step(
                axes,
                line,
                color=run.look.colour,
                linestyle=run.look.dash,
                alpha=0.75 if len(lines) == 1 else 0.5,
                zorder=2 + order / 100,
            )
    if overlay.capacity:
        axes.axhline(path.payload_bps / 1e6, color=INK, linestyle="--", linewidth=1.1)
    axes.set_xlim(0, end_s)
    if overlay.from_zero:
        axes.set_ylim(bottom=0)
    else:
        rtts = [flow.whole.smoothed_rtt_ms for run in path.runs for flow in run.flows]
        axes.set_ylim(*_rtt_limits(rtts, end_s))


def _legend_of_runs(figure: Figure, path: PathCourses) -> None:
    handles = [
        Line2D([], [], color=run.look.colour, linestyle=run.look.dash, linewidth=3)
        for run in path.runs
    ]
    legend(figure, handles, [run.name for run in path.runs])


_Panel = Callable[[Axes, PathCourses, RunCourse], None]


def _run(path: PathCourses, run: RunCourse) -> Figure:
    panels: list[_Panel] = [_window_panel, _rtt_panel, _rate_panel, _queue_panel]
    if any(len(flow.lost_s) for flow in run.flows):
        panels.append(_losses_panel)
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
    """An addition to a title if not all flows of a run are drawn."""
    return f" ({MOST_FLOWS} of {len(run.flows)} flows)" if len(run.flows) > MOST_FLOWS else ""


def _once(label: str) -> Iterator[str | None]:
    """The label for the first of several lines that share it."""
    yield label
    while True:
        yield None


def _title(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)


def _window_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Congestion window{_which(run)}", "packets")
    top_of_band = 0.0
    if run.available_window is not None:
        axes.axhspan(*run.available_window, color=BAND, label="available window")
        top_of_band = run.available_window[1]
    flows = _drawn(run)
    _phases(axes, run, path.duration_s)
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


_MOST_BANDS = 200
"""More phases than this in a run cannot be told apart in a picture."""


def phases(run: RunCourse, end_s: float) -> list[tuple[float, float, str]]:
    """The states of the first flow's controller: from, to, name."""
    states = run.flows[0].states if run.flows else ()
    ends = [time for time, _ in states[1:]] + [end_s]
    return [(start, end, name) for (start, name), end in zip(states, ends, strict=True)]


def _phases(axes: Axes, run: RunCourse, end_s: float) -> None:
    """Bands along the top of a panel, with the losses as ticks below them."""
    bands = phases(run, end_s)
    names = sorted({name for _, _, name in bands})
    if len(names) > 1 and len(bands) <= _MOST_BANDS:
        top = axes.get_xaxis_transform()
        for start, end, name in bands:
            colour = look(names.index(name)).colour
            spans = axes.fill_between([start, end], 0.96, 1, transform=top, color=colour, lw=0)
            spans.set_alpha(0.6)
        for name in names:
            axes.plot([], [], color=look(names.index(name)).colour, linewidth=5, label=name)
    lost = np.concatenate([flow.lost_s for flow in run.flows]) if run.flows else np.empty(0)
    if len(lost):
        columns = np.unique((lost / end_s * COLUMNS).astype(int)) / COLUMNS * end_s
        axes.vlines(
            columns, 0, 0.04, transform=axes.get_xaxis_transform(), color=SOFT, linewidth=0.8,
            label="losses",
        )  # fmt: skip


def _rtt_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, f"Round-trip time{_which(run)}", "ms")
    names = zip(_once("samples"), _once("smoothed"), _once("BaseRTT"), strict=False)
    for flow, (samples, smoothed, base) in zip(_drawn(run), names, strict=False):
        step(axes, flow.rtt_ms, samples, color=FAINT, linewidth=0.8)
        step(axes, flow.smoothed_rtt_ms, smoothed, color=run.look.colour)
        step(axes, flow.base_rtt_ms, base, color=INK, linestyle="--", linewidth=1.1)
    axes.set_ylim(*_rtt_limits([flow.rtt_ms for flow in _drawn(run)], path.duration_s))


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
    if len(run.goodput_bps.value):
        goodput = Series(run.goodput_bps.time_s, run.goodput_bps.value / 1e6)
        step(axes, goodput, "goodput", color=SOFT, linewidth=1.0)
    axes.axhline(
        path.payload_bps / 1e6,
        color=INK,
        linestyle="--",
        linewidth=1.1,
        label="the bottleneck's rate, less IP and UDP headers",
    )


def _losses_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, "Packets declared lost, in all", "packets")
    lost = _losses(run, path.duration_s)
    step(axes, lost, color=run.look.colour)
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))


def _queue_panel(axes: Axes, path: PathCourses, run: RunCourse) -> None:
    _title(axes, "Queue at the bottleneck", "packets")
    queue = _queue(run, path.duration_s)
    step(axes, queue, "queue", color=run.look.colour, linewidth=1.0)
    limit = path.buffer_packets
    if limit is not None and len(queue.value) and queue.value.max() > limit / 4:
        axes.axhline(limit, color=INK, linestyle="--", linewidth=1.1, label="buffer")
