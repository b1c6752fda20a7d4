"""Round-trip times and states of a trace, and the packets that it lost over time."""

from pathlib import Path

import pytest
from synthetic import TraceText

from qlog_analysis.metrics.samples import (
    is_slow_start,
    least_rtt_ms,
    rtt_samples_ms,
    slow_start_exit_s,
)
from qlog_analysis.metrics.summary import summarise
from qlog_analysis.reading.reader import Trace, read_trace


def read(trace: TraceText, tmp_path: Path) -> Trace:
    return read_trace(trace.save(tmp_path / "trace.sqlog"), received=True)


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


def exit_of(tmp_path: Path, *states: tuple[float, str]) -> float | None:
    trace = TraceText()
    for time, state in states:
        trace.state(time, state)
    return slow_start_exit_s(read(trace, tmp_path).states)


def test_stable_growth_belongs_to_slow_start(tmp_path: Path) -> None:
    states = [
        (50.0, "slow_start"),
        (100.0, "stable_growth"),
        (1100.0, "congestion_avoidance"),
        (6000.0, "slow_start"),
        (6500.0, "recovery"),
    ]
    assert exit_of(tmp_path, *states) == 1.1


def test_slow_start_that_is_never_left_has_no_exit(tmp_path: Path) -> None:
    assert exit_of(tmp_path, (0.0, "slow_start")) is None
    assert exit_of(tmp_path, (0.0, "recovery"), (1.0, "congestion_avoidance")) is None
    assert exit_of(tmp_path) is None


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
    times, rtts = rtt_samples_ms(read(trace, tmp_path))
    assert times.tolist() == [50, 60, 70, 80]
    assert rtts.tolist() == [50, 50, 50, 90]


def test_rtts_of_a_trace_without_acknowledgements(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.metrics(50, min_rtt=50.0, smoothed_rtt=50.0, latest_rtt=50.0)
    trace.metrics(60, latest_rtt=70.0)
    read_back = read(trace, tmp_path)
    assert rtt_samples_ms(read_back)[1].tolist() == [50, 70]
    assert least_rtt_ms(read_back) == 50


def test_the_smoothed_rtt_is_averaged_over_time(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics(10_000)
    trace.metrics(100, min_rtt=40.0, smoothed_rtt=40.0, latest_rtt=40.0)
    trace.metrics(1000, smoothed_rtt=60.0, latest_rtt=60.0)
    trace.metrics(1090, smoothed_rtt=100.0, congestion_window=20_000)
    trace.metrics(1100, bytes_in_flight=0)
    out = summarise(read(trace, tmp_path))
    # 40 ms for 900 ms, 60 ms for 90 ms, and 100 ms for 10 ms.
    assert out.rtt_mean_s == pytest.approx((40 * 900 + 60 * 90 + 100 * 10) / 1000 / 1000)
    assert out.rtt_p95_s == pytest.approx(0.060)
    assert out.rtt_min_s == pytest.approx(0.040)
    assert out.cwnd_mean_bytes == pytest.approx((10_000 * 1090 + 20_000 * 10) / 1100)
    assert out.cwnd_max_bytes == 20_000
