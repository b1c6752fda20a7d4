"""Draws runs and groups of runs as PNG files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from qlog_analysis.drawing.style import COLOURS, GREY, step, style
from qlog_analysis.experiments.comparison import Scenario
from qlog_analysis.experiments.reduction import FlowSeries, beginning_s, rate_bin_s
from qlog_analysis.experiments.results import GroupResult, Results, RunResult
from qlog_analysis.metrics.series import Series, thinned

MOST_FLOWS = 10
"""Flows drawn of a run: more would hide each other."""

Dash = Literal["-", "--", ":"]
# When the colours run out they come again with another dash.
_DASHES: tuple[Dash, ...] = ("-", "--", ":")


@dataclass(frozen=True, slots=True)
class Look:
    """How a controller is drawn, in every plot."""

    colour: str
    dash: Dash


@dataclass(frozen=True, slots=True)
class Plot:
    """A file that was drawn: what it shows, of which group and, if of one, which run."""

    path: Path
    title: str
    group: str
    run: str | None


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A colour for each controller, by the order in which they first appear."""
    styles = cycle([Look(colour, dash) for dash in _DASHES for colour in COLOURS])
    return {name: next(styles) for name in dict.fromkeys(names)}


def draw(results: Results, directory: Path, on_plot: Callable[[], None]) -> list[Plot]:
    """Draws all groups and runs into a directory; `on_plot` is told of each."""
    directory.mkdir(parents=True, exist_ok=True)
    look = looks(run.run.id for group in results.groups for run in group.runs)
    plots = []
    with style():
        for figure, plot in _figures(results, directory, look):
            figure.savefig(plot.path, format="png")
            plots.append(plot)
            on_plot()
    return plots


def count(results: Results) -> int:
    """How many plots `draw` makes."""
    return sum(len(_OVERLAYS) + 1 + len(group.runs) for group in results.groups)


def _figures(
    results: Results, directory: Path, look: Mapping[str, Look]
) -> Iterator[tuple[Figure, Plot]]:
    for group in results.groups:
        name = group.group.id
        for key, overlay in _OVERLAYS.items():
            path = directory / f"{name}--{key}.png"
            yield _overlay(group, look, overlay), Plot(path, overlay.title, name, None)
        path = directory / f"{name}--start.png"
        yield _start(group, look), Plot(path, "The start", name, None)
        for run in group.runs:
            path = directory / f"{name}--run-{run.run.id}.png"
            yield (
                _run(run, group.group.scenario, look[run.run.id]),
                Plot(path, run.run.id, name, run.run.id),
            )


def _finish(axes: Sequence[Axes], end_s: float) -> None:
    for ax in axes:
        ax.set_xlim(0, end_s)
        ax.set_ylim(bottom=0)
    axes[-1].set_xlabel("time (s)")


def _queue(run: RunResult, end_s: float) -> Series:
    queue = run.run.queue
    if queue is None:
        return Series(np.empty(0), np.empty(0))
    whole = Series(queue["time_s"].to_numpy(), queue["packets"].to_numpy())
    return thinned(whole.between(0, end_s))


def _total(series: Sequence[Series]) -> Series:
    """The sum of series over the same bins."""
    return Series(series[0].time_s, np.sum([one.value for one in series], axis=0))


@dataclass(frozen=True, slots=True)
class _Overlay:
    """What is drawn of each run on shared axes."""

    title: str
    unit: str
    take: Callable[[FlowSeries], Series] | None
    """Of each flow; None for the bottleneck's queue."""
    total: bool = False
    """Whether the flows of a run are summed."""
    from_zero: bool = True


_OVERLAYS = {
    "window": _Overlay("Congestion window", "packets", lambda flow: flow.window_packets),
    "rate": _Overlay("Sending rate", "Mbit/s", lambda flow: flow.sent_bps, total=True),
    "rtt": _Overlay("Round-trip time", "ms", lambda flow: flow.rtt_ms, from_zero=False),
    "queue": _Overlay("Queue at the bottleneck", "packets", None),
}


