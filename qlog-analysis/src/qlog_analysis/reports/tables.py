"""The tables of an experiment, filled with what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from qlog_analysis.experiments.estimates import Estimate, estimate
from qlog_analysis.experiments.measured import Measured, Missing
from qlog_analysis.experiments.model import RUN_AXIS, Override, Quantity, Table, Where
from qlog_analysis.metrics.definitions import NOTHING, Metric, best
from qlog_analysis.metrics.quantities import half_width, metric_of, show, show_half, subject_of
from qlog_analysis.metrics.statistics import Interval
from qlog_analysis.reports import controllers


@dataclass(frozen=True, slots=True)
class Heading:
    """What a row or a column is called, and small print below."""

    text: str
    small: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as text with the half-width of its interval, or the reason why there is none."""

    text: str
    half: str
    best: bool
    missing: str


@dataclass(frozen=True, slots=True)
class TableView:
    """A table to be shown; `caption` says what the numbers are."""

    title: str
    caption: str
    corner: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[Heading, tuple[Cell, ...]], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Why cells have no number, each reason once."""
        reasons = [cell.missing for _, cells in self.rows for cell in cells if cell.missing]
        return tuple(dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One value of a dimension: its heading, and what it asks of a cell."""

    key: str
    heading: Heading
    metric: str | None = None
    subject: str | None = None
    where: tuple[str, str] | None = None


def fill(table: Table, measured: Measured) -> TableView:
    """The table with its numbers; rows and columns without any point are left out."""
    rows = _entries(table.rows, table, measured)
    columns = _entries(table.columns, table, measured)
    grid = [[_estimate(table, measured, row, column) for column in columns] for row in rows]
    metrics = [
        [metric_of(row.metric or column.metric or table.metrics[0]) for column in columns]
        for row in rows
    ]
    marked = _best(table, grid, metrics)
    cells = [
        tuple(
            _cell(value, 1.0 if table.ratio_to else metric.scale, is_best)
            for value, metric, is_best in zip(values, of_row, bests, strict=True)
        )
        for values, of_row, bests in zip(grid, metrics, marked, strict=True)
    ]
    return TableView(
        title=table.title,
        caption=_caption(table, measured),
        corner=_corner(table),
        columns=tuple(column.heading for column in columns),
        rows=tuple(zip([row.heading for row in rows], cells, strict=True)),
    )


def _entries(dimension: str, table: Table, measured: Measured) -> list[_Entry]:
    if dimension == "metric":
        return [_metric_entry(metric, bool(table.ratio_to)) for metric in table.metrics]
    if dimension == "subject":
        return [
            _Entry(subject, Heading(subject_of(subject)), subject=subject)
            for subject in table.subjects
        ]
    experiment = measured.experiment
    there = {experiment.points[n].get(dimension) for n in experiment.points_where(table.where)}
    values = [value for value in experiment.axes.get(dimension, ()) if value in there]
    return [
        _Entry(value, heading_of(dimension, value, measured), where=(dimension, value))
        for value in values
    ]


def _metric_entry(key: str, ratio: bool) -> _Entry:
    metric = metric_of(key)
    return _Entry(key, Heading(metric.label, "" if ratio else metric.unit), metric=key)


def heading_of(axis: str, value: str, measured: Measured) -> Heading:
    """A value of an axis in words; of a run, which of its controllers are not the papers'."""
    if axis != RUN_AXIS:
        return Heading(value)
    titles = {run.id: run.title for run in measured.experiment.runs}
    return Heading(titles.get(value, value), controllers.label(measured.controllers.get(value, ())))


def _estimate(table: Table, measured: Measured, row: _Entry, column: _Entry) -> Estimate:
    where: dict[str, tuple[str, ...]] = dict(table.where)
    for entry in (row, column):
        if entry.where is not None:
            where[entry.where[0]] = (entry.where[1],)
    quantity = Quantity(
        row.metric or column.metric or table.metrics[0],
        row.subject or column.subject or table.subjects[0],
        where,
    )
    return estimate(measured, quantity, table.ratio_to)


