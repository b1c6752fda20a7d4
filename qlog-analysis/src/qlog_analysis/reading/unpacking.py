"""Opens a file with any compression, and describes a file that holds no qlog trace.

The compression is recognised by the first bytes, not by the name. A stream that is cut off or
damaged gives everything before the damage. However much a stream would unpack to, no more of it is
held than was asked for, and the memory of the decompressor: 32 KiB for gzip, at most 128 MiB for
zstd.
"""

import sys
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_RAW_BYTES = 1 << 18

# The compressed bytes that are unpacked at a time; of a damaged stream no more are lost before the
# damage.
_PIECE_BYTES = 1 << 10

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"

# zlib's number for the format of gzip.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS

_KNOWN = (
    (b"BZh", "a file compressed by bzip2: unpack it first"),
    (b"\xfd7zXZ", "a file compressed by xz: unpack it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"%PDF", "a PDF"),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)"),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)"),
    (b"\xa1\xb2\xc3\xd4", "a packet capture (pcap)"),
    (b"PAR1", "a Parquet file"),
    (b"<", "HTML or XML"),
)


class _Decompressor(Protocol):
    """The interface that the decompressors of gzip and zstd share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_WINDOW)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        # zlib may keep output back even if it has taken all of its input.
        self.needs_input = len(out) < max_length
        return out


class Unpacked:
    """A file without its compression, if it has one."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        """Looks at the first bytes of a file; `on_bytes` is told the number of bytes read."""
        self._file = file
        self._on_bytes = on_bytes
        self._raw = file.read(_RAW_BYTES)
        on_bytes(len(self._raw))
        self._stream: _Decompressor | None = None
        if self._raw.startswith(_GZIP):
            self._stream = _Gzip()
        elif self._raw.startswith(_ZSTD):
            self._stream = zstd.ZstdDecompressor()
        self._ready = bytearray()
        self.damaged = False
        """True if the compressed stream is cut off or damaged."""

    def read(self, size: int) -> bytes:
        """Returns this number of bytes, or fewer at the end of the file."""
        if self._stream is None:
            more = self._file.read(max(0, size - len(self._raw)))
            self._on_bytes(len(more))
            out, self._raw = self._raw[:size] + more, self._raw[size:]
            return out
        while len(self._ready) < size and not self.damaged:
            unpacked = self._unpack(self._stream, size - len(self._ready))
            if unpacked is None:
                break
            self._ready += unpacked
        out = bytes(self._ready[:size])
        del self._ready[:size]
        return out

    def _unpack(self, stream: _Decompressor, most: int) -> bytes | None:
        """At most this number of further bytes; None at the end of the file."""
        piece = b""
        if stream.eof or stream.needs_input:
            piece = self._take_piece(stream.unused_data if stream.eof else b"")
            if not piece:
                self.damaged = not stream.eof
                return None
        if stream.eof:
            # Several compressed streams may follow one another.
            stream = _Gzip() if piece.startswith(_GZIP) else zstd.ZstdDecompressor()
            self._stream = stream
        try:
            return stream.decompress(piece, most)
        except (zlib.error, zstd.ZstdError):
            self.damaged = True
            return b""

    def _take_piece(self, before: bytes) -> bytes:
        """The next compressed bytes, after those that are left of a stream that has ended."""
        if before:
            return before
        if not self._raw:
            self._raw = self._file.read(_RAW_BYTES)
            self._on_bytes(len(self._raw))
        piece, self._raw = self._raw[:_PIECE_BYTES], self._raw[_PIECE_BYTES:]
        return piece


def what_is(head: bytes) -> str:
    """Describes a file that is not a qlog trace by its first bytes."""
    if not head.strip():
        return "an empty file"
    for start, name in _KNOWN:
        if head.startswith(start):
            return name
    if head.lstrip().startswith((b"{", b"[")):
        if b'"constants"' in head and b'"logEventTypes"' in head:
            return "a NetLog of Chromium: its netlog_viewer shows it"
        return f"JSON, but not qlog: it starts with {_excerpt(head)}"
    return f"it starts with {_excerpt(head)}"


def _excerpt(head: bytes) -> str:
    text = head[:40].decode("utf-8", errors="replace")
    return repr(text)
