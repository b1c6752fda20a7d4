"""The tables of an experiment, filled with its results."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from qlog_analysis.experiments.estimates import Estimate, estimate
from qlog_analysis.experiments.measured import DID_NOT_HAPPEN, NOT_MEASURED, Measured, Missing
from qlog_analysis.experiments.model import RUN_AXIS, Override, Quantity, Table, Where
from qlog_analysis.metrics.definitions import Metric, best, metric_of
from qlog_analysis.metrics.numbers import NOTHING, half_width, show, show_half
from qlog_analysis.metrics.statistics import Interval

_FEW = 3
"""So many cells without a number are named below a table."""

_BESIDE = 4
"""So many columns have room for an interval beside each number."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The name of a row or a column, small print below it, and a tip for the pointer."""

    text: str
    small: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as text with the half-width of its interval, or the reason why there is none."""

    text: str
    half: str
    best: bool
    missing: str


@dataclass(frozen=True, slots=True)
class TableView:
    """A table to be shown; `caption` says what its numbers are of."""

    title: str
    caption: str
    corner: str
    columns: tuple[Heading, ...]
    rows: tuple[tuple[Heading, tuple[Cell, ...]], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The reasons why cells have no number, each once, with the cells if they are few."""
        cells: dict[str, list[str]] = {}
        for row, values in self.rows:
            for column, cell in zip(self.columns, values, strict=True):
                if cell.missing:
                    cells.setdefault(cell.missing, []).append(f"{row.text}, {column.text}")
        return tuple(
            f"{reason} ({'; '.join(names)})"
            if reason not in (NOT_MEASURED, DID_NOT_HAPPEN) and len(names) <= _FEW
            else reason
            for reason, names in cells.items()
        )

    @property
    def wide(self) -> bool:
        """True if the table has too many columns for an interval beside each number."""
        return len(self.columns) > _BESIDE


@dataclass(frozen=True, slots=True)
class _Entry:
    """One value of a dimension: its heading, and the part of a quantity that it sets."""

    key: str
    heading: Heading
    metric: str | None = None
    subject: str | None = None
    where: tuple[str, str] | None = None


_OVERVIEW = (
    ("run", "slow_start_exit_s"),
    # NOTE: available_window_reached_s is the papers' and counts a window that does not stay.
    ("flow/*", "converged_s"),
    ("run", "time_to_95_percent_s"),
    ("run", "throughput_sum_bps"),
    ("link/bottleneck", "utilisation"),
    ("run", "sent_packets"),
    ("run", "lost_packets"),
    ("run", "loss_ratio"),
    ("run", "retransmitted_bytes"),
    ("run", "rtt_mean_s"),
    ("run", "rtt_p95_s"),
    ("link/bottleneck", "queue_mean_packets"),
    ("link/bottleneck", "queue_p95_packets"),
    ("link/bottleneck", "queue_max_packets"),
    ("link/bottleneck", "queue_mean_delay_s"),
    ("flow/*", "window_at_exit_packets"),
    ("flow/*", "window_settled_packets"),
    ("flow/*", "available_window_low_packets"),
    ("flow/*", "available_window_high_packets"),
    ("run", "jain"),
)
"""The rows of a comparison's table: subjects, of which "flow/*" is every flow, and metrics."""


def overview(measured: Measured) -> tuple[tuple[str, str], ...]:
    """The subjects and metrics of a comparison's table that were measured in any of its runs."""
    flows = dict.fromkeys(
        flow.subject
        for point in measured.experiment.points.values()
        for flow in point.flows
        if not flow.background
    )
    return tuple(
        (one, metric)
        for subject, metric in _OVERVIEW
        for one in (flows if subject == "flow/*" else (subject,))
        if (one, metric) in measured.values
    )


