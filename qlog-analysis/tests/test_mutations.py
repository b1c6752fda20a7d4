"""Real traces with some records mutated: what is read is what a plain JSON decoder reads.

Each case is made from a number, of some records of a program's fixture. Of the records that
nothing was done to none may be lost; of the others no row may say what the record does not.
"""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from qlog_analysis.errors import AnalysisError
from qlog_analysis.reading import reader
from qlog_analysis.reading.dialects import Clock, Dialect, Translator
from qlog_analysis.reading.reader import read_traces

FIXTURES = Path(__file__).parent / "fixtures"
PROGRAMS = {
    "quiche": "udp-vegas.server.sqlog.gz",
    "quic-go": "quic-go.server.sqlog.gz",
    "quinn": "quinn.server.sqlog.gz",
    "aioquic": "aioquic.server.qlog.gz",
}
CASES = 100
"""Of each program."""
RECORDS = 60
MUTATED = 12

METRICS = {
    "min_rtt": "min_rtt_ms",
    "smoothed_rtt": "smoothed_rtt_ms",
    "latest_rtt": "latest_rtt_ms",
    "congestion_window": "window_bytes",
    "bytes_in_flight": "in_flight_bytes",
    "ssthresh": "ssthresh_bytes",
    "pacing_rate": "pacing_bps",
    "pto_count": "pto_count",
    "cf_app_limited": "app_limited",
    "vegas_backlog_packets": "vegas_backlog_packets",
    "vegas_base_rtt_ms": "vegas_base_rtt_ms",
}
WRONG = (
    b"null", b"true", b'"x"', b"[]", b"{}", b"[[1]]", b"-1", b"1e400", b"NaN", b"0x10", b"",
    b'"\\ud800"', b"9" * 26, b'"1e5"', b"[" * 2000, b'{"header":7}', b"1.0", b"1e3", b"-0.0",
)  # fmt: skip

KINDS = (
    ":packet_sent", ":packet_received", ":packet_lost", ":congestion_state_updated",
    "metrics_updated",
)  # fmt: skip

Row = tuple[Any, ...]


class Fixture:
    """Some records of a trace: the header, the first event, and others from all over it."""

    def __init__(self, name: str) -> None:
        whole = gzip.decompress((FIXTURES / name).read_bytes()).decode()
        self.contained = "\x1e" not in whole
        if self.contained:
            document = json.loads(whole)
            events = [json.dumps(event) for event in document["traces"][0].pop("events")]
            self.header = json.dumps(document)
        else:
            self.header, *events = whole.strip("\x1e").split("\n\x1e")
            events[-1] = events[-1].rstrip("\n")
        random.Random(1).shuffle(others := events[1:])
        # Of each kind as many as of any other, as far as there are.
        kinds: Counter[str] = Counter()
        ranked = []
        for event in others:
            kind = json.loads(event)["name"]
            kinds[kind] += 1
            ranked.append((kinds[kind], event))
        ranked.sort(key=lambda one: one[0])
        chosen = {event for _, event in ranked[: RECORDS - 1]}
        rest = [event for event in events[1:] if event in chosen]
        self.events = [event.encode() for event in [events[0], *rest]]

    def text(self, events: list[bytes]) -> bytes:
        if self.contained:
            head, tail = self.header.split('"traces": [{', 1)
            start = f'{head}"traces": [{{"events": ['.encode()
            return start + b", ".join(events) + b"], " + tail.encode()
        records = [self.header.encode(), *events]
        return b"".join(b"\x1e" + record + b"\n" for record in records)


def flip(rng: random.Random, data: bytearray, _: bytes) -> None:
    for _i in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def change(rng: random.Random, data: bytearray, _: bytes) -> None:
    data[rng.randrange(len(data))] = rng.choice(b'{}[]",:0-e. \\n\x01\xff')


def delete(rng: random.Random, data: bytearray, _: bytes) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 1, 2, 8, 40))]


def insert(rng: random.Random, data: bytearray, _: bytes) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = bytes(rng.choice(b'{}[]",:0123456789e-+.tfn \\') for _i in range(3))


def repeat(rng: random.Random, data: bytearray, _: bytes) -> None:
    start = rng.randrange(len(data))
    part = data[start : start + rng.randint(1, 60)]
    data[start:start] = part


def splice(rng: random.Random, data: bytearray, other: bytes) -> None:
    data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]


def join(rng: random.Random, data: bytearray, other: bytes) -> None:
    data += rng.choice((b"", b",", b" ", b"}")) + other


def cut(rng: random.Random, data: bytearray, _: bytes) -> None:
    del data[rng.randrange(1, len(data)) :]


def value(rng: random.Random, data: bytearray, _: bytes) -> None:
    colons = [i for i, byte in enumerate(data) if byte == ord(":")]
    start = rng.choice(colons) + 1
    ends = [i for i in range(start, len(data)) if data[i] in b",}]"]
    data[start : ends[0] if ends else len(data)] = rng.choice(WRONG)


MUTATIONS: tuple[Callable[[random.Random, bytearray, bytes], None], ...] = (
    flip, change, delete, insert, repeat, splice, join, cut, value, value,
)  # fmt: skip


def mutated(rng: random.Random, fixture: Fixture) -> tuple[list[bytes], set[int]]:
    """The records, and which were changed; the first event, which times count from, never is."""
    events = list(fixture.events)
    places = set(rng.sample(range(1, len(events)), MUTATED))
    for place in places:
        data = bytearray(events[place])
        rng.choice(MUTATIONS)(rng, data, rng.choice(fixture.events))
        # A separator would make two of it.
        events[place] = bytes(data).replace(b"\x1e", b"?").replace(b"\n", b"?")
    return events, places


