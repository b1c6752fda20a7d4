"""The cells of an evaluation as texts: a controller in a scenario, against its limits."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from markupsafe import Markup, escape

from qlog_analysis.experiments.evaluation import (
    Cell,
    Goal,
    Held,
    Limit,
    Reached,
    Sampled,
    Scenario,
)
from qlog_analysis.metrics.definitions import Metric, find
from qlog_analysis.metrics.numbers import NOTHING, half_width, show, show_half
from qlog_analysis.metrics.statistics import Interval
from qlog_analysis.reports.tables import subject_of

Look = Literal["in-3", "in-2", "in-1", "out-1", "out-2", "out-3", "broken", "missing"]
"""From far inside the limits to far outside; also the names of classes and colours."""

NEAR, FAR = 0.1, 0.5
"""Distances from a limit that are near to it, or far from it."""

MARKS: dict[Look, str] = {
    "in-3": "✓",
    "in-2": "✓",
    "in-1": "✓",
    "out-1": "✗",
    "out-2": "✗✗",
    "out-3": "✗✗✗",
    "broken": "!",
    "missing": "",
}
"""Marks, which tell cells apart without colour."""

_VERDICTS = {
    "pass": "passes",
    "fail": "fails",
    "broken": "a run failed",
    "missing": "not run",
}


@dataclass(frozen=True, slots=True)
class GoalField:
    """The scenarios that meet a goal, or the mean; and the value that is furthest from it."""

    text: str
    tip: str
    look: Look


def look_of(cell: Cell) -> Look:
    """The look of a cell."""
    if cell.verdict == "broken":
        return "broken"
    if cell.verdict == "missing":
        return "missing"
    # A verdict without a distance is shown as one near the limit.
    far = abs(cell.distance or 0.0)
    degree = 3 if far >= FAR else 2 if far >= NEAR else 1
    if cell.verdict == "pass":
        return ("in-1", "in-2", "in-3")[degree - 1]
    return ("out-1", "out-2", "out-3")[degree - 1]


def metric_shown(subject: str, name: str, unit: str) -> Metric:
    """The metric of the table, or one that shows base units if a newer simulator knows it."""
    found = find(subject, name)
    if found is not None and found.unit == unit:
        return found
    return Metric(subject, name, unit, name, unit, 1.0, 3, None, "")


def metric_of_limit(limit: Limit, held: Held | None) -> Metric:
    """The metric that a limit is about."""
    if held is not None and held.value is not None:
        return metric_shown(limit.subject, limit.metric, held.value.unit)
    return find(limit.subject, limit.metric) or metric_shown(limit.subject, limit.metric, "")


def title_of(limit: Limit, metric: Metric) -> str:
    """A limit's metric in words, with its subject."""
    return (
        f"{metric.label}, {subject_of(limit.subject)}" if limit.subject != "run" else metric.label
    )


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}".strip()


def bound_of(limit: Limit, held: Held, metric: Metric) -> str:
    """What a limit allows, in words."""
    side = "at least" if limit.low is not None else "at most"
    bound = None if held.bound is None else held.bound * metric.scale
    return f"{side} {_with_unit(show(bound), metric.unit_to_show)}"


def expression_of(limit: Limit) -> str:
    """The expression of a bound, empty if it is only a number."""
    text = limit.low if limit.low is not None else limit.high or ""
    return "" if re.fullmatch(r"[-+.\de_]+", text) else text


def away(distance: float | None) -> str:
    """The distance from a bound in words."""
    if distance is None or not math.isfinite(distance):
        return NOTHING
    part = abs(distance)
    text = f"{part:.1%}" if part < NEAR else f"{part:.0%}"
    return f"{text.replace('%', ' %')} {'inside' if distance >= 0 else 'outside'}"


def worst(cell: Cell) -> int | None:
    """The number of the limit that is kept the least; None if nothing was measured."""
    known = [
        (held.verdict == "pass", math.inf if held.distance is None else held.distance, number)
        for number, held in enumerate(cell.limits)
        if held.verdict != "missing"
    ]
    return min(known)[2] if known else None


