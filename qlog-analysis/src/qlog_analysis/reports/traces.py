"""The report on traces of any programs: a table, plots, one HTML file.

Everything in it comes from the traces. The report on a comparison of the simulator, which knows
the path and the receiver too, is in `comparison`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from qlog_analysis.drawing.overview import overview
from qlog_analysis.drawing.reduction import COLUMNS
from qlog_analysis.drawing.style import Look, legend, look, step, style
from qlog_analysis.drawing.svg import Picture, picture
from qlog_analysis.drawing.trace_graph import end_of
from qlog_analysis.metrics.delivery import binned, delivered
from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.samples import rtt_samples_ms
from qlog_analysis.metrics.series import Series, changes, thinned
from qlog_analysis.metrics.summary import metrics
from qlog_analysis.reports.pages import environment
from qlog_analysis.reports.summaries import Named, rows

# Bins of the rates over the time that is drawn.
_BINS = 150


def write(
    traces: Sequence[Named], out: Path, on_plot: Callable[[int], None] = lambda _: None
) -> Path:
    """Writes `report.html`, `summary.json`, `summary.csv` and `plots/*.svg` into a directory.

    Raises:
        OSError: the directory cannot be written.
    """
    plots = out / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    with style():
        pictures = {"overlays": picture(_overlays(traces), "overlays")}
        on_plot(1)
        for number, one in enumerate(traces):
            end_s = max(end_of(one.log.trace), 1e-3)
            key = f"trace-{number + 1}"
            pictures[key] = picture(overview(one.log.trace, 0.0, end_s, one.name), key)
            on_plot(1)
    for key, drawn in pictures.items():
        (plots / f"{key}.svg").write_text(drawn.document(), encoding="utf-8")
    summaries = [{"name": one.name, **asdict(one.log.summary())} for one in traces]
    text = json.dumps({"traces": summaries}, indent=2, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n", encoding="utf-8")
    pl.DataFrame(summaries, infer_schema_length=None).write_csv(out / "summary.csv")
    report = out / "report.html"
    report.write_text(_html(traces, list(pictures.values())), encoding="utf-8")
    return report


def _html(traces: Sequence[Named], pictures: Sequence[Picture]) -> str:
    overlays, *singles = pictures
    return (
        environment()
        .get_template("traces.html")
        .render(
            title="Traces compared",
            traces=[(one.name, one.log.summary()) for one in traces],
            warnings=[f"{one.name}: {text}" for one in traces for text in one.log.warnings()],
            rows=rows(traces),
            overlays=overlays.inline("All traces over time"),
            singles=[
                single.inline(f"{one.name} over time")
                for one, single in zip(traces, singles, strict=True)
            ],
            definitions=metrics(),
        )
    )


def _overlays(traces: Sequence[Named]) -> Figure:
    panels = (_window, _rtt, _rate, _lost)
    figure = Figure(figsize=(10, 0.8 + 2.6 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), sharex=True)
    end_s = max(1e-3, *(end_of(one.log.trace) for one in traces))
    for axes, panel in zip(all_axes, panels, strict=True):
        for number, one in enumerate(traces):
            panel(axes, one, _line(look(number)), end_s)
    for axes in all_axes:
        axes.set_ylim(bottom=0)
    all_axes[0].set_xlim(0, end_s)
    all_axes[-1].set_xlabel("time (s)")
    handles = [
        Line2D([], [], linewidth=3, **_line(look(number))) for number, _ in enumerate(traces)
    ]
    legend(figure, handles, [one.name for one in traces])
    return figure


_Line = dict[str, Any]


def _line(drawn: Look) -> _Line:
    return {"color": drawn.colour, "linestyle": drawn.dash}


def _window(axes: Axes, one: Named, line: _Line, _: float) -> None:
    axes.set_title("Congestion window")
    axes.set_ylabel("KB")
    known = one.log.metrics()
    values = known["window_bytes"].fill_null(np.nan).to_numpy() / 1e3
    window = thinned(changes(known["time_ms"].to_numpy() / 1000, values), COLUMNS)
    step(axes, window, **line)


def _rtt(axes: Axes, one: Named, line: _Line, _: float) -> None:
    axes.set_title("Round-trip time")
    axes.set_ylabel("ms")
    times, rtts = rtt_samples_ms(one.log.trace)
    step(
        axes,
        thinned(Series(times / 1000, rtts), COLUMNS),
        **line,
        linewidth=1.0,
    )


def _rate(axes: Axes, one: Named, line: _Line, end_s: float) -> None:
    width = end_s / _BINS
    axes.set_title(f"Throughput in UDP payload, means of {width:.2g} s")
    axes.set_ylabel("Mbit/s")
    source = one.log.summary().delivered_from
    if source == "acknowledged":
        times, sizes = delivered(one.log.trace)
    else:
        table = one.log.trace.received if source == "received" else one.log.trace.sent
        known = table.drop_nulls("length_bytes")
        times = known["time_ms"].to_numpy()
        sizes = known["length_bytes"].to_numpy().astype(np.float64)
    sums = binned(times / 1000, sizes, width, end_s)
    start = np.arange(len(sums), dtype=np.float64) * width
    step(
        axes,
        Series(start, sums * 8e-6 / width),
        **line,
        linewidth=1.1,
    )


def _lost(axes: Axes, one: Named, line: _Line, end_s: float) -> None:
    axes.set_title("Packets declared lost, in all")
    axes.set_ylabel("packets")
    times = losses(one.log.trace)["lost_ms"].to_numpy() / 1000
    count = Series(np.append(0.0, times), np.arange(len(times) + 1, dtype=np.float64))
    step(axes, thinned(count, COLUMNS).until(end_s), **line)