def compare(measured: Measured) -> TableView:
    """The table of a comparison: its metrics over its controllers."""
    table = Table(
        title="",
        metrics=(),
        subjects=(),
        rows="metric",
        columns=RUN_AXIS,
        where={},
        ratio_to=None,
    )
    quantities = overview(measured)
    several = len({subject for subject, _ in quantities if subject.startswith("flow/")}) > 1
    rows = []
    for subject, name in quantities:
        entry = replace(_metric_entry(subject, name, ratio=False), subject=subject)
        if several and subject.startswith("flow/"):
            text = f"{entry.heading.text}, {subject_of(subject)}"
            entry = replace(entry, heading=replace(entry.heading, text=text))
        rows.append(entry)
    caption = f"{over(measured, {}, {RUN_AXIS})}."
    points = measured.experiment.points.values()
    if any(flow.count > 1 for point in points for flow in point.flows):
        caption += " Windows are means over the flows."
    return _filled(table, measured, rows, caption)


def fill(table: Table, measured: Measured) -> TableView:
    """The table with its numbers; rows and columns without any point are left out."""
    return _filled(
        table, measured, _entries(table.rows, table, measured), _caption(table, measured)
    )


def _filled(table: Table, measured: Measured, rows: Sequence[_Entry], caption: str) -> TableView:
    columns = _entries(table.columns, table, measured)
    quantities = [[_quantity(table, row, column) for column in columns] for row in rows]
    grid = [[estimate(measured, one, table.ratio_to) for one in row] for row in quantities]
    metrics = [[metric_of(one.subject, one.metric) for one in row] for row in quantities]
    marked = _best(table, grid, metrics)
    cells = [
        tuple(
            _cell(value, None if table.ratio_to else metric, is_best)
            for value, metric, is_best in zip(values, of_row, bests, strict=True)
        )
        for values, of_row, bests in zip(grid, metrics, marked, strict=True)
    ]
    return TableView(
        title=table.title,
        caption=caption,
        corner=_corner(table),
        columns=tuple(column.heading for column in columns),
        rows=tuple(zip([row.heading for row in rows], cells, strict=True)),
    )


def quantities(table: Table) -> list[tuple[str, str]]:
    """The subjects and metrics of a table."""
    return [(subject, metric) for subject in table.subjects for metric in table.metrics]


def _entries(dimension: str, table: Table, measured: Measured) -> list[_Entry]:
    if dimension == "metric":
        ratio = table.ratio_to is not None
        return [_metric_entry(table.subjects[0], metric, ratio) for metric in table.metrics]
    if dimension == "subject":
        return [
            _Entry(subject, Heading(subject_of(subject)), subject=subject)
            for subject in table.subjects
        ]
    points = measured.experiment.points
    there = {points[n].axes.get(dimension) for n in measured.experiment.points_where(table.where)}
    values = [value for value in measured.experiment.axes.get(dimension, ()) if value in there]
    return [
        _Entry(value, heading_of(dimension, value, measured), where=(dimension, value))
        for value in values
    ]


def _metric_entry(subject: str, name: str, ratio: bool) -> _Entry:
    metric = metric_of(subject, name)
    unit = "" if ratio else metric.unit_to_show
    return _Entry(name, Heading(metric.label, unit, metric.meaning), metric=name)


def subject_of(subject: str) -> str:
    """A subject in words: the name of a flow or a link."""
    return re.sub("^(flow|link)/", "", subject)


def heading_of(axis: str, value: str, measured: Measured) -> Heading:
    """A value of an axis in words; of a run, with the controllers that are a stack's own."""
    if axis != RUN_AXIS:
        return Heading(value)
    experiment = measured.experiment
    title = {run.id: run.title for run in experiment.runs}.get(value, value)
    stacks = {one.name: one.stack for one in experiment.controllers if one.stack}
    names = experiment.controllers_of(value)
    shipped = [name for name in names if name in stacks and stacks[name] not in title]
    label = ""
    if shipped:
        label = f"{' and '.join(dict.fromkeys(stacks[name] for name in shipped))}'s, as shipped"
        if len(names) > 1:
            label = f"{', '.join(shipped)}: {label}"
    return Heading(title, label)


def _quantity(table: Table, row: _Entry, column: _Entry) -> Quantity:
    where: dict[str, tuple[str, ...]] = dict(table.where)
    for entry in (row, column):
        if entry.where is not None:
            where[entry.where[0]] = (entry.where[1],)
    return Quantity(
        row.metric or column.metric or table.metrics[0],
        row.subject or column.subject or table.subjects[0],
        where,
    )


