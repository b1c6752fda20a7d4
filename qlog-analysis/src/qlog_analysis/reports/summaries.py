"""The table of traces, in the terminal and in their report.

It is a module of its own because a summary in the terminal draws nothing: to import Matplotlib
takes longer than to read a trace of ten megabytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qlog_analysis.library import Log
from qlog_analysis.metrics.definitions import best
from qlog_analysis.metrics.numbers import NOTHING
from qlog_analysis.metrics.summary import metrics
from qlog_analysis.names import showable


@dataclass(frozen=True, slots=True)
class Named:
    """A trace with a name that tells it from the others."""

    name: str
    log: Log


def named(logs: Sequence[Log]) -> list[Named]:
    """Gives traces the shortest names that tell them apart: file names, with folders if need be."""
    paths = [log.trace.path for log in logs]
    deepest = max(len(path.parts) for path in paths)
    for depth in range(1, deepest + 1):
        names = [showable("/".join(path.parts[-depth:])) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    out: list[Named] = []
    for name, log in zip(names, logs, strict=True):
        alone = paths.count(log.trace.path) == 1
        full = name if alone else f"{name} {log.trace.connection}"
        same = sum(one.name.partition(" #")[0] == full for one in out)
        out.append(Named(f"{full} #{same + 1}" if same else full, log))
    return out


def rows(traces: Sequence[Named]) -> list[dict[str, Any]]:
    """The table: one row per metric, without metrics that no trace tells."""
    out = []
    for metric in metrics():
        values = [getattr(one.log.summary(), metric.name) for one in traces]
        if all(value is None for value in values):
            continue
        top = best(metric, values)
        cells = [
            {"text": metric.show(value), "best": top is not None and value == top}
            for value in values
        ]
        out.append({"label": metric.label, "unit": metric.unit_to_show, "cells": cells})
    return out


def text_table(traces: Sequence[Named]) -> str:
    """The table for the terminal, with a column for each trace."""
    lines = [["", *[one.name for one in traces]]]
    lines.append(["program", *[one.log.summary().program for one in traces]])
    controllers = [one.log.summary().controller for one in traces]
    if any(controllers):
        lines.append(["controller", *[one or NOTHING for one in controllers]])
    lines.append(["seen by", *[one.log.summary().vantage for one in traces]])
    for row in rows(traces):
        unit = f" ({row['unit']})" if row["unit"] else ""
        lines.append([row["label"] + unit, *[cell["text"] for cell in row["cells"]]])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        ).rstrip()
        for line in lines
    )
