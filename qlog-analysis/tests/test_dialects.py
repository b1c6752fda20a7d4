"""Forms of qlog that no program here writes any more, or not in this way."""

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract import Qvis
from synthetic import TraceText

from qlog_analysis import load, load_all
from qlog_analysis.errors import NotQlogError
from qlog_analysis.export.convert import convert
from qlog_analysis.reading import dialects
from qlog_analysis.reading.reader import read_trace

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def save(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "trace.qlog"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def draft_01(**configuration: Any) -> dict[str, Any]:
    sent = {
        "packet_type": "1RTT",
        "header": {"packet_number": "5", "packet_size": 1200},
        "frames": [{"frame_type": "STREAM", "stream_id": "0", "offset": "0", "length": "1000"}],
    }
    acked = {
        "packet_type": "1rtt",
        "header": {"packet_number": "0", "packet_size": 40},
        "frames": [{"frame_type": "ACK", "acked_ranges": [["3", "5"]]}],
    }
    return {
        "qlog_version": "draft-01",
        "traces": [
            {
                "vantage_point": {"type": "server"},
                "configuration": configuration,
                "common_fields": {"reference_time": "1000"},
                "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "TRIGGER", "DATA"],
                "events": [
                    [2000, "TRANSPORT", "PACKET_SENT", "default", sent],
                    [52000, "transport", "packet_received", "default", acked],
                    [52000, "recovery", "metrics_updated", "ack", {"cwnd": 9, "min_rtt": 50_000}],
                    [52001, "recovery", "packet_lost", "x", {"type": "1rtt", "packet_number": "3"}],
                ],
            }
        ],
    }


def test_draft_01_has_rows_numbers_as_text_and_microseconds(tmp_path: Path) -> None:
    trace = load(save(tmp_path, draft_01(time_units="us"))).trace
    assert (trace.records, trace.skipped, trace.vantage) == (4, 0, "server")
    assert trace.sent.rows() == [(0.0, "1RTT", 5, 1200)]
    assert trace.acks.rows() == [(50.0, "1RTT", 3, 5)]
    assert trace.metrics["window_bytes"].to_list() == [9.0]
    assert trace.losses["packet_number"].to_list() == [3]


def sequence(common: dict[str, Any], times: list[float]) -> str:
    header: dict[str, Any] = {
        "qlog_version": "0.4",
        "qlog_format": "NDJSON",
        "trace": {"common_fields": common},
    }
    lines: list[dict[str, Any]] = [header]
    for number, time in enumerate(times):
        data = {"header": {"packet_type": "1RTT", "packet_number": number}, "raw": {"length": 9}}
        lines.append({"time": time, "name": "transport:packet_sent", "data": data})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("common", "times"),
    [
        ({"time_format": "absolute"}, [1.7e12, 1.7e12 + 5, 1.7e12 + 22]),
        ({"time_format": "relative", "reference_time": 1.7e12}, [7, 12, 29]),
        ({"time_format": "delta"}, [1.7e12, 5, 17]),
        ({"time_format": "relative_to_previous_event"}, [0, 5, 17]),
        ({"time_format": "relative_to_epoch"}, [100.5, 105.5, 122.5]),
        ({}, [0, 5, 22]),
    ],
)
def test_times_count_from_the_first_event(
    tmp_path: Path, common: dict[str, Any], times: list[float]
) -> None:
    trace = load(save(tmp_path, sequence(common, times))).trace
    assert trace.sent["time_ms"].to_list() == [0, 5, 22]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_compression_is_told_by_the_first_bytes(tmp_path: Path, pack: Any) -> None:
    text = sequence({}, [0, 1, 2])
    path = tmp_path / "trace.sqlog"
    # Two streams after one another, as a log that was appended to.
    path.write_bytes(pack(text[:300].encode()) + pack(text[300:].encode()))
    trace = load(path).trace
    assert (len(trace.sent), trace.skipped, trace.truncated) == (3, 0, False)


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_compressed_file_that_is_cut_off_gives_what_it_has(tmp_path: Path, pack: Any) -> None:
    text = sequence({}, [float(n * n) for n in range(20_000)])
    path = tmp_path / "trace.sqlog"
    data = pack(text.encode())
    path.write_bytes(data[: len(data) // 2])
    log = load(path)
    assert 5000 < len(log.trace.sent) < 15_000
    assert log.trace.truncated
    assert any("cut off" in text for text in log.warnings())


def test_several_traces_in_a_document(tmp_path: Path) -> None:
    document = draft_01()
    document["traces"] *= 2
    logs = load_all(save(tmp_path, document))
    assert [log.trace.connection for log in logs] == ["trace 1", "trace 2"]
    assert [len(log.trace.sent) for log in logs] == [1, 1]


def test_a_sparse_trace_has_metrics_and_losses(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.state(0.0, "slow_start")
    trace.metrics(60.0, smoothed_rtt=50.0, min_rtt=49.0, latest_rtt=51.0, pto_count=0)
    lost = {"packet_type": "1RTT", "packet_number": 7}
    trace.event(70.0, "packet_lost", header=lost, trigger="time_threshold")
    summary = load(trace.save(tmp_path / "sparse.sqlog")).summary()
    assert (summary.lost_packets, summary.losses_from) == (1, "logged")
    assert (summary.rtt_min_s, summary.rtt_mean_s) == (0.049, 0.050)
    assert (summary.delivered_bps, summary.loss_ratio) == (None, None)


@pytest.mark.parametrize(
    ("header", "program"),
    [
        ({"trace": {"vantage_point": {"name": "ngtcp2", "type": "server"}}}, "ngtcp2"),
        ({"trace": {"vantage_point": {"name": "neqo-Server", "type": "server"}}}, "neqo"),
        ({"title": "neqo-Client trace", "trace": {"vantage_point": {"type": "client"}}}, "neqo"),
        ({"title": "a download", "trace": {"vantage_point": {"type": "server"}}}, "unknown"),
    ],
)
def test_the_program_is_named_by_the_header(tmp_path: Path, header: Any, program: str) -> None:
    header = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", **header}
    trace = TraceText(header)
    trace.sent(1.0, 0)
    assert load(trace.save(tmp_path / "trace.sqlog")).summary().program == program


def picoquic() -> dict[str, Any]:
    """A document in draft-00 as picoquic writes it."""
    frame = {"frame_type": "stream", "id": 4, "offset": 0, "length": 1000, "fin": False}
    sent = {"packet_type": "1RTT", "header": {"packet_number": 7, "packet_size": 1200}}
    acked = {
        "packet_type": "1RTT",
        "header": {"packet_number": 1, "packet_size": 40},
        "frames": [{"frame_type": "ack", "ack_delay": 9, "acked_ranges": [[7, 7]]}],
    }
    return {
        "qlog_version": "draft-00",
        "title": "picoquic",
        "traces": [
            {
                "vantage_point": {"name": "backend-67", "type": "server"},
                "title": "picoquic",
                "configuration": {"time_units": "us"},
                "common_fields": {"protocol_type": "QUIC_HTTP3", "reference_time": "11"},
                "event_fields": ["relative_time", "category", "event", "data"],
                "events": [
                    [0, "transport", "packet_sent", sent | {"frames": [frame]}],
                    [9000, "transport", "packet_received", acked],
                    [9001, "recovery", "metrics_updated", {"cwnd": 15360, "latest_rtt": 9000}],
                ],
            }
        ],
    }


def test_streams_of_picoquic_are_multiplexed_in_qvis(tmp_path: Path) -> None:
    path = save(tmp_path, picoquic())
    done = convert(path, tmp_path / "out.sqlog")
    assert done.notes == []
    out = [json.loads(record) for record in done.path.read_text().split("\x1e")[1:]]
    assert Qvis(out).multiplexing() == 1000
    frame = out[1]["data"]["frames"][0]
    assert (frame["stream_id"], "id" in frame) == (4, False)
    assert [load(one).summary().program for one in (path, done.path)] == ["picoquic", "picoquic"]


def test_a_document_without_events_is_a_trace(tmp_path: Path) -> None:
    path = save(tmp_path, {"qlog_version": "0.3", "traces": [{"events": []}]})
    summary = load(path).summary()
    assert (summary.records, summary.sent_packets) == (0, None)


def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    content = draft_01()
    content["qlog_version"] = "0.1"
    del content["traces"][0]["event_fields"]
    path = save(tmp_path, content)
    with pytest.raises(NotQlogError, match=r"none of its 4 records .* qlog '0\.1'"):
        load(path)


@pytest.mark.parametrize("name", ["congestion_window", "bytes_in_flight", "smoothed_rtt"])
def test_a_negative_amount_is_refused(tmp_path: Path, name: str) -> None:
    trace = TraceText()
    trace.metrics(1.0, congestion_window=9000, bytes_in_flight=0, smoothed_rtt=1.0)
    trace.metrics(2.0, **{name: -5})
    path = trace.save(tmp_path / "trace.sqlog")
    log = load(path)
    assert (log.trace.skipped, len(log.metrics())) == (1, 1)
    assert "a negative window" in log.warnings()[0]
    assert convert(path, tmp_path / "out.sqlog").skipped == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n\x1a\n123", r"a picture \(PNG\)"),
        (b"\xd4\xc3\xb2\xa1\x02\x00", "a packet capture"),
        (b"PK\x03\x04abc", "a zip archive: unpack it first"),
        (b'{"constants":{"logEventTypes":{}},"events":[]}', "a NetLog of Chromium"),
        (b'{"a": 1}\n{"a": 2}\n', "JSON, but not qlog"),
        (b"<!doctype html>", "HTML"),
        (b"time,name\n1,2\n", "it starts with 'time,name"),
        (gzip.compress(b"hello"), "it starts with 'hello'"),
    ],
)
def test_what_is_no_qlog_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(NotQlogError, match=rf"file: not a qlog trace: {what}"):
        load(path)


@pytest.mark.parametrize("end", ["client", "server"])
def test_quic_go_is_the_same_read_as_it_is_and_translated(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    path = Path(__file__).parent / "fixtures" / f"quic-go.{end}.sqlog.gz"
    native = read_trace(path, received=True)
    monkeypatch.setattr(dialects, "QUIC_GO", replace(dialects.QUIC_GO, native=False))
    translated = read_trace(path, received=True)
    assert native.records == translated.records
    for name in ("sent", "received", "acks", "metrics", "states", "losses"):
        assert getattr(native, name).equals(getattr(translated, name)), name


def test_a_senseless_header_of_a_quinn_event_costs_that_event(tmp_path: Path) -> None:
    header = {
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "trace": {"vantage_point": {"type": "unknown"}, "configuration": {"time_offset": 0.0}},
    }
    bad = {"time": 1, "name": "transport:x", "data": {"header": 7}, "group_id": "a"}
    sent = {"header": {"packet_type": "1RTT", "packet_number": 3, "length": 9}}
    good = {"time": 2, "name": "transport:packet_sent", "data": sent, "group_id": "a"}
    path = save(tmp_path, "".join(json.dumps(one) + "\n" for one in (header, bad, good)))
    trace = load(path).trace
    assert (trace.dialect.name, trace.records, trace.skipped) == ("quinn", 2, 1)
    assert trace.sent["packet_number"].to_list() == [3]
