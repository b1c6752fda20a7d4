from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import SCENARIO, TraceText, flow_entry, run_entry, steady_trace, write_json

from qlog_analysis.experiments.comparison import read_comparison
from qlog_analysis.experiments.reduction import Task
from qlog_analysis.metrics.runs import (
    FlowMetrics,
    RunMetrics,
    jain_index,
    run_metrics,
)
from qlog_analysis.metrics.samples import is_slow_start


def measure(
    tmp_path: Path,
    traces: list[TraceText],
    flows: list[dict[str, Any]] | None = None,
    queue: str | None = None,
    scenario: Mapping[str, Any] | None = None,
    **run: Any,
) -> RunMetrics:
    """The numbers of one run, through the same files as in earnest."""
    where = tmp_path / "runs" / "g" / "r"
    for number, trace in enumerate(traces):
        trace.save(where / f"flow-{number}.server.sqlog")
    flows = flows or [flow_entry(number) for number in range(len(traces))]
    write_json(where / "run.json", run_entry("r", flows, **run))
    if queue is not None:
        (where / "queue.csv").write_text(queue)
    group = {
        "id": "g",
        "title": "",
        "scenario": {**SCENARIO, "flows": max(1, len(traces)), **(scenario or {})},
        "runs": [{"id": "r", "cc": "r"}],
    }
    write_json(tmp_path / "comparison.json", {"title": "", "command": "", "groups": [group]})
    read = read_comparison(tmp_path).groups[0]
    results = [Task(flow, read.runs[0], read.scenario).run() for flow in read.runs[0].flows]
    return run_metrics(
        read.runs[0],
        read.scenario,
        [result.metrics for result in results],
        [result.rtts_ms for result in results],
    )


def one_flow(metrics: RunMetrics) -> FlowMetrics:
    assert len(metrics.flows) == 1
    return metrics.flows[0]


def with_rtt(trace: TraceText, rtt: float = 50.0) -> TraceText:
    trace.first_metrics(2000)
    trace.metrics(rtt, min_rtt=rtt, smoothed_rtt=rtt, latest_rtt=rtt)
    return trace


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("slow_start", True),
        ("stable_growth", True),
        ("startup", True),
        ("bbr_startup", True),
        ("bbr_drain", False),
        ("congestion_avoidance", False),
        ("recovery", False),
    ],
)
def test_states_of_growth(state: str, expected: bool) -> None:
    assert is_slow_start(state) is expected


def test_stable_growth_belongs_to_slow_start(tmp_path: Path) -> None:
    trace = with_rtt(TraceText())
    for time, state in [
        (50.0, "slow_start"),
        (100.0, "stable_growth"),
        (1100.0, "congestion_avoidance"),
        (6000.0, "slow_start"),
        (6500.0, "recovery"),
    ]:
        trace.state(time, state)
    out = measure(tmp_path, [trace])
    assert out.slow_start_exit_s == 1.1
    assert out.slow_start_s == pytest.approx(1.6)


def test_slow_start_that_is_never_left(tmp_path: Path) -> None:
    trace = with_rtt(TraceText())
    trace.state(0.0, "slow_start")
    out = measure(tmp_path, [trace])
    assert out.slow_start_exit_s is None
    assert out.window_at_exit_packets is None
    assert out.slow_start_s == 10.0


def test_without_states_nothing_is_said_of_slow_start(tmp_path: Path) -> None:
    out = measure(tmp_path, [with_rtt(TraceText())])
    assert (out.slow_start_exit_s, out.slow_start_s) == (None, None)


def test_the_window_at_exit_is_the_one_before_the_cut(tmp_path: Path) -> None:
    trace = with_rtt(TraceText())
    trace.state(0.0, "slow_start")
    trace.metrics(700.0, congestion_window=32_000)
    trace.metrics(800.0, congestion_window=16_000)
    trace.state(800.0, "recovery")
    assert measure(tmp_path, [trace]).window_at_exit_packets == 32.0


def test_the_settled_window_is_that_of_ten_rtts_later(tmp_path: Path) -> None:
    # BaseRTT is 50 ms, so it is the window at 1.3 s.
    trace = with_rtt(TraceText())
    trace.state(0.0, "slow_start")
    trace.metrics(800.0, congestion_window=16_000)
    trace.state(800.0, "congestion_avoidance")
    trace.metrics(1299.0, congestion_window=20_000)
    trace.metrics(1301.0, congestion_window=99_000)
    assert measure(tmp_path, [trace]).window_settled_packets == 20.0


