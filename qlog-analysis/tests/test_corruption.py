"""Damaged traces: what is left intact is read, what is not is counted, and nothing crashes.

Each case is made from a number: the trace it starts from, and what is done to it.
"""

import gzip
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import HEADER

from qlog_analysis.errors import AnalysisError
from qlog_analysis.export.convert import convert
from qlog_analysis.library import load_all
from qlog_analysis.reading.reader import read_traces

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CASES = 288
PACKETS = 40

OLD_HEADER = {
    "qlog_version": "0.3",
    "qlog_format": "JSON-SEQ",
    "trace": {"vantage_point": {"type": "server"}},
}


def new_event(number: int) -> dict[str, object]:
    header = {"packet_type": "1RTT", "packet_number": number}
    return {
        "time": float(number),
        "name": "quic:packet_sent",
        "data": {"header": header, "raw": {"length": 1000 + number}, "frames": []},
    }


def old_event(number: int) -> dict[str, object]:
    event = new_event(number)
    return {**event, "name": "transport:packet_sent"}


class Damaged:
    """A trace of numbered packets, and which of them nothing was done to."""

    def __init__(self, rng: random.Random, form: str) -> None:
        self.rng = rng
        self.form = form
        old = form != "seq"
        make = old_event if old else new_event
        between = ("\x1e", "\n") if form in {"seq", "old-seq"} else ("", "\n")
        events = [json.dumps(make(n), separators=(",", ":")) for n in range(PACKETS)]
        if form == "contained":
            trace = {"vantage_point": {"type": "server", "name": "x"}}
            head = json.dumps({"qlog_version": "0.3", "qlog_format": "JSON"})[:-1]
            body = json.dumps(trace)[:-1]
            self.parts = [f'{head}, "traces": [{body}, "events": [', *events, "]}]}"]
            self.parts[1:-1] = [*(event + ", " for event in events[:-1]), events[-1]]
        else:
            header = json.dumps(OLD_HEADER if old else HEADER)
            records = [header, *events]
            self.parts = [f"{between[0]}{record}{between[1]}" for record in records]
        self.data = [part.encode() for part in self.parts]
        self.intact = set(range(PACKETS))
        self.after = b""

    def pick(self) -> int:
        number = self.rng.randrange(PACKETS)
        self.intact.discard(number)
        return number

    def text(self, number: int) -> bytes:
        return self.data[number + 1]

    def put(self, number: int, data: bytes) -> None:
        self.data[number + 1] = data

    def joined(self) -> bytes:
        return b"".join(self.data) + self.after


def flip(trace: Damaged) -> None:
    for _ in range(trace.rng.randint(1, 5)):
        number = trace.pick()
        data = bytearray(trace.text(number))
        # Not the separator: without it the neighbours are not intact either.
        place = trace.rng.randrange(2, len(data) - 3)
        data[place] = trace.rng.randrange(256)
        trace.put(number, bytes(data))


def cut_records(trace: Damaged) -> None:
    for _ in range(trace.rng.randint(1, 4)):
        number = trace.pick()
        data = trace.text(number)
        trace.put(number, data[: trace.rng.randrange(2, len(data))])


def cut_tail(trace: Damaged) -> None:
    whole = trace.joined()
    keep = trace.rng.randrange(len(trace.data[0]) + 1, len(whole))
    ends = 0
    for number in range(-1, PACKETS):
        ends += len(trace.data[number + 1])
        if ends > keep and number >= 0:
            trace.intact.discard(number)
    trace.data = [whole[:keep]]


def cut_head(trace: Damaged) -> None:
    trace.data[0] = trace.data[0][trace.rng.randrange(1, len(trace.data[0])) :]


def no_header(trace: Damaged) -> None:
    trace.data[0] = b""


def bad_header(trace: Damaged) -> None:
    data = bytearray(trace.data[0])
    for _ in range(3):
        data[trace.rng.randrange(2, len(data) - 2)] = trace.rng.randrange(32, 127)
    trace.data[0] = bytes(data)


def repeat(trace: Damaged) -> None:
    for _ in range(3):
        number = trace.rng.randrange(PACKETS)
        if trace.form != "contained" or number < PACKETS - 1:
            trace.put(number, trace.text(number) * 2)


def leave_out(trace: Damaged) -> None:
    for _ in range(3):
        trace.put(trace.pick(), b"")


def repeat_header(trace: Damaged) -> None:
    if trace.form != "contained":
        trace.put(7, trace.data[0] + trace.text(7))


def no_separator(trace: Damaged) -> None:
    if trace.form != "contained":
        number = trace.rng.randrange(PACKETS)
        trace.put(number, trace.text(number).strip(b"\x1e\n"))


WRONG = (
    "null", "true", '"x"', "[]", "{}", "[[1]]", "-1", "1e400", "1e30", "NaN", "-Infinity", "1.5",
    '"\\ud800"', "99999999999999999999999999", '{"a":{"b":[1,{"c":null}]}}', '"1e5"', "0x10", "",
)  # fmt: skip


