"""The differences of programs' qlog from the drafts, in one place for each dialect.

Everything is read in the form of main-schema-14 and quic-events-13: names such as
`quic:packet_sent`, times and RTTs in milliseconds, rates in bits per second, lengths in `raw`. A
`Dialect` describes another form, and a `Translator` turns its events into this one.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]

NO_SSTHRESH = 2.0**63
"""Slow start thresholds from here on mean "none"; quiche and quinn start at 2^64 - 1."""

CONVERTED = "converter"
"""The header field of the files that this package writes."""

STAND_INS = "stand_ins"
"""The field of the converter in such a header that is true if packets in the file only stand in for
packets that the original lacks."""

METRICS = "quic:recovery_metrics_updated"
PARAMETERS = "quic:recovery_parameters_set"

_RTTS = ("min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance")

_AMOUNTS = ("congestion_window", "bytes_in_flight", "ssthresh", "pacing_rate", "pto_count")

# Names of main-schema-01 to -07 without their category, if they have changed since.
_RENAMED = {
    "metrics_updated": "recovery_metrics_updated",
    "metric_update": "recovery_metrics_updated",
    "data_moved": "stream_data_moved",
    "datagrams_sent": "udp_datagrams_sent",
    "datagrams_received": "udp_datagrams_received",
    "datagram_dropped": "udp_datagram_dropped",
    "key_retired": "key_discarded",
    "path_assigned": "tuple_assigned",
}

_OF_QUIC = {"transport", "recovery", "connectivity", "security", "quic"}
_OF_HTTP = {"http", "h3", "http3"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A program's way of writing qlog.

    Attributes:
        name: its name in summaries.
        logs_losses: true if a trace without packet_lost events is one without losses.
        pacing_bits: the factor from its pacing_rate to bits per second.
        rtt_ms: the factor from its RTTs to milliseconds.
        initial_rtt: an RTT that stands for "no sample yet".
        native: true if the reader takes its events without translation.
        from_first_event: true if times are to count from the first event, because the trace has
            another zero (the start of the process, 1970).
    """

    name: str
    logs_losses: bool = False
    pacing_bits: float = 1.0
    rtt_ms: float = 1.0
    initial_rtt: float | None = None
    native: bool = False
    from_first_event: bool = True


def _draft(event: Event, dialect: Dialect) -> Event:
    """Turns an event of any draft into one of today's, and leaves the given one unchanged.

    Raises:
        ValueError, TypeError, AttributeError, OverflowError: a field has a senseless value.
    """
    category, _, kind = str(event["name"]).lower().rpartition(":")
    category = str(event.get("category", category)).lower()
    data = dict(event.get("data") or {})
    if "trigger" in event:
        # Draft-01 has it beside the data.
        data.setdefault("trigger", event["trigger"])
    if category in _OF_HTTP:
        name = f"http3:{kind}"
    elif category in _OF_QUIC or not category:
        name = f"quic:{_RENAMED.get(kind, kind)}"
        if kind == "parameters_set" and category == "recovery":
            name = PARAMETERS
    else:
        name = f"{category}:{kind}"
    if name.startswith("quic:packet_"):
        _packet(data)
    elif name == "quic:packets_acked":
        data["packet_numbers"] = [whole(number) for number in data.get("packet_numbers", ())]
    elif name == METRICS:
        _metrics(data, dialect)
    elif name == "quic:parameters_set" and "owner" in data:
        data["initiator"] = data.pop("owner")
    out: Event = {"time": event["time"], "name": name, "data": data}
    if "group_id" in event:
        out["group_id"] = event["group_id"]
    return out


def _packet(data: Event) -> None:
    header = dict(data.get("header") or {})
    raw = dict(data.get("raw") or {})
    # aioquic's packet_lost and the first drafts have these fields outside the header.
    for old in ("packet_type", "type"):
        if old in data:
            header.setdefault("packet_type", data.pop(old))
    if "packet_number" in data:
        header.setdefault("packet_number", data.pop("packet_number"))
    if "packet_number" in header:
        header["packet_number"] = whole(header["packet_number"])
    if "packet_type" in header:
        header["packet_type"] = _packet_type(header["packet_type"])
    if isinstance(header.get("version"), str):
        # Programs leave out leading zeros; the drafts require whole bytes.
        header["version"] = header["version"].removeprefix("0x").zfill(8)
    # Before main-schema-02 sizes were in the header, and quinn still has the packet's there.
    size = header.pop("packet_size", None)
    payload = header.pop("payload_length", None)
    if size is None and "length" not in raw:
        size = header.pop("length", None)
    if size is not None:
        raw.setdefault("length", whole(size))
    if payload is not None:
        raw.setdefault("payload_length", whole(payload))
    data["header"] = header
    if raw:
        data["raw"] = raw
    if "frames" in data:
        data["frames"] = [_frame(dict(frame)) for frame in data["frames"]]


