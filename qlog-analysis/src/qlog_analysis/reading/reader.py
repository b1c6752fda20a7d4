"""Reads qlog traces into one tidy table per kind of event.

Blocks of records that are as expected are decoded at once (see `regular`). polars takes others
apart into records and sorts them by the name of their event, and msgspec decodes the fields that
are used (see `events`). Traces of other programs are first brought into the form of today's
drafts, event by event (see `dialects`), which is slower.
"""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from qlog_analysis.errors import NotQlogError, SeveralTracesError
from qlog_analysis.reading.container import Document, Lines, QlogFile, looks_whole, salvage, values
from qlog_analysis.reading.dialects import (
    CONVERTED,
    NO_SSTHRESH,
    STAND_INS,
    Clock,
    Dialect,
    Translator,
    program_of,
    recognise,
)
from qlog_analysis.reading.events import (
    ACKED,
    LOST,
    METRICS,
    RECEIVED,
    RECEIVED_ACKS,
    SENT,
    STATES,
    Kind,
)
from qlog_analysis.reading.regular import Regular
from qlog_analysis.reading.unpacking import Unpacked


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace as tables, in order of time; times are milliseconds since the trace began.

    Attributes:
        path: the file.
        header: the header of the file, or empty if it is missing.
        connection: the name of the connection in the file, or empty if it is the only one:
            "trace" and `number` if there are several traces, and `group` if there is one.
        number: the number of the trace in the file, from 1; one may have several connections.
        group: the group_id of its events, if the trace has those of several connections.
        vantage: the end that logged it: "server", "client", "network" or "unknown". If the trace
            does not say, the packets tell, as long as all received ones were asked for.
        program: the program that sent, "unknown" if the trace does not say.
        dialect: the form of qlog that the file has.
        sent: packets sent: `time_ms`, `packet_type`, `packet_number`, `length_bytes`.
        received: packets received, in the same columns; only those with acknowledgements unless
            all were asked for.
        acks: acknowledged ranges as they arrived, one row per range: `time_ms`, `packet_type` of
            the packet that carried it, `first`, `last` (packet numbers, both included). Without
            ACK frames they are those of packets_acked events (quic-events-13), which have each
            packet once.
        metrics: the recovery metrics after each change, filled forward: `time_ms`, `min_rtt_ms`,
            `smoothed_rtt_ms`, `latest_rtt_ms` (null until the first sample), `window_bytes`,
            `in_flight_bytes`, `ssthresh_bytes` (NaN while it is unset), `pacing_bps`,
            `lost_packets`, `pto_count`, `app_limited`, and the fields of our controllers,
            `vegas_*` (null if absent).
        states: changes of the congestion state: `time_ms`, `state`.
        losses: packets as they were declared lost: `time_ms`, `packet_type`, `packet_number`. It is
            also empty if losses are not logged (see `metrics.losses`).
        records: events in the trace, those of its other connections and skipped ones included.
        skipped: events in it that could not be read.
        unordered: rows whose time was before that of a row above them.
        truncated: true if it was cut off.
    """

    path: Path
    header: Mapping[str, Any]
    connection: str
    number: int
    group: str
    vantage: str
    program: str
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


def read_trace(
    path: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
    *,
    received: bool = False,
    connection: str | None = None,
) -> Trace:
    """Reads the trace of a file that holds one connection, or of one of its connections.

    Records that cannot be read are skipped and counted.

    Args:
        path: the file; gzip and zstd are unpacked.
        on_bytes: told the number of bytes after each part that was read, for a progress bar.
        received: true to read all packets that were received; else only those with
            acknowledgements, which is quicker.
        connection: the name of the connection to return, if the file holds several.

    Raises:
        NotQlogError: the file cannot be opened or is not a qlog trace.
        SeveralTracesError: the file holds the traces of several connections, and none or another
            one was asked for.
    """
    traces = read_traces(path, on_bytes, received=received)
    if connection is None and len(traces) == 1:
        return traces[0]
    for trace in traces:
        if trace.connection == connection:
            return trace
    if len(traces) == 1:
        held = "holds one connection without a name"
    else:
        names = ", ".join(trace.connection for trace in traces[:3])
        more = ", …" if len(traces) > 3 else ""
        held = f"holds the traces of {len(traces)} connections ({names}{more})"
    problem = "expected one" if connection is None else f"there is no {connection!r}"
    raise SeveralTracesError(f"{path}: {held}; {problem}")


def read_traces(
    path: Path, on_bytes: Callable[[int], None] = lambda _: None, *, received: bool = False
) -> list[Trace]:
    """Reads all traces of a file, at least one, as `read_trace` does.

    Some programs write all connections of an endpoint into one file.

    Raises:
        NotQlogError: the file cannot be opened or is not a qlog trace.
    """
    try:
        with path.open("rb") as raw:
            unpacked = Unpacked(raw, on_bytes)
            file = QlogFile(path, unpacked)
            with _uncollected():
                readings = _read(file, received)
    except OSError as error:
        raise NotQlogError(f"{path}: cannot read the trace: {error.strerror}") from error
    if unpacked.damaged:
        readings[-1].truncated = True
    for reading in readings:
        reading.check(path)
    several = len(readings) > 1
    return [trace for reading in readings for trace in reading.traces(path, several)]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turns the garbage collector off, since events are many objects and form no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read(file: QlogFile, received: bool) -> list["_Reading"]:
    """Reads the traces of a file."""
    readings: list[_Reading] = []
    if file.documents is None:
        for block in file.blocks():
            goes_on = file.number == len(readings)
            if goes_on and readings[-1].block(block.text, file.separator):
                continue
            for lines in file.take_apart(block):
                if lines.number > len(readings):
                    inner = lines.header.get("trace")
                    trace = inner if isinstance(inner, dict) else {}
                    dialect = recognise(lines.header, trace, lines.names)
                    readings.append(_Reading(lines.number, lines.header, trace, dialect, received))
                readings[-1].lines(lines)
    else:
        for number, document in enumerate(file.documents, 1):
            dialect = recognise(file.header, document.trace, "")
            readings.append(_Reading(number, file.header, document.trace, dialect, received))
            readings[-1].document(document)
    return readings


class _Tables:
    """The tables of one connection while they grow."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = [(kind, kind.tables([])) for kind in kinds]
        self._parts = [[table] for _, empty in self._kinds for table in empty]

    def add(self, lines: pl.Series) -> tuple[int, int]:
        """Takes records; returns the number of events in them, and of those that were bad."""
        parts, bad, failed = self._decode(lines)
        records = len(lines)
        if failed:
            found = [salvage(text) for text in failed]
            events = pl.Series([event for some, _ in found for event in some], dtype=pl.String)
            others = sum(rest or not some for some, rest in found)
            records += len(events) + others - len(failed)
            more, bad_events, failed_events = self._decode(events)
            bad += others + bad_events + len(failed_events)
            parts = [
                pl.concat((one, two), how="diagonal").sort("time_ms", maintain_order=True)
                if len(two)
                else one
                for one, two in zip(parts, more, strict=True)
            ]
        for table, part in zip(self._parts, parts, strict=True):
            table.append(part)
        return records, bad

    def add_decoded(self, of_kinds: Sequence[Sequence[Any]]) -> int:
        """Takes the events of each kind; returns the number of those that were bad."""
        tables = iter(self._parts)
        bad = 0
        for (kind, empty), events in zip(self._kinds, of_kinds, strict=True):
            own = [next(tables) for _ in empty]
            of_use = list(filter(kind.useful, events)) if kind.useful else events
            if of_use:
                parts = kind.tables(of_use)
                bad += len(of_use) - len(parts[0])
                for table, part in zip(own, parts, strict=True):
                    table.append(part)
        return bad

    def _decode(self, lines: pl.Series) -> tuple[list[pl.DataFrame], int, list[str]]:
        """The rows of each table, the number of bad events, and the texts that are not events."""
        parts: list[pl.DataFrame] = []
        bad = 0
        failed: list[str] = []
        for kind, empty in self._kinds:
            of_kind = lines.str.contains(kind.marker, literal=True)
            if kind.needed:
                of_kind &= lines.str.contains(kind.needed, literal=True)
            if not of_kind.any():
                parts += empty
                continue
            tables, bad_of_kind, failed_of_kind = _decode(lines.filter(of_kind), kind)
            parts += tables
            bad += bad_of_kind
            failed += failed_of_kind
            lines = lines.filter(~of_kind)
        whole = looks_whole(lines)
        failed += lines.filter(~whole).to_list()
        return parts, bad + _count_strays(lines.filter(whole)), failed

    def finish(self, pacing: float) -> tuple[list[pl.DataFrame], int]:
        """The tables in order of time, and the number of rows that were out of order.

        Pacing rates are multiplied by `pacing`.
        """
        parts, self._parts = self._parts, []
        tables: list[pl.DataFrame] = []
        unordered = 0
        # From the back, where a list gives up its items quickly; the parts are not needed again.
        parts.reverse()
        while parts:
            own = parts.pop()
            late = _late(own)
            if late:
                own = [pl.concat(own, how="diagonal").sort("time_ms", maintain_order=True)]
            filled = _filled(own, pacing) if "pacing_bps" in own[0].columns else own
            tables.append(pl.concat(filled, how="diagonal"))
            # Acknowledgements come from received packets, which are counted already.
            unordered += 0 if "first" in tables[-1].columns else late
        return tables, unordered


