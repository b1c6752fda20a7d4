"""The numbers of one trace, whichever program wrote it: throughput, round-trip times, losses.

A number that the simulator measures too has the name, unit and meaning that `metrics.json` gives
it for a flow. The others are described here.
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.metrics.definitions import Metric, metric_of
from qlog_analysis.metrics.delivery import delivered, is_application
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.samples import least_rtt_ms, slow_start_exit_s
from qlog_analysis.names import showable
from qlog_analysis.reading.dialects import CONVERTED
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a connection as one end saw it; None if the trace does not tell."""

    trace: str
    connection: str
    program: str
    controller: str | None
    vantage: str
    started: str | None
    duration_s: float | None
    delivered_bps: float | None
    delivered_from: str | None
    delivered_bytes: int | None
    sent_packets: int | None
    sent_bytes: int | None
    arrived_packets: int | None
    arrived_bytes: int | None
    lost_packets: int | None
    losses_from: str | None
    loss_ratio: float | None
    rtt_min_s: float | None
    rtt_mean_s: float | None
    rtt_p95_s: float | None
    cwnd_mean_bytes: float | None
    cwnd_max_bytes: float | None
    slow_start_exit_s: float | None
    records: int
    skipped_records: int
    unordered_records: int
    truncated: bool


SHARED = (
    "sent_packets",
    "lost_packets",
    "loss_ratio",
    "rtt_min_s",
    "rtt_mean_s",
    "rtt_p95_s",
    "slow_start_exit_s",
)
"""The metrics of a flow in `metrics.json` that a trace has too."""


def _own(
    name: str, label: str, unit: str, shown_unit: str, scale: float, digits: int, meaning: str
) -> Metric:
    better: Literal["high"] | None = "high" if name == "delivered_bps" else None
    return Metric("flow", name, unit, label, shown_unit, scale, digits, better, meaning)


_OWN = (
    _own(
        "duration_s", "Duration", "s", "s", 1.0, 2,
        "From the first to the last packet or change of a metric in the trace.",
    ),
    _own(
        "delivered_bps", "Throughput in UDP payload", "bit/s", "Mbit/s", 1e-6, 2,
        "Bytes of application data packets (UDP payload) that got through, over the time from the "
        "first that was sent to the last that arrived. If the end sent more than it received, "
        "these are the packets that were acknowledged, or those that were sent and not lost if "
        "the trace has no acknowledgements; else they are the packets that it received "
        "(delivered_from says which).",
    ),
    _own(
        "delivered_bytes", "Delivered UDP payload", "bytes", "kB", 1e-3, 1,
        "The bytes of which delivered_bps is the rate.",
    ),
    _own(
        "sent_bytes", "Sent UDP payload", "bytes", "kB", 1e-3, 1,
        "The bytes of the packets that were sent, if the trace has their lengths.",
    ),
    _own(
        "arrived_packets", "Packets arrived", "packets", "packets", 1.0, 0,
        "Packets of all kinds that arrived at this end.",
    ),
    _own(
        "arrived_bytes", "Arrived UDP payload", "bytes", "kB", 1e-3, 1,
        "The bytes of these packets, if the trace has their lengths.",
    ),
    _own(
        "cwnd_mean_bytes", "Congestion window, mean", "bytes", "kB", 1e-3, 1,
        "Mean over time of the congestion window.",
    ),
    _own(
        "cwnd_max_bytes", "Congestion window, largest", "bytes", "kB", 1e-3, 1,
        "The largest congestion window.",
    ),
)  # fmt: skip

_ORDER = (
    "duration_s", "delivered_bps", "delivered_bytes", "sent_packets", "sent_bytes",
    "arrived_packets", "arrived_bytes", "lost_packets", "loss_ratio", "rtt_min_s", "rtt_mean_s",
    "rtt_p95_s", "cwnd_mean_bytes", "cwnd_max_bytes", "slow_start_exit_s",
)  # fmt: skip


def metrics() -> list[Metric]:
    """The metrics of a summary, in the order of tables."""
    known = {metric.name: metric for metric in _OWN}
    known |= {name: metric_of("flow", name) for name in SHARED}
    return [known[name] for name in _ORDER]