def _best(
    table: Table, grid: Sequence[Sequence[Estimate]], metrics: Sequence[Sequence[Metric]]
) -> list[list[bool]]:
    """Marks the cells that hold the best of the compared controllers."""
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
    """Marks the best and those whose intervals overlap with its own; none if that is all."""
    found = [value for value in line if not isinstance(value, Missing)]
    top = best(metric, [value.value for value in found])
    if top is None:
        return [False] * len(line)
    winner = next(value for value in found if value.value == top)
    out = [not isinstance(value, Missing) and _alike(value, winner, metric) for value in line]
    return [False] * len(line) if sum(out) == len(found) else out


def _alike(one: Interval, other: Interval, metric: Metric) -> bool:
    """True if two values are not told apart by their intervals or by the digits that are shown."""
    return _overlap(one, other) or _shown(one, metric)[0] == _shown(other, metric)[0]


def _overlap(one: Interval, other: Interval) -> bool:
    ends = [
        (
            each.value if each.low is None else each.low,
            each.value if each.high is None else each.high,
        )
        for each in (one, other)
    ]
    return max(low for low, _ in ends) <= min(high for _, high in ends)


def _cell(value: Estimate, metric: Metric | None, is_best: bool) -> Cell:
    """A cell in the unit of a metric, or of a plain ratio."""
    if isinstance(value, Missing):
        return Cell(NOTHING, "", best=False, missing=value.reason)
    text, half = _shown(value, metric)
    return Cell(text, half, is_best, "")


def _shown(value: Interval, metric: Metric | None) -> tuple[str, str]:
    """A value and the half-width of its interval as texts."""
    scale, digits = (1.0, None) if metric is None else (metric.scale, metric.digits)
    half = half_width(value, scale)
    return show(value.value * scale, half, digits), show_half(half, digits)


def _corner(table: Table) -> str:
    return "" if table.rows in ("metric", "subject", RUN_AXIS) else table.rows


def _caption(table: Table, measured: Measured) -> str:
    by_subject = "subject" in (table.rows, table.columns)
    subject = table.subjects[0]
    if "metric" not in (table.rows, table.columns):
        metric = metric_of(subject, table.metrics[0])
        what = describe(metric, "" if by_subject else subject, table.ratio_to)
    elif table.ratio_to is not None:
        what = f"Ratios to {_other(table.ratio_to, subject)}"
    else:
        what = "" if by_subject or subject == "run" else f"Of {subject_of(subject)}"
    parts = (what, at(table.where), over(measured, table.where, {table.rows, table.columns}))
    return ". ".join(filter(None, parts)) + "."


def describe(metric: Metric, subject: str, ratio_to: Override | None) -> str:
    """A metric in words, of a subject unless that is empty, with its unit or its denominator."""
    of = f" of {subject_of(subject)}" if subject not in ("", "run") else ""
    if ratio_to is None:
        unit = f", {metric.unit_to_show}" if metric.unit_to_show else ""
        return f"{metric.label}{of}{unit}"
    return f"{metric.label}{of} over that of {_other(ratio_to, subject)}"


def _other(ratio_to: Override, subject: str) -> str:
    words = []
    if ratio_to.metric:
        words.append(metric_of(ratio_to.subject or subject, ratio_to.metric).label.lower())
    words += [subject_of(ratio_to.subject)] if ratio_to.subject else []
    words += [f"{axis} = {' or '.join(values)}" for axis, values in ratio_to.where.items()]
    return ", ".join(words)


def at(where: Where) -> str:
    """The values that axes are held at, in words."""
    words = [f"{axis} = {' or '.join(values)}" for axis, values in where.items()]
    return f"At {', '.join(words)}" if words else ""


def over(measured: Measured, where: Where, used: set[str]) -> str:
    """The axes and seeds over which means are taken, in words."""
    experiment = measured.experiment
    points = [experiment.points[number] for number in experiment.points_where(where)]
    loose = [
        axis
        for axis in experiment.axes
        if axis not in used and len({point.axes.get(axis) for point in points}) > 1
    ]
    seeds = experiment.seeds
    words = [f"over {' and '.join(loose)}"] if loose else []
    words += [f"over {len(seeds)} seeds, ± 95 % interval"] if len(seeds) > 1 else []
    return f"Means {' and '.join(words)}" if words else f"One run with seed {seeds[0]}"