class _Reading:
    """Reads the records of a trace into the tables of its connections."""

    def __init__(
        self,
        number: int,
        header: Mapping[str, Any],
        trace: Mapping[str, Any],
        dialect: Dialect,
        received: bool,
    ) -> None:
        self._number = number
        self._header = header
        self._trace = trace
        self._dialect = dialect
        self._translate = Translator(dialect, Clock(trace, dialect.from_first_event))
        received_kind = RECEIVED if received else RECEIVED_ACKS
        self._kinds = (SENT, received_kind, METRICS, STATES, LOST, ACKED)
        self._regular = Regular(self._kinds)
        self._connections: dict[str, _Tables] = {}
        self._records = 0
        self._skipped = 0
        self._start_ms: float | None = None
        self.truncated = False

    def lines(self, lines: Lines) -> None:
        """Takes records of JSON-SEQ or JSON lines."""
        texts = lines.texts
        self._records += lines.undecodable
        self._skipped += lines.undecodable
        self.truncated = lines.cut_off
        if not self._dialect.native:
            self._translated(values(texts))
            return
        if self._dialect.from_first_event and self._start_ms is None:
            self._start_ms = _first_ms(texts, self._translate.clock)
        self._regular.learn(texts)
        records, bad = self._tables("").add(texts)
        self._records += records
        self._skipped += bad

    def block(self, block: bytes, separator: bytes) -> bool:
        """Takes records that go on with the trace, if all of them are regular."""
        if not self._dialect.native or (self._dialect.from_first_event and self._start_ms is None):
            return False
        decoded = self._regular.decode(block, separator)
        if decoded is None:
            return False
        self._records += decoded.records
        self._skipped += self._tables("").add_decoded(decoded.of_kinds)
        self.truncated = False
        return True

    def document(self, document: Document) -> None:
        """Takes a trace of a JSON document."""
        self._records += document.unreadable
        self._skipped += document.unreadable
        self.truncated = document.cut_off
        self._translated(document.events)

    def _translated(self, events: Iterable[Any]) -> None:
        """Takes events of another dialect, which may belong to several connections."""
        texts: dict[str, list[str]] = {}
        for value in events:
            self._records += 1
            event = self._translate(value)
            if event is None:
                self._skipped += 1
            else:
                texts.setdefault(str(event.get("group_id", "")), []).append(_text(event))
        for group, group_texts in texts.items():
            _, bad = self._tables(group).add(pl.Series(group_texts, dtype=pl.String))
            self._skipped += bad

    def _tables(self, group: str) -> _Tables:
        if group not in self._connections:
            self._connections[group] = _Tables(self._kinds)
        return self._connections[group]

    def check(self, path: Path) -> None:
        """Refuses a trace that has records, none of which can be read.

        Raises:
            NotQlogError: it is such a trace.
        """
        if 0 < self._records == self._skipped:
            said = self._header.get("qlog_version")
            form = f"; the file says that it is qlog {said!r}" if said else ""
            raise NotQlogError(
                f"{path}: none of its {self._records} records is an event of draft-01 to "
                f"main-schema-14{form}"
            )

    def traces(self, path: Path, several: bool) -> list[Trace]:
        """The trace of each connection, at least one."""
        if not self._connections:
            self._tables("")
        return [
            self._trace_of(path, group, several, tables)
            for group, tables in self._connections.items()
        ]

    def _trace_of(self, path: Path, group: str, several: bool, connection: _Tables) -> Trace:
        # Translated events are in the drafts' units already.
        pacing = self._dialect.pacing_bits if self._dialect.native else 1.0
        tables, unordered = connection.finish(pacing)
        if self._start_ms is not None:
            tables = [table.with_columns(pl.col("time_ms") - self._start_ms) for table in tables]
        sent, received, acks, metrics, states, losses, _, acked = tables
        converter = self._header.get(CONVERTED)
        if isinstance(converter, dict) and converter.get(STAND_INS):
            sent = sent.clear()
        return Trace(
            path=path,
            header=self._header,
            connection=f"trace {self._number} {group}".strip() if several else group,
            number=self._number,
            group=group,
            vantage=_vantage(self._trace, sent, received),
            program=program_of(self._header, self._trace, self._dialect),
            dialect=self._dialect,
            sent=sent,
            received=received,
            # If both are logged, they say the same.
            acks=acked if acks.is_empty() else acks,
            metrics=metrics,
            states=states,
            losses=losses,
            records=self._records,
            skipped=self._skipped,
            unordered=unordered,
            truncated=self.truncated,
        )


