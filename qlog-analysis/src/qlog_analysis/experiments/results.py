"""A comparison with what was measured in it, and its summary as JSON and CSV."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.comparison import Claim, Comparison, Group, Run, read_comparison
from qlog_analysis.experiments.reduction import FlowResult, Task, reduce_flows
from qlog_analysis.metrics.definitions import BY_KEY
from qlog_analysis.metrics.runs import RunMetrics, run_metrics


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run, its numbers, and its flows reduced."""

    run: Run
    metrics: RunMetrics
    flows: tuple[FlowResult, ...]


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group and the results of its runs, in order."""

    group: Group
    runs: tuple[RunResult, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim beside what was measured of it."""

    claim: Claim
    measured: float | None

    @property
    def reproduced(self) -> bool:
        """Whether the measured value lies in the allowed interval."""
        return self.claim.reproduced(self.measured)


@dataclass(frozen=True, slots=True)
class Results:
    """A comparison and all that was measured in it."""

    comparison: Comparison
    groups: tuple[GroupResult, ...]
    verdicts: tuple[Verdict, ...]

    def warnings(self) -> Iterator[str]:
        """What was left out of the traces, one line per file."""
        for group in self.groups:
            for run in group.runs:
                for flow in run.flows:
                    for warning in flow.course.warnings:
                        yield f"{group.group.id}/{run.run.id}/{flow.metrics.trace}: {warning}"


def traces_bytes(comparison: Comparison) -> int:
    """The size of all traces together; those that are missing count nothing."""
    traces = (f.trace for group in comparison.groups for run in group.runs for f in run.flows)
    return sum(trace.stat().st_size for trace in traces if trace.exists())


def analyse(directory: Path, on_start: Callable[[int], Callable[[int], None]]) -> Results:
    """Reads a comparison's directory and measures its runs.

    Args:
        directory: as described in `comparison`.
        on_start: given the size of all traces in bytes; gives what to tell of bytes read.

    Raises:
        AnalysisError: a file is missing or senseless.
    """
    comparison = read_comparison(directory)
    for claim in comparison.claims:
        _check(claim, comparison)
    tasks: list[Task] = [
        Task(flow, run, group.scenario)
        for group in comparison.groups
        for run in group.runs
        for flow in run.flows
    ]
    reduced = iter(reduce_flows(tasks, on_start(traces_bytes(comparison))))
    groups = []
    for group in comparison.groups:
        runs = []
        for run in group.runs:
            flows = tuple(next(reduced) for _ in run.flows)
            metrics = run_metrics(
                run,
                group.scenario,
                [flow.metrics for flow in flows],
                [flow.rtts_ms for flow in flows],
            )
            runs.append(RunResult(run, metrics, flows))
        groups.append(GroupResult(group, tuple(runs)))
    measured = {f"{g.group.id}/{r.run.id}": r.metrics for g in groups for r in g.runs}
    return Results(
        comparison,
        tuple(groups),
        tuple(Verdict(c, getattr(measured[c.run], c.metric)) for c in comparison.claims),
    )


def _check(claim: Claim, comparison: Comparison) -> None:
    where = f"{comparison.directory / 'comparison.json'}: claim {claim.raw.get('id')!r}"
    runs = [f"{group.id}/{run.id}" for group in comparison.groups for run in group.runs]
    if claim.run not in runs:
        raise LayoutError(f"{where}: no run {claim.run!r}; there are {', '.join(runs)}")
    if claim.metric not in BY_KEY:
        raise LayoutError(f"{where}: no metric {claim.metric!r}; there are {', '.join(BY_KEY)}")


def summary(results: Results, report: Path) -> dict[str, Any]:
    """What was measured, as JSON has it; null where a thing did not happen."""
    comparison = results.comparison
    groups = [
        {
            "id": result.group.id,
            "title": result.group.title,
            "scenario": result.group.scenario.raw,
            "controllers": [_rounded(asdict(run.metrics)) for run in result.runs],
        }
        for result in results.groups
    ]
    return {
        "title": comparison.title,
        "command": comparison.command,
        "path": groups[0]["scenario"],
        "report": str(report),
        "controllers": groups[0]["controllers"],
        "groups": groups,
        "claims": [
            {
                **verdict.claim.raw,
                "measured": _rounded(verdict.measured),
                "reproduced": verdict.reproduced,
            }
            for verdict in results.verdicts
        ],
    }


def _rounded(value: Any) -> Any:
    """Takes off the digits that sums of floating point leave; a microsecond is kept."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value


def summary_json(content: dict[str, Any]) -> str:
    """The summary as text of JSON."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def summary_csv(content: dict[str, Any]) -> str:
    """One line per run: its group, then its numbers; empty where a thing did not happen."""
    columns = ["group", *(f.name for f in fields(RunMetrics) if f.name != "flows")]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for group in content["groups"]:
        for metrics in group["controllers"]:
            writer.writerow({"group": group["id"], **metrics})
    return out.getvalue()