def wrong_values(trace: Damaged) -> None:
    for _ in range(trace.rng.randint(1, 6)):
        number = trace.rng.randrange(PACKETS)
        if number not in trace.intact:
            continue
        data = trace.text(number).decode()
        field = trace.rng.choice(
            ['"time":', '"name":', '"data":', '"header":', '"packet_number":', '"raw":',
             '"length":', '"packet_type":', '"frames":'],
        )  # fmt: skip
        start = data.index(field) + len(field)
        end = data.find(",", start)
        end = len(data) - 4 if end < 0 else end
        # An event of another name is a good one of a kind that is not read.
        wrong = [w for w in WRONG if field != '"name":' or not w.startswith('"')]
        trace.intact.discard(number)
        trace.put(number, (data[:start] + trace.rng.choice(wrong) + data[end:]).encode())


def nested(trace: Damaged) -> None:
    number = trace.pick()
    deep = trace.rng.choice([100, 5000, 200_000])
    opened, closed = trace.rng.choice([("[", "]"), ('{"a":', "}")])
    middle = opened * deep + "1" + (closed * deep if trace.rng.random() < 0.5 else "")
    text = trace.text(number).decode()
    trace.put(number, text.replace("[]", middle).encode())


def garbage(trace: Damaged) -> None:
    number = trace.rng.randrange(PACKETS - 1)
    junk = bytes(trace.rng.randrange(256) for _ in range(trace.rng.randrange(1, 400)))
    junk = junk.replace(b"{", b"").replace(b"[", b"").replace(b'"', b"")
    trace.put(number, trace.text(number) + junk + (b"\n" if trace.form != "contained" else b""))


def zeros(trace: Damaged) -> None:
    number = trace.pick()
    trace.put(number, b"\x00" * len(trace.text(number)) + b"\n")


def crlf(trace: Damaged) -> None:
    trace.data = [part.replace(b"\n", b"\r\n") for part in trace.data]


def bom(trace: Damaged) -> None:
    trace.data[0] = b"\xef\xbb\xbf" + trace.data[0]


def shuffled(trace: Damaged) -> None:
    if trace.form != "contained":
        body = trace.data[1:]
        trace.rng.shuffle(body)
        trace.data[1:] = body


def bad_packing(trace: Damaged) -> None:
    pack = trace.rng.choice((gzip.compress, zstd.compress))
    data = bytearray(pack(trace.joined()))
    what = trace.rng.randrange(3)
    if what == 0:
        data = data[: trace.rng.randrange(1, len(data))]
    elif what == 1:
        data[trace.rng.randrange(4, len(data))] ^= 1 << trace.rng.randrange(8)
    else:
        data += b"trailing"
    # The place of the damage decides how much can be got back.
    trace.intact = set() if what < 2 else trace.intact
    trace.data = [bytes(data)]


DAMAGE: tuple[Callable[[Damaged], None], ...] = (
    flip, cut_records, cut_tail, cut_head, no_header, bad_header, repeat, leave_out, repeat_header,
    no_separator, wrong_values, nested, garbage, zeros, crlf, bom, shuffled, bad_packing,
)  # fmt: skip
FORMS = ("seq", "old-seq", "lines", "contained")


def damaged(seed: int) -> tuple[Damaged, str]:
    rng = random.Random(seed)
    form = FORMS[seed % len(FORMS)]
    trace = Damaged(rng, form)
    damage = DAMAGE[seed // len(FORMS) % len(DAMAGE)]
    damage(trace)
    return trace, f"{damage.__name__} of {form}"


@pytest.mark.parametrize("block", range(0, CASES, 24))
def test_what_is_intact_is_read_and_the_rest_is_counted(block: int, tmp_path: Path) -> None:
    for seed in range(block, block + 24):
        trace, name = damaged(seed)
        path = tmp_path / f"{seed}.sqlog"
        path.write_bytes(trace.joined())
        try:
            logs = load_all(path)
        except AnalysisError as error:
            assert str(path) in str(error), (seed, name)
            assert len(str(error).splitlines()) == 1, (seed, name)
            # Only what has lost all of its form is refused.
            assert not trace.intact, (seed, name, str(error))
            continue
        read = {
            number
            for log in logs
            for number, length in log.trace.sent.select("packet_number", "length_bytes").iter_rows()
            if length == 1000 + number
        }
        assert trace.intact <= read, (seed, name, sorted(trace.intact - read))
        traces = [log.trace for log in logs]
        assert all(one.skipped <= one.records for one in traces), (seed, name)
        if len(read) < PACKETS and "leave_out" not in name:
            told = any(one.skipped or one.truncated or one.unordered for one in traces)
            assert told, (seed, name, "nothing was told")
        for log in logs:
            json.dumps([log.summary().delivered_bps, log.summary().rtt_mean_s])
        if seed % 5:
            continue
        again = set[int]()
        for one in {one.number for one in traces}:
            out = convert(path, tmp_path / "out.sqlog", number=one)
            again.update(*(log.trace.sent["packet_number"] for log in load_all(out.path)))
        assert trace.intact <= again, (seed, name)


@pytest.mark.parametrize("place", range(3))
def test_a_control_character_costs_its_record_alone(place: int, tmp_path: Path) -> None:
    """The one that separates columns where lines are read as a table, of one column."""
    records = [json.dumps(old_event(number)) for number in range(3)]
    records[place] = records[place].replace("1RTT", "1\x01RTT")
    path = tmp_path / "trace.sqlog"
    text = "".join(f"\x1e{record}\n" for record in [json.dumps(OLD_HEADER), *records])
    path.write_text(text)
    (trace,) = read_traces(path, received=True)
    intact = [number for number in range(3) if number != place]
    assert trace.sent["packet_number"].to_list() == intact
    assert (trace.records, trace.skipped) == (3, 1)
