"""The moments of a connection that a trace graph marks (Brakmo et al. 1994 §2.2), and its rate."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.metrics.delivery import is_application
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

RATE_SEGMENTS = 12
"""The number of segments in the sending rate (Brakmo et al. 1994 §2.2)."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Moments in seconds since the trace began; empty if the trace does not tell.

    Attributes:
        sent_s: application data packets sent.
        acks_s: packets with acknowledgements that arrived.
        lost_s: packets sent that were later declared lost.
        timers_s: the loss detection timer fired: for a probe timeout, or for a loss without an
            arriving packet. TCP's coarse-grained timer, which woke up at fixed times, has no
            other counterpart in QUIC.
        timeouts_s: probe timeouts (RFC 9002 §6.2).
        held_s: packets that waited although the window had room: spike suppression, or pacing.
        decisions_s: the ends of rounds, when Vegas decides on its window.
        sent_bytes: all bytes of application data packets sent up to each of `sent_s`.
    """

    sent_s: Floats
    acks_s: Floats
    lost_s: Floats
    timers_s: Floats
    timeouts_s: Floats
    held_s: Floats
    decisions_s: Floats
    sent_bytes: Floats

    def rate(self) -> Series:
        """The sending rate in bytes per second, from the last 12 segments."""
        times, total = self.sent_s, self.sent_bytes
        if len(times) <= RATE_SEGMENTS:
            return Series(np.empty(0), np.empty(0))
        span = times[RATE_SEGMENTS:] - times[:-RATE_SEGMENTS]
        size = total[RATE_SEGMENTS:] - total[:-RATE_SEGMENTS]
        later = span > 0
        return Series(times[RATE_SEGMENTS:][later], size[later] / span[later])


def timeline(trace: Trace) -> Timeline:
    """Finds the moments that trace graphs mark."""
    sent = trace.sent.filter(is_application())
    sent_s = _seconds(sent)
    acks_s = np.unique(_seconds(trace.acks))
    lost = losses(trace)
    timeouts_s = _timeouts(trace)
    return Timeline(
        sent_s=sent_s,
        acks_s=acks_s,
        lost_s=lost["sent_ms"].drop_nulls().to_numpy() / 1000,
        timers_s=np.union1d(
            timeouts_s, np.setdiff1d(np.unique(lost["lost_ms"].to_numpy() / 1000), acks_s)
        ),
        timeouts_s=timeouts_s,
        held_s=_held(trace, sent),
        decisions_s=_decisions(trace),
        sent_bytes=sent["length_bytes"].to_numpy().astype(np.float64).cumsum(),
    )


def _seconds(table: pl.DataFrame) -> Floats:
    return table["time_ms"].to_numpy() / 1000


def _timeouts(trace: Trace) -> Floats:
    count = pl.col("pto_count")
    return _seconds(trace.metrics.filter(count > count.shift(1).fill_null(0)))


def _decisions(trace: Trace) -> Floats:
    rounds = [
        pl.col(name).ne_missing(pl.col(name).shift(1))
        for name in ("vegas_round_rtt_ms", "vegas_actual_bps", "vegas_expected_bps")
    ]
    return _seconds(trace.metrics.filter(pl.any_horizontal(rounds)))


def _held(trace: Trace, sent: pl.DataFrame) -> Floats:
    """Packets for which the window had room before they were sent, though there was data to send.

    A trace tells this only of a sender that paces, by the metrics in force before the packet.
    """
    before = trace.metrics.select(
        pl.col("time_ms").alias("metrics_ms"),
        "window_bytes",
        "in_flight_bytes",
        "pacing_bps",
        "app_limited",
    )
    if sent.is_empty() or before.is_empty():
        return np.empty(0)
    known = sent.select("time_ms", "length_bytes").join_asof(
        before,
        left_on="time_ms",
        right_on="metrics_ms",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    room = pl.col("window_bytes") - pl.col("in_flight_bytes") >= pl.col("length_bytes")
    paced = pl.col("pacing_bps") > 0
    return _seconds(known.filter(room & paced & ~pl.col("app_limited").fill_null(value=False)))
