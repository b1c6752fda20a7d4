"""Round-trip times and states of one trace."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]


def is_slow_start(state: str) -> bool:
    """True if a congestion state is one of growth at the start, of any controller of quiche."""
    return state in {"slow_start", "stable_growth"} or state.endswith("startup")


def least_rtt_ms(trace: Trace) -> float | None:
    """The least RTT that this end has measured.

    NOTE: `min_rtt` is that of a window of time in some stacks and controllers, so that its last
    value means something else in each.
    """
    least = trace.metrics.select("min_rtt_ms", "latest_rtt_ms").min().row(0)
    known = [value for value in least if value is not None]
    return float(min(known)) if known else None


def slow_start_exit_s(states: pl.DataFrame) -> float | None:
    """The time at which slow start was first left, None if it was not."""
    growing = [is_slow_start(state) for state in states["state"]]
    for time, before, grows in zip(states["time_ms"][1:], growing, growing[1:], strict=False):
        if before and not grows:
            return float(time) / 1000
    return None


def rtt_samples_ms(trace: Trace) -> tuple[Floats, Floats]:
    """Times and values of the RTT samples, one per acknowledgement (ms).

    quiche logs a sample only if it differs from the one before. Each arrival of an ACK is given
    the sample in force after it, so that a steady RTT counts as often as it was measured.
    """
    logged = trace.metrics.select("time_ms", "latest_rtt_ms").drop_nulls()
    arrivals = trace.acks.select("time_ms").unique(maintain_order=True)
    if len(arrivals):
        logged = arrivals.join_asof(logged, on="time_ms", check_sortedness=False).drop_nulls()
    return logged["time_ms"].to_numpy(), logged["latest_rtt_ms"].to_numpy()
