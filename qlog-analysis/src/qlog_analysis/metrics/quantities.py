"""What the metrics of sweeps are called, how they are shown, and which direction is good."""

import math
import re
from typing import Literal

from qlog_analysis.metrics.definitions import NOTHING, Metric
from qlog_analysis.metrics.statistics import Interval

_PAPER_RATE = "packets/s"


def _metric(
    key: str,
    label: str,
    unit: str = "",
    meaning: str = "",
    scale: float = 1.0,
    better: Literal["low", "high"] | None = None,
) -> Metric:
    return Metric(key, label, unit, 3, meaning, scale, better)


METRICS = (
    _metric(
        "throughput_bps", "Throughput", "Mbit/s",
        "Stream bytes received per second, from the first send to the end of the transfer or of "
        "the measurement.", 1e-6, "high",
    ),
    _metric(
        "throughput_pps", "Throughput", _PAPER_RATE,
        "The same in full datagrams per second; 1 packet/s is 1 KB/s of a paper with packets of "
        "1 KB.", 1.0, "high",
    ),
    _metric("throughput_sum_bps", "Throughput, all flows", "Mbit/s",
            "Sum over the flows, without those of the background.", 1e-6, "high"),
    _metric("received_bytes", "Received", "kB", "Stream bytes received.", 1e-3, "high"),
    _metric("received_packets", "Received", "packets",
            "Stream bytes received, in full datagrams.", 1.0, "high"),
    _metric("sent_packets", "Sent", "packets", "Packets sent."),
    _metric("lost_packets", "Lost", "packets", "Packets that the sender declared lost.",
            1.0, "low"),
    _metric("retransmitted_bytes", "Retransmitted", "kB", "Stream bytes sent again.", 1e-3, "low"),
    _metric("retransmitted_packets", "Retransmitted", "packets",
            "Stream bytes sent again, in full datagrams; one is 1 KB of a paper with packets of "
            "1 KB.", 1.0, "low"),
    _metric("retransmit_ratio", "Retransmitted", "%",
            "Stream bytes sent again over stream bytes received.", 100.0, "low"),
    _metric("timeouts", "Timeouts", "",
            "Probe timeouts (RFC 9002 §6.2): QUIC's in place of coarse-grained timeouts.",
            1.0, "low"),
    _metric("finished", "Finished", "", "1 if the transfer came to its end, else 0.", 1.0, "high"),
    _metric("completion_s", "Completion", "s", "From the start to the last byte.", 1.0, "low"),
    _metric("completion_mean_s", "Completion, mean", "s",
            "Mean over the connections that finished.", 1.0, "low"),
    _metric("completion_p95_s", "Completion, 95th percentile", "s", "", 1.0, "low"),
    _metric("connections", "Connections", "", "Connections that were started."),
    _metric("connections_finished", "Connections finished"),
    _metric("cwnd_mean_packets", "Window, mean", "packets", "Mean over time."),
    _metric("rtt_mean_s", "RTT, mean", "ms", "Mean of the RTT samples.", 1e3, "low"),
    _metric("rtt_min_s", "RTT, least", "ms", "", 1e3),
    _metric("slow_start_exit_s", "Slow start left after", "s",
            "First change of the congestion state to one that is no slow start, counted from the "
            "flow's start."),
    _metric("window_at_exit_packets", "Window when slow start was left", "packets"),
    _metric("window_settled_packets", "Window after slow start", "packets",
            "Ten BaseRTTs after slow start was left."),
    _metric("lost_in_slow_start_packets", "Lost in slow start", "packets", "", 1.0, "low"),
    _metric("available_window_reached_s", "Available window reached after", "s",
            "First time the window is at least µ·BaseRTT + α − 1 packets, or µ·min RTT for "
            "controllers without α.", 1.0, "low"),
    _metric("converged_s", "Converged after", "s", "", 1.0, "low"),
    _metric("buffer_fill_s", "Buffer filled after", "s",
            "From the start to the end of buffering.", 1.0, "low"),
    _metric("late_packets_ratio", "Late packets", "%",
            "Media packets that came after their time of play.", 100.0, "low"),
    _metric("viable", "Viable", "", "1 if at most a tenth of the packets is late.", 1.0, "high"),
    _metric("stalls", "Stalls", "", "", 1.0, "low"),
    _metric("responses", "Responses", "", "", 1.0, "high"),
    _metric("response_time_mean_s", "Response time, mean", "s", "", 1.0, "low"),
    _metric("response_time_p95_s", "Response time, 95th percentile", "s", "", 1.0, "low"),
    _metric("utilisation", "Utilisation", "%",
            "Bits that the link forwarded over what its rate allows.", 100.0, "high"),
    _metric("queue_mean_packets", "Queue, mean", "packets", "Mean over time.", 1.0, "low"),
    _metric("queue_sd_packets", "Queue, standard deviation", "packets",
            "Over time: the jitter of Boyden et al. 2007.", 1.0, "low"),
    _metric("queue_max_packets", "Queue, most", "packets", "", 1.0, "low"),
    _metric("queue_mean_delay_s", "Queueing delay, mean", "ms", "", 1e3, "low"),
    _metric("drops", "Drops", "packets", "Packets for which the queue had no place.", 1.0, "low"),
    _metric("drop_ratio", "Drops", "%", "Over the packets that came.", 100.0, "low"),
    _metric("marks", "ECN marks", "packets"),
    _metric("impaired", "Lost on the link", "packets", "Random loss."),
    _metric("duplicated", "Duplicated", "packets"),
    _metric("forwarded_packets", "Forwarded", "packets"),
    _metric("forwarded_bytes", "Forwarded", "MB", "", 1e-6),
    _metric("jain", "Jain's index", "",
            "(Σx)² / n·Σx² over the throughputs of the flows: 1 when all are equal.", 1.0, "high"),
    _metric("cwnd_packets", "Congestion window", "packets"),
    _metric("in_flight_packets", "In flight", "packets"),
    _metric("srtt_s", "Smoothed RTT", "ms", "", 1e3),
    _metric("queue_packets", "Queue", "packets"),
)  # fmt: skip

