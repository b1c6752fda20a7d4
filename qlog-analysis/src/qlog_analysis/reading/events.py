"""The kinds of events that are read, with the fields that are decoded and their columns.

msgspec decodes a record into objects that have only the fields that are used, and checks their
types. It passes over all other fields without making objects of them, which makes it quick. Fields
that are missing are None.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import polars as pl

from qlog_analysis import schemas

_Integer = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""An integer of QUIC (RFC 9000 §16)."""


_Amount = Annotated[float, msgspec.Meta(ge=0)]
"""An amount of bytes or time, or a rate; less than none makes no sense."""


class _Fields(msgspec.Struct, gc=False):
    """Fields of an object; they form no cycles, so that the garbage collector can ignore them."""


class _Header(_Fields):
    packet_type: str | None = None
    packet_number: _Integer | None = None


class _Raw(_Fields):
    length: _Integer | None = None


class _Frame(_Fields):
    acked_ranges: tuple[tuple[_Integer, ...], ...] | None = None


class _PacketData(_Fields):
    header: _Header
    raw: _Raw | None = None


class _Packet(_Fields):
    time: float
    data: _PacketData


class _ReceivedData(_PacketData):
    frames: tuple[_Frame, ...] | None = None


class _Received(_Fields):
    time: float
    data: _ReceivedData


class _Count(_Fields):
    total: _Integer | None = None


class _MetricsData(_Fields):
    # In the order in which quiche writes them, which is the one that msgspec tries first.
    cf_app_limited: bool | None = None
    cf_lost_packets: _Count | None = None
    vegas_base_rtt_ms: float | None = None
    vegas_round_rtt_ms: float | None = None
    vegas_expected_bps: float | None = None
    vegas_actual_bps: float | None = None
    vegas_backlog_packets: float | None = None
    vegas_incr_packets: float | None = None
    vegas_status: float | None = None
    vegas_alpha_packets: float | None = None
    vegas_beta_packets: float | None = None
    min_rtt: _Amount | None = None
    smoothed_rtt: _Amount | None = None
    latest_rtt: _Amount | None = None
    pto_count: _Amount | None = None
    congestion_window: _Amount | None = None
    bytes_in_flight: _Amount | None = None
    ssthresh: _Amount | None = None
    pacing_rate: _Amount | None = None


class _Metrics(_Fields):
    time: float
    data: _MetricsData


class _AckedData(_Fields):
    packet_number_space: str | None = None
    packet_numbers: tuple[_Integer, ...] = ()


class _Acked(_Fields):
    time: float
    data: _AckedData


class _StateData(_Fields):
    new: str


class _State(_Fields):
    time: float
    data: _StateData


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of event.

    Attributes:
        marker: the end of the event's name, as it stands in a record.
        event: the type that a record is decoded into.
        tables: makes tables of decoded records. The first table has a row for each record that
            is complete. The tables of no records have all columns; others may lack columns
            that are empty.
        needed: a text without which a record of this kind is of no use.
        useful: the same check on decoded records, or None if all are of use.
    """

    marker: str
    event: type[msgspec.Struct]
    tables: Callable[[Sequence[Any]], tuple[pl.DataFrame, ...]]
    needed: str = ""
    useful: Callable[[Any], bool] | None = None


def _with(table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows that have values in these columns."""
    if any(table[name].null_count() for name in names):
        return table.drop_nulls(names)
    # drop_nulls would start polars' threads for nothing.
    return table


@lru_cache(maxsize=32)
def _repeated(packet_type: str, rows: int) -> pl.Series:
    return pl.Series("packet_type", [packet_type], pl.String).new_from_index(0, rows)


def _types(types: list[str | None]) -> pl.Series:
    """The column of packets' types; after the handshake all are the same and share memory."""
    first = types[0] if types else None
    if first is None or types.count(first) < len(types):
        return pl.Series("packet_type", types, pl.String)
    # Lengths differ from block to block, but few powers of two hold them.
    return _repeated(first, 1 << (len(types) - 1).bit_length()).head(len(types))


def _packets(packets: Sequence[_Packet | _Received]) -> pl.DataFrame:
    columns = {
        "time_ms": [packet.time for packet in packets],
        "packet_type": _types([packet.data.header.packet_type for packet in packets]),
        "packet_number": [packet.data.header.packet_number for packet in packets],
        "length_bytes": [packet.data.raw and packet.data.raw.length for packet in packets],
    }
    return pl.DataFrame(columns, schema=schemas.PACKETS)


def _sent(packets: Sequence[_Packet]) -> tuple[pl.DataFrame]:
    return (_with(_packets(packets), "packet_number", "length_bytes"),)


