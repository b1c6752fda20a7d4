"""The packets that a sender took for lost: as logged, or derived from its acknowledgements."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.metrics.delivery import acknowledged_ms, is_application
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

_PACKET_THRESHOLD = 3
_TIME_THRESHOLD = 9 / 8


def losses(trace: Trace) -> pl.DataFrame:
    """Lost application data packets: `sent_ms`, `lost_ms` (when declared), `packet_number`.

    If the trace logs no losses, they are derived from its acknowledgements by RFC 9002 §6.1: a
    packet is lost when a later one is acknowledged and it was sent 3 packets before that one, or
    9/8 of an RTT ago.
    """
    sent = (
        trace.sent.filter(is_application())
        .select("packet_number", pl.col("time_ms").alias("sent_ms"))
        .sort("packet_number")
    )
    if len(trace.losses):
        logged = trace.losses.filter(is_application()).rename({"time_ms": "lost_ms"})
        return (
            logged.join(sent, on="packet_number", how="left")
            .select("sent_ms", "lost_ms", "packet_number")
            .sort("lost_ms")
        )
    return _derived(trace, sent)


def _derived(trace: Trace, sent: pl.DataFrame) -> pl.DataFrame:
    numbers = sent["packet_number"].to_numpy()
    sent_ms = sent["sent_ms"].to_numpy()
    acks = trace.acks.filter(is_application())
    reach = np.maximum.accumulate(acks["last"].to_numpy())
    times = acks["time_ms"].to_numpy()
    by_number = _when_reached(reach, times, numbers + _PACKET_THRESHOLD)
    passed = _when_reached(reach, times, numbers + 1)
    by_time = np.maximum(passed, sent_ms + _TIME_THRESHOLD * _rtt_at(trace, passed))
    declared = np.fmin(by_number, by_time)
    acknowledged = acknowledged_ms(trace, sent)
    # Nothing is known of the time after the trace ends.
    end = times[-1] if len(times) else 0.0
    lost = (declared <= end) & ~(acknowledged <= declared)
    return pl.DataFrame(
        {"sent_ms": sent_ms[lost], "lost_ms": declared[lost], "packet_number": numbers[lost]}
    ).sort("lost_ms")


def _when_reached(reach: NDArray[np.int64], times: Floats, numbers: NDArray[np.int64]) -> Floats:
    """The times at which a packet of at least each number was acknowledged; NaN if never."""
    index = np.searchsorted(reach, numbers, side="left")
    return np.append(times, np.nan)[index]


def _rtt_at(trace: Trace, times: Floats) -> Floats:
    """The larger of the smoothed and the latest RTT at some times; NaN before the first."""
    known = trace.metrics.select(
        "time_ms", pl.max_horizontal("smoothed_rtt_ms", "latest_rtt_ms").alias("rtt_ms")
    ).drop_nulls()
    index = np.searchsorted(known["time_ms"].to_numpy(), times, side="right")
    return np.concatenate(([np.nan], known["rtt_ms"].to_numpy()))[index]
