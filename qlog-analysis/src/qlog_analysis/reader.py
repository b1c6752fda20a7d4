"""Reads qlog traces into one tidy table per kind of event.

polars takes a file apart into records, sorts these by the name of their event, and decodes with a
fixed schema only the kinds and the fields that are used: quick, and no field that first appears
late is lost to inference. Traces of other programs are first brought into the form of today's
drafts, event by event (see `dialects`), which is slower.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from qlog_analysis.container import Document, QlogFile, looks_whole, salvage, values
from qlog_analysis.dialects import (
    CANONICAL,
    CONVERTED,
    NO_SSTHRESH,
    Clock,
    Dialect,
    Translator,
    recognise,
)
from qlog_analysis.errors import NotQlogError, SeveralTracesError
from qlog_analysis.unpacking import Unpacked


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace as tables, in order of time; times are milliseconds since the trace began.

    Attributes:
        path: the file.
        header: the header of the file, empty if it is missing.
        connection: which of the file's connections this is, empty if it has but one.
        vantage: the end that logged it: "server", "client", "network" or "unknown"; found out by
            the packets, when the trace does not say and all received ones were asked for.
        dialect: how the program that wrote it does that.
        sent: packets sent: `time_ms`, `packet_type`, `packet_number`, `length_bytes`.
        received: packets received, in the same columns; only those with acknowledgements unless
            all were asked for.
        acks: acknowledged ranges as they arrived, one row per range: `time_ms`, `packet_type` of
            the packet that carried it, `first`, `last` (packet numbers, both included).
        metrics: the recovery metrics after each change, filled forward: `time_ms`, `min_rtt_ms`,
            `smoothed_rtt_ms`, `latest_rtt_ms` (null until the first sample), `window_bytes`,
            `in_flight_bytes`, `ssthresh_bytes` (NaN while there is none), `pacing_bps`,
            `lost_packets`, `pto_count`, `app_limited`, and the fields of our controllers,
            `vegas_*` (null where absent).
        states: changes of the congestion state: `time_ms`, `state`.
        losses: packets as they were declared lost: `time_ms`, `packet_type`, `packet_number`; empty
            also where losses are not logged (see the module `losses`).
        records: events in the file, skipped ones included.
        skipped: events in the file that could not be read.
        unordered: rows whose time was before that of a row above them.
        truncated: whether the file was cut off.
    """

    path: Path
    header: Mapping[str, Any]
    connection: str
    vantage: str
    dialect: Dialect
    sent: pl.DataFrame
    received: pl.DataFrame
    acks: pl.DataFrame
    metrics: pl.DataFrame
    states: pl.DataFrame
    losses: pl.DataFrame
    records: int
    skipped: int
    unordered: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of event: how to find it, what to decode of it, and the columns this becomes."""

    marker: str
    schema: pl.Struct
    columns: tuple[pl.Expr, ...]
    required: tuple[str, ...]
    wanted: str = ""
    """Text without which a record of this kind holds nothing of use."""


def _event(**data: pl.DataType | type[pl.DataType]) -> pl.Struct:
    return pl.Struct({"time": pl.Float64, "data": pl.Struct(data)})


def _field(*names: str) -> pl.Expr:
    expr = pl.col("record")
    for name in names:
        expr = expr.struct.field(name)
    return expr


_TIME = _field("time").alias("time_ms")
_PACKET_TYPE = _field("data", "header", "packet_type").alias("packet_type")

_HEADER = pl.Struct({"packet_type": pl.String, "packet_number": pl.Int64})
_PACKET = (_TIME, _PACKET_TYPE, _field("data", "header", "packet_number").alias("packet_number"))
_LENGTH = _field("data", "raw", "length").alias("length_bytes")

_SENT = _Kind(
    marker=':packet_sent"',
    schema=_event(header=_HEADER, raw=pl.Struct({"length": pl.Int64})),
    columns=(*_PACKET, _LENGTH),
    required=("time_ms", "packet_number", "length_bytes"),
)

_RECEIVED = _Kind(
    marker=':packet_received"',
    wanted='"acked_ranges"',
    schema=_event(
        header=_HEADER,
        raw=pl.Struct({"length": pl.Int64}),
        frames=pl.List(pl.Struct({"acked_ranges": pl.List(pl.List(pl.Int64))})),
    ),
    columns=(*_PACKET, _LENGTH, _field("data", "frames").alias("frames")),
    required=("time_ms", "frames"),
)

_ALL_RECEIVED = replace(_RECEIVED, wanted="", required=("time_ms", "packet_type"))

VEGAS_FIELDS = (
    "vegas_base_rtt_ms",
    "vegas_round_rtt_ms",
    "vegas_expected_bps",
    "vegas_actual_bps",
    "vegas_backlog_packets",
    "vegas_incr_packets",
    "vegas_status",
)
"""What our controllers add to the metrics event; quiche hands them on as numbers."""

_RENAMED = {
    "min_rtt": "min_rtt_ms",
    "smoothed_rtt": "smoothed_rtt_ms",
    "latest_rtt": "latest_rtt_ms",
    "congestion_window": "window_bytes",
    "bytes_in_flight": "in_flight_bytes",
    "ssthresh": "ssthresh_bytes",
}

_METRICS = _Kind(
    marker='metrics_updated"',
    schema=_event(
        **dict.fromkeys((*_RENAMED, "pacing_rate", "pto_count", *VEGAS_FIELDS), pl.Float64),
        cf_app_limited=pl.Boolean,
        cf_lost_packets=pl.Struct({"total": pl.Int64}),
    ),
    columns=(
        _TIME,
        *(_field("data", name).alias(column) for name, column in _RENAMED.items()),
        _field("data", "pacing_rate").alias("pacing_bps"),
        _field("data", "cf_lost_packets", "total").alias("lost_packets"),
        _field("data", "pto_count").alias("pto_count"),
        _field("data", "cf_app_limited").alias("app_limited"),
        *(_field("data", name).alias(name) for name in VEGAS_FIELDS),
    ),
    required=("time_ms",),
)

_STATES = _Kind(
    marker=':congestion_state_updated"',
    schema=_event(new=pl.String),
    columns=(_TIME, _field("data", "new").alias("state")),
    required=("time_ms", "state"),
)

_LOST = _Kind(
    marker=':packet_lost"',
    schema=_event(header=_HEADER),
    columns=_PACKET,
    required=("time_ms", "packet_number"),
)


def read_trace(
    path: Path, on_bytes: Callable[[int], None] = lambda _: None, *, received: bool = False
) -> Trace:
    """Reads the trace of a file that holds one connection.

    Records that cannot be read are skipped and counted.

    Args:
        path: the file; gzip and zstd are unpacked.
        on_bytes: told the number of bytes after each part that was read, for a progress bar.
        received: whether to read all packets that were received; else only those with
            acknowledgements, which is quicker.

    Raises:
        NotQlogError: the file cannot be opened, or is no qlog.
        SeveralTracesError: the file holds the traces of several connections.
    """
    traces = read_traces(path, on_bytes, received=received)
    if len(traces) > 1:
        names = ", ".join(trace.connection for trace in traces[:3])
        more = ", …" if len(traces) > 3 else ""
        raise SeveralTracesError(
            f"{path}: holds the traces of {len(traces)} connections ({names}{more}); one is wanted"
        )
    return traces[0]


def read_traces(
    path: Path, on_bytes: Callable[[int], None] = lambda _: None, *, received: bool = False
) -> list[Trace]:
    """Reads all traces of a file, at least one, as `read_trace` does.

    Some programs write all connections of an endpoint into one file.

    Raises:
        NotQlogError: the file cannot be opened, or is no qlog.
    """
    try:
        with path.open("rb") as raw:
            unpacked = Unpacked(raw, on_bytes)
            file = QlogFile(path, unpacked)
            traces = _read(path, file, received)
    except OSError as error:
        raise NotQlogError(f"{path}: cannot read the trace: {error.strerror}") from error
    if unpacked.damaged:
        return [replace(trace, truncated=True) for trace in traces]
    return traces


def _read(path: Path, file: QlogFile, received: bool) -> list[Trace]:
    reading = _Reading(path, file, received)
    if file.documents is None:
        reading.sequence()
    else:
        for number, document in enumerate(file.documents):
            reading.document(number, document)
    return reading.traces()


class _Tables:
    """The tables of one connection while they grow."""

    def __init__(self, kinds: Sequence[_Kind]) -> None:
        self._kinds = kinds
        self._parts = [[_no_rows(kind)] for kind in kinds]

    def add(self, lines: pl.Series) -> tuple[int, int]:
        """Takes records; gives the number of events in them, and of those that were bad."""
        whole = looks_whole(lines)
        parts, bad, failed = self._decode(lines.filter(whole))
        failed += lines.filter(~whole).to_list()
        records = len(lines)
        if failed:
            found = [salvage(text) for text in failed]
            events = pl.Series([event for some, _ in found for event in some], dtype=pl.String)
            others = sum(rest or not some for some, rest in found)
            records += len(events) + others - len(failed)
            more, bad_events, failed_events = self._decode(events)
            bad += others + bad_events + len(failed_events)
            parts = [
                pl.concat((one, two)).sort("time_ms", maintain_order=True) if len(two) else one
                for one, two in zip(parts, more, strict=True)
            ]
        for table, part in zip(self._parts, parts, strict=True):
            table.append(part)
        return records, bad

    def _decode(self, lines: pl.Series) -> tuple[list[pl.DataFrame], int, list[str]]:
        """The rows of each kind, the number of bad events, and the texts that are no JSON."""
        parts = []
        bad = 0
        failed: list[str] = []
        for kind in self._kinds:
            of_kind = lines.str.contains(kind.marker, literal=True)
            part, bad_of_kind, failed_of_kind = _decode(_useful(lines.filter(of_kind), kind), kind)
            parts.append(part)
            bad += bad_of_kind
            failed += failed_of_kind
            lines = lines.filter(~of_kind)
        return parts, bad + _count_strays(lines), failed

    def finish(self) -> tuple[list[pl.DataFrame], int]:
        """The tables in order of time, and the number of rows that were out of order."""
        tables = [pl.concat(part) for part in self._parts]
        unordered = 0
        for number, table in enumerate(tables):
            time = table["time_ms"]
            late = int((time < time.cum_max()).sum())
            if late:
                tables[number] = table.sort("time_ms", maintain_order=True)
            unordered += late
        return tables, unordered


class _Reading:
    """Reads a file's records into the tables of its connections."""

    def __init__(self, path: Path, file: QlogFile, received: bool) -> None:
        self._path = path
        self._file = file
        wanted = _ALL_RECEIVED if received else _RECEIVED
        self._kinds = (_SENT, wanted, _METRICS, _STATES, _LOST)
        self._connections: dict[str, _Connection] = {}
        self._records = 0
        self._skipped = 0
        self._truncated = False

    def sequence(self) -> None:
        """Reads JSON-SEQ or JSON lines."""
        header = self._file.header.get("trace")
        trace = header if isinstance(header, dict) else {}
        dialect = recognise(self._file.header, trace, self._file.names)
        translate = Translator(dialect, Clock(trace, dialect.from_first_event))
        twice = dialect is CANONICAL and self._file.header[CONVERTED].get("for") == "both"
        for lines in self._file.lines():
            if twice:
                lines = replace(lines, texts=_once(lines.texts))
            self._records += lines.undecodable
            self._skipped += lines.undecodable
            self._truncated = lines.cut_off
            if dialect.native:
                records, bad = self._connection("", trace, dialect).tables.add(lines.texts)
                self._records += records
                self._skipped += bad
            else:
                self._translated("", trace, translate, values(lines.texts))
        if not self._connections:
            self._connection("", trace, dialect)

    def document(self, number: int, document: Document) -> None:
        """Reads a trace of a JSON document."""
        trace = document.trace
        dialect = recognise(self._file.header, trace, "")
        translate = Translator(dialect, Clock(trace, dialect.from_first_event))
        key = f"trace {number + 1}" if len(self._file.documents or ()) > 1 else ""
        self._records += document.unreadable
        self._skipped += document.unreadable
        self._truncated |= document.cut_off
        self._translated(key, trace, translate, document.events)
        if not self._connections:
            self._connection(key, trace, dialect)

    def _translated(
        self,
        key: str,
        trace: Mapping[str, Any],
        translate: Translator,
        events: Iterable[Any],
    ) -> None:
        """Takes events of another dialect, whose records may belong to several connections."""
        texts: dict[str, list[str]] = {}
        for value in events:
            self._records += 1
            event = translate(value)
            if event is None:
                self._skipped += 1
                continue
            group = event.get("group_id", "")
            texts.setdefault(f"{key} {group}".strip(), []).append(_text(event))
        for name, group_texts in texts.items():
            connection = self._connection(name, trace, translate.dialect)
            lines = pl.Series(group_texts, dtype=pl.String)
            _, bad = connection.tables.add(lines)
            self._skipped += bad

    def _connection(self, name: str, trace: Mapping[str, Any], dialect: Dialect) -> "_Connection":
        if name not in self._connections:
            self._connections[name] = _Connection(name, trace, dialect, _Tables(self._kinds))
        return self._connections[name]

    def traces(self) -> list[Trace]:
        return [self._trace(connection) for connection in self._connections.values()]

    def _trace(self, connection: "_Connection") -> Trace:
        (sent, received, metrics, states, losses), unordered = connection.tables.finish()
        dialect = connection.dialect
        # What was translated is in the drafts' units already.
        pacing = dialect.pacing_bits if dialect.native else 1.0
        return Trace(
            path=self._path,
            header=self._file.header,
            connection=connection.name,
            vantage=_vantage(connection.trace, sent, received),
            dialect=dialect,
            sent=sent,
            received=received.drop("frames"),
            acks=_ranges(received),
            metrics=_fill(metrics.with_columns(pl.col("pacing_bps") * pacing)),
            states=states,
            losses=losses,
            records=self._records,
            skipped=self._skipped,
            unordered=unordered,
            truncated=self._truncated,
        )


