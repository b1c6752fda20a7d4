"""Files with several traces: documents with more than one, and sequences after one another."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from synthetic import TraceText

from qlog_analysis import load, load_all
from qlog_analysis.commands.cli import main
from qlog_analysis.errors import SeveralTracesError, UsageError
from qlog_analysis.export.convert import convert
from qlog_analysis.export.parquet import to_parquet
from qlog_analysis.reading import container
from qlog_analysis.reading.reader import read_trace

COUNT = 3
TABLES = ("sent", "acks", "metrics", "states")


def trace_text(number: int) -> TraceText:
    """The same packet numbers in each, of other lengths."""
    trace = TraceText()
    for packet in range(number):
        trace.sent(float(packet), packet, 100 * number)
        trace.acked(packet + 40.0, [0, packet])
    return trace


def sequences(path: Path) -> Path:
    path.write_text("".join(str(trace_text(number)) for number in range(1, COUNT + 1)))
    return path


def document(path: Path) -> Path:
    traces = []
    for number in range(1, COUNT + 1):
        header, *events = (json.loads(record) for record in trace_text(number).records)
        for event in events:
            event["name"] = event["name"].replace("quic:", "transport:")
        traces.append({**header["trace"], "events": events})
    path.write_text(json.dumps({"qlog_version": "0.3", "qlog_format": "JSON", "traces": traces}))
    return path


MAKE = pytest.mark.parametrize("make", [sequences, document])
Make = Callable[[Path], Path]


@MAKE
def test_each_trace_is_its_own(make: Make, tmp_path: Path) -> None:
    logs = load_all(make(tmp_path / "three.sqlog"))
    assert [log.trace.connection for log in logs] == ["trace 1", "trace 2", "trace 3"]
    assert [log.trace.number for log in logs] == [1, 2, 3]
    assert [log.summary().sent_bytes for log in logs] == [100, 400, 900]
    assert [log.summary().records for log in logs] == [2, 4, 6]
    for number, log in enumerate(logs, 1):
        alone = read_trace(trace_text(number).save(tmp_path / "one.sqlog"))
        for table in TABLES:
            assert_frame_equal(getattr(log.trace, table), getattr(alone, table))


@MAKE
def test_one_is_loaded_by_its_name(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "three.sqlog")
    with pytest.raises(SeveralTracesError, match=r"3 connections \(trace 1, .*\); expected one"):
        load(path)
    assert load(path, connection="trace 2").summary().sent_bytes == 400
    with pytest.raises(SeveralTracesError, match="there is no 'trace 4'"):
        load(path, connection="trace 4")
    one = trace_text(1).save(tmp_path / "one.sqlog")
    with pytest.raises(SeveralTracesError, match="one connection without a name; there is no 'x'"):
        load(one, connection="x")


@MAKE
def test_one_is_converted(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "three.sqlog")
    for number in range(1, COUNT + 1):
        done = convert(path, tmp_path / "out.sqlog", number=number)
        again = read_trace(done.path)
        assert done.events == again.records == 2 * number
        assert_frame_equal(again.sent, load_all(path)[number - 1].trace.sent)


@MAKE
def test_which_one_has_to_be_said(make: Make, tmp_path: Path) -> None:
    path = make(tmp_path / "three.sqlog")
    out = tmp_path / "out.sqlog"
    with pytest.raises(UsageError, match=r"three.sqlog: holds 3 traces; choose one with --trace N"):
        convert(path, out)
    for number in (0, 4, -1):
        with pytest.raises(UsageError, match=rf"--trace {number}: .*three.sqlog holds 3 traces"):
            convert(path, out, number=number)
    one = trace_text(1).save(tmp_path / "one.sqlog")
    with pytest.raises(UsageError, match=r"--trace 2: .*one.sqlog holds one trace"):
        convert(one, out, number=2)
    assert convert(one, out, number=1).events == 2


def test_the_command_line_takes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(sequences(tmp_path / "three.sqlog"))
    assert main(["convert", path]) == 1
    assert "holds 3 traces; choose one with --trace N (1 to 3)" in capsys.readouterr().err
    assert main(["convert", path, "--trace", "2"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'three.2.converted.sqlog'}: 4 events\n"
    assert main(["plot", path]) == 1
    assert "(trace 1, trace 2, trace 3); expected one; choose one with --connection NAME" in (
        capsys.readouterr().err
    )
    assert main(["plot", path, "--connection", "trace 3", "--out", str(tmp_path / "3.svg")]) == 0
    assert main(["summary", path, "--json"]) == 0
    captured = capsys.readouterr()
    traces = json.loads(captured.out.partition("\n")[2])["traces"]
    assert [one["connection"] for one in traces] == ["trace 1", "trace 2", "trace 3"]
    assert main(["compare", path]) == 0
    assert "three.sqlog trace 2" in capsys.readouterr().out


def test_parquet_has_a_row_for_each(tmp_path: Path) -> None:
    to_parquet([sequences(tmp_path / "three.sqlog")], tmp_path / "out")
    rows = pl.read_parquet(tmp_path / "out/traces.parquet").select("connection", "sent_packets")
    assert rows.rows() == [("trace 1", 1), ("trace 2", 2), ("trace 3", 3)]


@pytest.mark.parametrize("block", [40, 333, 1000])
def test_blocks_do_not_change_the_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    path = sequences(tmp_path / "three.sqlog")
    whole = load_all(path)
    monkeypatch.setattr(container, "BLOCK_BYTES", block)
    parts = load_all(path)
    assert [log.trace.number for log in parts] == [1, 2, 3]
    for one, other in zip(parts, whole, strict=True):
        assert one.trace.dialect == other.trace.dialect
        for table in TABLES:
            assert getattr(one.trace, table).equals(getattr(other.trace, table))


def test_damage_is_counted_where_it_is(tmp_path: Path) -> None:
    second = trace_text(2)
    second.raw("nonsense")
    path = tmp_path / "two.sqlog"
    path.write_text(f"{trace_text(1)}{second}{trace_text(3)}"[:-20])
    traces = [log.trace for log in load_all(path)]
    assert [one.skipped for one in traces] == [0, 1, 1]
    assert [one.truncated for one in traces] == [False, False, True]


def test_what_comes_before_the_first_header_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "late.sqlog"
    path.write_text(f"starting\n{trace_text(2)}".replace("\x1e", ""))
    trace = read_trace(path)
    assert (trace.connection, trace.records, trace.skipped) == ("", 5, 1)
    assert trace.header["title"] == "synthetic"


def test_traces_without_events_keep_their_place(tmp_path: Path) -> None:
    empty = TraceText()
    path = tmp_path / "three.sqlog"
    path.write_text(f"{empty}{trace_text(2)}{empty}")
    assert [len(log.trace.sent) for log in load_all(path)] == [0, 2, 0]
    assert convert(path, tmp_path / "out.sqlog", number=2).events == 4
