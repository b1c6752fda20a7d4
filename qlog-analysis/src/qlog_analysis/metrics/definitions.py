"""What each number is called, how it is shown, which direction is good, and what it means."""

from dataclasses import dataclass
from typing import Literal

NOTHING = "\N{EN DASH}"
"""Shown where a thing did not happen or was not measured."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a run, by the name it has in `RunMetrics` and in summary.json.

    Attributes:
        key: its name.
        label: what to call it in a table, without unit.
        unit: the unit it is shown in, empty for a plain number.
        scale: what to multiply it with to have it in this unit.
        digits: digits after the point.
        better: which direction is good, None where neither is.
        meaning: its definition.
        heading: its name over a narrow column, lines parted by a bar; only the metrics that have
            one are in the terminal's table.
    """

    key: str
    label: str
    unit: str
    digits: int
    meaning: str
    scale: float = 1.0
    better: Literal["low", "high"] | None = None
    heading: str = ""

    def show(self, value: object) -> str:
        """A value in the unit of this metric, without the unit."""
        if not isinstance(value, int | float):
            return NOTHING
        return f"{value * self.scale:,.{self.digits}f}"


METRICS = (
    Metric(
        "slow_start_exit_s", "Slow start left after", "s", 2,
        "First change of the congestion state from slow_start, stable_growth or startup to any "
        "other, counted from the start of the connection.",
        heading="slow|start|left",
    ),
    Metric(
        "available_window_reached_s", "Available window reached after", "s", 2,
        "First time the window, in whole datagrams, is at least µ·BaseRTT + α − 1 packets, or "
        "µ·min RTT for controllers without α. µ is the bottleneck's rate in packets on the wire "
        "per second, divided by the number of flows; BaseRTT is the sender's last value.",
        better="low", heading="window|reached",
    ),
    Metric(
        "time_to_95_percent_s", "95 % of capacity delivered after", "s", 1,
        "End of the first second in which 95 % of the bottleneck's capacity (its share, with "
        "several flows) was delivered; capacity in datagrams of full size, the second slid in "
        "steps of 0.1 s. Delivery is read from the acknowledgements as they reach the sender, "
        "or from what was sent if the trace has none (delivery_from in summary.json says which).",
        better="low", heading="95 %|at",
    ),
    Metric(
        "throughput_bps", "Throughput", "Mbit/s", 2,
        "Bytes the receiving applications got, over the duration; all flows together.",
        scale=1e-6, better="high", heading="through-|put",
    ),
    Metric(
        "utilisation", "Utilisation", "%", 1,
        "Bytes that the bottleneck forwarded (datagrams with their IP and UDP headers) over what "
        "its rate allows in the duration.",
        scale=100, better="high", heading="utili-|sation",
    ),
    Metric("packets_sent", "Packets sent", "", 0, "Packets that the senders sent."),
    Metric(
        "packets_lost", "Packets lost", "", 0, "Packets that the senders declared lost.",
        better="low", heading="packets|lost",
    ),
    Metric(
        "retransmitted_bytes", "Retransmitted", "kB", 1, "Stream bytes that were sent again.",
        scale=1e-3, better="low",
    ),
    Metric(
        "loss_rate", "Loss rate", "%", 3, "Packets lost over packets sent.",
        scale=100, better="low",
    ),
    Metric(
        "rtt_mean_ms", "RTT, mean", "ms", 1,
        "Mean of the RTT samples (latest_rtt), one per acknowledgement that arrived.",
        better="low", heading="RTT|mean",
    ),
    Metric(
        "rtt_p95_ms", "RTT, 95th percentile", "ms", 1, "95th percentile of the RTT samples.",
        better="low", heading="RTT|p95",
    ),
    Metric(
        "queueing_delay_mean_ms", "Queueing delay, mean", "ms", 2,
        "Mean time to send what is in the bottleneck's queue, sampled every 10 ms; RTT − least "
        "RTT where there are no samples of the queue.",
        better="low",
    ),
    Metric(
        "queueing_delay_p95_ms", "Queueing delay, 95th percentile", "ms", 2,
        "95th percentile of the same.",
        better="low",
    ),
    Metric(
        "queue_mean_packets", "Queue, mean", "packets", 1,
        "Mean over time of the packets at the bottleneck, the one being sent included.",
        better="low", heading="queue|mean",
    ),
    Metric(
        "queue_max_packets", "Queue, most", "packets", 0,
        "Most packets that were at the bottleneck at once.",
        better="low",
    ),
    Metric(
        "slow_start_s", "Time in slow start", "s", 2,
        "Total time in the states slow_start, stable_growth and startup.",
    ),
    Metric(
        "window_at_exit_packets", "Window when slow start was left", "packets", 1,
        "The window in datagrams just before slow start was left; a cut on leaving comes after.",
    ),
    Metric(
        "window_settled_packets", "Window after slow start", "packets", 1,
        "The window in datagrams ten BaseRTTs after slow start was left.",
    ),
    Metric(
        "available_window_low_packets", "Available window, from", "packets", 1,
        "µ·BaseRTT + α: where the window settles with α packets in the queue.",
    ),
    Metric(
        "available_window_high_packets", "Available window, to", "packets", 1,
        "µ·BaseRTT + β: where the window settles with β packets in the queue.",
    ),
    Metric(
        "jain_index", "Jain's fairness index", "", 3,
        "(Σx)² / n·Σx² over the flows' throughputs: 1 when all are equal.",
        better="high", heading="fair-|ness",
    ),
)  # fmt: skip

BY_KEY = {metric.key: metric for metric in METRICS}

# What the names of quiche's own controllers stand for, as far as it changes what is compared.
BUILT_IN = {
    "cubic": "cubic is quiche's as shipped: it sends without pacing, cuts packets to what is left "
    "of the window after a loss, and takes most decreases back. It is not what RFC 9438 can be.",
    "reno": "reno is quiche's as shipped: it sends without pacing.",
    "bbr2": "bbr2 is quiche's as shipped; it paces.",
}

SEVERAL_FLOWS = (
    "With several flows the times of a run are those of its latest flow, and none if one flow "
    "never got there; counts are sums; RTT samples are taken together."
)


def best(metric: Metric, values: list[object]) -> float | None:
    """The best of some values, None if no direction is good or they do not differ."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if metric.better is None or len(set(numbers)) < 2:
        return None
    return min(numbers) if metric.better == "low" else max(numbers)