_BY_KEY = {metric.key: metric for metric in METRICS}

# Units that the name of a metric ends with.
_UNITS = {"s": "s", "bps": "bit/s", "packets": "packets", "bytes": "bytes", "pps": _PAPER_RATE}


def metric_of(key: str) -> Metric:
    """What is known of a metric; of others what their name tells."""
    if key in _BY_KEY:
        return _BY_KEY[key]
    name, _, unit = key.rpartition("_")
    if unit in _UNITS and name:
        return _metric(key, name.replace("_", " ").capitalize(), _UNITS[unit])
    return _metric(key, key.replace("_", " ").capitalize())


def subject_of(subject: str) -> str:
    """A subject in words: the name of a flow or a link."""
    return re.sub("^(flow|link)/", "", subject)


def show(value: float | None, half: float | None = None) -> str:
    """A number with the digits it is known to: two of the half-width of its interval, else three.

    Whole numbers that are known exactly are written out.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == round(value) and abs(value) < 1e6 and not half:
        return f"{value:,.0f}".replace("-", "−")
    if half:
        decimals = 1 - math.floor(math.log10(half))
    elif value:
        decimals = 2 - math.floor(math.log10(abs(value)))
    else:
        decimals = 0
    text = f"{value:,.{min(max(decimals, 0), 6)}f}"
    return text.replace("-", "−")


def half_width(interval: Interval, scale: float = 1.0) -> float | None:
    """Half the width of an interval, None where it is open."""
    if interval.low is None or interval.high is None:
        return None
    return (interval.high - interval.low) / 2 * scale


def show_half(half: float | None) -> str:
    """The half-width of an interval after ±, nothing if there is none."""
    return "" if half is None else f"± {show(half, half) if half else '0'}"
