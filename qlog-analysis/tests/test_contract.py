"""Our traces, raw and converted, against the drafts and against what qvis needs."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from contract import Qvis, deviations

from qlog_analysis.export.convert import Target, convert, out_path
from qlog_analysis.reading.reader import read_trace, read_traces

FIXTURES = Path(__file__).parent / "fixtures"
ALL = sorted(path.name for path in FIXTURES.glob("*.gz"))
OURS = [name for name in ALL if name.startswith(("sim-", "udp-"))]
QVIS = sorted(path.name for path in (FIXTURES / "qvis").glob("*.gz"))
CONTROLLERS = {"reno", "cubic", "bbr2", "vegas", "gallop-vegas"}

# The departures of quiche's own output from the drafts, apart from units, which no type tells:
# pacing_rate is in bytes per second, RTTs before the first sample and ssthresh before the first
# loss stand for "none". The converter mends all of it.
RAW_DEVIATIONS = (
    "header.serialization_format: str 'JSON-SEQ'",
    "quic:packet_sent.header.version: str '1'",
    "quic:packet_received.header.version: str '1'",
)
# Its fields beside those of the drafts.
RAW_EXTENSIONS = {
    "quic:packet_sent.send_at_time",
    "quic:recovery_metrics_updated.cf_app_limited",
    "quic:recovery_metrics_updated.cf_delivery_rate",
    "quic:recovery_metrics_updated.cf_lost_bytes",
    "quic:recovery_metrics_updated.cf_lost_packets",
    "quic:recovery_metrics_updated.cf_send_rate",
    "quic:recovery_metrics_updated.cf_ack_rate",
    "quic:recovery_metrics_updated.vegas_actual_bps",
    "quic:recovery_metrics_updated.vegas_alpha_packets",
    "quic:recovery_metrics_updated.vegas_backlog_packets",
    "quic:recovery_metrics_updated.vegas_beta_packets",
    "quic:recovery_metrics_updated.vegas_base_rtt_ms",
    "quic:recovery_metrics_updated.vegas_expected_bps",
    "quic:recovery_metrics_updated.vegas_incr_packets",
    "quic:recovery_metrics_updated.vegas_round_rtt_ms",
    "quic:recovery_metrics_updated.vegas_status",
}


def records(path: Path) -> list[Any]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(record) for record in text.split("\x1e") if record]


def converted(name: str, target: Target, tmp_path: Path) -> list[Any]:
    out = tmp_path / out_path(FIXTURES / name).name
    convert(FIXTURES / name, out, target)
    return records(out)


def test_there_are_traces_of_all_controllers() -> None:
    for where in ("sim", "udp"):
        assert {f"{where}-{controller}.server.sqlog.gz" for controller in CONTROLLERS} <= set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_a_raw_trace_departs_from_the_drafts_only_as_is_known(name: str) -> None:
    wrong, unknown = deviations(records(FIXTURES / name))
    assert set(wrong) <= set(RAW_DEVIATIONS)
    assert unknown <= RAW_EXTENSIONS


@pytest.mark.parametrize("name", OURS)
def test_a_converted_trace_is_as_the_drafts_have_it(name: str, tmp_path: Path) -> None:
    wrong, unknown = deviations(converted(name, "dancer", tmp_path))
    assert wrong == []
    assert unknown <= RAW_EXTENSIONS | {"header.converter", "quic:packet_lost.raw"}


@pytest.mark.parametrize("name", ALL)
def test_all_views_of_qvis_have_what_they_need(name: str, tmp_path: Path) -> None:
    traces = read_traces(FIXTURES / name)
    trace = traces[0]
    out = converted(name, "qvis", tmp_path)
    # qvis judges a file by what is in its first 1024 bytes.
    assert all(key in json.dumps(out[0])[:1024] for key in ("qlog_version", "JSON-SEQ"))
    qvis = Qvis(out)
    has_frames = trace.dialect.name != "quinn"
    qvis.sequence()
    drawn = qvis.congestion(has_acks=has_frames)
    assert drawn["lost"] == len(trace.losses)
    assert min(drawn[name] for name in ("congestion_window", "smoothed_rtt", "min_rtt")) > 0
    if ".server." in name:
        assert drawn["bytes_in_flight"] > 50
        assert drawn["latest_rtt"] > 50
    if has_frames and ("udp" in name or "quic-go" in name or "aioquic" in name):
        assert 250_000 <= qvis.multiplexing() < 320_000
    qvis.packetization()
    counts = qvis.statistics()
    assert counts["transport", "packet_sent"] == len(trace.sent)
    assert counts.get(("recovery", "packet_lost"), 0) == len(trace.losses)


def test_the_server_has_written_traces_for_qvis_under_all_controllers() -> None:
    assert {f"{controller}.server.sqlog.gz" for controller in CONTROLLERS} <= set(QVIS)


@pytest.mark.parametrize("name", QVIS)
def test_what_is_written_for_qvis_needs_no_conversion(name: str) -> None:
    path = FIXTURES / "qvis" / name
    trace = read_trace(path, received=True)
    out = records(path)
    # Each event is there once, under the name that qvis knows.
    assert not any(event["name"].startswith(("quic:", "http3:")) for event in out[1:])
    assert all(key in json.dumps(out[0])[:1024] for key in ("qlog_version", "JSON-SEQ"))
    qvis = Qvis(out)
    qvis.sequence()
    drawn = qvis.congestion(has_acks=True)
    assert drawn["lost"] == len(trace.losses)
    assert min(drawn[name] for name in ("congestion_window", "smoothed_rtt", "min_rtt")) > 0
    assert 300_000 <= qvis.multiplexing() < 370_000
    qvis.packetization()
    counts = qvis.statistics()
    assert counts["transport", "packet_sent"] == len(trace.sent)
    assert (trace.skipped, trace.unordered, trace.truncated) == (0, 0, False)


def test_gallop_server_and_the_converter_have_the_same_rules(tmp_path: Path) -> None:
    # gallop-interop holds what it writes against the same file.
    folder = FIXTURES / "qvis"
    convert(folder / "trace.sqlog", tmp_path / "out.sqlog")
    ours, wanted = records(tmp_path / "out.sqlog"), records(folder / "converted.sqlog")
    for out in (ours, wanted):
        del out[0]["converter"]["version"]
    assert ours == wanted


@pytest.mark.parametrize("name", OURS)
def test_units_are_mended(name: str, tmp_path: Path) -> None:
    raw = [e["data"] for e in records(FIXTURES / name)[1:] if "recovery_metrics" in e["name"]]
    out = [
        e["data"]
        for e in converted(name, "dancer", tmp_path)[1:]
        if e["name"] == "quic:recovery_metrics_updated"
    ]
    assert len(raw) == len(out)
    sampled = False
    for before, after in zip(raw, out, strict=True):
        sampled |= "latest_rtt" in before
        assert after.get("pacing_rate", 0) == 8 * before.get("pacing_rate", 0)
        assert after.get("ssthresh", 0) < 1 << 60
        assert ("smoothed_rtt" in after) == ("smoothed_rtt" in before and sampled)