# µ·BaseRTT is 1000 packets/s x 50 ms = 50 packets.
@pytest.mark.parametrize(
    ("window", "parameters", "reached"),
    [
        (50_000, None, 2.0),
        (49_999, None, None),
        (52_000, {"alpha": 3.0, "beta": 6.0}, 2.0),
        (51_999, {"alpha": 3.0, "beta": 6.0}, None),
        (50_000, {"alpha": 1, "beta": 3}, 2.0),
    ],
)
def test_the_available_window(
    tmp_path: Path, window: int, parameters: dict[str, float] | None, reached: float | None
) -> None:
    trace = with_rtt(TraceText())
    trace.metrics(2000.0, congestion_window=window)
    out = measure(tmp_path, [trace], parameters=parameters)
    assert out.available_window_reached_s == reached
    if parameters is None:
        assert out.available_window_low_packets is None
        assert out.available_window_high_packets is None
    else:
        assert out.available_window_low_packets == pytest.approx(50 + parameters["alpha"])
        assert out.available_window_high_packets == pytest.approx(50 + parameters["beta"])


def test_the_senders_own_base_rtt_comes_first(tmp_path: Path) -> None:
    trace = with_rtt(TraceText(), 50.0)
    trace.metrics(60.0, vegas_base_rtt_ms=45.0)
    trace.metrics(70.0, vegas_base_rtt_ms=40.0)
    out = measure(tmp_path, [trace], parameters={"alpha": 2.0, "beta": 4.0})
    assert one_flow(out).base_rtt_ms == 40.0
    assert out.available_window_low_packets == pytest.approx(42.0)


