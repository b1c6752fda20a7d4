"""Opens a file with any compression, and describes a file that holds no qlog trace.

The compression is recognised by the first bytes, not by the name. A stream that is cut off or
damaged gives everything before the damage.
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

# The bytes that are unpacked at a time; of a damaged stream no more are lost before the damage.
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
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


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
            self._stream = _gzip()
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
        while len(self._ready) < size and self._raw:
            self._ready += self._unpack(self._raw)
            if not self.damaged:
                self._raw = self._file.read(_RAW_BYTES)
                self._on_bytes(len(self._raw))
            else:
                self._raw = b""
        if not self._raw and self._stream is not None and not self._stream.eof:
            self.damaged = True
        out = bytes(self._ready[:size])
        del self._ready[:size]
        return out

    def _unpack(self, data: bytes) -> bytes:
        if self._stream is None:
            return data
        out = bytearray()
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            while piece:
                if self._stream.eof:
                    # Several compressed streams may follow one another.
                    self._stream = _gzip() if piece.startswith(_GZIP) else zstd.ZstdDecompressor()
                try:
                    out += self._stream.decompress(piece)
                except (zlib.error, zstd.ZstdError):
                    self.damaged = True
                    return bytes(out)
                piece = self._stream.unused_data if self._stream.eof else b""
        return bytes(out)


def _gzip() -> _Decompressor:
    return zlib.decompressobj(_GZIP_WINDOW)


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