def _best(
    table: Table, grid: Sequence[Sequence[Estimate]], metrics: Sequence[Sequence[Metric]]
) -> list[list[bool]]:
    """Which cells hold the best of the compared controllers."""
    none = [[False] * len(row) for row in grid]
    if table.ratio_to is not None or RUN_AXIS not in (table.rows, table.columns):
        return none
    by_column = table.rows == RUN_AXIS
    lines = list(zip(*grid, strict=True)) if by_column else grid
    of_lines = list(zip(*metrics, strict=True)) if by_column else metrics
    out = []
    for line, of_line in zip(lines, of_lines, strict=True):
        out.append(_best_of(line, of_line[0]) if len(set(of_line)) == 1 else [False] * len(line))
    return [list(row) for row in zip(*out, strict=True)] if by_column else out


def _best_of(line: Sequence[Estimate], metric: Metric) -> list[bool]:
    """The best and those whose intervals do not set them apart from it; none if that is all."""
    found = [value for value in line if not isinstance(value, Missing)]
    top = best(metric, [value.value for value in found])
    if top is None:
        return [False] * len(line)
    winner = next(value for value in found if value.value == top)
    out = [not isinstance(value, Missing) and _overlap(value, winner) for value in line]
    return [False] * len(line) if sum(out) == len(found) else out


def _overlap(one: Interval, other: Interval) -> bool:
    ends = [
        (
            each.value if each.low is None else each.low,
            each.value if each.high is None else each.high,
        )
        for each in (one, other)
    ]
    return max(low for low, _ in ends) <= min(high for _, high in ends)


def _cell(value: Estimate, scale: float, is_best: bool) -> Cell:
    if isinstance(value, Missing):
        return Cell(NOTHING, "", best=False, missing=value.reason)
    half = half_width(value, scale)
    return Cell(show(value.value * scale, half), show_half(half), is_best, "")


def _corner(table: Table) -> str:
    return "" if table.rows in ("metric", "subject", RUN_AXIS) else table.rows


def _caption(table: Table, measured: Measured) -> str:
    subject = None if "subject" in (table.rows, table.columns) else table.subjects[0]
    if "metric" not in (table.rows, table.columns):
        what = describe(table.metrics[0], subject, table.ratio_to)
    elif table.ratio_to is not None:
        what = f"Ratios to {_other(table.ratio_to)}"
    else:
        what = "" if subject in (None, "run") else f"Of {subject_of(str(subject))}"
    parts = (what, at(table.where), over(measured, table.where, {table.rows, table.columns}))
    return ". ".join(filter(None, parts)) + "."


def describe(metric: str, subject: str | None, ratio_to: Override | None) -> str:
    """A metric of a subject in words, with its unit or with what it is divided by."""
    known = metric_of(metric)
    of = f" of {subject_of(subject)}" if subject and subject != "run" else ""
    if ratio_to is None:
        return f"{known.label}{of}, {known.unit}" if known.unit else f"{known.label}{of}"
    return f"{known.label}{of} over that of {_other(ratio_to)}"


def _other(ratio_to: Override) -> str:
    words = [metric_of(ratio_to.metric).label.lower()] if ratio_to.metric else []
    words += [subject_of(ratio_to.subject)] if ratio_to.subject else []
    words += [f"{axis} = {' or '.join(values)}" for axis, values in ratio_to.where.items()]
    return ", ".join(words)


def at(where: Where) -> str:
    """The values that axes are held at, in words."""
    words = [f"{axis} = {' or '.join(values)}" for axis, values in where.items()]
    return f"At {', '.join(words)}" if words else ""


def over(measured: Measured, where: Where, used: set[str]) -> str:
    """What means are taken over, in words."""
    experiment = measured.experiment
    points = [experiment.points[number] for number in experiment.points_where(where)]
    loose = [
        axis
        for axis in experiment.axes
        if axis not in used and len({point.get(axis) for point in points}) > 1
    ]
    seeds = experiment.seeds
    words = [f"over {' and '.join(loose)}"] if loose else []
    words += [f"over {seeds} seeds, ± 95 % interval"] if seeds > 1 else []
    return f"Means {' and '.join(words)}" if words else "One run with seed 1"
