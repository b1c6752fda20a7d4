"""The table of a group for the terminal."""

from qlog_analysis.experiments.results import GroupResult
from qlog_analysis.metrics.definitions import METRICS, Metric

_GAP = "  "


def table(result: GroupResult) -> str:
    """One line per run under headings with units; metrics without any value are left out."""
    columns = [(["controller"], [run.metrics.id for run in result.runs])]
    for metric in METRICS:
        values = [getattr(run.metrics, metric.key) for run in result.runs]
        if metric.heading and any(value is not None for value in values):
            columns.append((_heading(metric), [metric.show(value) for value in values]))
    height = max(len(heading) for heading, _ in columns)
    padded = [[*heading, *[""] * (height - len(heading)), *cells] for heading, cells in columns]
    widths = [max(map(len, column)) for column in padded]
    lines = []
    for row in zip(*padded, strict=True):
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(_GAP.join([first, *rest]).rstrip())
    lines.insert(height, _GAP.join("-" * width for width in widths))
    return "\n".join(lines)


def _heading(metric: Metric) -> list[str]:
    """The words of the heading and the unit, one below the other."""
    return [*metric.heading.split("|"), *([metric.unit] if metric.unit else [])]
