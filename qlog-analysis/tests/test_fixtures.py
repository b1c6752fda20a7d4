"""Traces of several programs against what those programs said of themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from qlog_analysis.metrics.delivery import delivered
from qlog_analysis.metrics.losses import losses
from qlog_analysis.reading.reader import Trace, read_trace

FIXTURES = Path(__file__).parent / "fixtures"
REPORTED: dict[str, dict[str, Any]] = json.loads((FIXTURES / "reported.json").read_text())
STREAM_BYTES = 250_000

DIALECTS = {
    "udp": "quiche",
    "sim": "quiche",
    "quic-go": "quic-go",
    "quinn": "quinn",
    "aioquic": "aioquic",
}


def read(name: str) -> Trace:
    return read_trace(FIXTURES / name, received=True)


def last(trace: Trace, column: str) -> float:
    return float(trace.metrics[column].drop_nulls()[-1])


@pytest.mark.parametrize("name", REPORTED)
def test_a_trace_has_what_its_program_reported(name: str) -> None:
    reported = REPORTED[name]
    trace = read(name)
    assert trace.dialect.name in {DIALECTS[key] for key in DIALECTS if name.startswith(key)}
    assert trace.vantage == ("server" if ".server." in name else "client")
    assert (trace.skipped, trace.unordered, trace.truncated) == (0, 0, False)
    if "packets_sent" in reported:
        # The packets of the closing are not in every program's count.
        assert trace.sent.height - reported["packets_sent"] in {0, 1, 2}
    if "bytes_sent" in reported:
        assert trace.sent["length_bytes"].sum() - reported["bytes_sent"] in range(100)
    if "packets_lost" in reported:
        assert losses(trace).height == trace.losses.height == reported["packets_lost"]
    for name_ in ("smoothed_rtt", "min_rtt"):
        if f"{name_}_ms" in reported:
            assert last(trace, f"{name_}_ms") == pytest.approx(reported[f"{name_}_ms"], rel=1e-6)
    if trace.metrics["latest_rtt_ms"].drop_nulls().len():
        assert trace.metrics["latest_rtt_ms"].min() == pytest.approx(
            last(trace, "min_rtt_ms"), rel=1e-6
        )


@pytest.mark.parametrize("name", [name for name in REPORTED if ".server." in name])
def test_what_was_delivered_is_what_was_not_lost(name: str) -> None:
    reported = REPORTED[name]
    trace = read(name)
    times, sizes = delivered(trace)
    if trace.acks.is_empty():
        assert trace.dialect.name == "quinn"
        return
    if "bytes_lost" in reported:
        # The last packets are on their way when the trace ends, most of all in the simulator.
        end = trace.metrics["in_flight_bytes"].drop_nulls()[-1]
        missing = reported["bytes_sent"] - reported["bytes_lost"] - sizes.sum()
        assert 0 <= missing <= end + 8000
    if "client_seconds" in reported:
        assert STREAM_BYTES < sizes.sum() < 1.07 * STREAM_BYTES
        # The client's clock starts with the handshake done, or with its first packet.
        seconds = (times[-1] - times[0]) / 1000
        assert seconds == pytest.approx(reported["client_seconds"], rel=0.2)


def test_the_relay_saw_the_losses_that_aioquic_does_not_count() -> None:
    relay = REPORTED["aioquic.server.qlog.gz"]["relay"]
    trace = read("aioquic.server.qlog.gz")
    # Two of the packets lost were sent again by PTO before they were declared lost.
    assert relay["lost"] - 2 <= losses(trace).height <= relay["lost"]


def test_units_are_the_drafts() -> None:
    quiche = read("udp-bbr2.server.sqlog.gz")
    # 4 Mbit/s on the path: a rate in bytes per second would be an eighth of it.
    assert 3e6 < last(quiche, "pacing_bps") < 30e6
    for name in ("quinn.server.sqlog.gz", "quinn.client.sqlog.gz"):
        rtts = read(name).metrics["latest_rtt_ms"].drop_nulls()
        assert 40 < float(rtts.to_numpy().min()) < float(rtts.to_numpy().max()) < 200
    for name in REPORTED:
        assert read(name).sent["time_ms"].min() == pytest.approx(0, abs=25)
