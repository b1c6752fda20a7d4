from pathlib import Path

import numpy as np
import pytest
from synthetic import TraceText

from qlog_analysis.metrics.delivery import binned, delivered, first_full_second
from qlog_analysis.reading.reader import read_trace


def deliveries(tmp_path: Path, trace: TraceText) -> list[tuple[float, float]]:
    times, sizes = delivered(read_trace(trace.save(tmp_path / "trace.sqlog")))
    return list(zip(times.tolist(), sizes.tolist(), strict=True))


def test_each_packet_counts_when_it_is_first_acknowledged(tmp_path: Path) -> None:
    trace = TraceText()
    for number in range(6):
        trace.sent(number, number, 100 + number)
    trace.acked(10, [0, 1])
    trace.acked(11, [0, 1], [3, 4])
    trace.acked(12, [0, 4])
    trace.acked(13, [0, 4])
    assert deliveries(tmp_path, trace) == [(10, 100), (10, 101), (11, 103), (11, 104), (12, 102)]


def test_order_of_ranges_does_not_matter(tmp_path: Path) -> None:
    trace = TraceText()
    for number in range(5):
        trace.sent(number, number, 100 + number)
    trace.acked(10, [4], [2], [0])
    trace.acked(11, [0, 4])
    assert deliveries(tmp_path, trace) == [(10, 100), (10, 102), (10, 104), (11, 101), (11, 103)]


def test_the_handshake_is_not_counted(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(0, 0, 1200, kind="initial")
    trace.sent(1, 0, 1000)
    trace.acked(2, [0], kind="initial")
    trace.acked(3, [0])
    assert deliveries(tmp_path, trace) == [(3, 1000)]


def test_nothing_sent_or_acknowledged(tmp_path: Path) -> None:
    trace = TraceText()
    assert deliveries(tmp_path, trace) == []
    trace.sent(0, 0)
    assert deliveries(tmp_path, trace) == []


def test_against_a_plain_search(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    trace = TraceText()
    numbers = np.sort(random.choice(400, 300, replace=False))
    for number in numbers.tolist():
        trace.sent(0, number, number + 1)
    first_time: dict[int, float] = {}
    seen: set[int] = set()
    for time in range(1, 60):
        seen |= set(random.choice(numbers[: time * 5], 5).tolist())
        ranges: list[list[int]] = []
        for number in sorted(seen):
            if ranges and ranges[-1][-1] == number - 1:
                ranges[-1] = [ranges[-1][0], number]
            else:
                ranges.append([number])
            first_time.setdefault(number, time)
        trace.acked(time, *ranges)
    expected = sorted((time, number + 1) for number, time in first_time.items())
    assert deliveries(tmp_path, trace) == expected


def test_bins_cover_the_end() -> None:
    times = np.array([0.0, 0.99, 1.0, 2.5, 3.0])
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert binned(times, values, 1.0, 2.6).tolist() == [3, 4, 8]
    assert binned(times, values, 1.0, 3.0).tolist() == [3, 4, 8]


@pytest.mark.parametrize(
    ("want", "end_s", "expected"),
    [
        (1000.0, 3.0, 1.7),  # 7 steps of nothing, then 100 bytes in each
        (1000.1, 3.0, None),
        (500.0, 3.0, 1.2),
        (0.0, 3.0, 1.0),
        (1000.0, 1.7, 1.7),
        (1000.0, 1.6, None),
        (0.0, 0.9, None),
    ],
)
def test_the_first_full_second(want: float, end_s: float, expected: float | None) -> None:
    times = np.arange(700.0, 3000.0, 100.0) + 50
    assert first_full_second(times, np.full(len(times), 100.0), want, end_s) == expected