def figure_of(scenario: Scenario, cell: Cell) -> str:
    """The value that is nearest to its limit, or farthest outside, against its bound."""
    number = worst(cell)
    if cell.verdict == "broken":
        return cell.failures[0] if cell.failures else ""
    if number is None or cell.verdict == "missing":
        return ""
    limit, held = scenario.limits[number], cell.limits[number]
    metric = metric_of_limit(limit, held)
    shown = NOTHING if held.value is None else _without_interval(held.value, metric)
    return f"{title_of(limit, metric)} {shown}, {bound_of(limit, held, metric)}"


def _without_interval(value: Sampled, metric: Metric) -> str:
    if value.mean is None:
        return _under_some_seeds(value)
    return _with_unit(show(value.mean * metric.scale), metric.unit_to_show)


def reached(goal: Goal, result: Reached | None) -> GoalField:
    """A controller's field in the row of a goal."""
    if result is None:
        return GoalField("", "", "missing")
    metric = find(goal.subject, goal.metric) or metric_shown(goal.subject, goal.metric, "")
    value = "never"
    if result.value is not None:
        value = _with_unit(show(result.value * metric.scale), metric.unit_to_show)
    where = "" if result.scenario is None else f", {result.scenario}"
    counted = "" if result.scenario is None else f"{result.met}/{result.of}"
    return GoalField(counted or value, f"{value}{where}", "in-2" if result.is_reached else "out-2")


def _under_some_seeds(value: Sampled) -> str:
    there = sum(one is not None for one in value.values)
    return f"under {there} of {len(value.values)} seeds only"


def tip_of(name: str, scenario: Scenario, cell: Cell) -> str:
    """A cell in a sentence."""
    figure = figure_of(scenario, cell)
    return f"{name}: {_VERDICTS[cell.verdict]}{'. ' if figure else ''}{figure}"


def verdict_of(cell: Cell) -> str:
    """The verdict in words."""
    return _VERDICTS[cell.verdict]


def prose(text: str) -> Markup:
    """Text of a file, with what is between backticks as code."""
    # Escaping comes first and leaves backticks alone, so that only our own tags are in the result.
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def anchor(*names: str) -> str:
    """The name of a place in the page."""
    return "/".join(names)


def link(*names: str) -> str:
    """The link to it."""
    return "#" + quote(anchor(*names), safe="/:=,.@+")


def shown(value: Sampled | None, subject: str, name: str) -> str:
    """A measured value with its interval and unit."""
    if value is None:
        return NOTHING
    return measured(value, metric_shown(subject, name, value.unit))


def measured(value: Sampled, metric: Metric) -> str:
    """A value with its interval and unit."""
    if value.mean is None:
        return _under_some_seeds(value)
    half = half_width(Interval(value.mean, value.low, value.high), metric.scale)
    number = show(value.mean * metric.scale, half)
    return _with_unit(f"{number} {show_half(half)}".strip(), metric.unit_to_show)


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit of a cell as texts."""

    mark: str
    title: str
    tip: str
    measured: str
    bound: str
    expression: str
    away: str
    why: Markup
    values: str


def limit_rows(scenario: Scenario, cell: Cell) -> list[LimitRow]:
    """The limits of a cell, those outside first."""
    out = []
    for limit, held in zip(scenario.limits, cell.limits, strict=False):
        metric = metric_of_limit(limit, held)
        values = [] if held.value is None else held.value.values
        out.append(
            LimitRow(
                mark={"pass": "✓", "fail": "✗"}.get(held.verdict, NOTHING),
                title=title_of(limit, metric),
                tip=metric.meaning,
                measured="not measured" if held.value is None else measured(held.value, metric),
                bound=bound_of(limit, held, metric),
                expression=expression_of(limit),
                away=away(held.distance),
                why=prose(limit.why),
                values=" ".join(show(one and one * metric.scale) for one in values)
                if len(values) > 1
                else "",
            )
        )
    return sorted(out, key=lambda row: row.mark != "✗")


def against(cell: Cell, names: dict[str, str]) -> list[str]:
    """A cell against the best of the other controllers, in words."""
    best = cell.against_best
    parts: Sequence[tuple[str, float | None, str | None]] = (
        ("throughput", best.throughput, best.of.throughput),
        ("delay", best.delay, best.of.delay),
        ("throughput over delay", best.power, best.of.power),
    )
    return [
        f"{show(ratio)} times the {what} of {names.get(of, of) if of else 'the best'}"
        for what, ratio, of in parts
        if ratio is not None
    ]
