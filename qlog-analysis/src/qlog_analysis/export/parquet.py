"""Writes traces as Parquet: one file per kind of table, for DuckDB, Spark and notebooks."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from qlog_analysis.errors import NotQlogError
from qlog_analysis.library import Log, load_all
from qlog_analysis.metrics.summary import Summary
from qlog_analysis.names import showable

TABLES = ("traces", "metrics", "packets", "acks", "losses", "states")
"""The names of the files, without their ending `.parquet`."""


def to_parquet(
    paths: Sequence[Path],
    out: Path,
    on_bytes: Callable[[int], None] = lambda _: None,
    on_error: Callable[[Path, Exception], None] | None = None,
) -> list[Path]:
    """Writes the tables of traces into a directory, one file per kind of table.

    Each row starts with its `trace` (the file as it was named), `connection`, `vantage` and
    `program`. Times are milliseconds since the trace began. `traces.parquet` has one row per
    connection, with its summary.

    Only one trace at a time is held in memory.

    Args:
        paths: the traces.
        out: the directory, which is made if it is missing; files in it are replaced.
        on_bytes: told the number of bytes after each part that was read.
        on_error: told of files that cannot be read, which are left out; without it they are
            errors.

    Raises:
        NotQlogError: a file cannot be opened or is not a qlog trace.
        OSError: the directory cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".parts-") as temporary:
        parts: dict[str, list[Path]] = {name: [] for name in TABLES}
        for log in _logs(paths, on_bytes, on_error):
            for name, table in tables(log).items():
                part = Path(temporary) / f"{name}-{len(parts[name])}.parquet"
                table.write_parquet(part)
                parts[name].append(part)
        written = []
        for name, files in parts.items():
            if files:
                path = out / f"{name}.parquet"
                pl.scan_parquet(files).sink_parquet(path)
                written.append(path)
    return written


def _logs(
    paths: Sequence[Path],
    on_bytes: Callable[[int], None],
    on_error: Callable[[Path, Exception], None] | None,
) -> Iterator[Log]:
    for path in paths:
        try:
            yield from load_all(path, on_bytes)
        except NotQlogError as error:
            if on_error is None:
                raise
            on_error(path, error)


def tables(log: Log) -> dict[str, pl.DataFrame]:
    """All tables of a connection, whose rows start with the columns that name it."""
    of = {
        "trace": showable(str(log.trace.path)),
        "connection": log.trace.connection,
        "vantage": log.trace.vantage,
        "program": log.trace.program,
    }
    front = [pl.lit(value, pl.String).alias(name) for name, value in of.items()]
    summary = {name: [value] for name, value in asdict(log.summary()).items() if name not in of}
    bare = {
        "traces": pl.DataFrame(summary, schema_overrides=_summary_types()),
        "metrics": log.metrics(),
        "packets": log.packets(),
        "acks": log.acks(),
        "losses": log.losses(),
        "states": log.states(),
    }
    return {name: table.select(*front, pl.all()) for name, table in bare.items()}


def _summary_types() -> dict[str, type[pl.DataType]]:
    """The types of a summary's columns, which must not depend on the numbers that a trace has."""
    known: dict[str, type[pl.DataType]] = {
        "int": pl.Int64,
        "float": pl.Float64,
        "str": pl.String,
        "bool": pl.Boolean,
    }
    return {
        name: next(kind for word, kind in known.items() if word in str(annotation))
        for name, annotation in Summary.__annotations__.items()
        if name not in {"trace", "connection", "vantage", "program"}
    }
