"""packets_acked events (quic-events-13), which stand for ACK frames that are not logged.

quinn 0.11 logs neither, so its trace is given the events: each packet that was not lost is
acknowledged 50 ms after it was sent, two to an event.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from synthetic import TraceText

from qlog_analysis import load
from qlog_analysis.export.convert import convert
from qlog_analysis.metrics.delivery import acknowledged_ms, delivered, is_application
from qlog_analysis.metrics.timeline import timeline
from qlog_analysis.reading.reader import Trace, read_trace

QUINN = Path(__file__).parent / "fixtures/quinn.server.sqlog.gz"
SPACES = {"initial": "initial", "handshake": "handshake", "1RTT": "application_data"}


def quinn_with_acks(path: Path) -> Path:
    header, *lines = gzip.decompress(QUINN.read_bytes()).decode().split("\x1e")[1:]
    events = [json.loads(line) for line in lines]
    lost = {
        event["data"]["header"]["packet_number"]
        for event in events
        if event["name"] == "recovery:packet_lost"
    }
    by_space: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        kind = event["data"].get("header", {}).get("packet_type")
        sent = event["name"] == "transport:packet_sent"
        if sent and (kind != "1RTT" or event["data"]["header"]["packet_number"] not in lost):
            by_space.setdefault(kind, []).append(event)
    acked = [
        {
            "time": pair[-1]["time"] + 50,
            "name": "transport:packets_acked",
            "data": {
                "packet_number_space": SPACES[kind],
                "packet_numbers": [event["data"]["header"]["packet_number"] for event in pair],
            },
            "group_id": pair[0]["group_id"],
        }
        for kind, sent_events in by_space.items()
        for pair in (sent_events[i : i + 2] for i in range(0, len(sent_events), 2))
    ]
    records = [header, *map(json.dumps, sorted(events + acked, key=lambda event: event["time"]))]
    path.write_text("".join(f"\x1e{record.strip()}\n" for record in records))
    return path


@pytest.fixture
def quinn(tmp_path: Path) -> Trace:
    return read_trace(quinn_with_acks(tmp_path / "quinn.sqlog"), received=True)


def test_quinn_delivers_what_was_acknowledged(quinn: Trace) -> None:
    plain = read_trace(QUINN, received=True)
    assert plain.acks.is_empty()
    assert (quinn.dialect.name, quinn.skipped, quinn.unordered) == ("quinn", 0, 0)
    sent = quinn.sent.filter(is_application())
    lost = set(quinn.losses["packet_number"])
    assert lost
    times, sizes = delivered(quinn)
    kept = sent.filter(~pl.col("packet_number").is_in(list(lost)))
    assert (len(times), sizes.sum()) == (len(kept), kept["length_bytes"].sum())
    waited = acknowledged_ms(quinn, kept) - kept["time_ms"].to_numpy()
    assert waited.min() == pytest.approx(50)
    assert np.median(waited) < 60
    assert quinn.sent.equals(plain.sent)
    assert quinn.metrics.equals(plain.metrics)


def test_quinn_has_a_summary_and_marks_of_acks(quinn: Trace, tmp_path: Path) -> None:
    before, after = load(QUINN).summary(), load(tmp_path / "quinn.sqlog").summary()
    assert (before.delivered_from, after.delivered_from) == ("sent", "acknowledged")
    assert after.delivered_bytes == before.delivered_bytes
    assert after.lost_packets == before.lost_packets
    assert after.rtt_min_s == before.rtt_min_s
    marks = timeline(quinn)
    assert marks.acks_s.tolist() == np.unique(quinn.acks["time_ms"].to_numpy() / 1000).tolist()
    assert len(marks.acks_s) > 50
    assert len(timeline(read_trace(QUINN)).acks_s) == 0


def test_a_conversion_keeps_them(quinn: Trace, tmp_path: Path) -> None:
    again = read_trace(convert(quinn.path, tmp_path / "out.sqlog").path, received=True)
    assert again.acks.equals(quinn.acks)


def acked(trace: TraceText, time: float, **data: Any) -> None:
    trace.event(time, "packets_acked", **data)


def test_numbers_become_ranges_of_their_space(tmp_path: Path) -> None:
    trace = TraceText()
    acked(trace, 1, packet_number_space="initial", packet_numbers=[0])
    acked(trace, 2, packet_number_space="handshake", packet_numbers=[1, 0])
    acked(trace, 3, packet_number_space="application_data", packet_numbers=[7, 3, 4, 8, 4, 5])
    acked(trace, 4, packet_numbers=[6])
    acked(trace, 5, packet_number_space="application_data")
    out = read_trace(trace.save(tmp_path / "trace.sqlog"))
    assert out.acks.rows() == [
        (1, "initial", 0, 0),
        (2, "handshake", 0, 1),
        (3, "1RTT", 3, 5),
        (3, "1RTT", 7, 8),
        (4, "1RTT", 6, 6),
    ]
    assert (out.records, out.skipped) == (5, 0)


def test_frames_go_before(tmp_path: Path) -> None:
    trace = TraceText()
    trace.acked(1, [0, 3])
    acked(trace, 1, packet_number_space="application_data", packet_numbers=[3])
    out = read_trace(trace.save(tmp_path / "trace.sqlog"))
    assert out.acks.rows() == [(1, "1RTT", 0, 3)]


@pytest.mark.parametrize("numbers", [[-1], ["x"], [1.5], 3, [1 << 62]])
def test_senseless_numbers_cost_the_event(tmp_path: Path, numbers: Any) -> None:
    trace = TraceText()
    acked(trace, 1, packet_numbers=numbers)
    acked(trace, 2, packet_numbers=[2])
    out = read_trace(trace.save(tmp_path / "trace.sqlog"))
    assert out.acks.rows() == [(2, "1RTT", 2, 2)]
    assert (out.records, out.skipped) == (2, 1)


def test_the_first_drafts_have_numbers_as_text(tmp_path: Path) -> None:
    header = {"qlog_version": "draft-02", "qlog_format": "NDJSON", "trace": {}}
    data = {"packet_number_space": "application_data", "packet_numbers": ["4", "5"]}
    event = {"time": 3, "name": "transport:packets_acked", "data": data}
    path = tmp_path / "old.qlog"
    path.write_text(f"{json.dumps(header)}\n{json.dumps(event)}\n")
    assert read_trace(path).acks.rows() == [(0, "1RTT", 4, 5)]