def _received(packets: Sequence[_Received]) -> tuple[pl.DataFrame, pl.DataFrame]:
    columns: dict[str, Any] = {name: [] for name in schemas.ACKS}
    times, types, firsts, lasts = columns.values()
    for packet in packets:
        for frame in packet.data.frames or ():
            for pair in frame.acked_ranges or ():
                # A range of one packet is logged as `[n]`.
                if pair and pair[0] <= pair[-1]:
                    times.append(packet.time)
                    types.append(packet.data.header.packet_type)
                    firsts.append(pair[0])
                    lasts.append(pair[-1])
    columns["packet_type"] = _types(types)
    acks = _with(pl.DataFrame(columns, schema=schemas.ACKS), "packet_type")
    return _with(_packets(packets), "packet_type"), acks


def _acknowledges(packet: _Received) -> bool:
    for frame in packet.data.frames or ():  # noqa: SIM110 - any() takes three times as long
        if frame.acked_ranges is not None:
            return True
    return False


_SPACES = {"initial": "initial", "handshake": "handshake"}


def _acked(events: Sequence[_Acked]) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = [
        # NOTE: the drafts make the space optional; most packets are application data.
        (event.time, _SPACES.get(event.data.packet_number_space or "", "1RTT"), first, last)
        for event in events
        for first, last in _ranges(event.data.packet_numbers)
    ]
    times = pl.DataFrame({"time_ms": [event.time for event in events]}, schema=schemas.TIMES)
    return times, pl.DataFrame(rows, schema=schemas.ACKS, orient="row")


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Packet numbers as ranges, both ends included, in ascending order."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _lost(packets: Sequence[_Packet]) -> tuple[pl.DataFrame]:
    return (_with(_packets(packets).drop("length_bytes"), "packet_number"),)


def _states(states: Sequence[_State]) -> tuple[pl.DataFrame]:
    columns = {
        "time_ms": [state.time for state in states],
        "state": [state.data.new for state in states],
    }
    return (pl.DataFrame(columns, schema=schemas.STATES),)


_RENAMED = {
    "min_rtt": "min_rtt_ms",
    "smoothed_rtt": "smoothed_rtt_ms",
    "latest_rtt": "latest_rtt_ms",
    "congestion_window": "window_bytes",
    "bytes_in_flight": "in_flight_bytes",
    "ssthresh": "ssthresh_bytes",
    "pacing_rate": "pacing_bps",
    "cf_lost_packets": "lost_packets",
    "cf_app_limited": "app_limited",
}
_OTHER_TYPES: schemas.Schema = {"cf_app_limited": pl.Boolean, "cf_lost_packets": pl.Int64}


# The fields of most metrics events of a full trace; most have no others.
_FREQUENT = ("bytes_in_flight", "smoothed_rtt", "latest_rtt", "pacing_rate", "cf_app_limited")
_RARE = tuple(name for name in _MetricsData.__struct_fields__ if name not in _FREQUENT)
_NOTHING = _MetricsData()


def _metrics(metrics: Sequence[_Metrics]) -> tuple[pl.DataFrame]:
    data = [one.data for one in metrics]
    columns = [pl.Series("time_ms", [one.time for one in metrics], pl.Float64)]
    columns += [_column(name, list(map(attrgetter(name), data))) for name in _FREQUENT]
    # Without these fields most are equal to one that never had any.
    for one in data:
        one.bytes_in_flight = one.smoothed_rtt = one.latest_rtt = one.pacing_rate = None
        one.cf_app_limited = None
    with_rare = [(place, one) for place, one in enumerate(data) if one != _NOTHING]
    for name in _RARE:
        value_of = attrgetter(name)
        known = [(place, value_of(one)) for place, one in with_rare if value_of(one) is not None]
        # An empty column is added when all tables are put together.
        if known or not data:
            values: list[Any] = [None] * len(data)
            for place, value in known:
                values[place] = value
            columns.append(_column(name, values))
    return (pl.DataFrame(columns),)


def _column(name: str, values: list[Any]) -> pl.Series:
    if name == "cf_lost_packets":
        values = [value and value.total for value in values]
    return pl.Series(_RENAMED.get(name, name), values, _OTHER_TYPES.get(name, pl.Float64))


SENT = Kind(':packet_sent"', _Packet, _sent)
RECEIVED = Kind(':packet_received"', _Received, _received)
RECEIVED_ACKS = replace(RECEIVED, needed='"acked_ranges"', useful=_acknowledges)
"""The received packets with acknowledgements only."""
METRICS = Kind('metrics_updated"', _Metrics, _metrics)
STATES = Kind(':congestion_state_updated"', _State, _states)
LOST = Kind(':packet_lost"', _Packet, _lost)
ACKED = Kind(':packets_acked"', _Acked, _acked)
"""Packets that were acknowledged for the first time, as programs that log no frames have them."""
