"""The pictures of an evaluation."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from markupsafe import Markup

from qlog_analysis.drawing import panels
from qlog_analysis.drawing.panels import MOST_LINES, Line, Part, Spot
from qlog_analysis.experiments.evaluation import Cell, Scenario, Share
from qlog_analysis.metrics.definitions import metric_of
from qlog_analysis.metrics.series import Series
from qlog_analysis.metrics.statistics import ellipse
from qlog_analysis.reports.cells import shown, verdict_of
from qlog_analysis.reports.tables import subject_of

Looks = Mapping[str, int]
"""The number of each controller's look."""

TESTED = "flow/tested"
"""The flow of the controller that is tested; others are its company."""

_THROUGHPUT = metric_of("flow/", "throughput_bps")
_DELAY = metric_of("flow/", "rtt_mean_s")


def throughput_against_delay(
    scenario: Scenario, looks: Looks, names: Mapping[str, str]
) -> Markup | None:
    """The controllers of a scenario with their ellipses; None if nothing was measured."""
    spots = [
        spot
        for one in looks
        if (spot := _spot(scenario.cell(one), looks[one], names[one])) is not None
    ]
    if not spots:
        return None
    return panels.scatter(spots, f"Throughput against delay: {scenario.name}")


def _spot(cell: Cell, look: int, name: str) -> Spot | None:
    throughput, delay = cell.throughput_bps, cell.delay_s
    if throughput is None or delay is None or throughput.mean is None or delay.mean is None:
        return None
    if not math.isfinite(throughput.mean) or not math.isfinite(delay.mean):
        return None
    pairs = [
        (x * _DELAY.scale, y * _THROUGHPUT.scale)
        for x, y in zip(delay.values, throughput.values, strict=False)
        if x is not None and y is not None and math.isfinite(x) and math.isfinite(y)
    ]
    # Values of other seeds than each other's are no pairs.
    whole = len(delay.values) == len(throughput.values)
    texts = (
        shown(throughput, "flow/", _THROUGHPUT.name),
        shown(delay, "flow/", _DELAY.name),
        verdict_of(cell),
    )
    return Spot(
        look=look,
        delay=delay.mean * _DELAY.scale,
        throughput=throughput.mean * _THROUGHPUT.scale,
        ellipse=ellipse(*zip(*pairs, strict=True)) if whole and pairs else None,
        tip=f"{name}: {', '.join(texts)}",
        hollow=cell.failed,
    )


def shares(scenario: Scenario, looks: Looks, names: Mapping[str, str]) -> Markup | None:
    """The shares of foreground flows; None if no controller had two of them."""
    rows = []
    members = 0
    for one, look in looks.items():
        cell = scenario.cell(one)
        if len(cell.shares) < 2:
            continue
        members = max(members, len(cell.shares))
        rows.append((names[one], [_part(share, cell, look) for share in cell.shares]))
    if not rows:
        return None
    return panels.bars(rows, members, f"Shares of the flows: {scenario.name}")


def _part(share: Share, cell: Cell, look: int) -> Part:
    bps = share.throughput_bps if math.isfinite(share.throughput_bps) else 0.0
    return Part(
        value=max(0.0, bps),
        look=look if _is_tested(share.subject, cell) else None,
        tip=f"{_member(share.subject, share.index, share.cc)}: "
        f"{_THROUGHPUT.show(share.throughput_bps)} {_THROUGHPUT.shown_unit}",
    )


def _is_tested(subject: str, cell: Cell) -> bool:
    subjects = {share.subject for share in cell.shares}
    return subject == TESTED or TESTED not in subjects


def _member(subject: str, index: int, cc: str) -> str:
    name = f"{subject_of(subject)} {index + 1}"
    return f"{name} ({cc})" if cc else name


def over_time(table: pl.DataFrame, cell: Cell, look: int, name: str) -> list[Markup]:
    """Throughput, window and RTT of the flows, and the queues, of one run."""
    until = float(table["time_s"].max() or 0.0)  # type: ignore[arg-type]
    if until <= 0:
        return []
    out = []
    for kind, metric in (
        ("flow", "throughput_bps"),
        ("flow", "cwnd_packets"),
        ("flow", "srtt_s"),
        ("link", "queue_packets"),
    ):
        found = metric_of(f"{kind}/", metric, over_time=True)
        lines = [
            Line(
                name=_member(subject, index, cc) if kind == "flow" else subject_of(subject),
                look=look if kind == "link" or _is_tested(subject, cell) else None,
                series=_series(part, found.scale),
            )
            for (subject, index, cc), part in table.filter(
                pl.col("subject").str.starts_with(f"{kind}/") & (pl.col("metric") == metric)
            )
            .partition_by("subject", "index", "cc", as_dict=True, maintain_order=True)
            .items()
        ]
        if not lines:
            continue
        lines.sort(key=lambda line: (line.look is None, line.name))
        unit = f", {found.unit_to_show}" if found.unit_to_show else ""
        out.append(
            panels.over_time(
                f"{found.label}{unit}",
                lines[:MOST_LINES],
                until,
                f"{found.label} over time: {name}",
                _drops(table) if metric == "queue_packets" else None,
            )
        )
    return out


def _series(part: pl.DataFrame, scale: float = 1.0) -> Series:
    return Series(part["time_s"].to_numpy(), part["value"].to_numpy() * scale)


def _drops(table: pl.DataFrame) -> Series:
    rows = table.filter(
        pl.col("subject").str.starts_with("link/")
        & (pl.col("metric") == "drops")
        & (pl.col("value") > 0)
    )
    return _series(rows) if len(rows) else Series(np.empty(0), np.empty(0))


def lines_left_out(cell: Cell) -> int:
    """The foreground flows that a picture over time has no room for."""
    return max(0, len(cell.shares) - MOST_LINES)


def drawn_cells(scenarios: Sequence[Scenario]) -> list[tuple[Scenario, Cell]]:
    """The cells that are drawn over time: each scenario's best, then those that fail, worst first.

    Cells without a point were not run.
    """
    failing = [
        (scenario, cell)
        for scenario in scenarios
        for cell in scenario.cells
        if cell.failed and cell.points
    ]
    failing.sort(key=lambda pair: pair[1].distance if pair[1].distance is not None else -math.inf)
    best = [
        (scenario, scenario.best)
        for scenario in scenarios
        if scenario.best is not None and scenario.best.points and not scenario.best.failed
    ]
    return best + failing
