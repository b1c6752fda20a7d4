"""A trace at a glance: window, RTT, backlog, rates and losses over time."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from qlog_analysis.drawing.style import COLOURS, FAINT, INK, SOFT, step
from qlog_analysis.metrics.delivery import binned, delivered
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.samples import rtt_samples_ms
from qlog_analysis.metrics.series import Series, changes, thinned
from qlog_analysis.metrics.timeline import timeline
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

# Bins of the rates over the time that is drawn.
_BINS = 200


def overview(trace: Trace, start_s: float, end_s: float, title: str) -> Figure:
    """The graphs of a trace from `start_s` to `end_s`, under each other."""
    panels = [_windows, _rtt, _rates, _losses]
    if not trace.metrics["vegas_backlog_packets"].is_null().all():
        panels.insert(2, _backlog)
    figure = Figure(figsize=(10, 0.6 + 2.4 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True)
    for axes, panel in zip(all_axes, panels, strict=True):
        panel(axes, trace, start_s, end_s)
        handles, labels = axes.get_legend_handles_labels()
        if len(handles) > 1:
            axes.legend(handles, labels, loc="lower right", ncols=3)
    all_axes[0].set_xlim(start_s, end_s)
    all_axes[-1].set_xlabel("time (s)")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _metric(trace: Trace, name: str, scale: float, start_s: float, end_s: float) -> Series:
    values = trace.metrics[name].cast(pl.Float64).fill_null(np.nan).to_numpy() * scale
    whole = changes(trace.metrics["time_ms"].to_numpy() / 1000, values)
    return thinned(whole.between(start_s, end_s)).until(end_s)


def _windows(axes: Axes, trace: Trace, start_s: float, end_s: float) -> None:
    axes.set_title("Congestion window")
    axes.set_ylabel("KB")
    in_flight = _metric(trace, "in_flight_bytes", 1e-3, start_s, end_s)
    window = _metric(trace, "window_bytes", 1e-3, start_s, end_s)
    threshold = _metric(trace, "ssthresh_bytes", 1e-3, start_s, end_s)
    step(axes, in_flight, "in flight", color=FAINT, linewidth=0.8)
    step(axes, threshold, "ssthresh", color=SOFT, linestyle="--", linewidth=1.1)
    step(axes, window, "window", color=COLOURS[0])
    # A threshold far above the window must not flatten it.
    tops = [float(np.nanmax(one.value)) for one in (window, in_flight) if len(one.value)]
    axes.set_ylim(0, 1.08 * max(tops, default=0) or 1)


def _rtt(axes: Axes, trace: Trace, start_s: float, end_s: float) -> None:
    axes.set_title("Round-trip time")
    axes.set_ylabel("ms")
    times, rtts = rtt_samples_ms(trace)
    step(axes, thinned(Series(times / 1000, rtts).between(start_s, end_s)), "RTT", color=COLOURS[0])
    own = not trace.metrics["vegas_base_rtt_ms"].is_null().all()
    name = "vegas_base_rtt_ms" if own else "min_rtt_ms"
    base = _metric(trace, name, 1.0, start_s, end_s)
    step(axes, base, "BaseRTT" if own else "least RTT", color=INK, linestyle="--", lw=1.1)


def _backlog(axes: Axes, trace: Trace, start_s: float, end_s: float) -> None:
    axes.set_title("Backlog as the sender sees it")
    axes.set_ylabel("packets")
    backlog = _metric(trace, "vegas_backlog_packets", 1.0, start_s, end_s)
    step(axes, backlog, "backlog", color=COLOURS[0])
    axes.set_ylim(bottom=0)


def _rates(axes: Axes, trace: Trace, start_s: float, end_s: float) -> None:
    width = (end_s - start_s) / _BINS
    axes.set_title(f"Rates, means of {width:.2g} s")
    axes.set_ylabel("Mbit/s")
    sent = trace.sent
    acked_ms, acked_bytes = delivered(trace)
    sizes = sent["length_bytes"].to_numpy().astype(np.float64)
    for label, times, values, colour in (
        ("sent", sent["time_ms"].to_numpy() / 1000, sizes, COLOURS[1]),
        ("acknowledged", acked_ms / 1000, acked_bytes, COLOURS[0]),
    ):
        sums = binned(times - start_s, values, width, end_s - start_s)
        start = start_s + np.arange(len(sums), dtype=np.float64) * width
        step(axes, Series(start, sums * 8e-6 / width), label, color=colour, linewidth=1.1)
    axes.set_ylim(bottom=0)


def _losses(axes: Axes, trace: Trace, start_s: float, end_s: float) -> None:
    axes.set_title("Packets declared lost, in all; circles: timeouts (PTO)")
    axes.set_ylabel("packets")
    times = losses(trace)["lost_ms"].to_numpy() / 1000
    count = Series(np.append(0.0, times), np.arange(len(times) + 1, dtype=np.float64))
    step(axes, thinned(count.between(start_s, end_s)).until(end_s), color=COLOURS[0])
    timeouts = timeline(trace).timeouts_s
    if len(timeouts):
        axes.plot(
            timeouts,
            np.zeros(len(timeouts)),
            linestyle="none",
            marker="o",
            markerfacecolor="none",
            color=INK,
            clip_on=False,
        )
    axes.set_ylim(0, max(1.0, 1.05 * len(times)))