def _packet_type(value: Any) -> str:
    text = str(value)
    lower = text.lower()
    return {"0rtt": "0RTT", "1rtt": "1RTT", "onertt": "1RTT", "zerortt": "0RTT"}.get(lower, lower)


def _frame(frame: Event) -> Event:
    frame["frame_type"] = str(frame.get("frame_type", "unknown")).lower()
    if "id" in frame:
        # Draft-00, as picoquic writes it.
        frame.setdefault("stream_id", frame.pop("id"))
    ranges = frame.get("acked_ranges")
    if ranges is not None:
        frame["acked_ranges"] = [[whole(number) for number in pair] for pair in ranges]
    if frame["frame_type"] in {"stream", "crypto", "datagram"} and "length" in frame:
        frame["raw"] = {**frame.get("raw", {}), "payload_length": whole(frame["length"])}
        del frame["length"]
    if frame["frame_type"] in {"reset_stream", "stop_sending"} and "error" not in frame:
        frame["error"] = "unknown"
    for name in ("stream_id", "offset"):
        if name in frame:
            frame[name] = whole(frame[name])
    return frame


def _metrics(data: Event, dialect: Dialect) -> None:
    if "cwnd" in data:
        data["congestion_window"] = data.pop("cwnd")
    if dialect.initial_rtt is not None and data.get("latest_rtt") == dialect.initial_rtt:
        # The initial RTT is logged as if it had been measured.
        for name in _RTTS:
            data.pop(name, None)
    for name in _RTTS:
        if name in data:
            data[name] = float(data[name]) * dialect.rtt_ms
    if "pacing_rate" in data:
        data["pacing_rate"] = round(float(data["pacing_rate"]) * dialect.pacing_bits)
    for name in (*_RTTS, *_AMOUNTS):
        if float(data.get(name, 0)) < 0:
            raise ValueError(f"{name} is {data[name]}; expected 0 or more")


def whole(value: Any) -> int:
    """Reads an integer, which the first drafts write as text.

    Raises:
        ValueError, TypeError: it is not an integer from 0 to 2^62 - 1.
    """
    number = int(value)
    if isinstance(value, bool) or not 0 <= number < 1 << 62 or number != float(value):
        raise ValueError(f"{value!r} is not an integer from 0 to 2^62 - 1")
    return number


QUICHE = Dialect(
    "quiche",
    # NOTE: quiche logs bytes per second, the draft (quic-events-13) says bits per second.
    pacing_bits=8.0,
    from_first_event=False,
    native=True,
)
"""quiche 0.25 and later. Most traces here are of it, so that they are read without translation."""

OLD_QUICHE = Dialect("quiche before 0.25", pacing_bits=8.0)
"""The names of draft-02, in JSON-SEQ."""

CANONICAL = Dialect("qlog-analysis", logs_losses=True, from_first_event=False, native=True)
"""The form that `convert` writes and that all others are turned into."""

QUIC_GO = Dialect("quic-go", logs_losses=True, native=True)
"""0.5x: the names of draft-02 in the container of main-schema-11 and later. The reader looks only
at the part of a name after the colon."""

QUINN = Dialect("quinn", logs_losses=True, rtt_ms=1000.0, initial_rtt=0.333)
"""0.11: RTTs in seconds, no frames, all connections of an endpoint in one file."""

AIOQUIC = Dialect("aioquic", logs_losses=True)
"""1.x: contained JSON, absolute times, packet_lost without a header, `cwnd`."""

DRAFTS = Dialect("qlog")
"""Any other program that keeps to one of the drafts."""


def recognise(header: Mapping[str, Any], trace: Mapping[str, Any], names: str) -> Dialect:
    """The dialect of a trace.

    Args:
        header: the header of the file, or empty if it has none.
        trace: the header of the trace in it.
        names: a part of the file's text, by which a file without a header is judged.
    """
    vantage = trace.get("vantage_point")
    point = vantage if isinstance(vantage, dict) else {}
    if CONVERTED in header:
        return CANONICAL
    if str(header.get("title", "")).startswith("quic-go"):
        return QUIC_GO
    if str(point.get("name", "")).startswith("aioquic"):
        return AIOQUIC
    if "file_schema" in header and "qlog_version" not in header:
        # The Rust crate names these schemas; a later one has a time format or a code version too.
        plain = not ({"time_format"} & _common(trace).keys())
        return QUICHE if plain and "code_version" not in header else DRAFTS
    if header.get("qlog_version") == "0.3" and "traces" not in header:
        if point.get("type") == "unknown" and "configuration" in trace:
            return QUINN
        if trace.get("title") == "quiche" or '"cf_' in names:
            return OLD_QUICHE
    if not header and '"name":"quic:' in names:
        return QUICHE
    return DRAFTS


# The names of programs that write their own into the header of a trace; a name that is a part of
# another comes after it.
_PROGRAMS = (
    "aioquic", "haskell quic", "lsquic", "msquic", "mvfst", "neqo", "ngtcp2", "picoquic", "quic-go",
    "quiche", "quinn", "s2n-quic", "tquic", "xquic", "kwik", "noq",
)  # fmt: skip