def _overlay(group: GroupResult, look: Mapping[str, Look], overlay: _Overlay) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots()
    end_s = _end_s(group)
    _draw_overlay(axes, group, look, overlay, end_s, beginning=False)
    _finish([axes], end_s)
    if not overlay.from_zero:
        axes.set_ylim(*_rtt_limits(group.runs))
    _legend_of_runs(figure, group, look)
    return figure


def _start(group: GroupResult, look: Mapping[str, Look]) -> Figure:
    figure = Figure(figsize=(10, 10.5), layout="constrained")
    axes = figure.subplots(len(_OVERLAYS), sharex=True)
    end_s = beginning_s(_end_s(group))
    for ax, overlay in zip(axes, _OVERLAYS.values(), strict=True):
        _draw_overlay(ax, group, look, overlay, end_s, beginning=True)
    _finish(axes, end_s)
    for ax, overlay in zip(axes, _OVERLAYS.values(), strict=True):
        if not overlay.from_zero:
            ax.set_ylim(*_rtt_limits(group.runs))
    _legend_of_runs(figure, group, look)
    return figure


def _end_s(group: GroupResult) -> float:
    return max(run.run.duration_s for run in group.runs)


def _rtt_limits(runs: Sequence[RunResult]) -> tuple[float, float]:
    """From a little below the least RTT: what matters is the queue's part of it."""
    rtts = [flow.rtts_ms for run in runs for flow in run.flows if len(flow.rtts_ms)]
    if not rtts:
        return 0.0, 1.0
    low, high = min(map(np.min, rtts)), max(map(np.max, rtts))
    margin = 0.05 * max(high - low, 0.02 * high, 0.1)
    return float(low - margin), float(high + margin)


def _draw_overlay(
    axes: Axes,
    group: GroupResult,
    look: Mapping[str, Look],
    overlay: _Overlay,
    end_s: float,
    beginning: bool,
) -> None:
    each_flow = overlay.take is not None and not overlay.total
    most = max(group.runs, key=lambda run: len(run.flows))
    axes.set_title(overlay.title + (_which(most) if each_flow else ""))
    axes.set_ylabel(overlay.unit)
    for order, run in enumerate(group.runs):
        style = look[run.run.id]
        lines: list[Series]
        if overlay.take is None:
            lines = [_queue(run, end_s)]
        else:
            lines = [overlay.take(f.beginning if beginning else f.whole) for f in run.flows]
        if overlay.total and lines:
            total = _total(lines)
            lines = [Series(total.time_s, total.value / 1e6)]
        for line in lines[:MOST_FLOWS]:
            # The first run lies on top: it is the one that is compared with the others.
            step(
                axes,
                line,
                color=style.colour,
                linestyle=style.dash,
                alpha=0.9 if len(lines) == 1 else 0.5,
                zorder=2 + (len(group.runs) - order) / 100,
            )


def _legend_of_runs(figure: Figure, group: GroupResult, look: Mapping[str, Look]) -> None:
    names = [run.run.id for run in group.runs]
    handles = [
        Line2D([], [], color=look[name].colour, linestyle=look[name].dash, linewidth=3)
        for name in names
    ]
    figure.legend(handles, names, loc="outside upper left", ncols=6)


_Panel = Callable[[Axes, RunResult, Scenario, Look], None]


def _run(run: RunResult, scenario: Scenario, look: Look) -> Figure:
    panels: list[_Panel] = [_window_panel, _rtt_panel, _rate_panel, _queue_panel]
    if any(len(flow.backlog_packets.value) for flow in _drawn(run)):
        panels.insert(2, _backlog_panel)
    figure = Figure(figsize=(10, 2.7 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True)
    for axes, panel in zip(all_axes, panels, strict=True):
        panel(axes, run, scenario, look)
        if axes.get_autoscaley_on():
            axes.set_ylim(bottom=0)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1, 0.98), ncols=4)
    all_axes[0].set_xlim(0, run.run.duration_s)
    all_axes[-1].set_xlabel("time (s)")
    return figure


def _drawn(run: RunResult) -> list[FlowSeries]:
    return [flow.whole for flow in run.flows[:MOST_FLOWS]]


