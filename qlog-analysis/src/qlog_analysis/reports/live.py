"""The plots over time that a reader can zoom into, as data for `live.js`.

NOTE: uPlot draws them. It has 52 kB and draws 100 000 points within a frame or two; Plotly has
1 MB even as its basic bundle, and Vega with Vega-Lite 700 kB, which is more than a report's own.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from qlog_analysis.drawing.reduction import Course
from qlog_analysis.drawing.runs import MOST_FLOWS, PathCourses, RunCourse, phases, wander
from qlog_analysis.drawing.style import look
from qlog_analysis.metrics.series import Series

SHARED = "all"
"""The key of the group that shows all runs."""


@dataclass(slots=True)
class _Numbers:
    """The numbers of all lines, one after another."""

    parts: list[np.typing.NDArray[np.float32]] = field(default_factory=list)
    count: int = 0

    def add(self, series: Series) -> list[int]:
        """Adds the times and the values of a series; returns its place and its length."""
        place = [self.count, len(series.time_s)]
        for part in (series.time_s, series.value):
            self.parts.append(part.astype(np.float32))
            self.count += len(part)
        return place

    def text(self) -> str:
        """All of them as little-endian floats, packed by zlib, as base64."""
        whole = np.concatenate([*self.parts, np.empty(0, np.float32)]).astype("<f4")
        return base64.b64encode(zlib.compress(whole.tobytes(), 9)).decode()


def data(path: PathCourses) -> dict[str, Any]:
    """The live plots of a path's runs: one group that shows all runs, and one of each."""
    numbers = _Numbers()
    groups = {SHARED: _shared(path, numbers)}
    groups |= {run.key: _single(path, run, numbers) for run in path.runs}
    return {"end": path.duration_s, "groups": groups, "numbers": numbers.text()}


def _chart(title: str, unit: str, lines: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"title": title, "unit": unit, "lines": [line for line in lines if line], **more}


def _line(
    numbers: _Numbers, name: str, colour: str, series: Series, dash: str = "-", width: float = 1.5
) -> dict[str, Any]:
    if not len(series.time_s):
        return {}
    return {
        "name": name,
        "colour": colour,
        "dash": dash,
        "width": width,
        "at": numbers.add(series),
        "wander": wander(series),
    }


def _megabits(series: Series) -> Series:
    return Series(series.time_s, series.value / 1e6)


def _sum(courses: Sequence[Course]) -> Series:
    if not courses:
        return Series(np.empty(0), np.empty(0))
    total = np.sum([one.sent_bps.value for one in courses], axis=0)
    return _megabits(Series(courses[0].sent_bps.time_s, total))


def _fine(run: RunCourse) -> list[Course]:
    return [flow.fine for flow in run.flows]


def _lost(run: RunCourse) -> Series:
    times = np.sort(np.concatenate([[0.0], *(flow.lost_s for flow in run.flows)]))
    return Series(times, np.arange(len(times), dtype=np.float64))


def _shared(path: PathCourses, numbers: _Numbers) -> list[dict[str, Any]]:
    capacity = {"name": "capacity", "value": path.payload_bps / 1e6}

    def each(series_of: Any) -> list[dict[str, Any]]:
        return [
            _line(numbers, run.name, run.look.variable, series, run.look.dash)
            for run in path.runs
            for series in series_of(run)
        ]

    charts = [
        _chart(
            "Goodput of all flows",
            "Mbit/s",
            each(lambda run: [_megabits(run.goodput_bps)]),
            levels=[capacity],
            zero=True,
        ),
        _chart(
            "Round-trip time, smoothed",
            "ms",
            each(lambda run: [one.smoothed_rtt_ms for one in _fine(run)[:MOST_FLOWS]]),
        ),
        _chart(
            "Queue at the bottleneck",
            "packets",
            each(lambda run: [run.queue]),
            levels=_buffer(path),
            zero=True,
        ),
        _chart(
            "Congestion window",
            "packets",
            each(lambda run: [one.window_packets for one in _fine(run)[:MOST_FLOWS]]),
            zero=True,
        ),
        _chart(
            "Sending rate of all flows",
            "Mbit/s",
            each(lambda run: [_sum(_fine(run))]),
            levels=[capacity],
            zero=True,
        ),
        _chart(
            "Packets declared lost, in all",
            "packets",
            each(lambda run: [_lost(run)]),
            zero=True,
        ),
    ]
    return [chart for chart in charts if chart["lines"]]


