from pathlib import Path

import numpy as np
from synthetic import TraceText

from qlog_analysis.metrics.delivery import binned, delivered
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