def _vantage(trace: Mapping[str, Any], sent: pl.DataFrame, received: pl.DataFrame) -> str:
    """The end that logged a trace: as it says, or by the end that sent the first packet."""
    point = trace.get("vantage_point")
    kind = point.get("type") if isinstance(point, dict) else None
    if kind in {"client", "server", "network"}:
        return str(kind)
    if sent.is_empty() or received.is_empty():
        return "unknown"
    return "client" if sent["time_ms"][0] < received["time_ms"][0] else "server"


def _first_ms(texts: pl.Series, clock: Clock) -> float | None:
    """The time of the first event that has one, from which all others count."""
    for event in values(texts):
        try:
            return float(event["time"]) * clock.scale
        except (KeyError, TypeError, ValueError):
            continue
    return None


def _text(event: Mapping[str, Any]) -> str:
    return msgspec.json.encode(event).decode()


def _decode(lines: pl.Series, kind: Kind) -> tuple[list[pl.DataFrame], int, list[str]]:
    """The tables of these records, the number of bad ones, and those that are not events."""
    decoder = msgspec.json.Decoder(list[kind.event])  # type: ignore[name-defined]
    good, failed = _decodable(lines, kind, decoder)
    tables = [pl.concat(parts, how="diagonal") for parts in zip(*good, strict=True)]
    return tables, len(lines) - len(tables[0]) - len(failed), failed


