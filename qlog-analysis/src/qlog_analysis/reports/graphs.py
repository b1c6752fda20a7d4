"""The trace graphs of an experiment, from the qlogs that were kept."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
from markupsafe import Markup

from qlog_analysis.drawing.style import style
from qlog_analysis.drawing.svg import picture
from qlog_analysis.drawing.trace_graph import View, thresholds_of, trace_graph
from qlog_analysis.experiments.measured import Measured
from qlog_analysis.experiments.model import Flow, Plot, Quantity
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading.reader import read_trace


@dataclass(frozen=True, slots=True)
class GraphView:
    """A trace graph to be shown, or the reason why it is not there."""

    title: str
    caption: str
    drawing: Markup
    missing: tuple[str, ...]


def fill(plot: Plot, measured: Measured, key: str) -> Iterator[GraphView]:
    """A graph for each point at which the qlog of the flow's first member was kept.

    Args:
        plot: the plot.
        measured: the results.
        key: tells its graphs from those of other plots in a page.

    Raises:
        NotQlogError: a kept file is not a qlog trace.
    """
    experiment = measured.experiment
    kept = [
        (point, flow)
        for point in experiment.points_where(plot.where)
        for flow in experiment.points[point].flows
        if flow.name == plot.flow and flow.traces and flow.traces[0].is_file()
    ]
    if not kept:
        yield GraphView(plot.title, "", Markup(""), ("no trace was kept",))
    for point, flow in kept:
        yield GraphView(
            plot.title,
            ", ".join(
                filter(
                    None,
                    (flow.name, flow.cc, measured.where(point), f"seed {experiment.seeds[0]}"),
                )
            ),
            _draw(measured, point, flow, f"{key}-{point}", plot.title),
            (),
        )


def _draw(measured: Measured, point: int, flow: Flow, key: str, title: str) -> Markup:
    trace = read_trace(flow.traces[0])
    alpha, beta = thresholds_of(trace)
    view = View(
        alpha=flow.parameters.get("alpha", alpha),
        beta=flow.parameters.get("beta", beta),
        queue=_queue(measured, point),
    )
    with style():
        return picture(trace_graph(trace, view), key).inline(title)


def _queue(measured: Measured, point: int) -> Series | None:
    """The queue of the first link with one in the series."""
    links = measured.series.filter(
        (pl.col("point") == point) & (pl.col("metric") == "queue_packets")
    )["subject"].unique(maintain_order=True)
    if not len(links):
        return None
    return measured.over_time(Quantity("queue_packets", str(links[0]), {}), point)
