"""The runs of a comparison over time, from the qlogs that were kept of the first seed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import polars as pl

from qlog_analysis.drawing.reduction import FlowCourse, FlowTask, rate_bin_s
from qlog_analysis.drawing.runs import PathCourses, RunCourse
from qlog_analysis.drawing.style import look
from qlog_analysis.experiments.comparison import Comparison
from qlog_analysis.experiments.measured import Measured
from qlog_analysis.experiments.model import RUN_AXIS, Dumbbell, Flow, Quantity
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading import parallel
from qlog_analysis.reports.tables import heading_of


@dataclass(frozen=True, slots=True)
class Kept:
    """The qlog of a flow's member, and the point and path that it is from."""

    point: int
    path: Dumbbell
    flow: Flow
    trace: Path


@dataclass(frozen=True, slots=True)
class Drawable:
    """A kept qlog, reduced to series that can be drawn."""

    kept: Kept
    course: FlowCourse


Traces = Mapping[str, Sequence[Drawable]]
"""The traces of each experiment, by its name in the comparison, in the order of points."""


def _kept(measured: Measured) -> list[Kept]:
    """The kept qlogs of the foreground flows of runs that finished."""
    first = measured.experiment.seeds[0]
    return [
        Kept(number, point.path, flow, trace)
        for number, point in measured.experiment.points.items()
        if point.path is not None and (number, first) in measured.ran
        for flow in point.flows
        if not flow.background
        for trace in flow.traces
    ]


def read_traces(comparison: Comparison, on_start: Callable[[int], Callable[[int], None]]) -> Traces:
    """Reads the kept qlogs of all experiments, on all cores.

    Args:
        comparison: the comparison.
        on_start: given the size of all traces in bytes; returns a function that is told the number
            of bytes after each part that was read.

    Raises:
        NotQlogError: a file is missing or is not a qlog trace.
    """
    kept = [
        (name, one)
        for name, outcome in comparison.outcomes.items()
        for one in _kept(outcome.measured)
    ]
    tasks = [
        FlowTask(
            one.trace, one.path.duration_s, one.path.datagram_bytes, rate_bin_s(one.path.rtt_s)
        )
        for _, one in kept
    ]
    courses = parallel.run_all(tasks, on_start(sum(parallel.size(task.trace) for task in tasks)))
    out: dict[str, list[Drawable]] = {name: [] for name in comparison.outcomes}
    for (name, one), course in zip(kept, courses, strict=True):
        out[name].append(Drawable(one, course))
    return out


def warnings(comparison: Comparison, traces: Traces) -> list[str]:
    """The problems that were met in the traces, one line for each file."""
    out = []
    for name, outcome in comparison.outcomes.items():
        directory = outcome.measured.experiment.directory
        for one in traces[name]:
            trace = one.kept.trace.relative_to(directory).as_posix()
            out += [f"{name}/{trace}: {text}" for text in one.course.warnings]
    return out


def file_name(text: str) -> str:
    """A name without characters that have a meaning in file names or shells."""
    return re.sub(r"[^\w.-]", "-", text)


def courses(comparison: Comparison, traces: Traces) -> list[PathCourses]:
    """The runs of each experiment over time, without experiments that have no traces."""
    return [
        _path(name, comparison.outcomes[name].measured, drawables)
        for name, drawables in traces.items()
        if drawables
    ]


def _path(name: str, measured: Measured, drawables: Sequence[Drawable]) -> PathCourses:
    path = drawables[0].kept.path
    runs = [
        _run(measured, point, list(of_run))
        for point, of_run in groupby(drawables, key=lambda one: one.kept.point)
    ]
    return PathCourses(
        name=file_name(name),
        runs=tuple(runs),
        duration_s=path.duration_s,
        payload_bps=path.rate_bps * path.datagram_bytes / path.packet_wire_bytes,
        packet_s=path.packet_wire_bytes * 8 / path.rate_bps,
        rate_bin_s=rate_bin_s(path.rtt_s),
        buffer_packets=path.buffer.get("packets"),
    )


def _goodput(measured: Measured, point: int, bin_s: float) -> Series:
    """The stream bytes that all foreground flows delivered, in bins, as a rate."""
    flows = measured.experiment.points[point].flows
    rows = measured.series.filter(
        (pl.col("point") == point)
        & pl.col("subject").is_in([flow.subject for flow in flows if not flow.background])
        & (pl.col("metric") == "throughput_bps")
        & pl.col("value").is_finite()
        & (pl.col("seed") == measured.experiment.seeds[0])
    )
    bins = (
        rows.group_by("time_s")
        .agg(pl.col("value").sum())
        .group_by((pl.col("time_s") / bin_s + 1e-9).floor().alias("bin"))
        .agg(pl.col("value").mean())
        .sort("bin")
    )
    return Series(bins["bin"].to_numpy() * bin_s, bins["value"].to_numpy())


def _run(measured: Measured, point: int, drawables: Sequence[Drawable]) -> RunCourse:
    experiment = measured.experiment
    run = experiment.points[point].axes.get(RUN_AXIS, "")
    flow = drawables[0].kept.flow
    low, high = (
        measured.first(flow.subject, f"available_window_{end}_packets", point)
        for end in ("low", "high")
    )
    return RunCourse(
        key=file_name(run),
        name=heading_of(RUN_AXIS, run, measured).text,
        look=look(list(experiment.points).index(point)),
        flows=tuple(one.course for one in drawables),
        queue=measured.over_time(Quantity("queue_packets", "link/bottleneck", {}), point),
        goodput_bps=_goodput(measured, point, rate_bin_s(drawables[0].kept.path.rtt_s)),
        alpha=flow.parameters.get("alpha"),
        beta=flow.parameters.get("beta"),
        available_window=None if low is None or high is None else (low, high),
    )
