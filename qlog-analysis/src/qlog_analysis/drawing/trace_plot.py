"""Draws one trace into a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl
from matplotlib.figure import Figure

from qlog_analysis import schemas
from qlog_analysis.drawing.overview import overview
from qlog_analysis.drawing.style import style
from qlog_analysis.drawing.svg import picture
from qlog_analysis.drawing.trace_graph import View, end_of, thresholds_of, title_of, trace_graph
from qlog_analysis.errors import LayoutError, UsageError
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading.reader import Trace

Kind = Literal["trace-graph", "overview"]

_FORMATS = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a trace to draw; the thresholds are for a trace that does not give them."""

    kind: Kind
    start_s: float
    end_s: float | None
    alpha: float | None
    beta: float | None
    queue: Path | None


def check(part: Part, out: Path) -> None:
    """Checks the arguments before a long trace is read.

    Raises:
        UsageError: the file cannot be written in this form, or nothing would be drawn.
    """
    if out.suffix not in _FORMATS:
        raise UsageError(f"--out {out}: expected a name that ends in {' or '.join(_FORMATS)}")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.parent}; expected one that exists")
    if part.end_s is not None and part.end_s <= part.start_s:
        raise UsageError(f"--to {part.end_s:g}: expected a time after --from {part.start_s:g}")


def save(trace: Trace, part: Part, out: Path) -> None:
    """Draws a trace into an SVG or PNG file, by the end of its name."""
    with style():
        drawn = figure(trace, part)
        if out.suffix == ".svg":
            out.write_text(picture(drawn, trace.path.name).document(), encoding="utf-8")
        else:
            drawn.savefig(out)


def figure(trace: Trace, part: Part) -> Figure:
    """The figure of a part of a trace.

    Raises:
        LayoutError: the queue cannot be read.
    """
    if part.kind == "overview":
        end_s = end_of(trace) if part.end_s is None else part.end_s
        return overview(trace, part.start_s, max(end_s, part.start_s + 1e-3), title_of(trace))
    alpha, beta = thresholds_of(trace)
    view = View(
        start_s=part.start_s,
        end_s=part.end_s,
        alpha=alpha if part.alpha is None else part.alpha,
        beta=beta if part.beta is None else part.beta,
        queue=None if part.queue is None else _queue(part.queue),
    )
    return trace_graph(trace, view)


def _queue(path: Path) -> Series:
    """A queue over time, from a CSV."""
    names = list(schemas.QUEUE)
    try:
        table = pl.read_csv(path, schema_overrides=schemas.QUEUE).select(names).drop_nulls()
    except (pl.exceptions.PolarsError, OSError) as error:
        detail = str(error).splitlines()[0]
        raise LayoutError(
            f"{path}: expected a CSV of numbers with the columns {', '.join(names)}: {detail}"
        ) from error
    return Series(table["time_s"].to_numpy(), table["packets"].to_numpy())
