"""Writes the directory of an evaluation as the simulator does, with values from a seed."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import polars as pl
from synthetic import write_json

from qlog_analysis.metrics.statistics import t_quantile

CONTROLLERS: tuple[tuple[str, str, float, float], ...] = (
    # Name, summary, share of the link that it takes, delay that it adds relative to the path's.
    ("gallop-vegas", "Vegas with the slow start of Ho et al. 2006.", 0.97, 0.12),
    ("vegas", "Vegas as Brakmo et al. 1994 have it.", 0.93, 0.1),
    ("copa", "Copa as Arun and Balakrishnan 2018 have it.", 0.95, 0.2),
    ("cubic-rfc9438", "CUBIC as RFC 9438 has it, with HyStart++.", 0.98, 0.9),
    ("reno-rfc9002", "Reno as RFC 9002 has it.", 0.94, 0.7),
    ("bbr2", "BBR, version 2.", 0.96, 0.45),
    ("cubic", "CUBIC.", 0.97, 1.0),
    ("reno", "Reno.", 0.94, 0.8),
)
_OF_QUICHE = {"bbr2", "cubic", "reno"}

FAMILIES: tuple[tuple[str, str, str], ...] = (
    ("noise", "Noise", "ms of jitter"),
    ("sharing", "Sharing", "flows"),
    ("loss", "Random loss", "% of loss"),
    ("buffers", "Buffers", "BDP of buffer"),
)

LIMITS: list[dict[str, Any]] = [
    {
        "id": "utilisation of link/bottleneck, at least",
        "metric": "utilisation",
        "subject": "link/bottleneck",
        "low": "0.9",
        "why": "A link that is paid for is meant to be used.",
    },
    {
        "id": "rtt_mean_s of flow/tested, at most",
        "metric": "rtt_mean_s",
        "subject": "flow/tested",
        "high": "1.5 * rtt",
        "why": "Half an RTT of queue is what interactive traffic beside it can stand.",
    },
    {
        "id": "loss_ratio of flow/tested, at most",
        "metric": "loss_ratio",
        "subject": "flow/tested",
        "high": "max(0.005, 2 * loss)",
        "why": "What is lost is sent again, and somebody pays for both.",
    },
]


def sampled(values: Sequence[float], unit: str = "") -> dict[str, Any]:
    """A mean over seeds as the simulator writes it."""
    middle = mean(values)
    if len(values) < 2:
        return {"unit": unit, "mean": middle, "low": None, "high": None, "values": [*values]}
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return {
        "unit": unit,
        "mean": middle,
        "low": middle - half,
        "high": middle + half,
        "values": [*values],
    }


def held(limit: dict[str, Any], bound: float, value: dict[str, Any]) -> dict[str, Any]:
    """What became of a limit."""
    side = 1 if "low" in limit else -1
    distance = max(-10.0, min(1.0, side * (value["mean"] - bound) / abs(bound)))
    verdict = "pass" if distance >= 0 else "fail"
    return {"bound": bound, "verdict": verdict, "distance": distance, "value": value}


class Synthetic:
    """An evaluation in the making."""

    def __init__(self, seeds: int = 4, random_seed: int = 1) -> None:
        self.seeds = seeds
        self.random = random.Random(random_seed)
        self.point = 0

    def cell(
        self, family: str, number: int, controller: tuple[str, str, float, float], flows: int
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """A controller in a scenario that gets harder with its number, and its rows over time."""
        name, _, takes, delays = controller
        hard = number / 12
        tame = 1 - hard * self.random.uniform(0.1, 1.4) if family in ("noise", "loss") else 1.0
        rate, rtt = 100e6, 0.04
        takes *= max(0.05, tame)
        delays *= 1 + (hard * 3 if family == "buffers" else 0.2 * self.random.random())
        scatter = [self.random.gauss(0, 0.02) for _ in range(self.seeds)]
        utilisations = [min(1.0, takes * (1 + one)) for one in scatter]
        rtts = [rtt * (1 + delays * (1 + 2 * one) + self.random.gauss(0, 0.02)) for one in scatter]
        losses = [self.random.uniform(0, 0.002 + 0.006 * delays * hard) for _ in scatter]
        values = (sampled(utilisations), sampled(rtts, "s"), sampled(losses))
        bounds = (0.9, 1.5 * rtt, 0.005)
        limits = [held(*one) for one in zip(LIMITS, bounds, values, strict=True)]
        distance = min(one["distance"] for one in limits)
        throughput = sampled([rate * one for one in utilisations], "bit/s")
        point = self.point
        self.point += 1
        parts = [self.random.uniform(0.3, 1.0) for _ in range(flows)]
        cell = {
            "controller": name,
            "verdict": "pass" if distance >= 0 else "fail",
            "distance": distance,
            "seeds_run": self.seeds,
            "failures": [],
            "limits": limits,
            "throughput_bps": throughput,
            "delay_s": values[1],
            "power": sampled([t / r for t, r in zip(throughput["values"], rtts, strict=True)]),
            "against_best": {
                "throughput": throughput["mean"] / 98e6,
                "delay": values[1]["mean"] / 0.043,
                "power": 0.8,
                "of": {"throughput": "cubic", "delay": "vegas", "power": "vegas"},
            },
            "shares": [
                {
                    "subject": "flow/tested" if flow % 2 == 0 else "flow/beside",
                    "index": flow // 2,
                    "cc": name if flow % 2 == 0 else "cubic",
                    "throughput_bps": takes * rate * part / sum(parts),
                }
                for flow, part in enumerate(parts)
            ],
            "metrics": {"flow/tested": {"loss_ratio": values[2]}},
            "points": [point],
            "traces": [],
            "command": f"cargo xtask evaluate --cc {name} --scenario {family}/s{number} --traces",
        }
        return cell, self.course(point, cell, takes * rate, rtt, delays)

    def course(
        self, point: int, cell: dict[str, Any], bps: float, rtt: float, delays: float
    ) -> list[dict[str, Any]]:
        """Saw teeth."""
        rows = []
        shares = cell["shares"]
        whole = sum(share["throughput_bps"] for share in shares)
        for step in range(300):
            time, tooth = step / 10, (step % 70) / 70
            queue = delays * rtt * 2 * tooth
            for share in shares:
                part = share["throughput_bps"] / whole
                key = {name: share[name] for name in ("subject", "index", "cc")}
                noise = self.random.gauss(1, 0.05)
                rows += [
                    {
                        **key,
                        "metric": "throughput_bps",
                        "unit": "bit/s",
                        "value": bps * part * noise,
                    },
                    {
                        **key,
                        "metric": "cwnd_packets",
                        "unit": "packets",
                        "value": part * bps * (rtt + queue) / 10800,
                    },
                    {**key, "metric": "srtt_s", "unit": "s", "value": rtt + queue},
                ]
                for row in rows[-3:]:
                    row["time_s"] = time
            for metric, value in (
                ("queue_packets", bps * queue / 10800),
                ("drops", 12.0 if step % 70 == 69 else 0.0),
            ):
                rows.append(
                    {
                        "subject": "link/bottleneck",
                        "index": 0,
                        "cc": "",
                        "metric": metric,
                        "unit": "packets",
                        "value": value,
                        "time_s": time,
                    }
                )
        keys = {"point": point, "seed": 1, "background": False}
        return [keys | row for row in rows]


def evaluation(
    directory: Path,
    scenarios: int = 6,
    families: int = 2,
    controllers: int = 3,
    seeds: int = 4,
) -> dict[str, Any]:
    """Writes series.parquet of each family; returns the content of evaluation.json."""
    made = Synthetic(seeds)
    chosen = CONTROLLERS[:controllers]
    content: dict[str, Any] = {
        "title": "Evaluation",
        "command": "cargo xtask evaluate --fast",
        "first_seed": 1,
        "seeds": None,
        "fast": True,
        "fresh": None,
        "controllers": [
            {"id": name, "cc": name, "title": name, "summary": summary}
            | ({"stack": "quiche"} if name in _OF_QUICHE else {})
            for name, summary, _, _ in chosen
        ],
        "families": [],
        "not_run": [],
    }
    for family, title, unit in FAMILIES[:families]:
        flows = 2 if family == "sharing" else 1
        rows: list[dict[str, Any]] = []
        of_family = []
        for number in range(scenarios):
            cells = []
            for controller in chosen:
                cell, course = made.cell(family, number, controller, flows)
                cells.append(cell)
                rows += course
            of_family.append(
                {
                    "id": f"s{number}",
                    "title": f"100 Mbit/s, 40 ms, {number} {unit}",
                    "about": "A wired path with one bottleneck.",
                    "seeds": seeds,
                    "parameters": {"rate": "100mbit", "rtt": "40ms", "buffer": "1bdp"},
                    "limits": LIMITS,
                    "cells": cells,
                }
            )
        (directory / family).mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(directory / family / "series.parquet")
        content["families"].append(
            {
                "id": family,
                "title": title,
                "about": "Delays vary on every radio link.\n\nThe points are a geometric series.",
                "file": f"experiments/evaluation/{family}.toml",
                "directory": family,
                "scenarios": of_family,
            }
        )
    content["summary"] = summary(content)
    return content


def summary(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The tallies of an evaluation's content."""
    out = []
    for controller in content["controllers"]:
        families = {}
        for family in content["families"]:
            verdicts = [
                cell["verdict"]
                for scenario in family["scenarios"]
                for cell in scenario["cells"]
                if cell["controller"] == controller["id"] and cell["verdict"] != "missing"
            ]
            families[family["id"]] = {"passed": verdicts.count("pass"), "of": len(verdicts)}
        out.append(
            {
                "controller": controller["id"],
                "passed": sum(one["passed"] for one in families.values()),
                "of": sum(one["of"] for one in families.values()),
                "families": families,
            }
        )
    return out


def save_evaluation(directory: Path, content: dict[str, Any]) -> Path:
    """Writes evaluation.json."""
    write_json(directory / "evaluation.json", content)
    return directory