def program_of(header: Mapping[str, Any], trace: Mapping[str, Any], dialect: Dialect) -> str:
    """The program that sent, "unknown" if a trace does not tell.

    Args:
        header: the header of the file, or empty if it has none.
        trace: the header of the trace in it.
        dialect: the form of its events.
    """
    converter = header.get(CONVERTED)
    if isinstance(converter, dict):
        said = converter.get("program")
        return said if isinstance(said, str) else "unknown"
    if dialect not in (DRAFTS, CANONICAL):
        return dialect.name
    vantage = trace.get("vantage_point")
    point = vantage if isinstance(vantage, dict) else {}
    texts = (point.get("name"), header.get("title"), trace.get("title"), header.get("code_version"))
    for text in texts:
        for name in _PROGRAMS:
            if isinstance(text, str) and re.search(rf"\b{name}\b", text.lower()):
                return name
    return "unknown"


def _common(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    common = trace.get("common_fields")
    return common if isinstance(common, dict) else {}


class Clock:
    """Turns the times of a trace's events into milliseconds since its first one.

    Knows the formats of main-schema-14 (relative_to_epoch, relative_to_previous_event) and of the
    earlier drafts (absolute, relative, delta), and microseconds (draft-01).
    """

    def __init__(self, trace: Mapping[str, Any], from_first_event: bool) -> None:
        """Reads the header of a trace."""
        common = _common(trace)
        configuration = trace.get("configuration")
        units = configuration.get("time_units") if isinstance(configuration, dict) else None
        self._format = str(common.get("time_format", ""))
        self._from_first = from_first_event
        self._first: float | None = None
        self._now = 0.0
        self.scale = 1e-3 if units == "us" else 1.0
        """The factor from a time to milliseconds."""

    def ms(self, event: Event) -> float:
        """The time of the next event.

        Raises:
            ValueError, TypeError: it has no time.
        """
        time = float(event["time"]) * self.scale
        if not math.isfinite(time):
            raise ValueError(f"{event['time']!r} is not a time")
        if str(event.get("time_format", self._format)) in {"delta", "relative_to_previous_event"}:
            time += self._now
        self._now = time
        if self._first is None:
            self._first = time if self._from_first else 0.0
        return time - self._first


@dataclass(slots=True)
class _Groups:
    """Finds the connection that an event belongs to by its group_id.

    NOTE: from the server's first packet on, a client of quinn gives its events another group_id:
    the connection id that the server chose.
    """

    _names: dict[str, str] = field(default_factory=dict)
    _clients: set[str] = field(default_factory=set)
    _answered: str | None = None

    def name(self, event: Event) -> str:
        """The first group_id of the event's connection, or empty if it has none."""
        group = str(event.get("group_id", ""))
        what = event["name"]
        data = event["data"]
        initial = "header" in data and data["header"].get("packet_type") == "initial"
        if group not in self._names:
            self._names[group] = group if initial else self._answered or group
            if initial and what == "quic:packet_sent":
                self._clients.add(group)
        if what == "quic:packet_received" and group in self._clients:
            self._clients.remove(group)
            self._answered = group
        return self._names[group]


@dataclass(slots=True)
class Translator:
    """Turns the events of one trace into today's: names, units, and times from the first event."""

    dialect: Dialect
    clock: Clock
    _groups: _Groups = field(default_factory=_Groups)

    def __call__(self, event: Any) -> Event | None:
        """The event, or None if it is not an event or has senseless values."""
        try:
            if not isinstance(event["name"], str) or not isinstance(event.get("data", {}), dict):
                return None
            time = self.clock.ms(event)
            out = _draft(event, self.dialect)
            if out["name"] == METRICS and self.clock.scale != 1.0:
                # Draft-01 has RTTs in the unit of its times.
                for name in _RTTS:
                    if name in out["data"]:
                        out["data"][name] *= self.clock.scale
            if "group_id" in out and self.dialect is QUINN:
                out["group_id"] = self._groups.name(out)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
            return None
        out["time"] = time
        return out


def rows(trace: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the events of a trace of contained JSON, which are objects or, in draft-01, rows."""
    events = trace.get("events")
    if not isinstance(events, list):
        return
    columns = trace.get("event_fields")
    if not isinstance(columns, list):
        yield from events
        return
    names = [str(column).lower() for column in columns]
    for row in events:
        if not isinstance(row, list) or len(row) > len(names):
            yield row
            continue
        fields = dict(zip(names, row, strict=False))
        event: Event = {"data": fields.get("data") or {}}
        kind = fields.get("event", fields.get("event_type", fields.get("name", "")))
        category = fields.get("category", "")
        event["name"] = f"{category}:{kind}" if category else str(kind)
        for unit in ("time", "relative_time", "delta_time"):
            if unit in fields:
                event["time"] = fields[unit]
                if unit == "delta_time":
                    event["time_format"] = "delta"
        if "group_id" in fields:
            event["group_id"] = fields["group_id"]
        yield event