def summarise(trace: Trace) -> Summary:
    """The numbers of a trace that was read with all packets received."""
    sent, received = trace.sent, trace.received
    source, first_s, last_s, size = _delivery_of(trace) if _sends(trace) else _arrival_of(trace)
    span_s = None if first_s is None or last_s is None else last_s - first_s
    # A sparse trace has no packets, which does not say that there were none.
    has_packets = len(sent) > 0 or len(received) > 0
    counted = trace.metrics["lost_packets"].drop_nulls()
    lost, losses_from = None, None
    if _logs_losses(trace):
        lost, losses_from = len(trace.losses), "logged"
    elif has_packets:
        lost, losses_from = len(losses(trace)), "derived"
    elif len(counted):
        lost, losses_from = int(counted[-1]), "logged"
    rtt_min_ms = least_rtt_ms(trace)
    rtt = _held(trace, "smoothed_rtt_ms")
    window = _held(trace, "window_bytes")
    # Some programs log that the application had nothing to send as a state between others.
    states = trace.states.filter(pl.col("state") != "application_limited")
    return Summary(
        trace=showable(trace.path.name),
        connection=trace.connection,
        program=trace.program,
        controller=controller_of(trace),
        vantage=trace.vantage,
        started=_started(trace),
        duration_s=_duration_s(trace),
        delivered_bps=None if not span_s or size is None else size * 8 / span_s,
        delivered_from=source,
        delivered_bytes=size,
        sent_packets=len(sent) if has_packets else None,
        sent_bytes=_bytes(sent) if has_packets else None,
        arrived_packets=len(received) if has_packets else None,
        arrived_bytes=_bytes(received) if has_packets else None,
        lost_packets=lost,
        losses_from=losses_from,
        loss_ratio=None if lost is None or sent.is_empty() else lost / len(sent),
        rtt_min_s=None if rtt_min_ms is None else rtt_min_ms / 1000,
        rtt_mean_s=None if rtt is None else rtt.mean() / 1000,
        rtt_p95_s=None if rtt is None else rtt.percentile(95) / 1000,
        cwnd_mean_bytes=None if window is None else window.mean(),
        cwnd_max_bytes=None if window is None else float(window.values.max()),
        slow_start_exit_s=slow_start_exit_s(states),
        records=trace.records,
        skipped_records=trace.skipped,
        unordered_records=trace.unordered,
        truncated=trace.truncated,
    )


_CONTROLLER = re.compile(r"\bcongestion control (\S+)")
_SIMULATED = re.compile(r"(\S+), flow \d+, (?:client|server)")


def controller_of(trace: Trace) -> str | None:
    """The congestion controller with its options, as gallop's programs write it into the header."""
    title, description = (
        text if isinstance(text, str) else "" for text in map(trace.header.get, _TEXTS)
    )
    found = _CONTROLLER.search(description)
    if found is None and description == "gallop-sim":
        found = _SIMULATED.fullmatch(title)
    return showable(found[1]) if found else None


_TEXTS = ("title", "description")


def _started(trace: Trace) -> str | None:
    """The time from which a trace counts, as RFC 3339 has it, if the trace tells it."""
    inner = trace.header.get("trace")
    common = inner.get("common_fields") if isinstance(inner, dict) else None
    converter = trace.header.get(CONVERTED)
    for fields in (common, converter):
        reference = fields.get("reference_time") if isinstance(fields, dict) else None
        clock = reference.get("wall_clock_time") if isinstance(reference, dict) else None
        if isinstance(clock, str) and _TIME.match(clock):
            return showable(clock)
    return None


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def warnings(trace: Trace) -> list[str]:
    """The problems that were met in a trace, for people."""
    out = []
    if trace.skipped:
        out.append(
            f"{trace.skipped} of {trace.records} records could not be read, or have impossible "
            "values such as a negative window; skipped"
        )
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
    """True if this end sent more than it received: in bytes, or in packets without lengths."""
    sent, received = _bytes(trace.sent), _bytes(trace.received)
    if sent is None or received is None:
        return len(trace.sent) >= len(trace.received)
    return sent >= received


_Delivery = tuple[str | None, float | None, float | None, int | None]


def _delivery_of(trace: Trace) -> _Delivery:
    """The source of a sender's delivery, its first and last time in seconds, and its bytes."""
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


@dataclass(frozen=True, slots=True)
class _Held:
    """Values that hold until the next one, with the times for which they hold."""

    values: Floats
    held: Floats

    def mean(self) -> float:
        """The mean over time."""
        return float(np.average(self.values, weights=self.held))

    def percentile(self, percent: float) -> float:
        """The least value that the quantity does not exceed for this part of the time."""
        order = np.argsort(self.values, kind="stable")
        part = np.cumsum(self.held[order]) / self.held.sum()
        place = int(np.searchsorted(part, percent / 100 - 1e-12))
        return float(self.values[order][place])


def _held(trace: Trace, column: str) -> _Held | None:
    """A metric over time, from its first value to the last change of any metric."""
    known = trace.metrics.select("time_ms", column).drop_nulls()
    if known.is_empty():
        return None
    values = known[column].to_numpy()
    held = np.diff(known["time_ms"].to_numpy(), append=trace.metrics["time_ms"][-1])
    return _Held(values, held) if held.sum() > 0 else _Held(values[-1:], np.ones(1))