def _which(run: RunResult) -> str:
    """What to add to a title when not all flows of a run are drawn."""
    return f" (first {MOST_FLOWS} of {len(run.flows)} flows)" if len(run.flows) > MOST_FLOWS else ""


def _once(label: str) -> Iterator[str | None]:
    """The label for the first of several lines that share it."""
    yield label
    while True:
        yield None


def _title(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)


def _window_panel(axes: Axes, run: RunResult, _: Scenario, look: Look) -> None:
    _title(axes, f"Congestion window{_which(run)}", "packets")
    low = run.metrics.available_window_low_packets
    high = run.metrics.available_window_high_packets
    if low is not None and high is not None:
        axes.axhspan(low, high, color="#9BD7B8", label="available window")
    flows = _drawn(run)
    names = zip(_once("in flight"), _once("ssthresh"), _once("window"), strict=False)
    for flow, (in_flight, ssthresh, window) in zip(flows, names, strict=False):
        step(axes, flow.in_flight_packets, in_flight, color="#BBBBBB", linewidth=0.8)
        step(axes, flow.ssthresh_packets, ssthresh, color=GREY, linestyle="--", linewidth=1.1)
        step(axes, flow.window_packets, window, color=look.colour)
    # A threshold far above the window, or a band, must not flatten it.
    tops = [
        float(series.value.max())
        for flow in flows
        for series in (flow.window_packets, flow.in_flight_packets)
        if len(series.value)
    ]
    if tops and max(tops) > 0:
        axes.set_ylim(0, 1.08 * max(*tops, min(high or 0, 1.5 * max(tops))))


def _rtt_panel(axes: Axes, run: RunResult, _: Scenario, look: Look) -> None:
    _title(axes, f"Round-trip time{_which(run)}", "ms")
    names = zip(_once("RTT"), _once("BaseRTT"), strict=False)
    for flow, (rtt, base) in zip(_drawn(run), names, strict=False):
        step(axes, flow.rtt_ms, rtt, color=look.colour, linewidth=1.0)
        step(axes, flow.base_rtt_ms, base, color="#000000", linestyle="--", linewidth=1.1)
    axes.set_ylim(*_rtt_limits([run]))


def _backlog_panel(axes: Axes, run: RunResult, _: Scenario, look: Look) -> None:
    _title(axes, f"Backlog as the sender sees it{_which(run)}", "packets")
    for flow, label in zip(_drawn(run), _once("backlog"), strict=False):
        step(axes, flow.backlog_packets, label, color=look.colour)
    for name, sign, dash in (("alpha", "α", "--"), ("beta", "β", ":")):
        value = run.run.parameter(name)
        if value is not None:
            axes.axhline(
                value, color="#000000", linestyle=dash, linewidth=1.1, label=f"{sign} = {value:g}"
            )


def _rate_panel(axes: Axes, run: RunResult, scenario: Scenario, look: Look) -> None:
    _title(axes, f"Sending rate, means of {rate_bin_s(scenario):g} s", "Mbit/s")
    if run.flows:
        total = _total([flow.whole.sent_bps for flow in run.flows])
        step(axes, Series(total.time_s, total.value / 1e6), "sent", color=look.colour)
    payload_bps = scenario.rate_bps * scenario.datagram_bytes / run.run.packet_wire_bytes
    axes.axhline(
        payload_bps / 1e6,
        color="#000000",
        linestyle="--",
        linewidth=1.1,
        label="the bottleneck's rate, less IP and UDP headers",
    )


def _queue_panel(axes: Axes, run: RunResult, scenario: Scenario, look: Look) -> None:
    _title(axes, "Queue at the bottleneck", "packets")
    queue = _queue(run, run.run.duration_s)
    step(axes, queue, "queue", color=look.colour, linewidth=1.0)
    limit = scenario.buffer.get("packets")
    if limit is not None and len(queue.value) and queue.value.max() > limit / 4:
        axes.axhline(limit, color="#000000", linestyle="--", linewidth=1.1, label="buffer")
