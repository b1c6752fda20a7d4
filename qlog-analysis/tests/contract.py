"""The events of the drafts, and the needs of the views of qvis.

`SCHEMA` has the facts of draft-ietf-quic-qlog-main-schema-14 and -quic-events-13 for the events
that congestion control is about: for each field its type, and whether it must be there. All may
have more fields than these (the drafts' extension points); `unknown_fields` tells which.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Field:
    """A field: what its value must be, and whether an event must have it."""

    check: "Check | Mapping[str, Field] | list[Mapping[str, Field]]"
    required: bool = False


def _uint(bits: int) -> Check:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << bits


def _float(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _bool(value: Any) -> bool:
    return isinstance(value, bool)


def _hex(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("([0-9a-f]{2})*", value) is not None


def _one_of(*values: str) -> Check:
    return lambda value: value in values


def _ranges(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(pair, list) and len(pair) in {1, 2} and all(map(_uint(64), pair))
            for pair in value
        )
    )


def _list(value: Any) -> bool:
    return isinstance(value, list)


_U8, _U16, _U32, _U64 = _uint(8), _uint(16), _uint(32), _uint(64)

RAW = {"length": Field(_U64), "payload_length": Field(_U64), "data": Field(_hex)}

PACKET_TYPES = (
    "initial", "handshake", "0RTT", "1RTT", "retry", "version_negotiation", "stateless_reset",
    "unknown",
)  # fmt: skip

HEADER = {
    "packet_type": Field(_one_of(*PACKET_TYPES), required=True),
    "packet_number": Field(_U64),
    "packet_number_length": Field(_U8),
    "length": Field(_U16),
    "version": Field(_hex),
    "scil": Field(_U8),
    "dcil": Field(_U8),
    "scid": Field(_hex),
    "dcid": Field(_hex),
    "spin_bit": Field(_bool),
    "key_phase": Field(_U64),
    "key_phase_bit": Field(_bool),
}

FRAMES: dict[str, dict[str, Field]] = {
    "padding": {},
    "ping": {},
    "ack": {
        "ack_delay": Field(_float),
        "acked_ranges": Field(_ranges),
        "ect1": Field(_U64),
        "ect0": Field(_U64),
        "ce": Field(_U64),
    },
    "crypto": {"offset": Field(_U64, required=True)},
    "new_token": {"token": Field(lambda v: isinstance(v, dict), required=True)},
    "stream": {
        "stream_id": Field(_U64, required=True),
        "offset": Field(_U64),
        "fin": Field(_bool),
    },
    "reset_stream": {
        "stream_id": Field(_U64, required=True),
        "error": Field(_text, required=True),
        "error_code": Field(_U64),
        "final_size": Field(_U64, required=True),
    },
    "stop_sending": {
        "stream_id": Field(_U64, required=True),
        "error": Field(_text, required=True),
        "error_code": Field(_U64),
    },
    "max_data": {"maximum": Field(_U64, required=True)},
    "max_stream_data": {
        "stream_id": Field(_U64, required=True),
        "maximum": Field(_U64, required=True),
    },
    "max_streams": {
        "stream_type": Field(_one_of("unidirectional", "bidirectional"), required=True),
        "maximum": Field(_U64, required=True),
    },
    "new_connection_id": {
        "sequence_number": Field(_U64, required=True),
        "retire_prior_to": Field(_U64, required=True),
        "connection_id_length": Field(_U8),
        "connection_id": Field(_hex, required=True),
        "stateless_reset_token": Field(_hex),
    },
    "retire_connection_id": {"sequence_number": Field(_U64, required=True)},
    "connection_close": {
        "error_space": Field(_one_of("transport", "application")),
        "error": Field(_text),
        "error_code": Field(_U64),
        "reason": Field(_text),
    },
    "handshake_done": {},
}

_INITIATOR = _one_of("local", "remote")

_PARAMETERS = {
    "initiator": Field(_INITIATOR),
    "tls_cipher": Field(_text),
    "original_destination_connection_id": Field(_hex),
    "initial_source_connection_id": Field(_hex),
    "retry_source_connection_id": Field(_hex),
    "stateless_reset_token": Field(_hex),
    "disable_active_migration": Field(_bool),
    **{
        name: Field(_U64)
        for name in (
            "max_idle_timeout", "max_udp_payload_size", "ack_delay_exponent", "max_ack_delay",
            "active_connection_id_limit", "initial_max_data",
            "initial_max_stream_data_bidi_local", "initial_max_stream_data_bidi_remote",
            "initial_max_stream_data_uni", "initial_max_streams_bidi", "initial_max_streams_uni",
        )
    },
    "unknown_parameters": Field(_list),
}  # fmt: skip

SCHEMA: dict[str, dict[str, Field]] = {
    "quic:packet_sent": {
        "header": Field(HEADER, required=True),
        "frames": Field(_list),
        "raw": Field(RAW),
        "datagram_id": Field(_U32),
        "is_mtu_probe_packet": Field(_bool),
        "trigger": Field(_text),
    },
    "quic:packet_received": {
        "header": Field(HEADER, required=True),
        "frames": Field(_list),
        "raw": Field(RAW),
        "datagram_id": Field(_U32),
        "trigger": Field(_text),
    },
    "quic:packet_lost": {
        "header": Field(HEADER),
        "frames": Field(_list),
        "is_mtu_probe_packet": Field(_bool),
        "trigger": Field(_one_of("reordering_threshold", "time_threshold", "pto_expired")),
    },
    # RTTs in ms, windows in bytes, pacing_rate in bits per second.
    "quic:recovery_metrics_updated": {
        "min_rtt": Field(_float),
        "smoothed_rtt": Field(_float),
        "latest_rtt": Field(_float),
        "rtt_variance": Field(_float),
        "pto_count": Field(_U16),
        "congestion_window": Field(_U64),
        "bytes_in_flight": Field(_U64),
        "ssthresh": Field(_U64),
        "packets_in_flight": Field(_U64),
        "pacing_rate": Field(_U64),
    },
    "quic:recovery_parameters_set": {
        "reordering_threshold": Field(_U16),
        "time_threshold": Field(_float),
        "timer_granularity": Field(_U16, required=True),
        "initial_rtt": Field(_float),
        "max_datagram_size": Field(_U32),
        "initial_congestion_window": Field(_U64),
        "minimum_congestion_window": Field(_U64),
        "loss_reduction_factor": Field(_float),
        "persistent_congestion_threshold": Field(_U16),
    },
    "quic:congestion_state_updated": {
        "old": Field(_text),
        "new": Field(_text, required=True),
        "trigger": Field(_text),
    },
    "quic:parameters_set": _PARAMETERS,
    "quic:stream_data_moved": {
        "stream_id": Field(_U64),
        "offset": Field(_U64),
        "from": Field(_text),
        "to": Field(_text),
        "additional_info": Field(_text),
        "raw": Field(RAW),
    },
    "quic:connection_closed": {
        "initiator": Field(_INITIATOR),
        "connection_error": Field(_text),
        "application_error": Field(_text),
        "error_code": Field(_U64),
        "internal_code": Field(_U64),
        "reason": Field(_text),
        "trigger": Field(_text),
    },
}

FILE_HEADER = {
    "file_schema": Field(_one_of("urn:ietf:params:qlog:file:sequential"), required=True),
    "serialization_format": Field(_one_of("application/qlog+json-seq"), required=True),
    "title": Field(_text),
    "description": Field(_text),
    "trace": Field(
        {
            "title": Field(_text),
            "description": Field(_text),
            "common_fields": Field(lambda v: isinstance(v, dict)),
            "vantage_point": Field(
                {
                    "name": Field(_text),
                    "type": Field(_one_of("client", "server", "network", "unknown"), required=True),
                    "flow": Field(_text),
                }
            ),
            "event_schemas": Field(_list, required=True),
        },
        required=True,
    ),
}

_EVENT_FIELDS = {"time", "name", "data", "group_id", "tuple", "time_format", "system_info"}


def _fields(
    value: Any, fields: Mapping[str, Field], where: str, unknown: set[str]
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: not an object"
        return
    for name, field in fields.items():
        if name not in value:
            if field.required:
                yield f"{where}.{name}: missing"
        elif isinstance(field.check, Mapping):
            yield from _fields(value[name], field.check, f"{where}.{name}", unknown)
        elif callable(field.check) and not field.check(value[name]):
            yield f"{where}.{name}: {type(value[name]).__name__} {str(value[name])[:40]!r}"
    unknown.update(f"{where}.{name}" for name in value.keys() - fields.keys())


def _frame(frame: Any, unknown: set[str]) -> Iterator[str]:
    kind = frame.get("frame_type") if isinstance(frame, dict) else None
    if kind not in FRAMES:
        yield f"frame: {kind!r} is no type of frame"
        return
    common = {"frame_type": Field(_text, required=True), "raw": Field(RAW)}
    yield from _fields(frame, {**common, **FRAMES[kind]}, f"frame {kind}", unknown)


def deviations(records: list[Any]) -> tuple[list[str], set[str]]:
    """The departures of a file from the drafts: the errors, and the fields unknown to them."""
    unknown: set[str] = set()
    wrong = list(_fields(records[0], FILE_HEADER, "header", unknown))
    for event in records[1:]:
        name = event.get("name")
        if name not in SCHEMA:
            unknown.add(str(name))
            continue
        if not _float(event.get("time")):
            wrong.append(f"{name}: time {event.get('time')!r}")
        unknown.update(f"event.{field}" for field in event.keys() - _EVENT_FIELDS)
        wrong += _fields(event["data"], SCHEMA[name], name, unknown)
        for frame in event["data"].get("frames", []):
            wrong += _frame(frame, unknown)
    return wrong, unknown


# From here on, the code does what that of qvis (commit 056c88b and before) does with a file.


class Qvis:
    """A file as qvis' loader (QlogLoaderV2, DirectEventParser) gives it to its views."""

    def __init__(self, records: list[Any]) -> None:
        """Loads a file; fails as qvis would."""
        header, *self.events = records
        assert header["qlog_version"] in {"0.3", "draft-02"}
        assert header["qlog_format"] == "JSON-SEQ"
        trace = header["trace"]
        common = trace.get("common_fields", {})
        # Anything but a number or a date makes all times NaN.
        assert isinstance(common.get("reference_time", 0), int | float | str)
        assert common.get("time_format", "absolute") in {"absolute", "relative", "delta"}
        self.vantage = trace["vantage_point"]["type"]
        times = [float(event["time"]) for event in self.events]
        assert times == sorted(times), "qvis stops with an alert and sorts"

    @staticmethod
    def category(event: Any) -> str:
        return str(event.get("category") or event["name"].split(":")[0])

    @staticmethod
    def name(event: Any) -> str:
        return str(event["name"].split(":")[-1])

    def lookup(self, category: str, name: str) -> list[Any]:
        return [e for e in self.events if (self.category(e), self.name(e)) == (category, name)]

    def sequence(self) -> None:
        """The sequence diagram: packets with type, number and frames, in order."""
        for name in ("packet_sent", "packet_received"):
            packets = self.lookup("transport", name)
            assert packets
            for packet in packets:
                assert packet["data"]["header"]["packet_type"]
                assert isinstance(packet["data"]["header"]["packet_number"], int)
                for frame in packet["data"].get("frames", []):
                    assert frame["frame_type"]

    def congestion(self, has_acks: bool) -> dict[str, int]:
        """The congestion graph: what is drawn of each line, and of packets."""
        sent = {
            (e["data"]["header"]["packet_type"], e["data"]["header"]["packet_number"])
            for e in self.lookup("transport", "packet_sent")
            if int(e["data"]["raw"]["length"]) > 0
        }
        lost = self.lookup("recovery", "packet_lost")
        for event in lost:
            header = event["data"]["header"]
            assert (header["packet_type"], header["packet_number"]) in sent
            assert event["data"]["raw"]["length"] > 0, "the tooltip reads it"
        metrics = [e["data"] for e in self.lookup("recovery", "metrics_updated")]
        drawn = {
            name: sum(name in data for data in metrics)
            for name in (
                "congestion_window", "bytes_in_flight", "min_rtt", "smoothed_rtt", "latest_rtt",
            )
        }  # fmt: skip
        acks = [
            frame
            for event in self.lookup("transport", "packet_received")
            for frame in event["data"].get("frames", [])
            if frame["frame_type"] == "ack"
        ]
        assert bool(acks) == has_acks
        for frame in acks:
            assert all(pair[0] <= pair[-1] for pair in frame["acked_ranges"])
        return {**drawn, "lost": len(lost), "acks": len(acks), "sent": len(sent)}

    def multiplexing(self) -> int:
        """The multiplexing diagram: bytes of all stream frames that it places."""
        name = "packet_sent" if self.vantage == "server" else "packet_received"
        total = 0
        for event in self.lookup("transport", name):
            for frame in event["data"].get("frames", []):
                if frame["frame_type"] == "stream":
                    assert isinstance(frame["offset"], int)
                    total += frame["length"]
        return total

    def packetization(self) -> None:
        """The packetization diagram: each packet's length and what its frames take of it."""
        tag = 16
        for name in ("packet_sent", "packet_received"):
            for event in self.lookup("transport", name):
                raw = event["data"].get("raw")
                if not raw or not raw.get("length"):
                    continue
                payload = raw.get("payload_length", 0) - tag
                if not raw.get("payload_length"):
                    payload = raw["length"] - min(4, raw["length"]) - tag
                frames = event["data"].get("frames")
                if frames is None:
                    continue
                assert frames[0] is not None
                streams = sum(1 + f["length"] for f in frames if f["frame_type"] == "stream")
                assert payload - streams >= 0, (event, payload, streams)

    def statistics(self) -> dict[tuple[str, str], int]:
        """The statistics: how many events there are of each category and name."""
        counts: dict[tuple[str, str], int] = {}
        for event in self.events:
            key = (self.category(event), self.name(event))
            counts[key] = counts.get(key, 0) + 1
        return counts
