"""The section of a report on one experiment, and the metrics that a report names."""

from collections.abc import Iterable, Sequence
from typing import Any

from qlog_analysis.experiments.measured import Missing
from qlog_analysis.experiments.model import Controller, Experiment
from qlog_analysis.experiments.verdicts import Outcome, Verdict
from qlog_analysis.metrics.definitions import Metric, metric_of
from qlog_analysis.metrics.numbers import NOTHING, half_width, show_half
from qlog_analysis.reports import charts, graphs, tables
from qlog_analysis.reports.pages import ClaimRow, allowed, number


def section(outcome: Outcome) -> dict[str, Any]:
    """An experiment for the templates: its facts, tables, plots and claims."""
    measured = outcome.measured
    experiment = measured.experiment
    claims = len(outcome.verdicts)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "command": experiment.command,
        "facts": _facts(experiment),
        "tally": f"{reproduced(outcome.verdicts)} of {claims}" if claims else "",
        "failures": [
            f"The run at {measured.where(point)}, seed {seed}, failed: {reason}"
            for (point, seed), reason in sorted(measured.failed.items())
        ],
        "tables": [tables.fill(table, measured) for table in experiment.tables],
        "charts": [
            charts.fill(plot, measured, f"{experiment.name}-{place}")
            for place, plot in enumerate(experiment.plots)
            if plot.kind != "trace"
        ],
        "graphs": [
            graph
            for place, plot in enumerate(experiment.plots)
            if plot.kind == "trace"
            for graph in graphs.fill(plot, measured, f"{experiment.name}-{place}")
        ],
        "claims": [claim_row(verdict) for verdict in outcome.verdicts],
    }


def _facts(experiment: Experiment) -> str:
    points = len(experiment.points)
    facts = [
        experiment.source,
        f"{points} points" if points != 1 else "one point",
        seeds(experiment),
        f"{experiment.packet_bytes} stream bytes in a packet",
    ]
    return " · ".join(filter(None, facts))


def seeds(experiment: Experiment) -> str:
    """The seeds of an experiment in words."""
    first, last = experiment.seeds[0], experiment.seeds[-1]
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


def controllers(experiments: Iterable[Experiment]) -> list[Controller]:
    """The controllers of all flows but those in the background, each once."""
    found: dict[str, Controller] = {}
    for experiment in experiments:
        used = {
            flow.controller
            for point in experiment.points.values()
            for flow in point.flows
            if not flow.background
        }
        for one in experiment.controllers:
            if one.name in used:
                found.setdefault(one.name, one)
    return list(found.values())


def reproduced(verdicts: Sequence[Verdict]) -> int:
    """The number of claims that are reproduced."""
    return sum(verdict.reproduced for verdict in verdicts)


def claim_row(verdict: Verdict) -> ClaimRow:
    """A claim as texts."""
    claim, measured = verdict.claim, verdict.measured
    found = None if isinstance(measured, Missing) else measured
    return ClaimRow(
        title=claim.title,
        source=claim.source,
        status=verdict.status,
        paper=number(claim.paper),
        measured=NOTHING if found is None else number(found.value),
        allowed=allowed(claim.low, claim.high),
        unit=claim.unit,
        note=verdict.why,
        interval="" if found is None else show_half(half_width(found)),
        robust=claim.robust,
        anchor=f"claim-{claim.id}",
    )


_Named = tuple[str, str, bool]


def named(experiment: Experiment) -> Iterable[_Named]:
    """The metrics of an experiment's tables and plots: subject, name, over time."""
    for table in experiment.tables:
        yield from ((subject, name, False) for subject, name in tables.quantities(table))
    for plot in experiment.plots:
        if plot.kind != "trace":
            yield plot.subjects[0], plot.metric, plot.kind == "time"


def definitions(names: Iterable[_Named]) -> list[Metric]:
    """The metrics of these names, each once."""
    found = (metric_of(subject, name, over_time=timed) for subject, name, timed in names)
    return list(dict.fromkeys(found))
