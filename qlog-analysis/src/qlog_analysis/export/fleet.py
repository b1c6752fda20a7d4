"""Writes the traces of a fleet as one partitioned Parquet data set, on all cores.

DIR/TABLE/date=YYYY-MM-DD/part-ID.parquet    the rows of a batch of files
DIR/done/ID.json                             that batch: its files, and those that are broken

A batch is done when its file in `done` is there, which is written last: a run that was interrupted
goes on where it stopped, and one over a folder that has grown reads only what is new.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from qlog_analysis.errors import AnalysisError, UsageError
from qlog_analysis.export.parquet import TABLES, tables
from qlog_analysis.library import load_all
from qlog_analysis.reading import parallel

SUFFIXES = (".sqlog", ".qlog", ".json", ".ndjson", ".jsonl")
PACKED = ("", ".gz", ".zst")

BATCH_FILES = 500
"""The files of a batch, if it is not full of bytes before."""

BATCH_BYTES = 256 << 20

UNKNOWN_DATE = "unknown"


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was read: it is read anew if its size or time has changed."""

    path: str
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A file that could not be read, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Filled:
    """A data set after a run.

    Attributes:
        files: the traces that were read in this run.
        known: those that had been read before.
        connections: the rows of `traces` that were added.
        broken: the files, of this run, that could not be read.
        all_broken: the number of all files that could not be read, also before.
    """

    files: int
    known: int
    connections: int
    broken: tuple[Broken, ...]
    all_broken: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some files, to be read in one process."""

    sources: tuple[Source, ...]
    out: Path
    tables: tuple[str, ...]
    labels: str

    @property
    def trace(self) -> Path:
        return Path(self.sources[0].path)

    @property
    def key(self) -> str:
        text = json.dumps([asdict(source) for source in self.sources])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, on_bytes: Callable[[int], None]) -> tuple[int, list[Broken]]:
        """Reads the files and writes their rows; returns the number of connections."""
        broken: list[Broken] = []
        parts: dict[tuple[str, str], list[pl.DataFrame]] = {}
        connections = 0
        for source in self.sources:
            try:
                logs = load_all(source.path, on_bytes)
                found = [(log.summary().started, tables(log)) for log in logs]
            except AnalysisError as error:
                broken.append(Broken(source.path, str(error)))
                continue
            except Exception as error:
                broken.append(Broken(source.path, f"{type(error).__name__}: {error}"))
                continue
            labels = self._labels(source.path)
            for started, of_log in found:
                connections += 1
                date = started[:10] if started else UNKNOWN_DATE
                for name in self.tables:
                    if len(of_log[name]):
                        table = of_log[name].with_columns(labels)
                        parts.setdefault((name, date), []).append(table)
        for (name, date), rows in parts.items():
            folder = self.out / name / f"date={date}"
            folder.mkdir(parents=True, exist_ok=True)
            pl.concat(rows, how="diagonal").write_parquet(folder / f"part-{self.key}.parquet")
        content = {
            "files": [asdict(source) for source in self.sources],
            "connections": connections,
            "broken": [asdict(one) for one in broken],
        }
        done = self.out / "done" / f"{self.key}.json"
        unfinished = done.with_suffix(".part")
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(done)
        return connections, broken

    def _labels(self, path: str) -> list[pl.Expr]:
        """The columns that a file's path gives, null if it does not fit."""
        pattern = re.compile(self.labels)
        match = pattern.search(path)
        return [
            pl.lit(match[name] if match else None, pl.String).alias(name)
            for name in pattern.groupindex
        ]


def fill(
    sources: Sequence[Path],
    out: Path,
    names: Sequence[str] = ("traces", "losses", "states"),
    labels: str = "",
    on_start: Callable[[int], Callable[[int], None]] = lambda _: lambda _: None,
) -> Filled:
    """Adds the traces below folders, or single files, to a data set.

    Args:
        sources: folders and files.
        out: the data set's directory, which is made if it is missing.
        names: the tables to write, of `parquet.TABLES`.
        labels: a regular expression that is searched in each path; its named groups become columns.
        on_start: given the bytes to be read; returns a function that is told of those read.

    Raises:
        UsageError: a source is missing, or a name or the expression is wrong.
        OSError: the directory cannot be written.
    """
    _check(sources, names, labels)
    (out / "done").mkdir(parents=True, exist_ok=True)
    found = {source.path: source for source in _found(sources, out)}
    known, broken_before = _known(out, found)
    new = [source for path, source in sorted(found.items()) if path not in known]
    batches = [
        _Batch(tuple(files), out.absolute(), tuple(names), labels) for files in _batches(new)
    ]
    results = parallel.run_all(batches, on_start(sum(source.size for source in new)))
    broken = [one for _, some in results for one in some]
    return Filled(
        files=len(new),
        known=len(known & found.keys()),
        connections=sum(connections for connections, _ in results),
        broken=tuple(broken),
        all_broken=broken_before + len(broken),
    )


def _check(sources: Sequence[Path], names: Sequence[str], labels: str) -> None:
    for source in sources:
        if not source.exists():
            raise UsageError(f"{source}: there is no such folder or file")
    for name in names:
        if name not in TABLES:
            raise UsageError(f"--tables {name}: expected some of {','.join(TABLES)}")
    try:
        groups = re.compile(labels).groupindex
    except re.error as error:
        raise UsageError(f"--labels {labels!r}: not a regular expression: {error}") from error
    if labels and not groups:
        raise UsageError(f"--labels {labels!r}: expected a named group, such as (?P<host>[^/]+)")


def _found(sources: Sequence[Path], out: Path) -> Iterator[Source]:
    """The files that have the name of a trace, but for those of the data set itself."""
    own = out.absolute()
    for source in sources:
        files = source.rglob("*") if source.is_dir() else [source]
        for path in files:
            whole = path.absolute()
            if whole.is_relative_to(own) or not path.is_file():
                continue
            if source.is_dir() and not _is_named_as_trace(path.name):
                continue
            stat = path.stat()
            yield Source(str(whole), stat.st_size, stat.st_mtime_ns)


def _is_named_as_trace(name: str) -> bool:
    return any(name.endswith(suffix + packed) for suffix in SUFFIXES for packed in PACKED)


def _known(out: Path, found: dict[str, Source]) -> tuple[set[str], int]:
    """The files that were read before, and the number of those that are broken.

    Batches of which a file has changed, and rows of batches that were not done, are removed.
    """
    known: set[str] = set()
    done: set[str] = set()
    broken = 0
    for path in sorted((out / "done").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        sources = [Source(**source) for source in content["files"]]
        if any(found.get(source.path, source) != source for source in sources):
            path.unlink()
            continue
        known |= {source.path for source in sources}
        done.add(path.stem)
        broken += len(content["broken"])
    for part in out.glob("*/date=*/part-*.parquet"):
        if part.stem.removeprefix("part-") not in done:
            part.unlink()
    return known, broken


def _batches(sources: Sequence[Source]) -> Iterator[list[Source]]:
    batch: list[Source] = []
    held = 0
    for source in sources:
        if batch and (len(batch) >= BATCH_FILES or held + source.size > BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(source)
        held += source.size
    if batch:
        yield batch
