"""What an experiment says of itself: `experiment.json`, which the simulator writes beside results.

Keys and values are those of the experiment's TOML file (docs/experiments.md), with these of its
own:

    name            the file's name without .toml
    command         the command line that runs it again
    packet-bytes    stream bytes that a full datagram carries
    seeds           how many seeds were run: 1, 2, ... up to this number
    axes            [{"name": "x", "values": ["1ms", "13ms"]}, ...] in the order of the file;
                    the axis of the compared controllers is called "run", its values are ids
    points          [{"point": 0, "axes": {"x": "1ms", "run": "vegas"}}, ...]: those to be run
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import Fields, brief, read_json

Where = Mapping[str, tuple[str, ...]]
"""The values that axes may have, as texts; an axis that is not named may have any."""

RUN_AXIS = "run"

Across = Literal["mean", "min", "max", "sum", "crossing"]
_ACROSS: tuple[Across, ...] = ("mean", "min", "max", "sum", "crossing")

PlotKind = Literal["axis", "time", "trace"]
_PLOT_KINDS: tuple[PlotKind, ...] = ("axis", "time", "trace")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric of a subject at some points."""

    metric: str
    subject: str
    where: Where


@dataclass(frozen=True, slots=True)
class Override:
    """What another quantity has in place of a first one's: what is None stays."""

    metric: str | None
    subject: str | None
    where: Where

    def of(self, quantity: Quantity) -> Quantity:
        """The other quantity."""
        return Quantity(
            self.metric or quantity.metric,
            self.subject or quantity.subject,
            {**quantity.where, **self.where},
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says a quantity comes to; open on a side where the bound is None.

    `across` says what becomes of the points that are left over; `axis` and `level` belong to its
    value "crossing".
    """

    id: str
    title: str
    paper: float | None
    low: float | None
    high: float | None
    unit: str
    source: str
    note: str
    robust: bool
    value: Quantity
    ratio_to: Override | None
    across: Across
    axis: str
    level: float


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report: metrics or subjects or the values of an axis over those of another."""

    title: str
    metrics: tuple[str, ...]
    subjects: tuple[str, ...]
    rows: str
    columns: str
    where: Where
    ratio_to: Override | None


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the report; `flow` belongs to kind "trace", `x` and `log_x` to kind "axis"."""

    title: str
    kind: PlotKind
    metric: str
    subjects: tuple[str, ...]
    x: str
    lines: str
    log_x: bool
    flow: str
    where: Where
    ratio_to: Override | None


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared controllers, or combinations of them."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as it was run."""

    directory: Path
    name: str
    title: str
    source: str
    about: str
    command: str
    packet_bytes: int
    seeds: int
    axes: Mapping[str, tuple[str, ...]]
    points: Mapping[int, Mapping[str, str]]
    runs: tuple[Run, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    claims: tuple[Claim, ...]

    def points_where(self, where: Where) -> list[int]:
        """The points whose axes have one of these values."""
        return [
            point
            for point, axes in self.points.items()
            if all(axes.get(axis) in values for axis, values in where.items())
        ]


def read_experiment(directory: Path) -> Experiment:
    """Reads the experiment.json of a directory.

    Raises:
        LayoutError: the file is missing, or lacks a value, or has one that makes no sense.
    """
    top = read_json(directory / "experiment.json", "the directory of an experiment")
    axes = {axis.text("name"): _texts(axis, "values") for axis in top.objects("axes")}
    reader = _Reader(axes)
    return Experiment(
        directory=directory,
        name=top.path("name"),
        title=top.text("title"),
        source=_optional_text(top, "source"),
        about=_optional_text(top, "about"),
        command=_optional_text(top, "command"),
        packet_bytes=top.count("packet-bytes", least=1),
        seeds=top.count("seeds", least=1),
        axes=axes,
        points={
            point.count("point"): {
                axis: _text(point, axis, value) for axis, value in point.object("axes").raw.items()
            }
            for point in top.objects("points")
        },
        runs=tuple(
            Run(run.text("id"), _optional_text(run, "title") or run.text("id"))
            for run in _objects(top, "runs")
        ),
        tables=tuple(reader.table(table) for table in _objects(top, "tables")),
        plots=tuple(reader.plot(plot) for plot in _objects(top, "plots")),
        claims=tuple(reader.claim(claim) for claim in _objects(top, "claims")),
    )


_Text = TypeVar("_Text", bound=str)


class _Reader:
    """Reads what refers to axes."""

    def __init__(self, axes: Mapping[str, tuple[str, ...]]) -> None:
        self.axes = axes

    def claim(self, claim: Fields) -> Claim:
        paper, low, high = (claim.optional(key) for key in ("paper", "low", "high"))
        tolerance = claim.optional("tolerance")
        if tolerance is not None and paper is not None:
            low, high = sorted((paper * (1 - tolerance), paper * (1 + tolerance)))
        value = claim.object("value")
        # `across = { across = "crossing", axis = "buffer", level = 1.0 }` has them in a table.
        how = claim.object("across") if isinstance(claim.raw.get("across"), dict) else claim
        return Claim(
            id=claim.text("id"),
            title=claim.text("title"),
            paper=paper,
            low=low,
            high=high,
            unit=_optional_text(claim, "unit"),
            source=_optional_text(claim, "source"),
            note=_optional_text(claim, "note"),
            robust=claim.raw.get("robust") is True,
            value=Quantity(value.text("metric"), value.text("subject"), self.where(value)),
            ratio_to=self.ratio_to(claim),
            across=_one_of(how, "across", _optional_text(how, "across") or "mean", _ACROSS),
            axis=_optional_text(how, "axis"),
            level=how.optional("level") or 0.0,
        )

    def table(self, table: Fields) -> Table:
        return Table(
            title=table.text("title"),
            metrics=_one_or_more(table, "metric", "metrics"),
            subjects=_one_or_more(table, "subject", "subjects"),
            rows=table.text("rows"),
            columns=table.text("columns"),
            where=self.where(table),
            ratio_to=self.ratio_to(table),
        )

    def plot(self, plot: Fields) -> Plot:
        kind = _one_of(plot, "kind", plot.text("kind"), _PLOT_KINDS)
        return Plot(
            title=plot.text("title"),
            kind=kind,
            metric="" if kind == "trace" else plot.text("metric"),
            subjects=() if kind == "trace" else _one_or_more(plot, "subject", "subjects"),
            x=plot.text("x") if kind == "axis" else "",
            lines=_optional_text(plot, "lines") or RUN_AXIS,
            log_x=plot.raw.get("log-x") is True,
            flow=plot.text("flow") if kind == "trace" else "",
            where=self.where(plot),
            ratio_to=self.ratio_to(plot),
        )

    def ratio_to(self, parent: Fields) -> Override | None:
        if parent.raw.get("ratio-to") is None:
            return None
        other = parent.object("ratio-to")
        return Override(
            _optional_text(other, "metric") or None,
            _optional_text(other, "subject") or None,
            self.where(other),
        )

    def where(self, parent: Fields) -> Where:
        if parent.raw.get("where") is None:
            return {}
        where = parent.object("where")
        out = {}
        for axis, value in where.raw.items():
            if axis not in self.axes:
                there = ", ".join(self.axes) or "none"
                raise LayoutError(f"{where.where}: no axis {axis!r}; there are {there}")
            values = value if isinstance(value, list) else [value]
            out[axis] = tuple(_text(where, axis, one) for one in values)
        return out


def _objects(parent: Fields, key: str) -> list[Fields]:
    return parent.objects(key) if parent.raw.get(key) is not None else []


def _optional_text(parent: Fields, key: str) -> str:
    value = parent.raw.get(key)
    return value if isinstance(value, str) else ""


def _text(parent: Fields, key: str, value: Any) -> str:
    """A value of an axis: the text of a string, anything else as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise LayoutError(f"{parent.where}: {key} must be a string or a number, not {brief(value)}")


def _texts(parent: Fields, key: str) -> tuple[str, ...]:
    values = parent.raw.get(key)
    if not isinstance(values, list):
        raise LayoutError(f"{parent.where}: {key} must be a list, not {brief(values)}")
    return tuple(_text(parent, key, value) for value in values)


def _one_or_more(parent: Fields, one: str, several: str) -> tuple[str, ...]:
    if parent.raw.get(several) is not None:
        return _texts(parent, several)
    return (parent.text(one),)


def _one_of(parent: Fields, key: str, value: str, known: tuple[_Text, ...]) -> _Text:
    for one in known:
        if value == one:
            return one
    raise LayoutError(f"{parent.where}: {key} must be one of {', '.join(known)}, not {value!r}")
