"""The library's face, summaries, Parquet and the comparison of traces, on several programs'."""

import json
import math
from pathlib import Path

import polars as pl
import pytest
from synthetic import TraceText, steady_trace

from qlog_analysis import load, load_all
from qlog_analysis.commands.cli import main
from qlog_analysis.errors import SeveralTracesError
from qlog_analysis.export.parquet import TABLES, to_parquet

FIXTURES = Path(__file__).parent / "fixtures"
REPORTED = json.loads((FIXTURES / "reported.json").read_text())
SERVERS = [
    "udp-vegas.server.sqlog.gz",
    "quic-go.server.sqlog.gz",
    "quinn.server.sqlog.gz",
    "aioquic.server.qlog.gz",
]


def two_connections(tmp_path: Path) -> Path:
    trace = TraceText({"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {}})
    for time in range(4):
        for group in ("a", "b"):
            data = {
                "header": {"packet_type": "1RTT", "packet_number": time},
                "raw": {"length": 100 if group == "a" else 200},
            }
            event = {"time": time, "name": "transport:packet_sent", "group_id": group}
            trace.raw(json.dumps({**event, "data": data}))
    return trace.save(tmp_path / "two.sqlog")


def test_a_log_has_tables_and_a_summary() -> None:
    log = load(FIXTURES / "udp-vegas.server.sqlog.gz")
    packets = log.packets()
    assert packets.columns == [
        "time_ms", "direction", "packet_type", "packet_number", "length_bytes",
    ]  # fmt: skip
    assert packets["time_ms"].is_sorted()
    assert packets["direction"].value_counts().sort("direction").rows() == [
        ("received", 197),
        ("sent", 199),
    ]
    assert log.losses()["packet_number"].to_list() == [40, 41, 91]
    assert (log.losses()["lost_ms"] > log.losses()["sent_ms"]).all()
    assert log.states()["state"][0] == "slow_start"
    assert log.metrics()["vegas_base_rtt_ms"].drop_nulls().len() > 100
    assert log.acks().height > 200
    assert log.warnings() == []
    assert "udp-vegas.server.sqlog.gz" in repr(log)


@pytest.mark.parametrize("name", SERVERS)
def test_a_summary_has_what_the_client_saw(name: str) -> None:
    summary = load(FIXTURES / name).summary()
    seconds = REPORTED[name]["client_seconds"]
    assert summary.delivered_bps == pytest.approx(250_000 * 8 / seconds, rel=0.15)
    assert summary.losses_from == "logged"
    assert summary.lost_packets == REPORTED[name].get("packets_lost", 18)
    assert summary.rtt_min_s == pytest.approx(REPORTED[name]["min_rtt_ms"] / 1000, rel=1e-6)
    assert summary.rtt_min_s <= summary.rtt_mean_s <= summary.rtt_p95_s < 0.12  # type: ignore[operator]
    assert 10_000 < summary.cwnd_mean_bytes < summary.cwnd_max_bytes < 100_000  # type: ignore[operator]


def test_a_receiver_is_measured_by_what_arrived() -> None:
    summary = load(FIXTURES / "udp-vegas.client.sqlog.gz").summary()
    assert (summary.delivered_from, summary.vantage) == ("received", "client")
    assert summary.delivered_bytes == pytest.approx(257_850, rel=0.01)
    quinn = load(FIXTURES / "quinn.client.sqlog.gz").summary()
    assert (quinn.delivered_bps, quinn.arrived_bytes) == (None, None)


def test_a_summary_of_known_traffic(tmp_path: Path) -> None:
    summary = load(steady_trace().save(tmp_path / "steady.sqlog")).summary()
    assert summary.sent_packets == 9500
    assert summary.delivered_from == "acknowledged"
    assert summary.delivered_bytes == 9450 * 1000
    assert summary.delivered_bps == pytest.approx(9450 * 8000 / 9.999, rel=1e-3)
    assert (summary.rtt_min_s, summary.rtt_mean_s, summary.rtt_p95_s) == (0.05, 0.05, 0.05)
    assert summary.slow_start_exit_s == 0.5
    assert summary.cwnd_max_bytes == 60_000


def test_an_empty_trace_has_an_empty_summary(tmp_path: Path) -> None:
    summary = load(TraceText().save(tmp_path / "empty.sqlog")).summary()
    assert summary.records == 0
    assert summary.sent_packets is summary.lost_packets is summary.sent_bytes is None
    assert summary.delivered_bps is summary.duration_s is summary.rtt_mean_s is None


def test_a_sparse_trace_does_not_say_how_many_packets_were_sent(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    trace.metrics(10.0, min_rtt=50.0, smoothed_rtt=50.0, latest_rtt=50.0)
    trace.event(20.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": 7})
    summary = load(trace.save(tmp_path / "sparse.sqlog")).summary()
    assert (summary.lost_packets, summary.losses_from) == (1, "logged")
    for name in ("sent_packets", "sent_bytes", "arrived_packets", "arrived_bytes", "loss_ratio"):
        assert getattr(summary, name) is None, name


def test_no_losses_are_derived_without_packets(tmp_path: Path) -> None:
    header = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {}}
    trace = TraceText(header)
    trace.raw('{"time":1,"name":"recovery:metrics_updated","data":{"smoothed_rtt":50}}')
    log = load(trace.save(tmp_path / "other.sqlog"))
    assert not log.trace.dialect.logs_losses
    assert log.summary().lost_packets is None
    assert log.summary().losses_from is None


def test_a_sparse_trace_without_losses_counts_none(tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    summary = load(trace.save(tmp_path / "sparse.sqlog")).summary()
    assert (summary.lost_packets, summary.sent_packets) == (0, None)


def test_several_connections_in_a_file(tmp_path: Path) -> None:
    path = two_connections(tmp_path)
    assert [log.trace.connection for log in load_all(path)] == ["a", "b"]
    assert [log.summary().sent_bytes for log in load_all(path)] == [400, 800]
    with pytest.raises(SeveralTracesError, match=r"2 connections \(a, b\)"):
        load(path)


def test_parquet_has_all_traces_in_one_file_per_kind(tmp_path: Path) -> None:
    paths = [FIXTURES / name for name in SERVERS]
    written = to_parquet([*paths, two_connections(tmp_path)], tmp_path / "out")
    assert [path.name for path in written] == [f"{name}.parquet" for name in TABLES]
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)
    front = ["trace", "connection", "vantage", "program"]
    for path in written:
        assert pl.read_parquet(path).columns[:4] == front
    traces = pl.read_parquet(tmp_path / "out/traces.parquet")
    programs = ["quiche", "quic-go", "quinn", "aioquic", "unknown", "unknown"]
    assert traces["program"].to_list() == programs
    packets = pl.read_parquet(tmp_path / "out/packets.parquet")
    for path in paths:
        log = load(path)
        mine = packets.filter(pl.col("trace") == str(path)).drop(front)
        assert mine.equals(log.packets())
        lost = pl.read_parquet(tmp_path / "out/losses.parquet").filter(trace=str(path))
        assert len(lost) == len(log.losses())


def test_to_parquet_leaves_out_what_is_no_qlog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.sqlog"
    bad.write_text("hello")
    arguments = ["to-parquet", str(bad), str(FIXTURES / SERVERS[0]), "--out", str(tmp_path / "out")]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert "bad.sqlog: not a qlog trace" in err
    assert "left out" in err
    assert len(out.splitlines()) == len(TABLES)


def test_summary_prints_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(FIXTURES / name) for name in SERVERS]
    assert main(["summary", *names]) == 0
    out = capsys.readouterr().out
    assert out.count("Throughput in UDP payload (Mbit/s)") == 4
    assert main(["summary", "--json", *names]) == 0
    summaries = json.loads(capsys.readouterr().out)["traces"]
    assert [one["trace"] for one in summaries] == names
    assert all(math.isfinite(one["delivered_bps"]) for one in summaries)


def test_compare_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = TraceText()
    bad.sent(1.0, 0)
    bad.raw("nonsense")
    names = [str(FIXTURES / name) for name in SERVERS[:2]]
    path = bad.save(tmp_path / "<b>.sqlog")
    assert main(["compare", *names, str(path), "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert "1 of 2 records could not be read" in err
    assert "udp-vegas.server.sqlog.gz" in out.splitlines()[0]
    html = (tmp_path / "out/report.html").read_text()
    assert html.count("<svg") == 4
    assert "&lt;b&gt;.sqlog" in html
    assert "<b>.sqlog" not in html
    assert "<script" not in html
    assert 'src="http' not in html
    summaries = json.loads((tmp_path / "out/summary.json").read_text())["traces"]
    assert [one["program"] for one in summaries] == ["quiche", "quic-go", "quiche"]
    assert len((tmp_path / "out/summary.csv").read_text().splitlines()) == 4
    assert len(list((tmp_path / "out/plots").glob("*.svg"))) == 4


def test_convert_tells_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.sqlog"
    path = str(FIXTURES / SERVERS[0])
    assert main(["convert", path, "--out", str(out), "--for", "qvis"]) == 0
    assert capsys.readouterr().out == f"{out}: 1154 events\n"
    assert main(["convert", path, path, "--out", str(out)]) == 1
    assert "expected one trace, not 2" in capsys.readouterr().err
