"""When each packet was first acknowledged, and from it how fast data got through."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

# Acknowledgements of these arrive in packets of 1-RTT; those of the handshake are counted apart.
_APPLICATION = ("1RTT", "0RTT")


def is_application() -> pl.Expr:
    """Whether a packet carries application data, by its type."""
    return pl.col("packet_type").is_in(_APPLICATION)


def delivered(trace: Trace) -> tuple[Floats, Floats]:
    """When application data packets were first acknowledged, in order: times (ms) and bytes."""
    sent = trace.sent.filter(is_application()).sort("packet_number")
    when = acknowledged_ms(trace, sent)
    size = sent["length_bytes"].to_numpy().astype(np.float64)
    order = np.argsort(when, kind="stable")
    order = order[: np.count_nonzero(~np.isnan(when))]
    return when[order], size[order]


def acknowledged_ms(trace: Trace, sent: pl.DataFrame) -> Floats:
    """When each of some application data packets, by number, was acknowledged; NaN if never."""
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


def first_full_second(
    times_ms: Floats, sizes_bytes: Floats, want_bytes: float, end_s: float
) -> float | None:
    """The end of the first second in which `want_bytes` came through, in steps of 0.1 s."""
    per_step = binned(times_ms, sizes_bytes, 100.0, end_s * 1000)[: int(end_s * 10 + 1e-9)]
    if len(per_step) < 10:
        return None
    windows = np.convolve(per_step, np.ones(10), mode="valid")
    enough = np.flatnonzero(windows >= want_bytes)
    return float((enough[0] + 10) / 10) if len(enough) else None