_Parts = list[tuple[pl.DataFrame, ...]]


def _decodable(
    lines: pl.Series, kind: Kind, decoder: msgspec.json.Decoder[Any]
) -> tuple[_Parts, list[str]]:
    """Decodes records at once; bad ones make that fail, and are found by halving and left out."""
    text = lines.str.join(",").item()
    try:
        events = decoder.decode(f"[{text}]")
        # They are decoded as one array, in which a bad record can look like none or two.
        if len(events) == len(lines):
            return [kind.tables(events)], []
    except (msgspec.MsgspecError, RecursionError):
        pass
    if len(lines) == 1:
        return [kind.tables([])], lines.to_list()
    half = len(lines) // 2
    first, bad = _decodable(lines.head(half), kind, decoder)
    second, more_bad = _decodable(lines.slice(half), kind, decoder)
    return first + second, bad + more_bad


def _count_strays(lines: pl.Series) -> int:
    """The number of records that are not events, among those of no kind that is decoded."""
    return int((~lines.str.contains('"name"', literal=True)).sum())


_EMPTY = pl.Series(dtype=pl.Null)


def _late(parts: list[pl.DataFrame]) -> int:
    """The number of rows whose time is before that of a row above them."""
    times = [part["time_ms"] for part in parts if len(part)]
    in_order = all(time.is_sorted() for time in times)
    if in_order and all(one[-1] <= other[0] for one, other in pairwise(times)):
        return 0
    time = pl.concat(times)
    return int((time < time.cum_max()).sum())


