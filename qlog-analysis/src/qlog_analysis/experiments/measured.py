"""The results of an experiment: the tables that the simulator writes beside experiment.json.

results.parquet   one row per point, seed, subject, index and metric
series.parquet    the same over time, if the experiment asks for it
failures.json     the runs that did not finish, and the reasons
traces/           the qlogs that were kept, as experiment.json names them
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from qlog_analysis import schemas
from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import Fields
from qlog_analysis.experiments.model import Experiment, Quantity
from qlog_analysis.metrics.definitions import find
from qlog_analysis.metrics.series import Series

Samples = Mapping[int, float]
"""A value for each seed."""

NOT_MEASURED = "not measured"
"""The reason if no run of an experiment has a value."""

DID_NOT_HAPPEN = "did not happen"
"""The reason if other runs have a value: it never happened here, or makes no sense here."""

_FAILED = "failed"
"""The metric of a run that did not finish."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why there is no number; `run` is false if nothing was run that would give it."""

    reason: str
    run: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of an experiment.

    Attributes:
        experiment: the experiment.
        values: by subject and metric, then by point and seed; the mean over the members of a
            subject that stands for several flows.
        numbers: for each axis with numbers, the number of each text, in base units.
        ran: the runs, by point and seed, that finished.
        failed: those that failed, with the reason.
        series: series.parquet, or an empty table.
    """

    experiment: Experiment
    values: Mapping[tuple[str, str], Mapping[tuple[int, int], float]]
    numbers: Mapping[str, Mapping[str, float]]
    ran: frozenset[tuple[int, int]]
    failed: Mapping[tuple[int, int], str]
    series: pl.DataFrame

    def samples(self, subject: str, metric: str, point: int) -> Samples | Missing:
        """The values at a point, one for each seed, or the reason why one of them is missing."""
        known = self.values.get((subject, metric), {})
        runs = [(point, seed) for seed in self.experiment.seeds]
        failed = [run for run in runs if run in self.failed]
        if failed:
            return Missing(f"{_of(failed, runs)} failed: {self.failed[failed[0]]}")
        absent = [run for run in runs if run not in self.ran]
        if absent:
            if absent == runs:
                return Missing("not run", run=False)
            return Missing(f"{_of(absent, runs)} not run")
        if not known:
            return Missing(NOT_MEASURED)
        absent = [run for run in runs if run not in known]
        if absent == runs:
            return Missing(DID_NOT_HAPPEN)
        if absent:
            return Missing(f"did not happen in {_of(absent, runs)}")
        return {seed: known[point, seed] for _, seed in runs}

    def first(self, subject: str, metric: str, point: int) -> float | None:
        """The value at a point under the first seed, None if there is none."""
        seed = self.experiment.seeds[0]
        return self.values.get((subject, metric), {}).get((point, seed))

    def over_time(self, quantity: Quantity, point: int) -> Series:
        """A quantity over time under the first seed: the mean over the members of a flow."""
        rows = self.series.filter(
            (pl.col("point") == point)
            & (pl.col("subject") == quantity.subject)
            & (pl.col("metric") == quantity.metric)
            & pl.col("value").is_finite()
        )
        if rows.is_empty():
            return Series(np.empty(0), np.empty(0))
        means = (
            rows.filter(pl.col("seed") == pl.col("seed").min())
            .group_by("time_s")
            .agg(pl.col("value").mean())
            .sort("time_s")
        )
        return Series(means["time_s"].to_numpy(), means["value"].to_numpy())

    def where(self, point: int) -> str:
        """A point in words."""
        axes = self.experiment.points[point].axes
        return ", ".join(f"{axis} = {value}" for axis, value in axes.items())


def _of(some: list[tuple[int, int]], runs: list[tuple[int, int]]) -> str:
    return f"{len(some)} of {len(runs)} runs" if len(runs) > 1 else "the run"


def read_measured(experiment: Experiment) -> Measured:
    """Reads the results of an experiment.

    Raises:
        LayoutError: a file is missing or is not as described.
    """
    path = experiment.directory / "results.parquet"
    results = read_table(path, schemas.RESULTS)
    failed = _read_failures(experiment.directory / "failures.json")
    own = results.filter(pl.col("metric") != _FAILED)
    _check_units(path, own)
    for point, seed in _runs(results.filter(pl.col("metric") == _FAILED)):
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
        series=read_table(series, schemas.SERIES)
        if series.exists()
        else pl.DataFrame(schema=schemas.SERIES),
    )


def read_table(path: Path, columns: schemas.Schema) -> pl.DataFrame:
    """Reads a table of the simulator.

    Raises:
        LayoutError: the file is missing, or is no table with these columns.
    """
    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        detail = str(error).splitlines()[0]
        raise LayoutError(f"{path}: expected a Parquet table: {detail}") from error
    for name, kind in columns.items():
        if table.schema.get(name) != kind:
            found = table.schema.get(name, "no such column")
            raise LayoutError(f"{path}: column {name} must be {kind}, not {found}")
    return table


def _check_units(path: Path, results: pl.DataFrame) -> None:
    """Checks that values have the units of the table of metrics, by which they are shown."""
    for subject, name, unit in results.select("subject", "metric", "unit").unique().rows():
        metric = find(subject, name)
        if metric is not None and metric.unit != unit:
            raise LayoutError(
                f"{path}: {name} of {subject} is in {unit!r}; expected {metric.unit!r}. The "
                "results are of another version of the simulator: run the experiment again"
            )


def _read_failures(path: Path) -> dict[tuple[int, int], str]:
    if not path.exists():
        return {}
    try:
        failures = json.loads(path.read_bytes())
    except ValueError as error:
        raise LayoutError(f"{path}: not JSON: {error}") from error
    if not isinstance(failures, list):
        raise LayoutError(f"{path}: expected a list of failed runs")
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
