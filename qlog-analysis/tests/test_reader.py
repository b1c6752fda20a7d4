import math
from pathlib import Path

import polars as pl
import pytest
from synthetic import HEADER, NONE_YET, RS, TraceText

from qlog_analysis.errors import NotQlogError
from qlog_analysis.reading import container
from qlog_analysis.reading.reader import Trace, read_trace


def read(tmp_path: Path, trace: TraceText) -> Trace:
    return read_trace(trace.save(tmp_path / "trace.sqlog"))


def test_packets_and_acks_become_rows(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(1.5, 0, 1200, kind="initial")
    trace.sent(2.0, 1, 1350)
    trace.received(3.0)
    trace.acked(4.25, [0], [2, 7])
    out = read(tmp_path, trace)
    assert out.sent.rows() == [(1.5, "initial", 0, 1200), (2.0, "1RTT", 1, 1350)]
    assert out.acks.rows() == [(4.25, "1RTT", 0, 0), (4.25, "1RTT", 2, 7)]
    assert out.header == HEADER
    assert (out.records, out.skipped, out.truncated) == (4, 0, False)


def test_metrics_are_filled_forward(tmp_path: Path) -> None:
    trace = TraceText()
    trace.metrics(1.0, congestion_window=100, bytes_in_flight=10)
    trace.metrics(2.0, bytes_in_flight=20, pacing_rate=1000)
    trace.metrics(3.0, congestion_window=200, cf_lost_packets={"total": 3, "delta": 3})
    metrics = read(tmp_path, trace).metrics
    assert metrics["window_bytes"].to_list() == [100, 100, 200]
    assert metrics["in_flight_bytes"].to_list() == [10, 20, 20]
    assert metrics["pacing_bps"].to_list() == [None, 8000, 8000]
    assert metrics["lost_packets"].to_list() == [None, None, 3]


@pytest.mark.parametrize("late", [False, True])
def test_blocks_are_filled_as_the_whole_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    trace = TraceText()
    trace.first_metrics()
    for n in range(1, 200):
        trace.metrics(float(n), bytes_in_flight=n)
        if n % 40 == 0:
            trace.metrics(n + 0.5, congestion_window=n, ssthresh=[NONE_YET, 27000][n % 80 == 0])
        if n == 100:
            trace.metrics(n + 0.5, min_rtt=49.0, smoothed_rtt=49.0, latest_rtt=49.0)
    if late:
        trace.metrics(50.25, congestion_window=7)
    whole = read(tmp_path, trace)
    monkeypatch.setattr(container, "BLOCK_BYTES", 500)
    blocks = read(tmp_path, trace)
    assert blocks.metrics.n_chunks() > 10 or late
    assert blocks.unordered == whole.unordered == late
    assert blocks.metrics.equals(whole.metrics)


def test_fields_that_appear_late_are_kept(tmp_path: Path) -> None:
    trace = TraceText()
    for n in range(5000):
        trace.metrics(float(n), bytes_in_flight=n)
    trace.metrics(5000.0, vegas_backlog_packets=2.5, vegas_status=1)
    last = read(tmp_path, trace).metrics.row(-1, named=True)
    assert last["vegas_backlog_packets"] == 2.5
    assert last["vegas_status"] == 1
    assert last["in_flight_bytes"] == 4999


def test_placeholders_are_removed(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.metrics(50.0, min_rtt=49.0, smoothed_rtt=49.0, latest_rtt=49.0)
    trace.metrics(60.0, ssthresh=27000)
    trace.metrics(70.0, ssthresh=NONE_YET)
    metrics = read(tmp_path, trace).metrics
    assert metrics["min_rtt_ms"].to_list() == [None, 49, 49, 49]
    assert metrics["smoothed_rtt_ms"].to_list() == [None, 49, 49, 49]
    ssthresh = metrics["ssthresh_bytes"].to_list()
    assert [math.isnan(value) for value in ssthresh] == [True, True, False, True]
    assert ssthresh[2] == 27000


def test_a_true_rtt_of_333_ms_is_kept(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.metrics(333.0, latest_rtt=333.0)
    assert read(tmp_path, trace).metrics["min_rtt_ms"].to_list() == [None, 333]


@pytest.mark.parametrize(
    "bad",
    [
        "nonsense",
        "{}",
        "[1, 2]",
        '{"time":2,"name":"quic:packet_sent"}',
        '{"time":"two","name":"quic:packet_sent","data":{"header":{"packet_number":1}}}',
        '{"time":2,"name":"quic:packet_sent","data":[]}',
        '{"time":2,"name":"quic:packet_sent","data":{"header":{"packet_number":1e30}',
        '{"time":2,"name":"quic:recovery_metrics_updated","data":{"min_rtt":"x"}}',
        '{"time":2,"name":"quic:recovery_metrics_updated","data":{"min_rtt":1',
        '{"time":2,"name":"quic:congestion_state_updated","data":{}}',
        '{"time":2,"name":"quic:packet_received","data":{"frames":[{"acked_ranges":[[1,"a"]]}]}}',
        '{"time":2,"name":"quic:packet_received","data":{"frames":[{"frame_ty',
        '{"time":2,"name":"quic:stream_data_moved","data":{"stream',
        '{"time":2,"na',
        "non\x01sense",
    ],
)
def test_a_bad_record_is_skipped_and_counted(tmp_path: Path, bad: str) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    trace.metrics(1.0, congestion_window=5)
    trace.state(1.0, "slow_start")
    trace.raw(bad)
    trace.sent(3.0, 1)
    trace.acked(4.0, [0, 1])
    out = read(tmp_path, trace)
    assert (out.records, out.skipped, out.truncated) == (6, 1, False)
    assert out.sent["packet_number"].to_list() == [0, 1]
    assert out.acks["last"].to_list() == [1]
    assert out.states["state"].to_list() == ["slow_start"]


def test_an_event_with_damage_around_it_is_found(tmp_path: Path) -> None:
    trace = TraceText()
    state = '{"time":1,"name":"quic:congestion_state_updated","data":{"new":"a"}}'
    trace.raw(f'{{"time":1,"na{state}}},{{"time":1}}')
    trace.raw(state + state.replace('"a"', '"b"'))
    out = read(tmp_path, trace)
    assert out.states["state"].to_list() == ["a", "a", "b"]
    assert (out.records, out.skipped) == (4, 1)


def test_many_bad_records_among_good_ones(tmp_path: Path) -> None:
    trace = TraceText()
    for n in range(2000):
        trace.sent(float(n), n)
        if n % 100 == 7:
            trace.raw('{"time":2,"name":"quic:packet_sent","data":{"raw":')
    out = read(tmp_path, trace)
    assert out.skipped == 20
    assert out.sent["packet_number"].to_list() == list(range(2000))


def test_bytes_that_are_no_utf8_cost_one_record(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    trace.sent(2.0, 1)
    path = trace.save(tmp_path / "trace.sqlog")
    data = path.read_bytes()
    path.write_bytes(data + b'\x1e{"time":3,"name":"\xff\xfe"}\n')
    out = read_trace(path)
    assert (out.sent.height, out.records, out.skipped) == (2, 3, 1)


@pytest.mark.parametrize("kept", [5, 30, 60, -3])
def test_a_truncated_tail_is_told(tmp_path: Path, kept: int) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    whole = str(trace)
    trace.sent(2.0, 1)
    path = tmp_path / "trace.sqlog"
    last = str(trace).removeprefix(whole)
    path.write_text(whole + last[:kept])
    out = read_trace(path)
    assert (out.sent.height, out.records, out.skipped, out.truncated) == (1, 2, 1, True)


def test_the_header_alone_is_a_trace(tmp_path: Path) -> None:
    out = read(tmp_path, TraceText())
    assert (out.records, out.skipped, out.truncated) == (0, 0, False)
    assert out.sent.is_empty()
    assert out.metrics.is_empty()
    assert out.acks.is_empty()
    assert out.sent.schema["packet_number"] == pl.Int64


def test_records_may_span_lines_and_have_spaces(tmp_path: Path) -> None:
    trace = TraceText()
    trace.raw('{ "time": 1,\n "name": "quic:congestion_state_updated",\n "data": {"new": "x"} }')
    out = read(tmp_path, trace)
    assert out.states.rows() == [(1.0, "x")]
    assert out.skipped == 0


def test_lines_without_record_separators_are_read(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    trace.sent(2.0, 1)
    path = tmp_path / "trace.sqlog"
    path.write_text(str(trace).replace(RS, ""))
    out = read_trace(path)
    assert (out.sent.height, out.records, out.skipped) == (2, 2, 0)


@pytest.mark.parametrize("block", [50, 333, 1000])
def test_blocks_do_not_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    trace = TraceText()
    trace.first_metrics()
    for n in range(20):
        trace.sent(float(n), n)
        trace.acked(n + 0.5, [0, n])
        trace.metrics(n + 0.5, bytes_in_flight=n)
    whole = read(tmp_path, trace)
    monkeypatch.setattr(container, "BLOCK_BYTES", block)
    told: list[int] = []
    parts = read_trace(tmp_path / "trace.sqlog", told.append)
    assert sum(told) == (tmp_path / "trace.sqlog").stat().st_size
    for name in ("sent", "acks", "metrics", "states"):
        assert getattr(parts, name).equals(getattr(whole, name)), name
    assert (parts.records, parts.skipped, parts.truncated) == (61, 0, False)


@pytest.mark.parametrize(
    "content", [b"", b"\x1e", b"hello\n", b"\x1e[]\n", b'\x1e{"time":1}\n', b"\x00" * 100]
)
def test_what_is_no_qlog_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.bin"
    path.write_bytes(content)
    with pytest.raises(NotQlogError, match=r"other\.bin: not a qlog trace: "):
        read_trace(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotQlogError, match=r"nowhere\.sqlog: cannot read the trace: No such file"):
        read_trace(tmp_path / "nowhere.sqlog")
