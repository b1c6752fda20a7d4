"""Writes results of experiments as the simulator does, with known answers."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from synthetic import write_json

from qlog_analysis.metrics.definitions import find

Axes = dict[str, str]


@dataclass
class Lab:
    """Collects rows of results.parquet and writes an experiment's directory."""

    name: str
    axes: dict[str, list[str]]
    seeds: int = 3
    first_seed: int = 1
    path: dict[str, Any] | None = None
    flows: Callable[[Axes], list[dict[str, Any]]] = lambda _: []
    controllers: Sequence[Mapping[str, str]] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    series: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    content: dict[str, Any] = field(default_factory=dict)

    def points(self) -> list[Axes]:
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    def measure(
        self,
        subject: str,
        metric: str,
        value: Callable[[Axes, int], float | None],
        **more: Any,
    ) -> None:
        """A value for each point and seed; none where it is None."""
        for number, axes in enumerate(self.points()):
            for seed in range(self.first_seed, self.first_seed + self.seeds):
                measured = value(axes, seed)
                if measured is not None:
                    self.row(number, seed, subject, metric, measured, **more)

    def row(
        self, point: int, seed: int, subject: str, metric: str, value: float, **more: Any
    ) -> None:
        axes = self.points()[point]
        self.rows.append(
            {
                "experiment": self.name,
                "point": point,
                "seed": seed,
                **axes,
                **{f"{axis}_value": number(text) for axis, text in axes.items() if number(text)},
                "subject": subject,
                "index": 0,
                "cc": "",
                "background": False,
                "metric": metric,
                "unit": unit_of(subject, metric),
                "value": value,
                **more,
            }
        )

    def course(self, point: int, subject: str, metric: str, time_s: float, value: float) -> None:
        """A value over time of the first seed."""
        self.series.append(
            {
                "point": point,
                "seed": self.first_seed,
                "subject": subject,
                "index": 0,
                "cc": "",
                "background": False,
                "metric": metric,
                "unit": unit_of(subject, metric, over_time=True),
                "time_s": time_s,
                "value": value,
            }
        )

    def fail(self, point: int, seed: int, reason: str) -> None:
        """A run that ended without results."""
        self.rows = [row for row in self.rows if (row["point"], row["seed"]) != (point, seed)]
        self.row(point, seed, "run", "failed", 1.0)
        self.failures.append({"point": point, "seed": seed, "reason": reason})

    def save(self, directory: Path, folder: str | None = None) -> Path:
        """Writes the files into a folder, by default that of the experiment's name."""
        where = directory / (folder or self.name)
        write_json(where / "experiment.json", self.describe())
        pl.DataFrame(self.rows, infer_schema_length=None).write_parquet(where / "results.parquet")
        if self.series:
            pl.DataFrame(self.series).write_parquet(where / "series.parquet")
        if self.failures:
            write_json(where / "failures.json", self.failures)
        return where

    def point(self, number: int) -> dict[str, Any]:
        axes = self.points()[number]
        point = {"point": number, "axes": axes, "flows": self.flows(axes)}
        return point if self.path is None else point | {"path": self.path}

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": f"Title of <{self.name}>",
            "source": "Zhang and Bian 2002 §3",
            "about": "What is shown.",
            "command": f"cargo xtask papers {self.name}",
            "packet-bytes": 1313,
            "first-seed": self.first_seed,
            "seeds": self.seeds,
            "axes": [{"name": name, "values": values} for name, values in self.axes.items()],
            "points": [self.point(number) for number in range(len(self.points()))],
            "controllers": list(self.controllers),
            "runs": [{"id": run, "title": run.title()} for run in self.axes.get("run", [])],
            "tables": [],
            "plots": [],
            "claims": [],
            **self.content,
        }


def unit_of(subject: str, metric: str, over_time: bool = False) -> str:
    known = find(subject, metric, over_time=over_time)
    return "" if known is None else known.unit


def number(text: str) -> float | None:
    """The value of an axis in base units."""
    match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)([a-z]*)", text)
    return None if match is None else float(match[1]) * _UNITS[match[2]]


_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "p": 1.0, "pps": 1.0, "mbit": 1e6, "b": 1.0, "kb": 1e3}


def flow(name: str, cc: str, traces: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    return {
        "name": name, "cc": cc, "count": 1, "background": False, "traces": list(traces), **more
    }  # fmt: skip


def claim(name: str, metric: str, subject: str, where: Mapping[str, Any], **more: Any) -> Any:
    return {
        "id": name,
        "title": f"Claim {name}",
        "paper": 1.0,
        "low": 0.9,
        "high": 1.1,
        "unit": "packets",
        "source": "Zhang and Bian 2002, Table 3",
        "robust": True,
        "value": {"metric": metric, "subject": subject, "where": dict(where)},
        **more,
    }


X = {"1ms": 1.0, "13ms": 13.0, "22ms": 22.0}


def fairness(seeds: int = 3) -> Lab:
    """Two flows of 2x and x packets, over x; Vegas loses none, Reno 7, and seeds differ by 1."""
    lab = Lab("ns2/fairness", {"x": list(X), "run": ["vegas", "reno"]}, seeds)
    lab.flows = lambda axes: [
        flow(name, "vegas:alpha=1" if axes["run"] == "vegas" else "reno")
        for name in ("long", "short")
    ]
    lab.controllers = [{"name": "reno", "summary": "quiche's Reno.", "stack": "quiche"}]
    lab.measure("flow/long", "received_packets", lambda axes, seed: X[axes["x"]] + seed)
    lab.measure("flow/short", "received_packets", lambda axes, seed: 2 * (X[axes["x"]] + seed))
    lab.measure("flow/long", "throughput_pps", lambda axes, seed: 10 * X[axes["x"]] + seed)
    lab.measure("run", "lost_packets", lambda axes, _: 0.0 if axes["run"] == "vegas" else 7.0)
    lab.measure("link/bottleneck", "utilisation", lambda axes, _: X[axes["x"]] / 25)
    lab.content = {
        "tables": [
            {
                "title": "Packets lost",
                "metric": "lost_packets",
                "subject": "run",
                "rows": "x",
                "columns": "run",
            },
            {
                "title": "At one millisecond",
                "metrics": ["received_packets", "throughput_pps"],
                "subject": "flow/long",
                "rows": "metric",
                "columns": "run",
                "where": {"x": "1ms"},
            },
            {
                "title": "Fairness",
                "metric": "received_packets",
                "subject": "flow/short",
                "rows": "x",
                "columns": "run",
                "ratio-to": {"subject": "flow/long"},
            },
        ],
        "plots": [
            {
                "title": "Fairness over the ratio",
                "kind": "axis",
                "metric": "received_packets",
                "subject": "flow/short",
                "x": "x",
                "lines": "run",
                "ratio-to": {"subject": "flow/long"},
            }
        ],
        "claims": [
            claim("ns2/lost", "lost_packets", "run", {"run": "vegas"}, low=0.0, high=0.0, paper=0),
            claim(
                "ns2/ratio",
                "received_packets",
                "flow/short",
                {"x": "22ms"},
                **{"ratio-to": {"subject": "flow/long"}, "low": 1.9, "high": 2.1, "note": "Flat."},
            ),
            claim("ns2/no", "lost_packets", "run", {"run": "reno"}, low=0.0, high=1.0),
        ],
    }
    return lab


def both(directory: Path, labs: Sequence[Lab]) -> Path:
    for lab in labs:
        lab.save(directory)
    return directory
