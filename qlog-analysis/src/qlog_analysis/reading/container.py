"""The containers of qlog: the ways in which records follow one another in a file.

There are three: JSON-SEQ (RFC 7464: each record between RS and LF), one JSON text per line, and
one JSON document that contains all traces (qlog 0.1 to 0.4). Sequences are read in blocks, so that
memory stays small; a document is held as a whole.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from qlog_analysis.errors import NotQlogError
from qlog_analysis.reading.dialects import rows
from qlog_analysis.reading.unpacking import Unpacked, what_is

BLOCK_BYTES = 2 << 20
"""The bytes that are decoded at a time, which bound the memory; far more or fewer are slower."""

# A first record longer than this is not a header.
_MOST_HEADER_BYTES = 1 << 20

# A record of a sequence that is longer is unreadable: the longest events have some kilobytes.
_MOST_RECORD_BYTES = 16 << 20

# A contained trace is decoded as a whole, so that its size bounds the memory.
_MOST_DOCUMENT_BYTES = 512 << 20

# So many records show the names of the events of a trace.
_SOME_RECORDS = 5000

_RS = b"\x1e"
_LF = b"\n"
_BOM = b"\xef\xbb\xbf"
_SHORT_BYTES = 16
# A control character has no place in JSON, so that it never splits a record into columns.
_NEVER = "\x01"

_HEADER_FIELDS = {"file_schema", "qlog_version", "qlog_format", "traces"}
# The places where an event of a damaged document may begin, as an object or a row of draft-01.
_EVENT_START = re.compile(
    r'\{\s*"(?:time|name|data|category|group_id|relative_time)"\s*:|\[\s*"?[\d.]+"?\s*,\s*"'
)


def decode(text: str) -> Any:
    """Decodes a JSON text; NaN and Infinity are not JSON.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


_DECODER = json.JSONDecoder()


def _decode_at(text: str, start: int) -> tuple[Any, int]:
    """Decodes a JSON text within another; returns its value and the place where it ends.

    Raises:
        ValueError: there is no JSON text at this place.
    """
    try:
        _, end = _DECODER.raw_decode(text, start)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return decode(text[start:end]), end


def values(texts: Iterable[str]) -> Iterator[Any]:
    """Decodes JSON texts; one that is not JSON gives the events that are found in it, and None."""
    for text in texts:
        try:
            yield decode(text)
        except ValueError:
            events, others = salvage(text)
            yield from map(decode, events)
            if others or not events:
                yield None


@dataclass(frozen=True, slots=True)
class Lines:
    """Some records of a sequence as text, in order; the last of the file may be cut off."""

    number: int
    """The number of the trace in the file that they belong to, from 1."""
    header: Mapping[str, Any]
    """The header of that trace, or empty if it is missing."""
    texts: pl.Series
    undecodable: int
    """The number of records between these that are not UTF-8."""
    last: bool

    @property
    def names(self) -> str:
        """A part of the text, without blanks, that shows the names of the events."""
        return "".join(self.texts.head(_SOME_RECORDS)).replace(" ", "")

    @property
    def cut_off(self) -> bool:
        """True if the file ends in the middle of a record."""
        return self.last and len(self.texts) > 0 and not looks_whole(self.texts.tail(1)).all()


