"""Decodes a whole block of records at once, as long as every record in it is a known event.

msgspec then finds the ends of the records itself and chooses the type to decode by an event's
name, which is several times quicker than taking records apart first. A block with anything else in
it (damage, a header, an event that was not seen before) is read record by record instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import polars as pl

from qlog_analysis.reading.events import Kind

_NAME = r'"name"\s*:\s*"([^"\\]+)"'

# More names than this are not names of events.
_MOST_NAMES = 500

_LF = b"\n"


_OTHER = 255


class _Nothing(msgspec.Struct, gc=False):
    """The type of an event that is of no kind."""


@cache
def _only(code: int) -> bytes:
    """A table for `bytes.translate` that makes one code 1 and all others 0."""
    return bytes(1 if one == code else 0 for one in range(256))


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of a block.

    Attributes:
        of_kinds: those of each kind, in order.
        records: the number of all.
    """

    of_kinds: list[list[Any]]
    records: int


class Regular:
    """Decodes the blocks of a trace, once it has seen the names of its events."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Takes the kinds that are read."""
        self._kinds = kinds
        self._events: dict[str, type[msgspec.Struct]] = {}
        # The place of an event's kind, or the code that stands for no kind.
        self._codes: dict[type[msgspec.Struct], int] = {}
        self._decoder: msgspec.json.Decoder[Any] | None = None

    def learn(self, texts: pl.Series) -> None:
        """Learns the names of the events in some records."""
        names = set(texts.str.extract(_NAME).unique().drop_nulls().to_list())
        new = names - self._events.keys()
        if not new or len(self._events) + len(new) > _MOST_NAMES:
            return
        for name in sorted(new):
            self._events[name] = self._event(name)
        first, *others = self._events.values()
        union: Any = first
        for event in others:
            union |= event
        self._decoder = msgspec.json.Decoder(union)

    def _event(self, name: str) -> type[msgspec.Struct]:
        """The type that an event of this name is decoded into."""
        text = f'"name":"{name}"'
        base: type[msgspec.Struct] = _Nothing
        code = _OTHER
        for place, kind in enumerate(self._kinds):
            if kind.marker in text:
                base, code = kind.event, place
                break
        event = msgspec.defstruct("Event", [], bases=(base,), tag_field="name", tag=name, gc=False)
        self._codes[event] = code
        return event

    def decode(self, block: bytes, separator: bytes) -> Decoded | None:
        """The events of a block of whole records, or None if it is not regular."""
        if self._decoder is None:
            return None
        # Four times as fast as `count` of bytes.
        records = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord(separator))) + 1
        records -= block.startswith(separator) + block.endswith(separator)
        try:
            # msgspec does not check the strings that it passes over.
            block.decode()
            # A separator within a string stays an error as a line feed.
            events = self._decoder.decode_lines(block.replace(separator, _LF))
        except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
            return None
        if len(events) != records:
            return None
        codes = bytes(map(self._codes.__getitem__, map(type, events)))
        of_kinds = [
            list(compress(events, codes.translate(_only(code)))) if code in codes else []
            for code in range(len(self._kinds))
        ]
        return Decoded(of_kinds, records)
