"""The numbers a run comes to. What each means is said once, in `definitions`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.experiments.comparison import Flow, Run, Scenario
from qlog_analysis.metrics.delivery import delivered, first_full_second
from qlog_analysis.metrics.samples import base_rtt_ms, rtt_samples_ms, slow_start_times
from qlog_analysis.reading.reader import Trace

Floats = NDArray[np.float64]

# Ho et al. 2006 §V.B sees the window settle within 4 RTTs of leaving slow start.
SETTLED_RTTS = 10


@dataclass(slots=True)
class FlowMetrics:
    """One connection's numbers; None where a thing did not happen or was not measured."""

    trace: str
    start_s: float
    slow_start_exit_s: float | None
    available_window_reached_s: float | None
    time_to_95_percent_s: float | None
    delivery_from: str
    throughput_bps: float
    packets_sent: int
    packets_lost: int
    retransmitted_bytes: int
    loss_rate: float | None
    base_rtt_ms: float | None
    rtt_mean_ms: float | None
    rtt_p95_ms: float | None
    slow_start_s: float | None
    window_at_exit_packets: float | None
    window_settled_packets: float | None
    records: int
    skipped_records: int


@dataclass(slots=True)
class RunMetrics:
    """One run's numbers; None where a thing did not happen or was not measured."""

    id: str
    name: str
    options: str
    slow_start_exit_s: float | None
    available_window_reached_s: float | None
    time_to_95_percent_s: float | None
    throughput_bps: float
    utilisation: float | None
    packets_sent: int
    packets_lost: int
    retransmitted_bytes: int
    loss_rate: float | None
    rtt_mean_ms: float | None
    rtt_p95_ms: float | None
    queueing_delay_mean_ms: float | None
    queueing_delay_p95_ms: float | None
    queue_mean_packets: float | None
    queue_max_packets: float | None
    slow_start_s: float | None
    window_at_exit_packets: float | None
    window_settled_packets: float | None
    available_window_low_packets: float | None
    available_window_high_packets: float | None
    jain_index: float | None
    flows: list[FlowMetrics] = field(default_factory=list)


def fair_rate_pps(scenario: Scenario, run: Run) -> float:
    """Packets per second that the bottleneck has for each flow (µ in Ho et al. 2006)."""
    return scenario.rate_bps / (8 * run.packet_wire_bytes) / scenario.flows


def window_before(trace: Trace, time_s: float, datagram_bytes: int) -> float | None:
    """The window in packets just before a time: at an exit by loss, what it had grown to."""
    before = trace.metrics.filter(pl.col("time_ms") < time_s * 1000)["window_bytes"].drop_nulls()
    return float(before[-1]) / datagram_bytes if len(before) else None


def window_reached_s(trace: Trace, packets: float, datagram_bytes: int) -> float | None:
    """The first time the window, in whole datagrams, was this large, in seconds."""
    whole = (pl.col("window_bytes") / datagram_bytes).floor()
    times = trace.metrics.filter(whole >= packets)["time_ms"].head(1)
    return float(times.item()) / 1000 if len(times) else None


def _delivery_ms(trace: Trace) -> tuple[str, Floats, Floats]:
    """Where the delivery of data is read from, its times, its bytes."""
    if len(trace.acks):
        return ("acknowledged", *delivered(trace))
    sizes = trace.sent["length_bytes"].to_numpy().astype(np.float64)
    return "sent", trace.sent["time_ms"].to_numpy(), sizes


