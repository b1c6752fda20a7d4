"""Blocks that are decoded as a whole give what their records give one by one."""

import random
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from synthetic import RS, TraceText
from test_mutations import PROGRAMS, Fixture, mutated

from qlog_analysis.export.convert import convert
from qlog_analysis.reading import container
from qlog_analysis.reading.reader import Trace, read_traces
from qlog_analysis.reading.regular import Decoded, Regular

TABLES = ("sent", "received", "acks", "metrics", "states", "losses")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "BLOCK_BYTES", 1500)


@pytest.fixture
def regular(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each block, if it was regular."""
    seen: list[bool] = []
    decode = Regular.decode

    def told(self: Regular, block: bytes, separator: bytes) -> Decoded | None:
        decoded = decode(self, block, separator)
        seen.append(decoded is not None)
        return decoded

    monkeypatch.setattr(Regular, "decode", told)
    return seen


def one_by_one(path: Path, received: bool) -> list[Trace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Regular, "decode", lambda *_: None)
        return read_traces(path, received=received)


def assert_same(path: Path, received: bool = True) -> Trace:
    traces, others = read_traces(path, received=received), one_by_one(path, received)
    assert len(traces) == len(others)
    for one, other in zip(traces, others, strict=True):
        for name in TABLES:
            assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
        for count in ("records", "skipped", "unordered", "truncated"):
            assert getattr(one, count) == getattr(other, count), count
    return traces[0]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("received", [True, False])
@pytest.mark.parametrize("program", ["quiche", "quic-go"])
def test_without_damage(program: str, received: bool, regular: list[bool], tmp_path: Path) -> None:
    fixture = Fixture(PROGRAMS[program])
    path = tmp_path / "trace.sqlog"
    path.write_bytes(fixture.text(fixture.events))
    trace = assert_same(path, received)
    assert trace.records == len(fixture.events)
    assert any(regular)
    path.write_bytes(path.read_bytes().replace(RS.encode(), b""))
    assert assert_same(path, received).records == len(fixture.events)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("program", ["quiche", "quic-go"])
def test_with_some_records_mutated(program: str, regular: list[bool], tmp_path: Path) -> None:
    fixture = Fixture(PROGRAMS[program])
    path = tmp_path / "trace.sqlog"
    for seed in range(25):
        events, changed = mutated(random.Random(f"regular {program} {seed}"), fixture)
        for place in sorted(changed)[2:]:
            events[place] = fixture.events[place]
        path.write_bytes(fixture.text(events))
        assert_same(path, received=seed % 2 == 0)
    assert any(regular)
    assert not all(regular)


@pytest.mark.usefixtures("small_blocks")
def test_a_trace_for_qvis_is_regular(regular: list[bool], tmp_path: Path) -> None:
    trace = TraceText()
    trace.first_metrics()
    for n in range(40):
        trace.sent(float(n), n)
        trace.metrics(float(n), bytes_in_flight=n)
    path = tmp_path / "converted.sqlog"
    convert(trace.save(tmp_path / "trace.sqlog"), path)
    assert path.read_text().count('"recovery:') == 41
    assert assert_same(path).records == 81
    assert any(regular)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param('{"time":1,"name":"quic:packet_sent","data":{}}', id="no header"),
        pytest.param(f'{{"time":1,"name":"quic:x","data":"{RS}"}}', id="separator in a string"),
        pytest.param(f'{{"time":1,{RS}"name":"quic:x"}}', id="separator between tokens"),
        pytest.param('{"time":1,"name":"quic:x"}{"time":1,"name":"quic:x"}', id="two in one"),
        pytest.param('{"time":1,"name":"quic:x","data":"\udcff"}', id="no UTF-8"),
        pytest.param('{"time":1,"name":"quic:x"', id="cut off"),
        pytest.param("", id="nothing"),
        pytest.param("7", id="a number"),
    ],
)
def test_damage_is_found(damage: str, regular: list[bool], tmp_path: Path) -> None:
    trace = TraceText()
    trace.event(0.0, "x")
    for n in range(40):
        trace.sent(float(n), n)
        if n == 25:
            trace.raw(damage)
    path = tmp_path / "trace.sqlog"
    path.write_text(str(trace), errors="surrogateescape")
    assert len(assert_same(path).sent) == 40
    assert any(regular)
    assert not all(regular[:-1])
