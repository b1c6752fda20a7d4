"""Writes a trace in a form that qvis and qlog-dancer open.

qlog-dancer reads JSON-SEQ of main-schema-14. qvis reads that of main-schema-03: it looks for
`qlog_version`, for the names and the places of lengths of that draft, and for times that count from
the first event. No file is clean in both: each takes an event by one name only.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TextIO

import polars as pl

from qlog_analysis.errors import NotQlogError, UsageError
from qlog_analysis.metrics.losses import losses
from qlog_analysis.reading.container import QlogFile, values
from qlog_analysis.reading.dialects import (
    CONVERTED,
    METRICS,
    NO_SSTHRESH,
    STAND_INS,
    Clock,
    Event,
    Translator,
)
from qlog_analysis.reading.reader import Trace, read_traces
from qlog_analysis.reading.unpacking import Unpacked

Target = Literal["qvis", "dancer"]

SUFFIX = ".converted.sqlog"

# The length of a packet that stands in, which is the least that a path must carry (RFC 9000 §14).
_STAND_IN_BYTES = 1200

_RS = "\x1e"

# The categories of main-schema-03 for today's names, which are given without their schema.
_CATEGORIES = {
    "recovery_metrics_updated": "recovery",
    "recovery_parameters_set": "recovery",
    "congestion_state_updated": "recovery",
    "loss_timer_updated": "recovery",
    "timer_updated": "recovery",
    "packet_lost": "recovery",
    "marked_for_retransmit": "recovery",
    "ecn_state_updated": "recovery",
    "mtu_updated": "recovery",
    "key_updated": "security",
    "key_discarded": "security",
    "server_listening": "connectivity",
    "connection_started": "connectivity",
    "connection_closed": "connectivity",
    "connection_id_updated": "connectivity",
    "connection_state_updated": "connectivity",
    "spin_bit_updated": "connectivity",
    "tuple_assigned": "connectivity",
}
_OLD_NAMES = {
    "recovery_metrics_updated": "metrics_updated",
    "recovery_parameters_set": "parameters_set",
    "stream_data_moved": "data_moved",
    "udp_datagrams_sent": "datagrams_sent",
    "udp_datagrams_received": "datagrams_received",
    "udp_datagram_dropped": "datagram_dropped",
}

# These fields come first, since qvis judges a file by its first 1024 bytes.
_FOR_QVIS = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ"}
_FOR_DANCER = {
    "file_schema": "urn:ietf:params:qlog:file:sequential",
    "serialization_format": "application/qlog+json-seq",
}
_EVENT_SCHEMAS = [
    "urn:ietf:params:qlog:events:quic-13",
    "urn:ietf:params:qlog:events:http3-13",
]


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion.

    Attributes:
        path: the file that was written.
        events: events in it.
        derived_losses: packet_lost events that the original does not have.
        skipped: records of the original that could not be read.
        notes: the views of qvis that will be empty, and why, for people.
    """

    path: Path
    events: int
    derived_losses: int
    skipped: int
    notes: list[str]


def out_path(path: Path, number: int | None = None) -> Path:
    """The default path of a file's conversion, or of that of one of its traces: beside it."""
    name = path.name
    for suffix in (".gz", ".zst", ".sqlog", ".qlog", ".json", ".ndjson", ".jsonl"):
        name = name.removesuffix(suffix)
    if number is not None:
        name += f".{number}"
    return path.with_name(name + SUFFIX)


