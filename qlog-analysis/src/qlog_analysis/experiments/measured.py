"""What was measured: the tables that the simulator writes beside experiment.json.

results.parquet   one row per point, seed, subject, index and metric
series.parquet    the same over time, where the experiment asks for it
failures.json     the runs that did not finish, and why
traces/           qlogs that the experiment asks for
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from qlog_analysis import schemas
from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import Fields
from qlog_analysis.experiments.model import RUN_AXIS, Experiment

Samples = Mapping[int, float]
"""A value for each seed."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no number; `run` is false where nothing was to be run that would give it."""

    reason: str
    run: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of an experiment.

    Attributes:
        experiment: what was run.
        values: by subject and metric, then by point and seed; the mean over the members of a
            subject that stands for several flows.
        numbers: for each axis with numbers, what its texts are in base units.
        ran: the runs, by point and seed, that finished.
        failed: those that failed, with the reason.
        controllers: for each value of the run axis the controllers of its foreground flows, by
            name without options.
        options: for each point and flow its controller with all options.
        series: see the module; empty if there is none.
    """

    experiment: Experiment
    values: Mapping[tuple[str, str], Mapping[tuple[int, int], float]]
    numbers: Mapping[str, Mapping[str, float]]
    ran: frozenset[tuple[int, int]]
    failed: Mapping[tuple[int, int], str]
    controllers: Mapping[str, tuple[str, ...]]
    options: Mapping[tuple[int, str], str]
    series: pl.DataFrame

    def samples(self, subject: str, metric: str, point: int) -> Samples | Missing:
        """The values at a point, one for each seed, or why one of them is missing."""
        known = self.values.get((subject, metric), {})
        runs = [(point, seed) for seed in range(1, self.experiment.seeds + 1)]
        failed = [run for run in runs if run in self.failed]
        if failed:
            return Missing(f"{_of(failed, runs)} failed: {self.failed[failed[0]]}")
        absent = [run for run in runs if run not in self.ran]
        if absent:
            if absent == runs:
                return Missing("not run", run=False)
            return Missing(f"{_of(absent, runs)} not run")
        if not known:
            return Missing("not measured")
        absent = [run for run in runs if run not in known]
        if absent:
            return Missing(f"did not happen in {_of(absent, runs)}")
        return {seed: known[point, seed] for _, seed in runs}

    def where(self, point: int) -> str:
        """A point in words."""
        axes = self.experiment.points[point]
        return ", ".join(f"{axis} = {value}" for axis, value in axes.items())

    def trace(self, point: int, flow: str) -> Path | None:
        """The qlog of the first member of a flow at a point, if it was kept."""
        axes = self.experiment.points[point]
        folder = axes[RUN_AXIS] if list(axes) == [RUN_AXIS] else str(point)
        path = self.experiment.directory / "traces" / folder / f"{flow}-0.server.sqlog"
        return path if path.is_file() else None


def _of(some: list[tuple[int, int]], runs: list[tuple[int, int]]) -> str:
    return f"{len(some)} of {len(runs)} runs" if len(runs) > 1 else "the run"


def read_measured(experiment: Experiment) -> Measured:
    """Reads the results of an experiment.

    Raises:
        LayoutError: a file is missing or is not as described.
    """
    results = _read_parquet(experiment.directory / "results.parquet", schemas.RESULTS)
    failed = _read_failures(experiment.directory / "failures.json")
    own = results.filter(pl.col("metric") != "failed")
    for point, seed in _runs(results.filter(pl.col("metric") == "failed")):
        failed.setdefault((point, seed), "no reason was kept")
    series = experiment.directory / "series.parquet"
    return Measured(
        experiment=experiment,
        values=_values(own),
        numbers={
            axis: _numbers(results, axis)
            for axis in experiment.axes
            if f"{axis}_value" in results.columns
        },
        ran=frozenset(_runs(own)),
        failed=failed,
        controllers=_controllers(experiment, own),
        options={
            (point, subject): cc
            for point, subject, cc in own.filter(pl.col("cc") != "")
            .select("point", "subject", "cc")
            .unique(maintain_order=True)
            .rows()
        },
        series=_read_parquet(series, schemas.SERIES)
        if series.exists()
        else pl.DataFrame(schema=schemas.SERIES),
    )


def _read_parquet(path: Path, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        detail = str(error).splitlines()[0]
        raise LayoutError(f"{path}: a table in Parquet is wanted: {detail}") from error
    for name, kind in columns.items():
        if table.schema.get(name) != kind:
            found = table.schema.get(name, "no such column")
            raise LayoutError(f"{path}: column {name} must be {kind}, not {found}")
    return table


def _read_failures(path: Path) -> dict[tuple[int, int], str]:
    if not path.exists():
        return {}
    try:
        failures = json.loads(path.read_bytes())
    except ValueError as error:
        raise LayoutError(f"{path}: not JSON: {error}") from error
    if not isinstance(failures, list):
        raise LayoutError(f"{path}: a list of failed runs is wanted")
    out = {}
    for number, failure in enumerate(failures):
        run = Fields(f"{path}: [{number}]", failure)
        out[run.count("point"), run.count("seed")] = run.text("reason")
    return out


def _runs(results: pl.DataFrame) -> list[tuple[int, int]]:
    return results.select("point", "seed").unique(maintain_order=True).rows()


def _values(results: pl.DataFrame) -> dict[tuple[str, str], dict[tuple[int, int], float]]:
    means = (
        results.filter(pl.col("value").is_finite())
        .group_by("subject", "metric", "point", "seed", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    out: dict[tuple[str, str], dict[tuple[int, int], float]] = {}
    for subject, metric, point, seed, value in means.rows():
        out.setdefault((subject, metric), {})[point, seed] = value
    return out


def _numbers(results: pl.DataFrame, axis: str) -> dict[str, float]:
    column = f"{axis}_value"
    pairs = results.select(axis, column).drop_nulls().unique(maintain_order=True).rows()
    return {text: value for text, value in pairs if math.isfinite(value)}


def _controllers(experiment: Experiment, results: pl.DataFrame) -> dict[str, tuple[str, ...]]:
    by_point: dict[int, list[str]] = {}
    foreground = results.filter((pl.col("cc") != "") & ~pl.col("background"))
    for point, cc in foreground.select("point", "cc").unique(maintain_order=True).rows():
        by_point.setdefault(point, []).append(cc.split(":")[0])
    out: dict[str, dict[str, None]] = {}
    for point, names in by_point.items():
        run = experiment.points.get(point, {}).get(RUN_AXIS, "")
        out.setdefault(run, {}).update(dict.fromkeys(names))
    return {run: tuple(names) for run, names in out.items()}
