"""A trace reduced to series that are small enough to draw."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.metrics.delivery import binned
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.samples import rtt_samples_ms
from qlog_analysis.metrics.series import Series, changes, thinned
from qlog_analysis.reading.reader import Trace, read_trace

Floats = NDArray[np.float64]

COLUMNS = 500
"""The columns of a plot whose extremes are kept; few, because a page holds many plots."""

FINE_COLUMNS = 2000
"""Those of a plot into which one can zoom."""


@dataclass(frozen=True, slots=True)
class Course:
    """The series of a flow that are drawn, over the time of its run; empty if there is none."""

    window_packets: Series
    ssthresh_packets: Series
    in_flight_packets: Series
    rtt_ms: Series
    smoothed_rtt_ms: Series
    base_rtt_ms: Series
    backlog_packets: Series
    sent_bps: Series


@dataclass(frozen=True, slots=True)
class FlowCourse:
    """A flow over time.

    Attributes:
        whole: all of it.
        beginning: its start, in finer steps.
        fine: all of it, to zoom into.
        lost_s: the times at which packets were declared lost.
        states: the states of its controller, with the times from which they held.
        warnings: the problems that were met in its trace.
    """

    whole: Course
    beginning: Course
    fine: Course
    lost_s: Floats
    states: tuple[tuple[float, str], ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowTask:
    """A flow's trace to be reduced.

    Attributes:
        trace: the file.
        duration_s: the run's duration.
        datagram_bytes: the UDP payload of a full datagram.
        bin_s: the time over which the sending rate is averaged.
    """

    trace: Path
    duration_s: float
    datagram_bytes: int
    bin_s: float

    def run(self, on_bytes: Callable[[int], None]) -> FlowCourse:
        """Reads the trace and reduces it.

        Raises:
            NotQlogError: the file cannot be opened or is not a qlog trace.
        """
        return reduce(read_trace(self.trace, on_bytes), self)


def beginning_s(duration_s: float) -> float:
    """The length of a run's start: 15 s, or a fifth of the run if that is more, at most half."""
    return max(duration_s / 5, min(15.0, duration_s / 2))


def rate_bin_s(rtt_s: float) -> float:
    """The time over which a sending rate is averaged: ten RTTs, at most a second."""
    return min(1.0, max(0.01, 10 * rtt_s))


def reduce(trace: Trace, flow: FlowTask) -> FlowCourse:
    """The series of a trace."""
    skipped = trace.skipped
    tail = "; the file ends in the middle of one" if trace.truncated else ""
    return FlowCourse(
        whole=_course(trace, flow, flow.duration_s, flow.bin_s, COLUMNS),
        beginning=_course(trace, flow, beginning_s(flow.duration_s), flow.bin_s / 2, COLUMNS),
        fine=_course(trace, flow, flow.duration_s, flow.bin_s / 4, FINE_COLUMNS),
        lost_s=losses(trace)["lost_ms"].to_numpy() / 1000,
        states=_states(trace),
        warnings=(f"{skipped} of {trace.records} records could not be read and were skipped{tail}",)
        if skipped
        else (),
    )


def _states(trace: Trace) -> tuple[tuple[float, str], ...]:
    """The states of the controller; that the application has nothing to send is none of them."""
    states = trace.states.filter(pl.col("state") != "application_limited")
    changed = states.filter(pl.col("state") != pl.col("state").shift().fill_null(""))
    return tuple((time / 1000, state) for time, state in changed.iter_rows())


def _course(trace: Trace, flow: FlowTask, end_s: float, bin_s: float, columns: int) -> Course:
    metrics = trace.metrics
    seconds = metrics["time_ms"].to_numpy() / 1000

    def drawn(column: pl.Series, scale: float = 1.0) -> Series:
        values = column.cast(pl.Float64).fill_null(np.nan).to_numpy() * scale
        return thinned(changes(seconds, values).between(0.0, end_s), columns).until(end_s)

    packet = 1 / flow.datagram_bytes
    own = metrics["vegas_base_rtt_ms"]
    rtt_times, rtts = rtt_samples_ms(trace)
    rtt_ms = Series(rtt_times / 1000, rtts)
    return Course(
        window_packets=drawn(metrics["window_bytes"], packet),
        ssthresh_packets=drawn(metrics["ssthresh_bytes"], packet),
        in_flight_packets=drawn(metrics["in_flight_bytes"], packet),
        rtt_ms=thinned(rtt_ms.between(0.0, end_s), columns),
        smoothed_rtt_ms=drawn(metrics["smoothed_rtt_ms"]),
        base_rtt_ms=drawn(metrics["min_rtt_ms"] if own.is_null().all() else own),
        backlog_packets=drawn(metrics["vegas_backlog_packets"]),
        sent_bps=_rate(trace, end_s, bin_s),
    )


def _rate(trace: Trace, end_s: float, bin_s: float) -> Series:
    """The sending rate in bins over the time of the run, without a last bin that is not whole."""
    times = trace.sent["time_ms"].to_numpy() / 1000
    sizes = trace.sent["length_bytes"].to_numpy().astype(np.float64)
    sums = binned(times, sizes, bin_s, end_s)[: max(1, int(end_s / bin_s + 1e-9))]
    rate = Series(np.arange(len(sums), dtype=np.float64) * bin_s, sums * 8 / bin_s)
    return rate.until(len(sums) * bin_s)
