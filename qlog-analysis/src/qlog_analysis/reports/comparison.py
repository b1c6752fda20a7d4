"""Puts a comparison's results into one HTML file that needs nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qlog_analysis.drawing.reduction import rate_bin_s
from qlog_analysis.drawing.runs import PathCourses, Plot, RunCourse, draw
from qlog_analysis.drawing.style import Look, look
from qlog_analysis.experiments.comparison import Scenario
from qlog_analysis.experiments.results import GroupResult, Results, RunResult, Verdict
from qlog_analysis.metrics.definitions import (
    BUILT_IN,
    BY_KEY,
    METRICS,
    NOTHING,
    SEVERAL_FLOWS,
    best,
)
from qlog_analysis.metrics.series import Series
from qlog_analysis.reports.pages import ClaimRow, allowed, environment, number


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of the table, and whether it is the best of its row."""

    text: str
    best: bool


def courses(results: Results) -> list[PathCourses]:
    """The runs of each group over time."""
    names = [run.run.id for group in results.groups for run in group.runs]
    looks = {name: look(number) for number, name in enumerate(dict.fromkeys(names))}
    return [
        PathCourses(
            name=group.group.id,
            runs=tuple(_course(run, looks[run.run.id]) for run in group.runs),
            duration_s=max(run.run.duration_s for run in group.runs),
            payload_bps=group.group.scenario.rate_bps
            * group.group.scenario.datagram_bytes
            / group.runs[0].run.packet_wire_bytes,
            rate_bin_s=rate_bin_s(group.group.scenario.rtt_s),
            buffer_packets=group.group.scenario.buffer.get("packets"),
        )
        for group in results.groups
    ]


def _course(result: RunResult, drawn: Look) -> RunCourse:
    run, queue = result.run, result.run.queue
    low = result.metrics.available_window_low_packets
    high = result.metrics.available_window_high_packets
    return RunCourse(
        name=run.id,
        look=drawn,
        flows=tuple(flow.course for flow in result.flows),
        queue=Series(np.empty(0), np.empty(0))
        if queue is None
        else Series(queue["time_s"].to_numpy(), queue["packets"].to_numpy()),
        alpha=run.parameter("alpha"),
        beta=run.parameter("beta"),
        available_window=None if low is None or high is None else (low, high),
    )


def write(results: Results, directory: Path, on_plot: Callable[[], None]) -> Path:
    """Writes report.html and plots/*.svg into a directory; gives the path of the report."""
    folder = directory / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    plots: dict[str, list[Plot]] = {}
    for path in courses(results):
        for plot in draw(path):
            (folder / f"{plot.name}.svg").write_text(plot.picture.document(), encoding="utf-8")
            plots.setdefault(path.name, []).append(plot)
            on_plot()
    html = directory / "report.html"
    html.write_text(render(results, plots), encoding="utf-8")
    return html


def render(results: Results, plots: Mapping[str, Sequence[Plot]]) -> str:
    """The report as HTML, with the plots of each group."""
    return (
        environment()
        .get_template("report.html")
        .render(
            title=results.comparison.title,
            command=results.comparison.command,
            warnings=list(results.warnings()),
            groups=[_group(group, plots.get(group.group.id, ())) for group in results.groups],
            claims=[_claim(verdict) for verdict in results.verdicts],
            reproduced=sum(verdict.reproduced for verdict in results.verdicts),
            definitions=METRICS,
            several_flows=SEVERAL_FLOWS,
            nothing=NOTHING,
        )
    )


def _group(result: GroupResult, plots: Sequence[Plot]) -> dict[str, Any]:
    title = result.group.title
    return {
        "title": title,
        "path": path_facts(result.group.scenario),
        "runs": [
            {
                "id": run.run.id,
                "controller": f"{run.run.name}:{run.run.options}".rstrip(":"),
                "options": run.run.options,
                "parameters": ", ".join(
                    f"{name} = {value}" for name, value in (run.run.parameters or {}).items()
                ),
                "plots": [
                    plot.picture.inline(f"{run.run.id} over time")
                    for plot in plots
                    if plot.run == run.run.id
                ],
            }
            for run in result.runs
        ],
        "rows": table_rows(result),
        "notes": [BUILT_IN[run.run.name] for run in result.runs if run.run.name in BUILT_IN],
        "plots": [plot.picture.inline(f"{plot.title}: {title}") for plot in plots if not plot.run],
    }


def path_facts(scenario: Scenario) -> list[tuple[str, str]]:
    """A path in words; what it says beyond the usual comes last, under its own name."""
    known = {
        "rate_bps": ("Bottleneck", f"{scenario.rate_bps / 1e6:g} Mbit/s"),
        "rtt_s": ("RTT without queues", f"{scenario.rtt_s * 1000:g} ms"),
        "buffer": ("Buffer", scenario.buffer_text),
        "datagram_bytes": ("Datagrams", f"{scenario.datagram_bytes} bytes"),
        "duration_s": ("Duration", f"{scenario.duration_s:g} s"),
        "flows": ("Flows", str(scenario.flows)),
    }
    more = {
        "initial_window_packets": ("Initial window", "{} packets"),
        "ack_every": ("Packets per ACK", "{}"),
        "max_ack_delay_s": ("Longest ACK delay", "{} s"),
        "seed": ("Seed", "{}"),
    }
    facts = list(known.values())
    for key, value in scenario.raw.items():
        if key not in known:
            label, form = more.get(key, (key, "{}"))
            facts.append((label, form.format(value)))
    return facts


def table_rows(result: GroupResult) -> list[dict[str, Any]]:
    """The rows of a group's table; metrics without any value are left out."""
    rows = []
    for metric in METRICS:
        values = [getattr(run.metrics, metric.key) for run in result.runs]
        if all(value is None for value in values):
            continue
        top = best(metric, values)
        cells = [Cell(metric.show(value), top is not None and value == top) for value in values]
        rows.append({"label": metric.label, "unit": metric.unit, "cells": cells})
    return rows


def _claim(verdict: Verdict) -> ClaimRow:
    claim = verdict.claim
    return ClaimRow(
        title=claim.raw.get("title") or BY_KEY[claim.metric].label,
        source=" · ".join(filter(None, (claim.run, claim.raw.get("source")))),
        status="reproduced" if verdict.reproduced else "not reproduced",
        paper=number(claim.raw.get("paper")),
        measured=number(verdict.measured),
        allowed=allowed(claim.low, claim.high),
        unit=claim.raw.get("unit") or "",
        note=claim.raw.get("note") or "",
    )