def _buffer(path: PathCourses) -> list[dict[str, Any]]:
    return [] if path.buffer_packets is None else [{"name": "buffer", "value": path.buffer_packets}]


def _single(path: PathCourses, run: RunCourse, numbers: _Numbers) -> list[dict[str, Any]]:
    colour = run.look.variable
    bands = phases(run, path.duration_s)
    names = sorted({name for _, _, name in bands})
    marks = {
        "lost": _lost(run).time_s[1:].round(4).tolist(),
        "bands": [
            {"from": round(start, 4), "to": round(end, 4), "state": names.index(name)}
            for start, end, name in bands
        ],
        "states": [{"name": name, "colour": look(place).variable} for place, name in
                   enumerate(names)],
    }  # fmt: skip
    low_high = run.available_window
    fine = _fine(run)[:MOST_FLOWS]

    def flows(column: str, name: str, ink: str, **kind: Any) -> list[dict[str, Any]]:
        many = len(fine) > 1
        return [
            _line(numbers, f"{name} {place}" if many else name, ink, getattr(one, column), **kind)
            for place, one in enumerate(fine)
        ]

    charts = [
        _chart(
            "Congestion window",
            "packets",
            [
                *flows("in_flight_packets", "in flight", "--faint", width=1.0),
                *flows("ssthresh_packets", "ssthresh", "--soft", dash="--"),
                *flows("window_packets", "window", colour),
            ],
            zero=True,
            range=None if low_high is None else list(low_high),
            scaled_by="window_packets",
            **marks,
        ),
        _chart(
            "Round-trip time",
            "ms",
            [
                *flows("rtt_ms", "samples", "--faint", width=1.0),
                *flows("smoothed_rtt_ms", "smoothed", colour),
                *flows("base_rtt_ms", "BaseRTT", "--ink", dash="--"),
            ],
            **marks,
        ),
        _chart(
            "Backlog as the sender sees it",
            "packets",
            flows("backlog_packets", "backlog", colour),
            levels=[
                {"name": name, "value": value}
                for name, value in (("α", run.alpha), ("β", run.beta))
                if value is not None
            ],
            zero=True,
        ),
        _chart(
            "Sending rate and goodput",
            "Mbit/s",
            [
                _line(numbers, "sent", colour, _sum(fine)),
                _line(numbers, "goodput", "--soft", _megabits(run.goodput_bps)),
            ],
            levels=[{"name": "capacity", "value": path.payload_bps / 1e6}],
            zero=True,
        ),
        _chart(
            "Queue at the bottleneck",
            "packets",
            [_line(numbers, "queue", colour, run.queue)],
            levels=_buffer(path),
            zero=True,
        ),
    ]
    return [chart for chart in charts if chart["lines"]]


_STEPS = 200


def queueing_delays(path: PathCourses) -> list[tuple[str, int, list[tuple[float, float]]]]:
    """For each run with a queue: its name, its look's number, and delays in ms with percents."""
    looks = {look(number): number for number in reversed(range(21))}
    out = []
    for run in path.runs:
        known = run.queue.until(path.duration_s)
        if len(known.time_s) < 2:
            continue
        table = pl.DataFrame(
            {"ms": known.value[:-1] * path.packet_s * 1000, "held": np.diff(known.time_s)}
        ).sort("ms")
        share = (table["held"].cum_sum() / table["held"].sum()).to_numpy()
        places = np.searchsorted(share, np.linspace(0, 1, _STEPS + 1) - 1e-9)
        delays = table["ms"].to_numpy()[np.minimum(places, len(table) - 1)]
        percent = np.linspace(0, 100, _STEPS + 1)
        points = list(zip(delays.tolist(), percent.tolist(), strict=True))
        out.append((run.name, looks[run.look], points))
    return out
