"""What one trace comes to, whoever wrote it: throughput, round-trip times, losses."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from qlog_analysis.metrics.definitions import Metric
from qlog_analysis.metrics.delivery import delivered, is_application
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.samples import rtt_samples_ms, slow_start_times
from qlog_analysis.reading.reader import Trace


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a connection as one end saw it; None where the trace does not tell."""

    trace: str
    connection: str
    program: str
    vantage: str
    duration_s: float | None
    throughput_bps: float | None
    throughput_from: str | None
    delivered_bytes: int | None
    packets_sent: int
    bytes_sent: int | None
    packets_received: int
    bytes_received: int | None
    packets_lost: int
    losses_from: str
    loss_rate: float | None
    rtt_min_ms: float | None
    rtt_mean_ms: float | None
    rtt_p95_ms: float | None
    window_mean_bytes: float | None
    window_max_bytes: float | None
    slow_start_exit_s: float | None
    records: int
    skipped_records: int
    unordered_records: int
    truncated: bool


METRICS = (
    Metric(
        "duration_s", "Duration", "s", 2,
        "From the first to the last packet or change of a metric in the trace.",
    ),
    Metric(
        "throughput_bps", "Throughput", "Mbit/s", 2,
        "Bytes of application data packets (UDP payload) that got through, over the time from the "
        "first that was sent to the last that arrived. Where the end sent more than it received: "
        "what was acknowledged, or sent and not lost if the trace has no acknowledgements; else "
        "what was received (throughput_from says which).",
        scale=1e-6, better="high",
    ),
    Metric(
        "delivered_bytes", "Delivered", "kB", 1, "The bytes that the throughput is from.",
        scale=1e-3,
    ),
    Metric("packets_sent", "Packets sent", "", 0, "Packets of all kinds that were sent."),
    Metric(
        "bytes_sent", "Sent", "kB", 1, "Bytes of these packets, as the trace has their lengths.",
        scale=1e-3,
    ),
    Metric("packets_received", "Packets received", "", 0, "Packets of all kinds that arrived."),
    Metric(
        "bytes_received", "Received", "kB", 1,
        "Bytes of these packets, as the trace has their lengths.", scale=1e-3,
    ),
    Metric(
        "packets_lost", "Packets lost", "", 0,
        "Packets declared lost: all that the trace logs, or the application data packets that "
        "RFC 9002 §6.1 declares lost by the acknowledgements, if the program logs no losses "
        "(losses_from says which).",
        better="low",
    ),
    Metric(
        "loss_rate", "Loss rate", "%", 3, "Packets lost over packets sent.",
        scale=100, better="low",
    ),
    Metric(
        "rtt_min_ms", "RTT, least", "ms", 2,
        "The least RTT as the end last knew it (min_rtt, or BaseRTT of our controllers).",
    ),
    Metric(
        "rtt_mean_ms", "RTT, mean", "ms", 2,
        "Mean of the RTT samples, one per acknowledgement that arrived.", better="low",
    ),
    Metric(
        "rtt_p95_ms", "RTT, 95th percentile", "ms", 2, "95th percentile of the same.",
        better="low",
    ),
    Metric(
        "window_mean_bytes", "Congestion window, mean", "kB", 1, "Mean over time.", scale=1e-3,
    ),
    Metric(
        "window_max_bytes", "Congestion window, largest", "kB", 1, "The largest.", scale=1e-3,
    ),
    Metric(
        "slow_start_exit_s", "Slow start left after", "s", 2,
        "First change of the congestion state from slow_start, stable_growth or startup.",
    ),
)  # fmt: skip


