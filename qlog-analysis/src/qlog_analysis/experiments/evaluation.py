"""The directory of an evaluation, which `gallop-sim evaluate` writes.

DIR/evaluation.json      scenarios, controllers, limits and verdicts
DIR/<family>/            series.parquet, and the traces that were kept
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from qlog_analysis import schemas
from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import is_path, read_json
from qlog_analysis.experiments.measured import read_table

FILE = "evaluation.json"

Verdict = Literal["pass", "fail", "broken", "missing"]
"""Of a cell: "broken" if a run failed, "missing" if it was not run."""


class Sampled(msgspec.Struct, frozen=True):
    """A mean over seeds in a base unit, with its 95 % interval and the value of each seed.

    There is no mean if there was no value under some seed.
    """

    mean: float | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    values: tuple[float | None, ...] = ()


class Controller(msgspec.Struct, frozen=True):
    """A controller; `cc` is its name with options, and `stack` the QUIC stack whose own it is."""

    id: str
    cc: str = ""
    title: str = ""
    summary: str = ""
    stack: str = ""

    @property
    def name(self) -> str:
        """The name that people see."""
        return self.title or self.id


class Limit(msgspec.Struct, frozen=True):
    """A limit of a scenario: the metric of a subject, and the expressions that bound it."""

    metric: str
    subject: str
    id: str = ""
    low: str | None = None
    high: str | None = None
    why: str = ""


class Held(msgspec.Struct, frozen=True):
    """What a controller made of a limit.

    Attributes:
        bound: the value of the limit's expression.
        verdict: "missing" if there is no value.
        distance: how far inside the limit the value is, relative to the bound; below 0 outside.
        value: what was measured.
    """

    verdict: Literal["pass", "fail", "missing"]
    bound: float | None = None
    distance: float | None = None
    value: Sampled | None = None


class Share(msgspec.Struct, frozen=True):
    """The throughput of one member of a foreground flow, as a mean over seeds."""

    subject: str
    throughput_bps: float
    index: int = 0
    cc: str = ""


class BestOthers(msgspec.Struct, frozen=True):
    """The controllers that were best of the others."""

    throughput: str | None = None
    delay: str | None = None
    power: str | None = None


class Against(msgspec.Struct, frozen=True):
    """Ratios to the best of the other controllers."""

    throughput: float | None = None
    delay: float | None = None
    power: float | None = None
    of: BestOthers = BestOthers()


class Cell(msgspec.Struct, frozen=True):
    """A controller in a scenario; `distance` is that of the worst limit."""

    controller: str
    verdict: Verdict
    distance: float | None = None
    seeds_run: int = 0
    failures: tuple[str, ...] = ()
    limits: tuple[Held, ...] = ()
    throughput_bps: Sampled | None = None
    delay_s: Sampled | None = None
    power: Sampled | None = None
    against_best: Against = Against()
    shares: tuple[Share, ...] = ()
    points: tuple[int, ...] = ()
    traces: tuple[str, ...] = ()
    command: str = ""

    @property
    def failed(self) -> bool:
        """True if a limit was not kept or a run failed."""
        return self.verdict in ("fail", "broken")


class Scenario(msgspec.Struct, frozen=True):
    """A network and its traffic, with limits for every controller."""

    id: str
    limits: tuple[Limit, ...]
    cells: tuple[Cell, ...]
    title: str = ""
    about: str = ""
    seeds: int = 0
    parameters: dict[str, str | float | bool] = {}

    @property
    def name(self) -> str:
        """The name that people see."""
        return self.title or self.id

    @property
    def failing(self) -> int:
        """The number of controllers that failed."""
        return sum(cell.failed for cell in self.cells)

    def cell(self, controller: str) -> Cell:
        """The cell of a controller, a missing one if there is none."""
        found = (cell for cell in self.cells if cell.controller == controller)
        return next(found, Cell(controller, "missing"))

    @property
    def best(self) -> Cell | None:
        """The cell with the most power among those that pass; without one, the least outside.

        None if nothing was run.
        """
        passing = [cell for cell in self.cells if cell.verdict == "pass"]
        if passing:
            return max(passing, key=lambda cell: _power(cell))
        ran = [cell for cell in self.cells if cell.verdict == "fail"]
        return max(ran, key=lambda cell: _least_if_none(cell.distance), default=None)


def _power(cell: Cell) -> float:
    return _least_if_none(None if cell.power is None else cell.power.mean)


def _least_if_none(value: float | None) -> float:
    return -math.inf if value is None else value


class Reached(msgspec.Struct, frozen=True):
    """What a controller made of a goal.

    Attributes:
        met: the scenarios that meet the bound, of `of`.
        scenario: the one that is furthest from it; none if the mean over the scenarios counts.
        value: the value there, or the mean.
    """

    controller: str
    is_reached: bool
    met: int
    of: int
    scenario: str | None = None
    value: float | None = None


class Goal(msgspec.Struct, frozen=True):
    """More than a limit says, of several scenarios; no verdict rests on it."""

    title: str
    metric: str
    subject: str
    results: tuple[Reached, ...] = ()

    def result(self, controller: str) -> Reached | None:
        """The result of a controller, if there is one."""
        return next((one for one in self.results if one.controller == controller), None)


class Family(msgspec.Struct, frozen=True):
    """Scenarios that ask the same question; `directory` is below that of the evaluation."""

    id: str
    directory: str
    scenarios: tuple[Scenario, ...]
    goals: tuple[Goal, ...] = ()
    title: str = ""
    about: str = ""
    file: str = ""

    @property
    def name(self) -> str:
        """The name that people see."""
        return self.title or self.id

    def failures_first(self) -> list[Scenario]:
        """The scenarios, those that most controllers fail first, else in the order of the file."""
        return sorted(self.scenarios, key=lambda scenario: -scenario.failing)


class Tally(msgspec.Struct, frozen=True):
    """Scenarios that a controller passed, of those that were run."""

    passed: int
    of: int


class Summary(msgspec.Struct, frozen=True):
    """A controller's tallies, of all scenarios and by family."""

    controller: str
    passed: int
    of: int
    families: dict[str, Tally] = {}


