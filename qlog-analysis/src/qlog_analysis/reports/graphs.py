"""The trace graphs of an experiment, from the qlogs that it kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from qlog_analysis.drawing.style import style
from qlog_analysis.drawing.svg import picture
from qlog_analysis.drawing.trace_graph import View, thresholds, trace_graph
from qlog_analysis.experiments.measured import Measured
from qlog_analysis.experiments.model import Plot, Quantity
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading.reader import read_trace
from qlog_analysis.reports.charts import series


@dataclass(frozen=True, slots=True)
class GraphView:
    """A trace graph to be shown, or why it is not there."""

    title: str
    caption: str
    drawing: Markup
    missing: tuple[str, ...]


def fill(plot: Plot, measured: Measured, key: str) -> Iterator[GraphView]:
    """A graph for each point at which the flow's qlog was kept.

    Args:
        plot: the plot.
        measured: the results.
        key: tells its graphs from those of other plots in a page.

    Raises:
        NotQlogError: a trace is none.
    """
    points = measured.experiment.points_where(plot.where)
    drawn = [point for point in points if measured.trace(point, plot.flow)]
    if not drawn:
        yield GraphView(plot.title, "", Markup(""), ("no trace was kept",))
    for point in drawn:
        path = measured.trace(point, plot.flow)
        if path is None:
            continue
        controller = measured.options.get((point, f"flow/{plot.flow}"), "")
        alpha, beta = thresholds(controller)
        view = View(alpha=alpha, beta=beta, queue=_queue(measured, point))
        with style():
            figure = trace_graph(read_trace(path), view)
            drawing = picture(figure, f"{key}-{point}").inline(plot.title)
        words = [plot.flow, controller, measured.where(point), "seed 1"]
        yield GraphView(
            plot.title,
            ", ".join(filter(None, words)),
            drawing,
            (),
        )


def _queue(measured: Measured, point: int) -> Series | None:
    """The queue of the first link with one in the series."""
    links = measured.series.filter(
        (pl.col("point") == point) & (pl.col("metric") == "queue_packets")
    )["subject"].unique(maintain_order=True)
    if not len(links):
        return None
    return series(measured, Quantity("queue_packets", str(links[0]), {}), point)
