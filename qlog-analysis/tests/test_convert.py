"""Converted files: the events that are kept, added and mended."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from contract import Qvis
from polars.testing import assert_frame_equal
from synthetic import TraceText

from qlog_analysis import load, load_all
from qlog_analysis.errors import NotQlogError, UsageError
from qlog_analysis.export.convert import Target, convert, out_path
from qlog_analysis.reading.reader import Trace, read_trace

FIXTURES = Path(__file__).parent / "fixtures"
ALL = sorted(path.name for path in FIXTURES.glob("*.gz"))


def records(path: Path) -> list[Any]:
    return [json.loads(record) for record in path.read_text().split("\x1e")[1:]]


def tables(trace: Trace) -> dict[str, pl.DataFrame]:
    return {
        name: getattr(trace, name)
        for name in ("sent", "received", "acks", "metrics", "states", "losses")
    }


@pytest.mark.parametrize("target", ["dancer", "qvis"])
@pytest.mark.parametrize("name", ALL)
def test_a_converted_trace_says_the_same(name: str, target: Target, tmp_path: Path) -> None:
    path = FIXTURES / name
    out = tmp_path / out_path(path).name
    done = convert(path, out, target)
    before = read_trace(path, received=True)
    after = read_trace(out, received=True)
    assert (done.path, done.events, done.derived_losses, done.skipped) == (
        out, before.records, 0, 0,
    )  # fmt: skip
    assert (after.records, after.skipped, after.unordered) == (before.records, 0, before.unordered)
    assert after.vantage == before.vantage
    for table, wanted in tables(before).items():
        assert_frame_equal(tables(after)[table], wanted)


@pytest.mark.parametrize("controller", ["reno", "cubic", "bbr2", "vegas"])
def test_losses_that_are_not_logged_are_derived(controller: str, tmp_path: Path) -> None:
    whole = gzip.decompress((FIXTURES / f"udp-{controller}.server.sqlog.gz").read_bytes())
    path = tmp_path / "old.sqlog"
    kept = [r for r in whole.split(b"\x1e") if b'"quic:packet_lost"' not in r]
    path.write_bytes(b"\x1e".join(kept))
    done = convert(path, tmp_path / "new.sqlog")
    logged = read_trace(FIXTURES / f"udp-{controller}.server.sqlog.gz").losses
    derived = read_trace(done.path).losses
    assert done.derived_losses == len(logged) > 0
    assert set(derived["packet_number"]) == set(logged["packet_number"])
    assert read_trace(done.path).unordered == 0
    times = derived.join(logged, on="packet_number")
    # As logged, to within the time a timer took.
    assert (times["time_ms"] - times["time_ms_right"]).abs().max() < 5  # type: ignore[operator]


def test_events_out_of_order_are_sorted(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    trace.sent(3.0, 2)
    trace.sent(2.0, 1)
    path = trace.save(tmp_path / "trace.sqlog")
    assert read_trace(path).unordered == 1
    assert read_trace(path).sent["packet_number"].to_list() == [0, 1, 2]
    out = convert(path, tmp_path / "out.sqlog").path
    records = [json.loads(record) for record in out.read_text().split("\x1e")[2:]]
    assert [record["time"] for record in records] == [1.0, 2.0, 3.0]


def test_http3_frames_have_the_length_that_qvis_looks_for(tmp_path: Path) -> None:
    trace = TraceText()
    for name in ("frame_created", "frame_parsed"):
        data = {"stream_id": 0, "length": 97, "frame": {"frame_type": "data"}}
        trace.raw(json.dumps({"time": 1.0, "name": f"http3:{name}", "data": data}))
    out = convert(trace.save(tmp_path / "trace.sqlog"), tmp_path / "out.sqlog").path
    records = [json.loads(record) for record in out.read_text().split("\x1e")[2:]]
    assert [record["data"]["byte_length"] for record in records] == [97, 97]


def sparse_trace() -> TraceText:
    trace = TraceText()
    trace.first_metrics()
    for at in range(1, 11):
        trace.metrics(
            10.0 * at, latest_rtt=40.0 + at, smoothed_rtt=40.0, min_rtt=40.0, bytes_in_flight=at
        )
    header = {"packet_type": "1RTT", "packet_number": 77}
    trace.event(55.0, "packet_lost", header=header)
    return trace


def test_a_sparse_trace_says_which_views_are_empty_and_fills_congestion(tmp_path: Path) -> None:
    path = sparse_trace().save(tmp_path / "trace.sqlog")
    done = convert(path, tmp_path / "out.sqlog")
    assert [name in done.notes[0] for name in ("Multiplexing", "Packetization")] == [True, True]
    assert len(done.notes) == 1
    qvis = Qvis(records(done.path))
    drawn = qvis.congestion(has_acks=False)
    assert (drawn["lost"], drawn["latest_rtt"], drawn["bytes_in_flight"]) == (1, 10, 11)
    # qvis draws for as long as there are packets.
    times = [event["time"] for event in qvis.lookup("transport", "packet_sent")]
    assert (min(times), max(times)) == (0.0, 100.0)


def test_packets_that_stand_in_do_not_count(tmp_path: Path) -> None:
    path = sparse_trace().save(tmp_path / "trace.sqlog")
    done = convert(path, tmp_path / "out.sqlog")
    before, after = load(path).summary(), load(done.path).summary()
    assert after.sent_packets is None
    assert after.loss_ratio is None
    assert (after.lost_packets, after.rtt_min_s) == (before.lost_packets, before.rtt_min_s)
    again = convert(done.path, tmp_path / "again.sqlog")
    assert again.notes == done.notes


def test_a_full_trace_fills_all_views(tmp_path: Path) -> None:
    for name in ("udp-vegas.server.sqlog.gz", "udp-vegas.client.sqlog.gz"):
        assert convert(FIXTURES / name, tmp_path / "out.sqlog").notes == []


def test_packets_without_frames_are_announced(tmp_path: Path) -> None:
    notes = convert(FIXTURES / "quinn.server.sqlog.gz", tmp_path / "out.sqlog").notes
    assert notes == ["its packets have no frames: Multiplexing and Packetization will be empty"]


@pytest.mark.parametrize("target", ["dancer", "qvis"])
@pytest.mark.parametrize("name", ALL)
def test_the_program_is_the_one_that_sent(name: str, target: Target, tmp_path: Path) -> None:
    once = convert(FIXTURES / name, tmp_path / "once.sqlog", target).path
    twice = convert(once, tmp_path / "twice.sqlog", target).path
    program = load_all(FIXTURES / name)[0].summary().program
    assert program in {"aioquic", "quic-go", "quiche", "quinn"}
    assert [load_all(path)[0].summary().program for path in (once, twice)] == [program, program]


def test_bad_records_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    trace.raw('{"time":2,"name":"quic:packet_sent","data":{"hea')
    trace.raw('{"time":NaN,"name":"quic:packet_sent","data":{}}')
    trace.sent(3.0, 1)
    path = trace.save(tmp_path / "trace.sqlog")
    done = convert(path, tmp_path / "out.sqlog")
    assert (done.events, done.skipped) == (2, 2)
    assert read_trace(done.path).skipped == 0


def test_nothing_is_written_over_the_original(tmp_path: Path) -> None:
    path = TraceText().save(tmp_path / "trace.sqlog")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is the trace itself"):
        convert(path, path)
    assert path.read_bytes() == before


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    path = TraceText().save(tmp_path / "trace.sqlog")
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    with pytest.raises(UsageError, match="is not a regular file"):
        convert(path, null)
    assert null.is_symlink()


def test_what_is_no_qlog_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(NotQlogError, match="not a qlog trace"):
        convert(path, tmp_path / "out.sqlog")
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_conversion_has_a_name_that_qvis_takes() -> None:
    assert out_path(Path("a/x.sqlog.gz")) == Path("a/x.converted.sqlog")
    assert out_path(Path("y.qlog")) == Path("y.converted.sqlog")
    assert out_path(Path("y.trace.json.zst")) == Path("y.trace.converted.sqlog")