def refuse(constant: str) -> None:
    raise ValueError(constant)


DECODER = json.JSONDecoder(parse_constant=refuse)


def objects(record: bytes) -> Iterator[Any]:
    """All objects in a record, by the standard library's decoder."""
    text = record.decode(errors="replace")
    for start, character in enumerate(text):
        if character == "{":
            try:
                yield DECODER.raw_decode(text, start)[0]
            except (ValueError, RecursionError):
                continue


def rows(event: Any) -> Iterator[Row]:
    """The rows of tables that an event in today's form makes, with the table's name in front.

    Its kind is told by the end of its name, even where the key of that is damaged.
    """
    time, data = float(event["time"]), event["data"]
    names = [text for text in event.values() if isinstance(text, str)]
    name = next((kind for kind in KINDS for text in names if text.endswith(kind)), "")
    header, raw = data.get("header") or {}, data.get("raw") or {}
    packet = (time, header.get("packet_type"), header.get("packet_number"))
    if name == ":packet_sent" and None not in (packet[2], raw.get("length")):
        yield ("sent", *packet, raw["length"])
    elif name == ":packet_received" and packet[1] is not None:
        yield ("received", *packet, raw.get("length"))
        for frame in data.get("frames") or ():
            for pair in frame.get("acked_ranges") or ():
                if pair and pair[0] <= pair[-1]:
                    yield ("acks", *packet[:2], pair[0], pair[-1])
    elif name == ":packet_lost" and packet[2] is not None:
        yield ("losses", *packet)
    elif name == ":congestion_state_updated":
        yield ("states", time, data["new"])
    elif name == "metrics_updated":
        values = (data.get(name) for name in METRICS)
        yield ("metrics", time, *(float(one) if type(one) is int else one for one in values))


class Oracle:
    """The rows that a plain JSON decoder finds in records, with times from the first one."""

    def __init__(self, dialect: Dialect, header: str, first: bytes) -> None:
        self.dialect = dialect
        inner = json.loads(header).get("trace", {})
        self.translate = Translator(dialect, Clock(inner, dialect.from_first_event))
        self.translate(json.loads(first))
        self.start = json.loads(first)["time"] if dialect.from_first_event else 0.0

    def rows(self, event: Any) -> list[Row]:
        try:
            if not self.dialect.native:
                found = list(rows(self.translate(event)))
            else:
                found = list(rows({**event, "time": event["time"] - self.start}))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return []
        # No table has a list or an object in it.
        found = [row for row in found if not any(isinstance(one, list | dict) for one in row)]
        return [self.paced(row) if self.dialect.native else row for row in found]

    def paced(self, row: Row) -> Row:
        """The row with its pacing rate in bits per second."""
        at = 2 + list(METRICS).index("pacing_rate")
        if row[0] != "metrics" or not isinstance(row[at], float):
            return row
        return (*row[:at], row[at] * self.dialect.pacing_bits, *row[at + 1 :])


def read_rows(trace: reader.Trace) -> Iterator[Row]:
    for name in ("sent", "received", "acks", "losses", "states"):
        for row in getattr(trace, name).iter_rows():
            yield (name, *row)
    for row in trace.metrics.select("time_ms", *METRICS.values()).iter_rows():
        yield ("metrics", *row)


@pytest.fixture
def unfilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has metrics as they are logged."""

    def as_logged(parts: list[pl.DataFrame], pacing: float) -> list[pl.DataFrame]:
        metrics = pl.concat(parts, how="diagonal")
        return [metrics.with_columns(pl.col("pacing_bps") * pacing)]

    monkeypatch.setattr(reader, "_filled", as_logged)


@pytest.mark.usefixtures("unfilled")
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_damage_all_is_as_a_plain_decoder_reads_it(program: str, tmp_path: Path) -> None:
    fixture = Fixture(PROGRAMS[program])
    path = tmp_path / "trace.qlog"
    path.write_bytes(fixture.text(fixture.events))
    (trace,) = read_traces(path, received=True)
    assert trace.dialect.name == program
    oracle = Oracle(trace.dialect, fixture.header, fixture.events[0])
    wanted = [row for event in fixture.events for row in oracle.rows(json.loads(event))]
    assert Counter(read_rows(trace)) == Counter(wanted)
    # All of what the program logs is among them.
    assert len({row[0] for row in wanted}) >= 4
    assert len(wanted) > RECORDS // 3


@pytest.mark.usefixtures("unfilled")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("block", range(0, CASES, 25))
def test_mutations_cost_no_other_record(program: str, block: int, tmp_path: Path) -> None:
    fixture = Fixture(PROGRAMS[program])
    path = tmp_path / "trace.qlog"
    for seed in range(block, block + 25):
        case = (program, seed)
        events, changed = mutated(random.Random(f"{program} {seed}"), fixture)
        path.write_bytes(fixture.text(events))
        try:
            traces = read_traces(path, received=True)
        except AnalysisError as error:
            pytest.fail(f"{case}: {error}")
        oracle = Oracle(traces[0].dialect, fixture.header, events[0])
        intact: Counter[Row] = Counter()
        possible: set[Row] = set()
        for place, event in enumerate(events):
            if place in changed:
                possible.update(row for one in objects(event) for row in oracle.rows(one))
            else:
                intact.update(oracle.rows(json.loads(event)))
        read = Counter(row for trace in traces for row in read_rows(trace))
        assert intact <= read, (case, intact - read)
        assert set(read) <= set(intact) | possible, (case, set(read) - set(intact) - possible)
        for trace in traces:
            assert trace.skipped <= trace.records, case
            assert trace.records >= len(events) - MUTATED, case