@dataclass(frozen=True, slots=True)
class Block:
    """Some records of a sequence with the separators between them; the last may be cut off."""

    text: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A contained trace: its header, its events, and the number of those that could not be read."""

    trace: Mapping[str, Any]
    events: list[Any]
    unreadable: int
    cut_off: bool


class QlogFile:
    """A file whose header has been read.

    Attributes:
        header: the header, or empty if it is missing.
        documents: the traces, if the file is one JSON document; None for a sequence.
        separator: the byte between the records of a sequence.
        number: the number of the trace whose records were taken apart last, from 1.
    """

    def __init__(self, path: Path, file: Unpacked) -> None:
        """Reads the header.

        Raises:
            NotQlogError: there is neither a header nor any event.
            OSError: the file cannot be read.
        """
        self.header: Mapping[str, Any] = {}
        self.documents: list[Document] | None = None
        self._path = path
        self._file = file
        self.number = 1
        self._later_header: Mapping[str, Any] | None = None
        block = file.read(min(BLOCK_BYTES, _MOST_HEADER_BYTES))
        while _LF not in block and len(block) < _MOST_HEADER_BYTES:
            more = file.read(BLOCK_BYTES)
            if not more:
                break
            block += more
        self._rest = block = block.removeprefix(_BOM).lstrip(b" \t\r\n")
        # Anything before the first RS of JSON-SEQ is damage.
        self.separator = _RS if _RS in block[:_MOST_HEADER_BYTES] else _LF
        start = len(_RS) if block.startswith(_RS) else 0
        end = block.find(self.separator, start)
        first = block[start:] if end < 0 else block[start:end]
        record = _object(first[:_MOST_HEADER_BYTES])
        alone = end < 0 or not block[end:].strip()
        document = "traces" in record or (alone and salvage(first.decode(errors="replace"))[0])
        if record.keys() & _HEADER_FIELDS and not document:
            self.header = record
            self._rest = b"" if end < 0 else block[end:]
            return
        named = b'"events"' in block or b'"traces"' in block
        if self.separator == _LF and named and not _is_event(record) and self._read_document():
            return
        # The header may be missing, or be damaged, which makes it a record that cannot be read.
        sample = self._rest[:_MOST_HEADER_BYTES]
        at = 0
        for part in sample.split(self.separator):
            record = _object(part)
            if _is_event(record):
                return
            if _begins_trace(record):
                # Anything in front of it belongs to no trace.
                self.header = record
                self._rest = self._rest[:at] + self._rest[at + len(part) + 1 :]
                return
            at += len(part) + 1
        if not salvage(sample.decode(errors="replace"))[0] or not self._read_document():
            raise NotQlogError(f"{path}: not a qlog trace: {what_is(block)}")

    def _read_document(self) -> bool:
        """Reads a JSON document; returns false if there is no trace in it, even an empty one."""
        parts = [self._rest]
        held = len(self._rest)
        while more := self._file.read(BLOCK_BYTES):
            parts.append(more)
            held += len(more)
            if held > _MOST_DOCUMENT_BYTES:
                raise NotQlogError(
                    f"{self._path}: a JSON document of more than {_MOST_DOCUMENT_BYTES >> 20} MiB; "
                    "expected a sequence of records (JSON-SEQ) at this size"
                )
        self._rest = b"".join(parts)
        text = self._rest.decode(errors="replace")
        header = _object(self._rest)
        traces = header.get("traces")
        if isinstance(traces, list):
            self.documents = [
                Document(trace, list(rows(trace)), 0, cut_off=False)
                for trace in traces
                if isinstance(trace, dict) and isinstance(trace.get("events"), list)
            ]
        else:
            self.documents = list(_salvaged(text))
            header = dict(re.findall(r'"(qlog_version|qlog_format)"\s*:\s*"([^"]*)"', text[:4096]))
        self.header = {key: value for key, value in header.items() if key != "traces"}
        if not isinstance(traces, list) and not any(one.events for one in self.documents):
            self.documents = None
        return bool(self.documents)

    def blocks(self) -> Iterator[Block]:
        """Yields the records of a sequence after the header, some at a time."""
        more, self._rest = self._rest, b""
        parts: list[bytes | memoryview] = []
        held = 0
        while more:
            if held > _MOST_RECORD_BYTES:
                # No event is as long. The rest of the record is dropped, so that it is unreadable.
                end = more.find(self.separator)
                more = more[end:] if end >= 0 else b""
            # A record after the last separator may go on in the next block.
            cut = more.rfind(self.separator) + 1
            parts.append(memoryview(more)[:cut])
            if cut:
                yield Block(b"".join(parts), last=False)
                parts = []
                held = 0
            parts.append(memoryview(more)[cut:])
            held += len(more) - cut
            more = self._file.read(BLOCK_BYTES)
        yield Block(b"".join(parts), last=True)

    def take_apart(self, block: Block) -> Iterator[Lines]:
        """Yields the single records of the next block.

        NOTE: main-schema-14 has one trace in a sequence. Files that were put after one another
        have several, each of which begins with a header.
        """
        texts, undecodable = _split(block.text, self.separator)
        header = self.header if self._later_header is None else self._later_header
        start = 0
        for place, record in _headers(texts):
            before = texts.slice(start, place - start)
            yield Lines(self.number, header, before, undecodable, last=False)
            self.number += 1
            self._later_header = header = record
            start, undecodable = place + 1, 0
        texts = texts.slice(start)
        # A trace is recognised by its first records, which may come with the next block.
        if len(texts) or undecodable or block.last:
            yield Lines(self.number, header, texts, undecodable, block.last)

    def lines(self) -> Iterator[Lines]:
        """Yields the single records of a sequence after the header."""
        for block in self.blocks():
            yield from self.take_apart(block)


def _object(record: bytes) -> dict[str, Any]:
    try:
        value = decode(record.decode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_event(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("name"), str) and "time" in record


def _begins_trace(record: Mapping[str, Any]) -> bool:
    """True if a record in the middle of a sequence is a header."""
    return bool(record.keys() & _HEADER_FIELDS) and isinstance(record.get("trace"), dict)


def _headers(texts: pl.Series) -> list[tuple[int, Mapping[str, Any]]]:
    """The places and contents of the records that are headers."""
    places = texts.str.contains('"trace"', literal=True).arg_true().to_list()
    records = [(place, _object(texts[place].encode())) for place in places]
    return [(place, record) for place, record in records if _begins_trace(record)]


def _salvaged(text: str) -> Iterator[Document]:
    """Yields the traces of a document that is damaged or cut off, with the events left whole."""
    arrays = [match.end() for match in re.finditer(r'"events"\s*:\s*\[', text)] or [0]
    for start, stop in zip(arrays, [*arrays[1:], len(text)], strict=True):
        before = text[max(0, start - 4096) : start]
        columns = re.findall(r'"event_fields"\s*:\s*(\[[^\[\]]*\])', before)
        trace: dict[str, Any] = {}
        if columns:
            with contextlib.suppress(ValueError):
                trace["event_fields"] = decode(columns[-1])
        events = []
        unreadable = 0
        at = start
        while match := _EVENT_START.search(text, at, stop):
            if text[at : match.start()].strip(" \t\r\n,"):
                unreadable += 1
            try:
                event, at = _decode_at(text, match.start())
            except ValueError:
                at = match.start() + 1
                continue
            if isinstance(event, list) or _is_event(event):
                events.append(event)
        tail = text[at:stop].lstrip()
        ended = tail.startswith("]")
        if not ended and tail.strip(" \t\r\n,"):
            unreadable += 1
        trace["events"] = events
        yield Document(trace, list(rows(trace)), unreadable, cut_off=not ended)


def salvage(text: str) -> tuple[list[str], bool]:
    """The events in a text that is not one JSON text; true if there is anything else in it.

    If a separator is lost or a record is cut off, the next one follows on the same line.
    """
    events = []
    at = 0
    rest = ""
    for match in _EVENT_START.finditer(text):
        if match.start() < at:
            continue
        try:
            event, end = _decode_at(text, match.start())
        except ValueError:
            continue
        if isinstance(event, dict) and _is_event(event):
            events.append(text[match.start() : end])
            rest += text[at : match.start()]
            at = end
    return events, bool((rest + text[at:]).strip(" \t\r\n\x1e"))


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
                events, _ = salvage(record.decode(errors="replace"))
                good += [
                    event.encode() for event in events if "\N{REPLACEMENT CHARACTER}" not in event
                ]
        lines = _as_lines(separator.join(good), separator)
    lines = lines.drop_nulls()
    # A longer line is hardly blank, and looking at all of them takes time.
    if (lines.str.len_bytes() < _SHORT_BYTES).any():
        lines = lines.filter(lines.str.strip_chars() != "")
    return lines, undecodable


def _as_lines(block: bytes, separator: bytes) -> pl.Series:
    # A record with this character is damaged, and stays so with another control character.
    unsplit = block.replace(_NEVER.encode(), b"\x02")
    return pl.read_csv(
        unsplit,
        has_header=False,
        separator=_NEVER,
        quote_char=None,
        schema={"line": pl.String},
        eol_char=separator.decode(),
        truncate_ragged_lines=True,
        raise_if_empty=False,
    ).to_series()


def looks_whole(texts: pl.Series) -> pl.Series:
    """True for texts that begin and end as JSON objects do."""
    return texts.str.starts_with("{") & texts.str.strip_chars_end().str.ends_with("}")
