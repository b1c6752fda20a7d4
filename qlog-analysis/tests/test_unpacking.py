"""Compressed files: whatever they would unpack to, little of it is held at a time."""

import gzip
import io
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from synthetic import TraceText

from qlog_analysis.errors import NotQlogError
from qlog_analysis.reading import container
from qlog_analysis.reading.reader import read_trace
from qlog_analysis.reading.unpacking import Unpacked

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_MIB = 1 << 20

COMPRESSIONS = [gzip.compress, zstd.compress]


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    file = Unpacked(io.BytesIO(data), lambda _count: None)
    while piece := file.read(size):
        yield piece
    assert not file.damaged


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_bomb_is_unpacked_in_steps(compress: Callable[[bytes], bytes]) -> None:
    bomb = compress(bytes(256 * _MIB))
    assert len(bomb) < _MIB
    tracemalloc.start()
    try:
        length = sum(map(len, pieces(bomb, 64 << 10)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert length == 256 * _MIB
    assert peak < 4 * _MIB


@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_reading_in_steps_changes_nothing(compress: Callable[[bytes], bytes], size: int) -> None:
    content = bytes(random.Random(1).choices(b"abc\n", k=50_000)) + bytes(20_000)
    # Two streams after one another, with room for the end of one in the piece of the other.
    packed = compress(content[:30_000]) + compress(content[30_000:])
    assert b"".join(pieces(packed, size)) == content


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_stream_that_is_cut_off_gives_what_came_before(
    compress: Callable[[bytes], bytes],
) -> None:
    content = random.Random(1).randbytes(100_000)
    packed = compress(content)
    file = Unpacked(io.BytesIO(packed[: len(packed) // 2]), lambda _count: None)
    out = file.read(len(content))
    assert file.damaged
    assert content.startswith(out)
    assert len(out) > 30_000


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_a_record_that_is_too_long_is_one_unreadable_record(
    tmp_path: Path, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_MOST_RECORD_BYTES", _MIB)
    trace = TraceText()
    trace.sent(1.0, 1)
    trace.raw(" " * (64 * _MIB) + "{")
    trace.sent(2.0, 2)
    path = tmp_path / "bomb.sqlog"
    path.write_bytes(compress(str(trace).encode()))
    tracemalloc.start()
    try:
        read = read_trace(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.skipped == 1
    assert len(read.sent) == 2
    assert peak < 32 * _MIB


def test_a_document_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_MOST_DOCUMENT_BYTES", 4 * _MIB)
    path = tmp_path / "large.qlog"
    path.write_bytes(zstd.compress(b'{"traces": [{"events": [' + b" " * (64 * _MIB)))
    with pytest.raises(NotQlogError, match=r"large\.qlog: a JSON document of more than 4 MiB"):
        read_trace(path)
