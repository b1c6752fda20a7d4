from pathlib import Path

from synthetic import TraceText

from qlog_analysis.metrics.losses import losses
from qlog_analysis.reading.reader import read_trace


def lost(trace: TraceText, directory: Path) -> list[tuple[float | None, float, int]]:
    return losses(read_trace(trace.save(directory / "trace.sqlog"))).rows()


def ten_sent() -> TraceText:
    """Packets 0 to 9, one a millisecond, on a path of 50 ms."""
    trace = TraceText()
    for number in range(10):
        trace.sent(float(number), number)
    trace.metrics(50.0, smoothed_rtt=50.0, latest_rtt=50.0)
    return trace


def test_logged_losses_are_taken(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.event(60.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": 4})
    trace.event(61.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": 99})
    trace.event(61.0, "packet_lost", header={"packet_type": "initial", "packet_number": 5})
    trace.acked(70.0, [9, 9])
    assert lost(trace, tmp_path) == [(4.0, 60.0, 4), (None, 61.0, 99)]


def test_three_packets_later_is_lost(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.acked(50.0, [0, 3])
    trace.acked(51.0, [5, 6])
    trace.acked(52.0, [5, 7])
    assert lost(trace, tmp_path) == [(4.0, 52.0, 4)]


def test_what_comes_in_time_is_not_lost(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.acked(50.0, [0, 3])
    trace.acked(51.0, [5, 6])
    trace.acked(52.0, [4, 7])
    assert lost(trace, tmp_path) == []


def test_what_is_acknowledged_after_it_was_declared_lost_stays_lost(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.acked(50.0, [0, 3], [5, 8])
    trace.acked(53.0, [0, 8])
    assert lost(trace, tmp_path) == [(4.0, 50.0, 4)]


def test_nine_eighths_of_an_rtt_is_lost(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.acked(50.0, [0, 7], [9, 9])
    trace.acked(100.0, [0, 7], [9, 9])
    assert lost(trace, tmp_path) == [(8.0, 8 + 9 / 8 * 50, 8)]


def test_after_the_last_acknowledgement_nothing_is_known(tmp_path: Path) -> None:
    trace = ten_sent()
    trace.acked(50.0, [0, 7], [9, 9])
    assert lost(trace, tmp_path) == []
    assert lost(TraceText(), tmp_path) == []