class _Constants:
    """Columns that have one value, of which those with the same value share their memory."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, pl.Series]] = {}

    def column(self, name: str, value: Any, dtype: pl.DataType, rows: int) -> pl.Series:
        """A column of this value."""
        # Zero and minus zero are equal, but are written differently.
        text = repr(value)
        known, column = self._last.get(name, ("", _EMPTY))
        if known != text or len(column) < rows:
            column = pl.Series(name, [value], dtype).new_from_index(0, 2 * rows)
            self._last[name] = text, column
        return column.head(rows)


def _filled(parts: list[pl.DataFrame], pacing: float) -> list[pl.DataFrame]:
    """Fills metrics forward, since changes are logged, and removes values that stand for "none".

    The first part has all columns; others may lack those in which nothing changed. A column that
    stays as it was takes no memory of its own, which is most of what the largest table would take.
    Parts are taken out of the list as they are filled.
    """
    schema = parts[0].schema
    last: dict[str, Any] = {}
    constants = _Constants()
    filled: list[pl.DataFrame] = []
    parts.reverse()
    while parts:
        part = parts.pop()
        rows = len(part)
        if not rows:
            filled.append(part)
            continue
        columns = []
        for name, dtype in schema.items():
            if name not in part.columns:
                value = last.get(name)
                if name == "ssthresh_bytes" and (value is None or value >= NO_SSTHRESH):
                    value = math.nan
                columns.append(constants.column(name, value, dtype, rows))
                continue
            column = part[name]
            if name == "pacing_bps":
                column = column * pacing
            if column.null_count():
                column = column.fill_null(strategy="forward")
                before = last.get(name)
                if before is not None and column.null_count():
                    column = column.fill_null(before)
            last[name] = column[-1]
            if name == "ssthresh_bytes":
                column = pl.select(
                    pl.when(column < NO_SSTHRESH).then(column).otherwise(math.nan).alias(name)
                ).to_series()
            columns.append(column)
        filled.append(_with_samples(pl.DataFrame(columns)))
    return filled


def _with_samples(metrics: pl.DataFrame) -> pl.DataFrame:
    """Filled metrics without the initial RTT of 333 ms that quiche logs until the first sample."""
    if not metrics["latest_rtt_ms"].null_count():
        return metrics
    sampled = pl.col("latest_rtt_ms").is_not_null()
    return metrics.with_columns(
        pl.when(sampled).then(pl.col(name)) for name in ("min_rtt_ms", "smoothed_rtt_ms")
    )