def flow_metrics(trace: Trace, flow: Flow, run: Run, scenario: Scenario) -> FlowMetrics:
    """The numbers of one flow; its times count from its own start."""
    end_s = run.duration_s - flow.start_s
    exit_s, spent_s = slow_start_times(trace.states, end_s)
    base = base_rtt_ms(trace)
    reached = None
    if base is not None:
        packets = fair_rate_pps(scenario, run) * base / 1000
        alpha = run.parameter("alpha")
        if alpha is not None:
            packets += alpha - 1
        reached = window_reached_s(trace, packets, scenario.datagram_bytes)
    delivery_from, times, sizes = _delivery_ms(trace)
    payload_bytes_per_s = fair_rate_pps(scenario, run) * scenario.datagram_bytes
    _, rtts = rtt_samples_ms(trace)
    return FlowMetrics(
        trace=flow.trace.name,
        start_s=flow.start_s,
        slow_start_exit_s=exit_s,
        available_window_reached_s=reached,
        time_to_95_percent_s=first_full_second(times, sizes, 0.95 * payload_bytes_per_s, end_s),
        delivery_from=delivery_from,
        throughput_bps=flow.received_bytes * 8 / end_s if end_s > 0 else 0.0,
        packets_sent=flow.packets_sent,
        packets_lost=flow.packets_lost,
        retransmitted_bytes=flow.retransmitted_bytes,
        loss_rate=_ratio(flow.packets_lost, flow.packets_sent),
        base_rtt_ms=base,
        rtt_mean_ms=_mean(rtts),
        rtt_p95_ms=_p95(rtts),
        slow_start_s=spent_s,
        window_at_exit_packets=None
        if exit_s is None
        else window_before(trace, exit_s, scenario.datagram_bytes),
        window_settled_packets=None
        if exit_s is None or base is None
        else window_before(trace, exit_s + SETTLED_RTTS * base / 1000, scenario.datagram_bytes),
        records=trace.records,
        skipped_records=trace.skipped,
    )


def run_metrics(
    run: Run, scenario: Scenario, flows: Sequence[FlowMetrics], rtts_ms: Sequence[Floats]
) -> RunMetrics:
    """The numbers of a run from those of its flows, their RTT samples and the bottleneck's."""
    sent = sum(flow.packets_sent for flow in flows)
    lost = sum(flow.packets_lost for flow in flows)
    rtts = np.concatenate(rtts_ms) if rtts_ms else np.empty(0)
    delays = _queueing_delays_ms(run, scenario, rtts_ms)
    base = min((flow.base_rtt_ms for flow in flows if flow.base_rtt_ms is not None), default=None)
    in_flight = None if base is None else fair_rate_pps(scenario, run) * base / 1000
    exit_s = _latest([flow.slow_start_exit_s for flow in flows])
    last_exit = next((flow for flow in flows if flow.slow_start_exit_s == exit_s), None)
    return RunMetrics(
        id=run.id,
        name=run.name,
        options=run.options,
        slow_start_exit_s=exit_s,
        available_window_reached_s=_latest([flow.available_window_reached_s for flow in flows]),
        time_to_95_percent_s=_latest([flow.time_to_95_percent_s for flow in flows]),
        throughput_bps=sum(flow.received_bytes for flow in run.flows) * 8 / run.duration_s,
        utilisation=None
        if run.forwarded_bytes is None
        else run.forwarded_bytes * 8 / (scenario.rate_bps * run.duration_s),
        packets_sent=sent,
        packets_lost=lost,
        retransmitted_bytes=sum(flow.retransmitted_bytes for flow in flows),
        loss_rate=_ratio(lost, sent),
        rtt_mean_ms=_mean(rtts),
        rtt_p95_ms=_p95(rtts),
        queueing_delay_mean_ms=_mean(delays),
        queueing_delay_p95_ms=_p95(delays),
        queue_mean_packets=run.queue_mean_packets,
        queue_max_packets=run.queue_max_packets,
        slow_start_s=_latest([flow.slow_start_s for flow in flows]),
        window_at_exit_packets=None if last_exit is None else last_exit.window_at_exit_packets,
        window_settled_packets=None if last_exit is None else last_exit.window_settled_packets,
        available_window_low_packets=_plus(in_flight, run.parameter("alpha")),
        available_window_high_packets=_plus(in_flight, run.parameter("beta")),
        jain_index=jain_index([flow.throughput_bps for flow in flows]),
        flows=list(flows),
    )


def jain_index(throughputs: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has all; None for one flow."""
    squares = sum(value * value for value in throughputs)
    if len(throughputs) < 2 or squares == 0:
        return None
    return sum(throughputs) ** 2 / (len(throughputs) * squares)


def _queueing_delays_ms(run: Run, scenario: Scenario, rtts_ms: Sequence[Floats]) -> Floats:
    if run.queue is not None:
        return run.queue["bytes"].to_numpy() * 8000 / scenario.rate_bps
    above = [rtts - rtts.min() for rtts in rtts_ms if len(rtts)]
    return np.concatenate(above) if above else np.empty(0)


def _latest(times: Sequence[float | None]) -> float | None:
    """The latest of some times; None if one never came, or there is none."""
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _plus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _p95(values: Floats) -> float | None:
    return float(np.percentile(values, 95)) if len(values) else None
