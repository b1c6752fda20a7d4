"""The page on an evaluation, as one HTML file that needs nothing else.

Numbers come from evaluation.json, and pictures over time from each family's series.parquet.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from qlog_analysis.drawing import panels
from qlog_analysis.drawing.style import COLOURS
from qlog_analysis.experiments.evaluation import (
    Cell,
    Controller,
    Evaluation,
    Family,
    Scenario,
    Tally,
    read_series,
)
from qlog_analysis.metrics.definitions import Metric, find
from qlog_analysis.metrics.numbers import show
from qlog_analysis.reports import cells
from qlog_analysis.reports import evaluation_pictures as pictures
from qlog_analysis.reports.pages import environment

PAGE = "evaluation.html"

BUDGET_BYTES = 15_000_000
"""The most that a page with 200 scenarios, 8 controllers and 10 seeds may have."""

PICTURES_BYTES = 7_000_000
"""The part of it that pictures over time may have."""

_NOT_DRAWN = "Left out: the page has no room for more pictures."


def write(
    evaluation: Evaluation,
    directory: Path,
    out: Path,
    on_start: Callable[[int], Callable[[int], None]] = lambda _: lambda _: None,
) -> Path:
    """Writes the page.

    Args:
        evaluation: the evaluation.
        directory: its directory.
        out: the file to write; links to traces are relative to it.
        on_start: given the number of families; returns a function that is told of each.

    Returns:
        The path of the page.

    Raises:
        LayoutError: a series.parquet is not a table as described.
        OSError: the file cannot be written.
    """
    text = html(evaluation, directory, out.parent, on_start(len(evaluation.families)))
    unfinished = out.with_name(out.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return out


def html(
    evaluation: Evaluation,
    directory: Path,
    place: Path,
    on_family: Callable[[int], None] = lambda _: None,
    pictures_bytes: int = PICTURES_BYTES,
) -> str:
    """The page as text.

    Args:
        evaluation: the evaluation.
        directory: its directory.
        place: the directory from which links to traces lead.
        on_family: called with 1 after each family.
        pictures_bytes: the most bytes of pictures over time.
    """
    looks = {one.id: number for number, one in enumerate(evaluation.controllers)}
    page = _Page(
        controllers=evaluation.best_first(),
        looks=looks,
        names={one.id: one.name for one in evaluation.controllers},
        traces=os.path.relpath(directory, place),
    )
    drawn = [len(pictures.drawn_cells(family.scenarios)) for family in evaluation.families]
    families, left_out, spent = [], 0, 0
    for number, family in enumerate(evaluation.families):
        # Each family has a part of the room by its cells, and what those before have left.
        room = pictures_bytes * sum(drawn[: number + 1]) // max(1, sum(drawn)) - spent
        over_time = _over_time(family, directory, page, room)
        spent += sum(len(one) for svgs in over_time.values() for one in svgs)
        left_out += drawn[number] - len(over_time)
        families.append(page.family(family, over_time))
        on_family(1)
    return (
        environment()
        .get_template("evaluation.html")
        .render(
            title=evaluation.title,
            command=evaluation.command,
            facts=_facts(evaluation),
            not_run=evaluation.not_run,
            missing=_missing(evaluation),
            broken=_count(evaluation, "broken"),
            controllers=page.columns(),
            headline=_headline(evaluation, page),
            families=families,
            scale=[(look, cells.MARKS[look], text) for look, text in _SCALE],
            near=f"{cells.NEAR:.0%}".replace("%", " %"),
            far=f"{cells.FAR:.0%}".replace("%", " %"),
            left_out=left_out,
            drawn=sum(drawn),
            first_seed=evaluation.first_seed,
            most_lines=panels.MOST_LINES,
            budget=f"{BUDGET_BYTES / 1e6:g}",
            pictures_budget=f"{pictures_bytes / 1e6:g}",
            looks=len(COLOURS),
            definitions=_definitions(evaluation),
        )
    )


_SCALE: tuple[tuple[cells.Look, str], ...] = (
    ("in-3", "passes, far inside all limits"),
    ("in-2", "passes"),
    ("in-1", "passes, near a limit"),
    ("out-1", "fails, near the limit"),
    ("out-2", "fails"),
    ("out-3", "fails, far outside"),
    ("broken", "a run failed"),
    ("missing", "not run"),
)


def _count(evaluation: Evaluation, verdict: str) -> int:
    return sum(
        scenario.cell(one.id).verdict == verdict
        for family in evaluation.families
        for scenario in family.scenarios
        for one in evaluation.controllers
    )


def _missing(evaluation: Evaluation) -> str:
    count = _count(evaluation, "missing")
    if not count:
        return ""
    scenarios = sum(len(family.scenarios) for family in evaluation.families)
    return f"{count:,} of {scenarios * len(evaluation.controllers):,} cells were not run."


def _facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    scenarios = [one for family in evaluation.families for one in family.scenarios]
    facts = [
        ("Scenarios", f"{len(scenarios)} in {_families(len(evaluation.families))}"),
        ("Controllers", f"{len(evaluation.controllers)}"),
        ("Seeds", _seeds(evaluation, scenarios)),
    ]
    if evaluation.fast:
        facts.append(("Extent", "fast: a part of the whole evaluation"))
    if evaluation.fresh is not None:
        facts.append(("Parameters", f"drawn anew, with seed {evaluation.fresh}"))
    return facts


def _families(count: int) -> str:
    return "one family" if count == 1 else f"{count} families"


def _seeds(evaluation: Evaluation, scenarios: Sequence[Scenario]) -> str:
    counts = {evaluation.seeds} if evaluation.seeds else {one.seeds for one in scenarios}
    known = sorted(count for count in counts if count)
    if not known:
        return f"from {evaluation.first_seed}"
    least, most = known[0], known[-1]
    count = f"{most}" if least == most else f"{least} to {most}"
    return f"{count} in each scenario, from {evaluation.first_seed}"


@dataclass(frozen=True, slots=True)
class _Tile:
    """A number of scenarios passed."""

    text: str
    part: float
    look: str


def _tile(passed: int, of: int) -> _Tile:
    if not of:
        return _Tile("", 0.0, "missing")
    part = passed / of
    look = "in-2" if part == 1 else "in-1" if part >= 0.8 else "out-1" if part >= 0.5 else "out-2"
    return _Tile(f"{passed}/{of}", part, look)


def _headline(evaluation: Evaluation, page: "_Page") -> list[dict[str, Any]]:
    tallies = {one.controller: one for one in evaluation.summary}
    rows = []
    for controller in page.controllers:
        tally = tallies[controller.id]
        each = [tally.families.get(one.id, Tally(0, 0)) for one in evaluation.families]
        rows.append(
            {
                "controller": page.controller(controller),
                "total": _tile(tally.passed, tally.of),
                "families": [_tile(one.passed, one.of) for one in each],
            }
        )
    return rows


def _definitions(evaluation: Evaluation) -> list[Metric]:
    found = (
        find(limit.subject, limit.metric)
        for family in evaluation.families
        for scenario in family.scenarios
        for limit in scenario.limits
    )
    return list(dict.fromkeys(metric for metric in found if metric is not None))


_Pictures = Mapping[tuple[str, str], Sequence[Markup]]
"""Pictures over time by scenario and controller."""


def _over_time(family: Family, directory: Path, page: "_Page", room: int) -> _Pictures:
    """The pictures over time that there is room for."""
    wanted = pictures.drawn_cells(family.scenarios)
    tables = read_series(directory / family.directory, (cell.points[0] for _, cell in wanted))
    out = {}
    for scenario, cell in wanted:
        key = (scenario.id, cell.controller)
        name = f"{page.names[cell.controller]}, {scenario.name}"
        table = tables.get(cell.points[0])
        drawn = []
        if table is not None:
            drawn = pictures.over_time(table, cell, page.looks[cell.controller], name)
        room -= sum(map(len, drawn))
        if room < 0:
            break
        out[key] = drawn
    return out


def _praise(best: Cell | None) -> str:
    return "the best here" if best is not None and not best.failed else "the least far outside"


@dataclass(frozen=True, slots=True)
class _Page:
    """What the parts of the page share; `traces` leads to the evaluation's directory."""

    controllers: Sequence[Controller]
    looks: pictures.Looks
    names: Mapping[str, str]
    traces: str

    def columns(self) -> list[dict[str, Any]]:
        return [self.controller(one) for one in self.controllers]

    def controller(self, controller: Controller) -> dict[str, Any]:
        return {
            "id": controller.id,
            "name": controller.name,
            "cc": controller.cc,
            "summary": controller.summary,
            "stack": controller.stack,
            "sample": panels.sample(self.looks[controller.id]),
        }

    def family(self, family: Family, over_time: _Pictures) -> dict[str, Any]:
        scenarios = family.failures_first()
        return {
            "anchor": family.id,
            "link": cells.link(family.id),
            "name": family.name,
            "file": family.file,
            "about": [cells.prose(part) for part in family.about.split("\n\n") if part.strip()],
            "passed": [self._passed(family, one.id) for one in self.controllers],
            "scenarios": [self._scenario(family, one, over_time) for one in scenarios],
            "goals": [
                {
                    "title": goal.title,
                    "fields": [
                        cells.reached(goal, goal.result(one.id)) for one in self.controllers
                    ],
                }
                for goal in family.goals
                if goal.results
            ],
            "scatter": self._panels(family, scenarios, pictures.throughput_against_delay),
            "shares": self._panels(family, scenarios, pictures.shares),
        }

    def _passed(self, family: Family, controller: str) -> _Tile:
        ran = [one.cell(controller) for one in family.scenarios]
        ran = [cell for cell in ran if cell.verdict != "missing"]
        return _tile(sum(cell.verdict == "pass" for cell in ran), len(ran))

    def _panels(
        self,
        family: Family,
        scenarios: Sequence[Scenario],
        draw: Callable[[Scenario, pictures.Looks, Mapping[str, str]], Markup | None],
    ) -> list[dict[str, Any]]:
        out = []
        for scenario in scenarios:
            looks = {one.id: self.looks[one.id] for one in self.controllers}
            picture = draw(scenario, looks, self.names)
            if picture is not None:
                link = cells.link(family.id, scenario.id)
                out.append({"name": scenario.name, "link": link, "picture": picture})
        return out

    def _scenario(self, family: Family, scenario: Scenario, over_time: _Pictures) -> dict[str, Any]:
        best = scenario.best
        return {
            "anchor": cells.anchor(family.id, scenario.id),
            "link": cells.link(family.id, scenario.id),
            "name": scenario.name,
            "about": cells.prose(scenario.about),
            "seeds": scenario.seeds,
            "parameters": [f"{key} {value}" for key, value in scenario.parameters.items()],
            "failing": scenario.failing,
            "cells": [
                self._cell(family, scenario, scenario.cell(one.id), best, over_time)
                for one in self.controllers
            ],
        }

    def _cell(
        self,
        family: Family,
        scenario: Scenario,
        cell: Cell,
        best: Cell | None,
        over_time: _Pictures,
    ) -> dict[str, Any]:
        name = self.names[cell.controller]
        look = cells.look_of(cell)
        is_best = best is not None and best.controller == cell.controller
        drawn = over_time.get((scenario.id, cell.controller))
        wanted = bool(cell.points) and (cell.failed or is_best)
        return {
            "anchor": cells.anchor(family.id, scenario.id, cell.controller),
            "link": cells.link(family.id, scenario.id, cell.controller),
            "name": name,
            "sample": panels.sample(self.looks[cell.controller]),
            "look": look,
            "mark": cells.MARKS[look],
            "tip": cells.tip_of(name, scenario, cell),
            "verdict": cells.verdict_of(cell),
            "figure": cells.figure_of(scenario, cell),
            "throughput": cells.shown(cell.throughput_bps, "flow/", "throughput_bps"),
            "delay": cells.shown(cell.delay_s, "flow/", "rtt_mean_s"),
            "seeds": [
                (label, " ".join(show(one and one * scale) for one in value.values))
                for label, value, scale in (
                    ("Throughput, Mbit/s", cell.throughput_bps, 1e-6),
                    ("RTT, ms", cell.delay_s, 1e3),
                )
                if value is not None and len(value.values) > 1
            ],
            "seeds_run": cell.seeds_run,
            "limits": cells.limit_rows(scenario, cell),
            "against": cells.against(cell, dict(self.names)),
            "failures": cell.failures,
            "traces": [
                (trace, quote(f"{self.traces}/{family.directory}/{trace}")) for trace in cell.traces
            ],
            "command": cell.command,
            "pictures": drawn or [],
            "lines_left_out": pictures.lines_left_out(cell) if drawn else 0,
            "not_drawn": _NOT_DRAWN if wanted and drawn is None else "",
            "is_best": is_best,
            "praise": _praise(best),
            "best": None
            if best is None or is_best
            else {
                "name": self.names[best.controller],
                "link": cells.link(family.id, scenario.id, best.controller),
            },
        }