@dataclass(frozen=True, slots=True)
class _Connection:
    name: str
    trace: Mapping[str, Any]
    dialect: Dialect
    tables: _Tables


def _vantage(trace: Mapping[str, Any], sent: pl.DataFrame, received: pl.DataFrame) -> str:
    """The end that logged a trace: as it says, or by who sent the first packet of all."""
    point = trace.get("vantage_point")
    kind = point.get("type") if isinstance(point, dict) else None
    if kind in {"client", "server", "network"}:
        return str(kind)
    if sent.is_empty() or received.is_empty():
        return "unknown"
    return "client" if sent["time_ms"][0] < received["time_ms"][0] else "server"


def _once(texts: pl.Series) -> pl.Series:
    """Without the copies of events under their old name, which qvis needs."""
    return texts.filter(~texts.str.contains('"name":"recovery:', literal=True))


def _text(event: Mapping[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"))


def _useful(lines: pl.Series, kind: _Kind) -> pl.Series:
    """Those with what is wanted of this kind."""
    return lines.filter(lines.str.contains(kind.wanted, literal=True)) if kind.wanted else lines


def _decode(lines: pl.Series, kind: _Kind) -> tuple[pl.DataFrame, int, list[str]]:
    """The table of these records, the number of bad ones, and those that are no JSON."""
    good, failed = _decodable(lines, kind.schema)
    tables = [
        records.to_frame("record").select(kind.columns).drop_nulls(kind.required)
        for records in good
    ]
    table = pl.concat([_no_rows(kind), *tables]).filter(pl.col("time_ms").is_finite())
    return table, lines.len() - table.height - len(failed), failed


def _decodable(lines: pl.Series, schema: pl.Struct) -> tuple[list[pl.Series], list[str]]:
    """Decodes records; bad ones, which fail the whole, are found by halving and left out."""
    if lines.is_empty():
        return [], []
    try:
        records = lines.str.json_decode(schema)
        # The records are decoded as one array: a bad one can look like none or two.
        if records.len() == lines.len():
            return [records], []
    except pl.exceptions.PolarsError:
        pass
    if lines.len() == 1:
        return [], lines.to_list()
    half = lines.len() // 2
    first, bad = _decodable(lines.head(half), schema)
    second, more_bad = _decodable(lines.slice(half), schema)
    return first + second, bad + more_bad


def _no_rows(kind: _Kind) -> pl.DataFrame:
    return pl.DataFrame(schema={"record": kind.schema}).select(kind.columns)


def _count_strays(lines: pl.Series) -> int:
    """The number of records that are no events, of those of no kind that is decoded."""
    return int((~lines.str.contains('"name"', literal=True)).sum())


def _ranges(received: pl.DataFrame) -> pl.DataFrame:
    """One row per acknowledged range; a range of one packet is logged as `[n]`."""
    return (
        received.explode("frames")
        .select("time_ms", "packet_type", pl.col("frames").struct.field("acked_ranges"))
        .drop_nulls("acked_ranges")
        .explode("acked_ranges")
        .select(
            "time_ms",
            "packet_type",
            pl.col("acked_ranges").list.first().alias("first"),
            pl.col("acked_ranges").list.last().alias("last"),
        )
        .drop_nulls()
        .filter((pl.col("first") >= 0) & (pl.col("first") <= pl.col("last")))
    )


def _fill(metrics: pl.DataFrame) -> pl.DataFrame:
    """Metrics are logged as changes: fills them forward and removes what stands for "none"."""
    filled = metrics.with_columns(pl.exclude("time_ms").forward_fill())
    # Until the first sample quiche logs its initial RTT of 333 ms, but no latest_rtt.
    sampled = pl.col("latest_rtt_ms").is_not_null()
    ssthresh = pl.col("ssthresh_bytes")
    return filled.with_columns(
        *(pl.when(sampled).then(pl.col(name)) for name in ("min_rtt_ms", "smoothed_rtt_ms")),
        pl.when(ssthresh < NO_SSTHRESH).then(ssthresh).otherwise(math.nan).alias("ssthresh_bytes"),
    )