def convert(
    path: Path,
    out: Path,
    target: Target = "qvis",
    on_bytes: Callable[[int], None] = lambda _: None,
    number: int | None = None,
) -> Converted:
    """Converts one trace of a file, with all of its connections.

    Args:
        path: a qlog trace of any program.
        out: the file to write.
        target: the program that is to open it.
        on_bytes: told the number of bytes after each part that was read; the file is read twice.
        number: the number of the trace, from 1; needed if there are several.

    Raises:
        NotQlogError: the file cannot be opened or is not a qlog trace.
        UsageError: the output would replace the input, or there are several traces and no number,
            or there is no trace of this number.
        OSError: the file cannot be written.
    """
    if out.exists() and out.samefile(path):
        raise UsageError(f"{out}: is the trace itself; name another file with --out")
    if out.exists() and not out.is_file():
        raise UsageError(f"{out}: is not a regular file; name another with --out")
    traces = _of_one(path, read_traces(path, on_bytes), number)
    stand_ins = target == "qvis" and all(
        one.sent.is_empty() and one.received.is_empty() for one in traces
    )
    known = {trace.group: _Known.of(trace, stand_ins) for trace in traces}
    unfinished = out.with_name(out.name + ".part")
    try:
        raw = path.open("rb")
    except OSError as error:
        raise NotQlogError(f"{path}: cannot read the trace: {error.strerror}") from error
    with raw, unfinished.open("w", encoding="utf-8", newline="") as sink:
        source = _Source(traces[0], QlogFile(path, Unpacked(raw, on_bytes)))
        writer = _Writer(sink, target, known)
        writer.record(_header(source, target, stand_ins))
        for event in source.events():
            writer.event(event)
        writer.finish()
    if writer.unordered:
        _sort(unfinished)
    unfinished.replace(out)
    notes = _notes(writer, traces[0], stand_ins) if target == "qvis" else []
    return Converted(out, writer.events, writer.derived, source.skipped, notes)


def _notes(writer: "_Writer", trace: Trace, stand_ins: bool) -> list[str]:
    """The views of qvis that will be empty, and why."""
    if stand_ins:
        return [
            "it has no packets, as sparse traces have none: Multiplexing and Packetization of qvis "
            "will be empty, Sequence will have events only; Congestion shows window, RTT and "
            "losses over time, and the packets in it stand in for those that the trace lacks. A "
            "full trace fills all views (gallop-server --qvis, or --qlog full)"
        ]
    notes = []
    if "frames" not in writer.seen:
        notes.append("its packets have no frames: Multiplexing and Packetization will be empty")
    else:
        kind = "packet_sent" if trace.vantage == "server" else "packet_received"
        if f"{kind} stream" not in writer.seen:
            notes.append(f"no {kind} has a STREAM frame: Multiplexing will be empty")
    if METRICS not in writer.seen:
        notes.append("it has no metrics: Congestion will have no window and no RTT")
    return notes


def _of_one(path: Path, traces: Sequence[Trace], number: int | None) -> list[Trace]:
    """The connections of the trace of this number."""
    count = max(trace.number for trace in traces)
    if number is None and count > 1:
        raise UsageError(f"{path}: holds {count} traces; choose one with --trace N (1 to {count})")
    if number is not None and not 1 <= number <= count:
        held = "one trace" if count == 1 else f"{count} traces"
        raise UsageError(f"--trace {number}: {path} holds {held}")
    return [trace for trace in traces if trace.number == (number or 1)]


@dataclass(slots=True)
class _Known:
    """The facts about a connection that a first reading finds."""

    lengths: Mapping[tuple[str, int], int]
    """The bytes of the packets sent, by space and number."""
    derived: list[tuple[float, int]]
    """Losses that are not logged, as times and packet numbers, the last first."""
    stand_ins: list[tuple[float, int]]
    """Packets that stand in for those that are not logged, as times and numbers, the last first."""

    @staticmethod
    def of(trace: Trace, stand_ins: bool) -> "_Known":
        sent = trace.sent.select("packet_type", "packet_number", "length_bytes")
        lengths = {(_space(kind), number): length for kind, number, length in sent.iter_rows()}
        derived: list[tuple[float, int]] = []
        if trace.losses.is_empty() and not trace.dialect.logs_losses:
            lost = losses(trace).select("lost_ms", pl.col("packet_number"))
            derived = sorted(lost.iter_rows(), reverse=True)
        packets = _stand_ins(trace) if stand_ins else []
        lengths |= {("application", number): _STAND_IN_BYTES for _, number in packets}
        return _Known(lengths, derived, packets)


def _stand_ins(trace: Trace) -> list[tuple[float, int]]:
    """One packet for each that was lost, as it was lost, and one at either end of the metrics.

    qvis draws the congestion window and the RTT for as long as it has packets, and a loss where it
    has the packet.
    """
    lost = {number: time for time, number in trace.losses.select("time_ms", "packet_number").rows()}
    packets = [(time, number) for number, time in lost.items()]
    ends = trace.metrics["time_ms"]
    if len(ends):
        free = max(lost, default=-1) + 1
        packets += [(float(ends[0]), free), (float(ends[-1]), free + 1)]
    return sorted(packets, reverse=True)