class Evaluation(msgspec.Struct, frozen=True):
    """An evaluation.

    Attributes:
        title: its title.
        command: the command line that makes it again.
        seeds: the number of seeds if one was asked for, in place of the scenarios' own.
        fast: true of a part of the scenarios.
        fresh: the seed of scenarios that were drawn anew.
        not_run: what was left out and why, a sentence each.
    """

    title: str
    command: str
    controllers: tuple[Controller, ...]
    families: tuple[Family, ...]
    summary: tuple[Summary, ...]
    first_seed: int = 1
    seeds: int | None = None
    fast: bool = False
    fresh: int | None = None
    not_run: tuple[str, ...] = ()

    def best_first(self) -> list[Controller]:
        """The controllers, those that passed the greatest part of their scenarios first."""
        parts = {one.controller: one.passed / max(one.of, 1) for one in self.summary}
        return sorted(self.controllers, key=lambda one: -parts[one.id])


def read_evaluation(directory: Path) -> Evaluation:
    """Reads an evaluation.

    Raises:
        LayoutError: the file is missing, or lacks a value, or has one that makes no sense.
    """
    top = read_json(directory / FILE, "the directory of an evaluation")
    try:
        evaluation = msgspec.convert(_without_nulls(top.raw), Evaluation)
    except msgspec.ValidationError as error:
        raise LayoutError(f"{top.where}: {error}") from error
    _check(top.where, evaluation)
    return evaluation


def _without_nulls(value: Any) -> Any:
    """The same with null taken for a key that is left out."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def _check(where: str, evaluation: Evaluation) -> None:
    controllers = [one.id for one in evaluation.controllers]
    _check_unique(f"{where}: controllers", controllers)
    _check_unique(f"{where}: families", [family.id for family in evaluation.families])
    _check_unique(f"{where}: summary", [one.controller for one in evaluation.summary])
    for one in controllers:
        if all(tally.controller != one for tally in evaluation.summary):
            raise LayoutError(f"{where}: summary has no controller {one!r}")
    for family in evaluation.families:
        place = f"{where}: family {family.id!r}"
        if not is_path(family.directory):
            raise LayoutError(
                f"{place}: directory must be plain names joined by /, not {family.directory!r}"
            )
        _check_unique(f"{place}: scenarios", [one.id for one in family.scenarios])
        for scenario in family.scenarios:
            _check_cells(f"{place}: scenario {scenario.id!r}", scenario, controllers)


def _check_unique(where: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise LayoutError(f"{where}: {name!r} is there twice; expected a name of its own each")
        seen.add(name)


def _check_cells(where: str, scenario: Scenario, controllers: Sequence[str]) -> None:
    _check_unique(f"{where}: cells", [cell.controller for cell in scenario.cells])
    for cell in scenario.cells:
        if cell.controller not in controllers:
            known = ", ".join(controllers)
            raise LayoutError(
                f"{where}: cells: controller must be one of {known}, not {cell.controller!r}"
            )
        place = f"{where}: cell of {cell.controller!r}"
        if cell.limits and len(cell.limits) != len(scenario.limits):
            raise LayoutError(
                f"{place}: limits must have the scenario's {len(scenario.limits)}, "
                f"not {len(cell.limits)}"
            )
        for trace in cell.traces:
            if not is_path(trace):
                raise LayoutError(f"{place}: traces must be plain names joined by /, not {trace!r}")


def read_series(directory: Path, points: Iterable[int]) -> Mapping[int, pl.DataFrame]:
    """The values over time of a family's foreground flows and links, by point.

    Args:
        directory: the family's directory.
        points: the points that are wanted; those without values are left out.

    Raises:
        LayoutError: series.parquet is not a table as described.
    """
    path = directory / "series.parquet"
    if not path.exists():
        return {}
    wanted = read_table(path, schemas.SERIES).filter(
        pl.col("point").is_in(list(points))
        & ~pl.col("background")
        & pl.col("value").is_finite()
        & pl.col("time_s").is_finite()
    )
    parts = wanted.partition_by("point", as_dict=True, maintain_order=True)
    return {int(point): part.sort("time_s") for (point,), part in parts.items()}
