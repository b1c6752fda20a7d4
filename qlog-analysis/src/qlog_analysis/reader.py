"""Reads a qlog trace into one tidy table per kind of event.

The format is JSON-SEQ (RFC 7464) as quiche writes it: records that start with RS and end with LF,
the first of them a header, the others events with `time` in milliseconds since the trace began.

polars takes the file apart into records, sorts these by the name of their event, and decodes with
a fixed schema only the kinds and the fields that are used: quick, and no field that first appears
late is lost to inference.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from qlog_analysis.errors import NotQlogError

BLOCK_BYTES = 4 << 20
"""How much of a file is decoded at a time: bounds the memory; more is slower, as is much less."""

NO_SSTHRESH = 2.0**63
"""Slow start thresholds from here on mean "none": quiche starts at 2^64 - 1."""

# A first record longer than this is no header.
_MOST_HEADER_BYTES = 1 << 20

_RS = b"\x1e"
_LF = b"\n"
# A control character has no place in JSON, so that as the separator of columns it never splits.
_NEVER = "\x01"


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace as tables; times are milliseconds since the trace began, rows in file order.

    Attributes:
        path: the file.
        header: the first record.
        sent: packets sent: `time_ms`, `packet_type`, `packet_number`, `length_bytes`.
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
        skipped: events that could not be read.
        truncated: whether the last event is among the skipped ones: the file was cut off.
    """

    path: Path
    header: Mapping[str, Any]
    sent: pl.DataFrame
    acks: pl.DataFrame
    metrics: pl.DataFrame
    states: pl.DataFrame
    losses: pl.DataFrame
    records: int
    skipped: int
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

_SENT = _Kind(
    marker=':packet_sent"',
    schema=_event(
        header=pl.Struct({"packet_type": pl.String, "packet_number": pl.Int64}),
        raw=pl.Struct({"length": pl.Int64}),
    ),
    columns=(
        _TIME,
        _PACKET_TYPE,
        _field("data", "header", "packet_number").alias("packet_number"),
        _field("data", "raw", "length").alias("length_bytes"),
    ),
    required=("time_ms", "packet_number", "length_bytes"),
)

_RECEIVED = _Kind(
    marker=':packet_received"',
    wanted='"acked_ranges"',
    schema=_event(
        header=pl.Struct({"packet_type": pl.String}),
        frames=pl.List(pl.Struct({"acked_ranges": pl.List(pl.List(pl.Int64))})),
    ),
    columns=(_TIME, _PACKET_TYPE, _field("data", "frames").alias("frames")),
    required=("time_ms", "frames"),
)

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
        # NOTE: quiche logs bytes per second, the draft (quic-events-13) says bits per second.
        (_field("data", "pacing_rate") * 8).alias("pacing_bps"),
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
    schema=_event(header=pl.Struct({"packet_type": pl.String, "packet_number": pl.Int64})),
    columns=(
        _TIME,
        _PACKET_TYPE,
        _field("data", "header", "packet_number").alias("packet_number"),
    ),
    required=("time_ms", "packet_number"),
)

_KINDS = (_SENT, _RECEIVED, _METRICS, _STATES, _LOST)


def read_trace(path: Path, on_bytes: Callable[[int], None] = lambda _: None) -> Trace:
    """Reads a trace.

    Records that cannot be read are skipped and counted.

    Args:
        path: the file.
        on_bytes: told the number of bytes after each part that was read, for a progress bar.

    Raises:
        NotQlogError: the file cannot be opened, or does not start with the header of a qlog in
            JSON-SEQ.
    """
    try:
        with path.open("rb") as file:
            return _read(path, file, on_bytes)
    except OSError as error:
        raise NotQlogError(f"{path}: cannot read the trace: {error.strerror}") from error


def _read(path: Path, file: BinaryIO, on_bytes: Callable[[int], None]) -> Trace:
    parts: list[list[pl.DataFrame]] = [[_no_rows(kind)] for kind in _KINDS]
    header: Mapping[str, Any] | None = None
    separator = _RS
    records = skipped = 0
    truncated = False
    rest = b""
    while True:
        block = file.read(BLOCK_BYTES)
        at_end = not block
        on_bytes(len(block))
        block = rest + block
        if header is None:
            separator = _RS if block.startswith(_RS) else _LF
            header, block = _take_header(path, block, separator, at_end)
            if header is None:
                rest = block
                continue
        # What follows the last separator may go on in the next block.
        cut = len(block) if at_end else block.rfind(separator) + 1
        rest = block[cut:]
        if not cut and not at_end:
            continue
        lines, undecodable = _split(block[:cut], separator)
        records += lines.len() + undecodable
        skipped += undecodable
        truncated = at_end and lines.len() > 0 and not _looks_whole(lines.tail(1)).all()
        for part, kind in zip(parts, _KINDS, strict=True):
            of_kind = lines.str.contains(kind.marker, literal=True)
            table, bad = _decode(_useful(lines.filter(of_kind), kind), kind)
            part.append(table)
            skipped += bad
            lines = lines.filter(~of_kind)
        skipped += _count_strays(lines)
        if at_end:
            break
    sent, received, metrics, states, losses = (pl.concat(part) for part in parts)
    return Trace(
        path=path,
        header=header,
        sent=sent,
        acks=_ranges(received),
        metrics=_fill(metrics),
        states=states,
        losses=losses,
        records=records,
        skipped=skipped,
        truncated=truncated,
    )


