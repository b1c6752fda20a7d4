"""The metrics of the project: name, unit, label, direction and meaning.

`metrics.json` is the one table of them. It is generated from the simulator's own table (see
docs/metrics.md), so that a metric has the same name, unit and meaning in the simulator's files and
in every report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from qlog_analysis.errors import LayoutError
from qlog_analysis.metrics.numbers import NOTHING, show

FILE = "metrics.json"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a kind of subject.

    Attributes:
        subject: the kind of subject: "flow", "link", "run" or "analysis".
        name: its name in files.
        unit: the unit of its values in files, empty for a count or a ratio.
        label: its name in tables, without unit.
        shown_unit: the unit in which people see it.
        scale: the factor from `unit` to `shown_unit`.
        digits: the digits after the point that people see of a single value.
        better: the direction that is good, None if neither is.
        meaning: its definition.
    """

    subject: str
    name: str
    unit: str
    label: str
    shown_unit: str
    scale: float
    digits: int
    better: Literal["low", "high"] | None
    meaning: str

    @property
    def unit_to_show(self) -> str:
        """The unit to show beside the label, empty if the label has it: "Packets sent"."""
        return "" if self.shown_unit in self.label.lower().split() else self.shown_unit

    def show(self, value: object) -> str:
        """A value as people see it, without the unit."""
        if not isinstance(value, int | float):
            return NOTHING
        return show(value * self.scale, digits=self.digits)


class _Shown(msgspec.Struct):
    unit: str
    scale: float
    digits: int


class _Entry(msgspec.Struct, rename="kebab"):
    name: str
    subject: str
    over_time: bool
    unit: str
    label: str
    shown: _Shown
    better: Literal["low", "high"] | None
    meaning: str


_Key = tuple[str, str, bool]


@cache
def _table() -> dict[_Key, Metric]:
    """The metrics by kind of subject, name and whether they are values over time."""
    text = files("qlog_analysis.metrics").joinpath(FILE).read_bytes()
    return {
        (entry.subject, entry.name, entry.over_time): Metric(
            entry.subject,
            entry.name,
            entry.unit,
            entry.label,
            entry.shown.unit,
            entry.shown.scale,
            entry.shown.digits,
            entry.better,
            entry.meaning,
        )
        for entry in msgspec.json.decode(text, type=list[_Entry])
    }


def kind_of(subject: str) -> str:
    """The kind of a subject: "flow" of "flow/long", "link" of "link/bottleneck"."""
    return subject.partition("/")[0]


def find(subject: str, name: str, *, over_time: bool = False) -> Metric | None:
    """The metric of this name of a subject, None if there is none."""
    return _table().get((kind_of(subject), name, over_time))


def metric_of(subject: str, name: str, *, over_time: bool = False) -> Metric:
    """The metric of this name of a subject.

    Raises:
        LayoutError: there is none.
    """
    metric = find(subject, name, over_time=over_time)
    if metric is None:
        kind = kind_of(subject)
        known = ", ".join(
            known for of, known, timed in _table() if of == kind and timed == over_time
        )
        when = " over time" if over_time else ""
        there = f"expected one of {known}" if known else "there are none"
        raise LayoutError(f"no metric {name!r} of {subject!r}{when}; {there}")
    return metric


def position(metric: Metric) -> int:
    """The place of a metric in the table."""
    return list(_table().values()).index(metric)


def best(metric: Metric, values: Sequence[Any]) -> float | None:
    """The best of some values, None if no direction is good or they do not differ."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if metric.better is None or len(set(numbers)) < 2:
        return None
    return min(numbers) if metric.better == "low" else max(numbers)
