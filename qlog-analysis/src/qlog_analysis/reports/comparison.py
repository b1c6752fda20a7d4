"""Puts a comparison's results into one HTML file that needs nothing else."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qlog_analysis.drawing.plots import Plot
from qlog_analysis.experiments.comparison import Scenario
from qlog_analysis.experiments.results import GroupResult, Results, Verdict
from qlog_analysis.metrics.definitions import (
    BUILT_IN,
    BY_KEY,
    METRICS,
    NOTHING,
    SEVERAL_FLOWS,
    best,
)
from qlog_analysis.reports.pages import ClaimRow, allowed, environment, number


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of the table, and whether it is the best of its row."""

    text: str
    best: bool


def render(results: Results, plots: Sequence[Plot]) -> str:
    """The report as HTML."""
    images = {plot: _data_uri(plot) for plot in plots}
    return (
        environment()
        .get_template("report.html")
        .render(
            title=results.comparison.title,
            command=results.comparison.command,
            warnings=list(results.warnings()),
            groups=[_group(group, images) for group in results.groups],
            claims=[_claim(verdict) for verdict in results.verdicts],
            reproduced=sum(verdict.reproduced for verdict in results.verdicts),
            definitions=METRICS,
            several_flows=SEVERAL_FLOWS,
            nothing=NOTHING,
        )
    )


def _data_uri(plot: Plot) -> str:
    return "data:image/png;base64," + base64.b64encode(plot.path.read_bytes()).decode()


def _group(result: GroupResult, images: dict[Plot, str]) -> dict[str, Any]:
    mine = {plot: uri for plot, uri in images.items() if plot.group == result.group.id}
    return {
        "title": result.group.title,
        "path": path_facts(result.group.scenario),
        "runs": [
            {
                "id": run.run.id,
                "controller": f"{run.run.name}:{run.run.options}".rstrip(":"),
                "options": run.run.options,
                "parameters": ", ".join(
                    f"{name} = {value}" for name, value in (run.run.parameters or {}).items()
                ),
                "plots": [(plot, uri) for plot, uri in mine.items() if plot.run == run.run.id],
            }
            for run in result.runs
        ],
        "rows": table_rows(result),
        "notes": [BUILT_IN[run.run.name] for run in result.runs if run.run.name in BUILT_IN],
        "plots": [(plot, uri) for plot, uri in mine.items() if plot.run is None],
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
