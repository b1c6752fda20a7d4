"""The times at which packets were first acknowledged, and the data that got through."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

# Acknowledgements of these arrive in packets of 1-RTT; those of the handshake are counted apart.
_APPLICATION = ("1RTT", "0RTT")


def is_application() -> pl.Expr:
    """True for packets that carry application data, by their type."""
    return pl.col("packet_type").is_in(_APPLICATION)


def delivered(trace: Trace) -> tuple[Floats, Floats]:
    """The first acknowledgements of application data packets, in order: times (ms) and bytes."""
    sent = trace.sent.filter(is_application()).sort("packet_number")
    when = acknowledged_ms(trace, sent)
    size = sent["length_bytes"].to_numpy().astype(np.float64)
    order = np.argsort(when, kind="stable")
    order = order[: np.count_nonzero(~np.isnan(when))]
    return when[order], size[order]


def acknowledged_ms(trace: Trace, sent: pl.DataFrame) -> Floats:
    """The times at which application data packets were acknowledged; NaN if never."""
    acks = trace.acks.filter(is_application())
    return _first_covered(
        sent["packet_number"].to_numpy(),
        acks["time_ms"].to_numpy(),
        acks["first"].to_numpy(),
        acks["last"].to_numpy(),
    )


def _first_covered(
    numbers: NDArray[np.int64], times: Floats, first: NDArray[np.int64], last: NDArray[np.int64]
) -> Floats:
    """For each packet number (sorted) the time of the first range that covers it, else NaN."""
    out = np.full(len(numbers), np.nan)
    if not len(times) or not len(numbers):
        return out
    # Most packets are covered by the first range that reaches as far as they do.
    reach = np.maximum.accumulate(last)
    index = np.searchsorted(reach, numbers, side="left")
    reached = index < len(reach)
    index = np.minimum(index, len(reach) - 1)
    direct = reached & (first[index] <= numbers)
    out[direct] = times[index[direct]]
    # The others were in a gap then: take the ranges that cover any, each set of them once.
    late = np.flatnonzero(reached & ~direct)
    start = np.searchsorted(numbers[late], first, side="left")
    stop = np.searchsorted(numbers[late], last, side="right")
    covering = np.flatnonzero(stop > start)
    keys = start[covering] * (len(late) + 1) + stop[covering]
    for i in np.sort(covering[np.unique(keys, return_index=True)[1]]):
        some = late[start[i] : stop[i]]
        out[some[np.isnan(out[some])]] = times[i]
    return out


def binned(times: Floats, values: Floats, step: float, end: float) -> Floats:
    """Sums of values in bins of `step` from 0 to `end`; the last bin may reach beyond `end`."""
    bins = max(1, int(np.ceil(end / step - 1e-9)))
    index = np.floor(times / step).astype(np.int64)
    inside = (index >= 0) & (index < bins)
    sums = np.bincount(index[inside], weights=values[inside], minlength=bins)
    return sums.astype(np.float64)