def summarise(trace: Trace) -> Summary:
    """The numbers of a trace that was read with all packets received."""
    sent, received = trace.sent, trace.received
    sends = _sends(trace)
    source, first_s, last_s, size = _delivery_of(trace) if sends else _arrival_of(trace)
    span_s = None if first_s is None or last_s is None else last_s - first_s
    lost = len(trace.losses) if _logs_losses(trace) else len(losses(trace))
    _, rtts = rtt_samples_ms(trace)
    window_mean, window_max = _window(trace)
    # Some log that the application had nothing to send as a state between others.
    states = trace.states.filter(pl.col("state") != "application_limited")
    exit_s, _ = slow_start_times(states, 0.0)
    return Summary(
        trace=trace.path.name,
        connection=trace.connection,
        program=trace.dialect.name,
        vantage=trace.vantage,
        duration_s=_duration_s(trace),
        throughput_bps=None if not span_s or size is None else size * 8 / span_s,
        throughput_from=source,
        delivered_bytes=size,
        packets_sent=len(sent),
        bytes_sent=_bytes(sent),
        packets_received=len(received),
        bytes_received=_bytes(received),
        packets_lost=lost,
        losses_from="logged" if _logs_losses(trace) else "derived",
        loss_rate=lost / len(sent) if len(sent) else None,
        rtt_min_ms=_least_rtt_ms(trace),
        rtt_mean_ms=float(rtts.mean()) if len(rtts) else None,
        rtt_p95_ms=float(np.percentile(rtts, 95)) if len(rtts) else None,
        window_mean_bytes=window_mean,
        window_max_bytes=window_max,
        slow_start_exit_s=exit_s,
        records=trace.records,
        skipped_records=trace.skipped,
        unordered_records=trace.unordered,
        truncated=trace.truncated,
    )


def warnings(trace: Trace) -> list[str]:
    """What went wrong when a trace was read, for people."""
    out = []
    if trace.skipped:
        out.append(f"{trace.skipped} of {trace.records} records could not be read; skipped")
    if trace.unordered:
        out.append(f"{trace.unordered} events were out of order; sorted")
    if trace.truncated:
        out.append("the file is cut off or damaged; what comes before that was read")
    if not trace.header:
        out.append("the header is missing or damaged; the form of the events was guessed")
    return out


def _logs_losses(trace: Trace) -> bool:
    return trace.dialect.logs_losses or len(trace.losses) > 0


def _bytes(packets: pl.DataFrame) -> int | None:
    """The lengths of packets, None if the program does not log them."""
    lengths = packets["length_bytes"]
    return None if len(packets) and lengths.is_null().all() else int(lengths.sum())


def _sends(trace: Trace) -> bool:
    """Whether this end sent more than it received, by bytes, or by packets without lengths."""
    sent, received = _bytes(trace.sent), _bytes(trace.received)
    if sent is None or received is None:
        return len(trace.sent) >= len(trace.received)
    return sent >= received


_Delivery = tuple[str | None, float | None, float | None, int | None]


def _delivery_of(trace: Trace) -> _Delivery:
    """Where what a sender got through is read from, from when to when, and how much it is."""
    sent = trace.sent.filter(is_application())
    if sent.is_empty():
        return None, None, None, None
    first_s = float(sent["time_ms"][0]) / 1000
    times, sizes = delivered(trace)
    if len(times):
        return "acknowledged", first_s, float(times[-1]) / 1000, int(sizes.sum())
    lost = trace.losses.filter(is_application())["packet_number"].unique()
    through = sent.filter(~pl.col("packet_number").is_in(lost.implode()))
    if through.is_empty():
        return None, None, None, None
    return "sent", first_s, float(through["time_ms"][-1]) / 1000, _bytes(through)


def _arrival_of(trace: Trace) -> _Delivery:
    received = trace.received.filter(is_application()).drop_nulls("length_bytes")
    if received.is_empty():
        return None, None, None, None
    first, last = received["time_ms"][0], received["time_ms"][-1]
    return "received", float(first) / 1000, float(last) / 1000, _bytes(received)


def _duration_s(trace: Trace) -> float | None:
    tables = (trace.sent, trace.received, trace.metrics, trace.states, trace.losses)
    times = [table["time_ms"] for table in tables if len(table)]
    if not times:
        return None
    return float(max(time[-1] for time in times) - min(time[0] for time in times)) / 1000


def _least_rtt_ms(trace: Trace) -> float | None:
    for column in ("vegas_base_rtt_ms", "min_rtt_ms"):
        known = trace.metrics[column].drop_nulls()
        if len(known):
            return float(known[-1])
    return None


def _window(trace: Trace) -> tuple[float | None, float | None]:
    """The congestion window's mean over time, and its largest value."""
    known = trace.metrics.select("time_ms", "window_bytes").drop_nulls()
    if known.is_empty():
        return None, None
    window = known["window_bytes"].to_numpy()
    held = np.diff(known["time_ms"].to_numpy(), append=known["time_ms"][-1])
    mean = float(np.average(window, weights=held)) if held.sum() > 0 else float(window[-1])
    return mean, float(window.max())
