"""Round-trip times and states of one trace."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]


def is_slow_start(state: str) -> bool:
    """Whether a congestion state is one of growth at the start: of any controller of quiche."""
    return state in {"slow_start", "stable_growth"} or state.endswith("startup")


def base_rtt_ms(trace: Trace) -> float | None:
    """The path's RTT without queues as the sender last knew it."""
    for column in ("vegas_base_rtt_ms", "min_rtt_ms"):
        value = trace.metrics[column].tail(1).drop_nulls()
        if len(value):
            return float(value.item())
    return None


def slow_start_times(states: pl.DataFrame, end_s: float) -> tuple[float | None, float | None]:
    """When slow start was first left, and the time spent in it, in seconds."""
    if states.is_empty():
        return None, None
    # A sender logs its first state with its first packet, but was in it from the start.
    times = [0.0, *(float(time) / 1000 for time in states["time_ms"][1:])]
    growing = [is_slow_start(state) for state in states["state"]]
    until = [*times[1:], max(end_s, times[-1])]
    spent = sum(
        stop - start for start, stop, grows in zip(times, until, growing, strict=True) if grows
    )
    exits = (
        time
        for time, before, grows in zip(times[1:], growing, growing[1:], strict=False)
        if before and not grows
    )
    return next(exits, None), spent


def rtt_samples_ms(trace: Trace) -> tuple[Floats, Floats]:
    """Times and values of the RTT samples, one per acknowledgement (ms).

    quiche logs a sample only if it differs from the one before; so that a steady RTT counts as
    often as it was measured, each arrival of an ACK is given the sample in force after it.
    """
    logged = trace.metrics.select("time_ms", "latest_rtt_ms").drop_nulls()
    arrivals = trace.acks.select("time_ms").unique(maintain_order=True)
    if len(arrivals):
        logged = arrivals.join_asof(logged, on="time_ms", check_sortedness=False).drop_nulls()
    return logged["time_ms"].to_numpy(), logged["latest_rtt_ms"].to_numpy()