def _space(packet_type: str | None) -> str:
    return packet_type if packet_type in {"initial", "handshake"} else "application"


class _Source:
    """Reads the events of a trace in today's form."""

    def __init__(self, trace: Trace, file: QlogFile) -> None:
        self._file = file
        self._number = trace.number
        self.header = trace.header
        self.program = trace.program
        self.dialect = trace.dialect
        documents = file.documents
        inner = self.header.get("trace")
        if documents is not None:
            inner = documents[self._number - 1].trace
        self.trace: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
        self.skipped = 0

    def events(self) -> Iterator[Event]:
        translate = Translator(self.dialect, Clock(self.trace, self.dialect.from_first_event))
        for value in self._values():
            event = translate(value)
            if event is None:
                self.skipped += 1
            else:
                yield event

    def _values(self) -> Iterator[Any]:
        if self._file.documents is None:
            for lines in self._file.lines():
                if lines.number == self._number:
                    self.skipped += lines.undecodable
                    yield from values(lines.texts)
        else:
            document = self._file.documents[self._number - 1]
            self.skipped += document.unreadable
            yield from document.events


def _header(source: _Source, target: Target, stand_ins: bool) -> Event:
    common = source.trace.get("common_fields")
    common = common if isinstance(common, dict) else {}
    title = source.header.get("title", source.trace.get("title"))
    description = source.header.get("description", source.trace.get("description"))
    texts = {"title": title, "description": description}
    said = {name: text for name, text in texts.items() if isinstance(text, str)}
    point = source.trace.get("vantage_point")
    trace: Event = {**said, "vantage_point": _vantage_point(point), "event_schemas": _EVENT_SCHEMAS}
    reference = common.get("reference_time")
    if target == "dancer" and isinstance(reference, dict):
        trace["common_fields"] = {"reference_time": reference}
    header = _FOR_QVIS if target == "qvis" else _FOR_DANCER
    converter: Event = {
        "name": "qlog-analysis",
        "version": version("qlog-analysis"),
        "for": target,
        "program": source.program,
    }
    if stand_ins:
        converter[STAND_INS] = True
    if target == "qvis" and reference is not None:
        # NOTE: qvis takes a reference_time for a number, and loses all times if it is not one.
        converter["reference_time"] = reference
    return {**header, CONVERTED: converter, **said, "trace": trace}


def _vantage_point(point: Any) -> Event:
    if not isinstance(point, dict) or point.get("type") not in {"client", "server", "network"}:
        return {"type": "unknown"}
    return {key: point[key] for key in ("name", "type", "flow") if isinstance(point.get(key), str)}