def test_without_any_rtt_there_is_no_available_window(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics(1_000_000)
    out = measure(tmp_path, [trace], parameters={"alpha": 2.0, "beta": 4.0})
    assert out.available_window_reached_s is None
    assert out.available_window_low_packets is None
    assert (out.rtt_mean_ms, out.rtt_p95_ms) == (None, None)
    assert (out.queueing_delay_mean_ms, out.queueing_delay_p95_ms) == (None, None)


def test_time_to_95_percent_is_read_from_acknowledgements(tmp_path: Path) -> None:
    # 500 packets/s, and 1000 from 1 s on, 50 ms later at the sender: 95 % of a second's 1000 are
    # there when 0.9 s of it lie after 1.05 s, in steps of 0.1 s.
    out = measure(tmp_path, [steady_trace()])
    assert out.time_to_95_percent_s == 2.0
    assert one_flow(out).delivery_from == "acknowledged"


def test_time_to_95_percent_without_acknowledgements(tmp_path: Path) -> None:
    trace = TraceText()
    for n in range(3000):
        trace.sent(1000.0 + n, n, 1000)
    out = measure(tmp_path, [trace])
    assert out.time_to_95_percent_s == 2.0
    assert one_flow(out).delivery_from == "sent"


def test_95_percent_never_reached(tmp_path: Path) -> None:
    trace = TraceText()
    for n in range(100):
        trace.sent(float(n), n, 1000)
    assert measure(tmp_path, [trace]).time_to_95_percent_s is None


def test_counters(tmp_path: Path) -> None:
    out = measure(tmp_path, [steady_trace()])
    assert out.throughput_bps == 800_000
    assert out.utilisation == pytest.approx(0.5)
    assert (out.packets_sent, out.packets_lost, out.retransmitted_bytes) == (1000, 10, 9500)
    assert out.loss_rate == pytest.approx(0.01)
    assert (out.queue_mean_packets, out.queue_max_packets) == (3.5, 21)
    assert out.jain_index is None


def test_zero_packets(tmp_path: Path) -> None:
    flow = flow_entry(
        packets_sent=0, packets_lost=0, retransmitted_bytes=0, received_bytes=0, bytes_sent=0
    )
    out = measure(tmp_path, [TraceText()], [flow])
    assert out.loss_rate is None
    assert out.throughput_bps == 0
    assert out.time_to_95_percent_s is None
    assert out.rtt_mean_ms is None


def test_no_flows_at_all(tmp_path: Path) -> None:
    out = measure(tmp_path, [], [])
    assert out.flows == []
    assert out.slow_start_exit_s is None
    assert out.throughput_bps == 0


def test_a_steady_rtt_counts_once_per_acknowledgement(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.acked(10, [0])  # no sample yet
    trace.acked(50, [0, 1])
    trace.metrics(50, min_rtt=50.0, smoothed_rtt=50.0, latest_rtt=50.0)
    trace.acked(60, [0, 2])
    trace.acked(70, [0, 3])
    trace.acked(80, [0, 4])
    trace.metrics(80, latest_rtt=90.0)
    out = measure(tmp_path, [trace])
    assert out.rtt_mean_ms == pytest.approx((3 * 50 + 90) / 4)
    assert out.rtt_p95_ms == pytest.approx(np.percentile([50, 50, 50, 90], 95))


def test_rtts_of_a_trace_without_acknowledgements(tmp_path: Path) -> None:
    trace = with_rtt(TraceText(), 50.0)
    trace.metrics(60.0, latest_rtt=70.0)
    assert measure(tmp_path, [trace]).rtt_mean_ms == 60.0


def test_queueing_delay_from_the_queue(tmp_path: Path) -> None:
    # 1250 bytes take 1 ms at 10 Mbit/s.
    queue = "time_s,packets,bytes,drops\n0.00,0,0,0\n0.01,2,2500,0\n0.02,4,5000,0\n0.03,2,2500,1\n"
    out = measure(tmp_path, [steady_trace()], queue=queue)
    assert out.queueing_delay_mean_ms == pytest.approx(2.0)
    assert out.queueing_delay_p95_ms == pytest.approx(3.7)


def test_queueing_delay_from_rtts_where_there_is_no_queue(tmp_path: Path) -> None:
    trace = with_rtt(TraceText(), 50.0)
    trace.metrics(60.0, latest_rtt=70.0)
    assert measure(tmp_path, [trace]).queueing_delay_mean_ms == 10.0


def test_several_flows(tmp_path: Path) -> None:
    flows = [flow_entry(0, received_bytes=3_000_000), flow_entry(1, packets_lost=0, start_s=2.0)]
    traces = []
    for exit_ms in (500.0, 900.0):
        # Each flow's share of the bottleneck is 25 packets.
        trace = with_rtt(TraceText())
        trace.state(0.0, "slow_start")
        trace.metrics(exit_ms - 100, congestion_window=25_000)
        trace.state(exit_ms, "congestion_avoidance")
        traces.append(trace)
    out = measure(tmp_path, traces, flows)
    assert out.slow_start_exit_s == 0.9
    assert out.available_window_reached_s == pytest.approx(0.8)
    assert out.window_at_exit_packets == 25.0
    assert [flow.slow_start_exit_s for flow in out.flows] == [0.5, 0.9]
    assert [flow.throughput_bps for flow in out.flows] == [2_400_000, 1_000_000]
    assert out.throughput_bps == 3_200_000
    assert (out.packets_sent, out.packets_lost) == (2000, 10)
    assert out.jain_index == pytest.approx(3.4**2 / (2 * (2.4**2 + 1)))


def test_one_flow_that_never_gets_there_makes_the_run_not_get_there(tmp_path: Path) -> None:
    slow = with_rtt(TraceText())
    slow.state(0.0, "slow_start")
    out = measure(tmp_path, [steady_trace(), slow])
    assert out.slow_start_exit_s is None
    assert out.available_window_reached_s is None
    assert out.time_to_95_percent_s is None
    assert out.window_at_exit_packets is None
    assert out.flows[0].slow_start_exit_s == 0.5


@pytest.mark.parametrize(
    ("throughputs", "expected"),
    [
        ([1.0], None),
        ([], None),
        ([0.0, 0.0], None),
        ([5.0, 5.0, 5.0], 1.0),
        ([1.0, 0.0, 0.0, 0.0], 0.25),
    ],
)
def test_jain(throughputs: list[float], expected: float | None) -> None:
    assert jain_index(throughputs) == expected


def test_skipped_records_are_told(tmp_path: Path) -> None:
    trace = with_rtt(TraceText())
    trace.raw("broken")
    flow = one_flow(measure(tmp_path, [trace]))
    assert (flow.records, flow.skipped_records) == (3, 1)