def _take_header(
    path: Path, block: bytes, separator: bytes, at_end: bool
) -> tuple[Mapping[str, Any] | None, bytes]:
    """The first record and what follows it; None when the block ends before the record does."""
    start = len(_RS) if separator == _RS else 0
    end = block.find(separator, start)
    if end < 0:
        if not at_end and len(block) < _MOST_HEADER_BYTES:
            return None, block
        end = len(block)
    try:
        header = json.loads(block[start:end])
    except ValueError:
        header = None
    if not isinstance(header, dict) or not header.keys() & {"file_schema", "qlog_version"}:
        raise NotQlogError(
            f"{path}: not a qlog trace: the first record must be a JSON object with file_schema or "
            f"qlog_version, but the file starts with {bytes(block[:40])!r}"
        )
    if "traces" in header:
        raise NotQlogError(f"{path}: a qlog of contained JSON; only JSON-SEQ (.sqlog) can be read")
    return header, block[end:]


def _split(block: bytes, separator: bytes) -> tuple[pl.Series, int]:
    """The records of a block, and the number of those that are not UTF-8."""
    undecodable = 0
    try:
        lines = _as_lines(block, separator)
    except pl.exceptions.ComputeError:
        good = []
        for record in block.split(separator):
            try:
                record.decode()
                good.append(record)
            except UnicodeDecodeError:
                undecodable += 1
        lines = _as_lines(separator.join(good), separator)
    return lines.filter(lines.str.strip_chars() != ""), undecodable


def _as_lines(block: bytes, separator: bytes) -> pl.Series:
    return pl.read_csv(
        block,
        has_header=False,
        separator=_NEVER,
        quote_char=None,
        schema={"line": pl.String},
        eol_char=separator.decode(),
        truncate_ragged_lines=True,
        raise_if_empty=False,
    ).to_series()


def _looks_whole(lines: pl.Series) -> pl.Series:
    return lines.str.starts_with("{") & lines.str.strip_chars_end().str.ends_with("}")


def _useful(lines: pl.Series, kind: _Kind) -> pl.Series:
    """Those with what is wanted of this kind, and those cut off before it: they count as bad."""
    if not kind.wanted:
        return lines
    return lines.filter(lines.str.contains(kind.wanted, literal=True) | ~_looks_whole(lines))


def _decode(lines: pl.Series, kind: _Kind) -> tuple[pl.DataFrame, int]:
    """The table of these records, and the number of those that could not be read."""
    tables = [
        records.to_frame("record").select(kind.columns).drop_nulls(kind.required)
        for records in _decodable(lines, kind.schema)
    ]
    table = pl.concat([_no_rows(kind), *tables])
    return table, lines.len() - table.height


def _decodable(lines: pl.Series, schema: pl.Struct) -> list[pl.Series]:
    """Decodes records; bad ones, which fail the whole, are found by halving and left out."""
    if lines.is_empty():
        return []
    try:
        records = lines.str.json_decode(schema)
        # The records are decoded as one array: a bad one can look like none or two.
        if records.len() == lines.len():
            return [records]
    except pl.exceptions.PolarsError:
        pass
    if lines.len() == 1:
        return []
    half = lines.len() // 2
    return _decodable(lines.head(half), schema) + _decodable(lines.slice(half), schema)


def _no_rows(kind: _Kind) -> pl.DataFrame:
    return pl.DataFrame(schema={"record": kind.schema}).select(kind.columns)


def _count_strays(lines: pl.Series) -> int:
    """The number of records that are no events, of those of no kind that is decoded."""
    event = _looks_whole(lines) & lines.str.contains('"name"', literal=True)
    return int((~event).sum())


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
    )


def _fill(metrics: pl.DataFrame) -> pl.DataFrame:
    """Metrics are logged as changes: fills them forward and removes what stands for "none"."""
    filled = metrics.with_columns(pl.exclude("time_ms").forward_fill())
    # Until the first sample quiche logs its initial RTT of 333 ms, but no latest_rtt.
    sampled = pl.col("latest_rtt_ms").is_not_null()
    ssthresh = pl.col("ssthresh_bytes")
    return filled.with_columns(
        *(pl.when(sampled).then(pl.col(name)) for name in ("min_rtt_ms", "smoothed_rtt_ms")),
        pl.when(ssthresh >= NO_SSTHRESH).then(math.nan).otherwise(ssthresh).alias("ssthresh_bytes"),
    )