class _Writer:
    """Writes events with everything that the target needs."""

    def __init__(self, sink: TextIO, target: Target, known: Mapping[str, _Known]) -> None:
        self._sink = sink
        self._target = target
        self._known = known
        self._sampled: set[tuple[str, str]] = set()
        self._last = 0.0
        self.seen: set[str] = set()
        """The parts of packets that were written, and the names of events."""
        self.events = 0
        self.derived = 0
        self.unordered = False

    def record(self, record: Event) -> None:
        """Writes a record unchanged."""
        self._sink.write(_RS)
        json.dump(record, self._sink, separators=(",", ":"))
        self._sink.write("\n")

    def event(self, event: Event) -> None:
        """Writes an event, and before it the losses up to its time."""
        group = str(event.get("group_id", ""))
        known = self._known.get(group)
        if known is not None:
            while known.stand_ins and known.stand_ins[-1][0] <= event["time"]:
                self._stand_in(known, group)
            while known.derived and known.derived[-1][0] <= event["time"]:
                self._lose(known, group)
        self._write(event, known, group)

    def finish(self) -> None:
        """Writes the losses after the last event."""
        for group, known in self._known.items():
            while known.stand_ins:
                self._stand_in(known, group)
            while known.derived:
                self._lose(known, group)

    def _lose(self, known: _Known, group: str) -> None:
        time, number = known.derived.pop()
        event: Event = {
            "time": time,
            "name": "quic:packet_lost",
            "data": {"header": {"packet_type": "1RTT", "packet_number": number}},
        }
        if group:
            event["group_id"] = group
        self.derived += 1
        self._write(event, known, group)

    def _stand_in(self, known: _Known, group: str) -> None:
        time, number = known.stand_ins.pop()
        event: Event = {
            "time": time,
            "name": "transport:packet_sent",
            "data": {
                "header": {"packet_type": "1RTT", "packet_number": number},
                "raw": {"length": _STAND_IN_BYTES},
                "trigger": "stands in for a packet that the trace lacks",
            },
        }
        if group:
            event["group_id"] = group
        self.record(event)

    def _write(self, event: Event, known: _Known | None, group: str) -> None:
        name = event["name"]
        data = event["data"]
        if name == METRICS:
            self._drop_placeholders(data, group)
        if name == "quic:packet_lost" and known is not None:
            _add_length(data, known)
        self._look(name, data)
        if name == "quic:parameters_set" and self._target != "qvis":
            # qlog-dancer reads no such event without it.
            data.setdefault("unknown_parameters", [])
        kind = name.partition(":")[2]
        if self._target == "qvis":
            _adapt_to_qvis(kind, data)
            event["name"] = f"{_category(name)}:{_OLD_NAMES.get(kind, kind)}"
        self.unordered |= event["time"] < self._last
        self._last = max(self._last, event["time"])
        self.record(event)
        self.events += 1

    def _look(self, name: str, data: Event) -> None:
        """Remembers what there is to draw."""
        self.seen.add(name)
        for frame in data.get("frames") or ():
            self.seen.add("frames")
            if frame.get("frame_type") == "stream" and "payload_length" in frame.get("raw", {}):
                self.seen.add(f"{name.partition(':')[2]} stream")

    def _drop_placeholders(self, data: Event, group: str) -> None:
        """Removes values that stand for "none": RTTs before the first sample, an unset ssthresh."""
        if "latest_rtt" in data:
            self._sampled.add((group, "rtt"))
        elif (group, "rtt") not in self._sampled:
            for rtt in ("min_rtt", "smoothed_rtt", "rtt_variance"):
                data.pop(rtt, None)
        if data.get("ssthresh", NO_SSTHRESH) < NO_SSTHRESH:
            self._sampled.add((group, "ssthresh"))
        elif (group, "ssthresh") not in self._sampled:
            data.pop("ssthresh", None)


def _category(name: str) -> str:
    schema, _, kind = name.partition(":")
    if schema == "quic":
        return _CATEGORIES.get(kind, "transport")
    return "http" if schema == "http3" else schema


def _add_length(data: Event, known: _Known) -> None:
    header = data["header"]
    length = known.lengths.get((_space(header.get("packet_type")), header.get("packet_number")))
    if length is not None and "length" not in data.get("raw", {}):
        # qvis shows it, and fails without it.
        data["raw"] = {**data.get("raw", {}), "length": length}


def _adapt_to_qvis(kind: str, data: Event) -> None:
    """Adds the fields that qvis looks for, in the places of its draft."""
    if kind in {"packet_sent", "packet_received"}:
        # NOTE: qvis counts the 16 bytes of the AEAD's tag as part of payload_length, which leaves
        # them out today. Without it qvis counts from the packet's length.
        data.get("raw", {}).pop("payload_length", None)
        frames = data.get("frames")
        if frames == []:
            # qvis expects that there is a first one.
            del data["frames"]
        for frame in frames or []:
            length = frame.get("raw", {}).get("payload_length")
            if length is not None:
                frame["length"] = length
    elif kind == "parameters_set" and "initiator" in data:
        data["owner"] = data["initiator"]
    elif kind == "stream_data_moved" and "length" in data.get("raw", {}):
        data["length"] = data["raw"]["length"]
    elif kind in {"frame_created", "frame_parsed"} and "length" in data:
        # qvis leaves out HTTP/3 frames without it.
        data["byte_length"] = data["length"]


def _sort(path: Path) -> None:
    """Sorts the events of a converted file, since qvis asks the user to wait otherwise."""
    header, *records = path.read_text(encoding="utf-8").split(_RS)[1:]
    records.sort(key=lambda record: float(json.loads(record)["time"]))
    path.write_text(_RS + _RS.join([header, *records]), encoding="utf-8", newline="")
