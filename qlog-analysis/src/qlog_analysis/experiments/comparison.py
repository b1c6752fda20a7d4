"""The directory of a comparison: which controllers ran over which paths, and what they reported.

DIR/comparison.json                            what was run, and what the papers claim of it
DIR/runs/<group>/<run>/run.json                counters of one run
DIR/runs/<group>/<run>/flow-<n>.server.sqlog   the sender's trace
DIR/runs/<group>/<run>/queue.csv               the bottleneck's queue over time
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from qlog_analysis import schemas
from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import Fields, read_json


@dataclass(frozen=True, slots=True)
class Scenario:
    """A path and its traffic, with its own words as `raw` for the summary."""

    rate_bps: float
    rtt_s: float
    buffer: Mapping[str, float]
    datagram_bytes: int
    duration_s: float
    flows: int
    raw: Mapping[str, Any]

    @property
    def buffer_text(self) -> str:
        """The bottleneck's buffer in words."""
        return ", ".join(f"{size:g} {unit}" for unit, size in self.buffer.items())


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection of a run, as the simulator counted it."""

    trace: Path
    start_s: float
    packets_sent: int
    packets_lost: int
    retransmitted_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """One controller over the path of its group."""

    id: str
    name: str
    options: str
    parameters: Mapping[str, Any] | None
    packet_wire_bytes: int
    flows: tuple[Flow, ...]
    queue_mean_packets: float | None
    queue_max_packets: float | None
    forwarded_bytes: int | None
    duration_s: float
    queue: pl.DataFrame | None
    """The bottleneck's queue over time: `time_s`, `packets`, `bytes`, `drops`."""

    def parameter(self, name: str) -> float | None:
        """A parameter of the controller as a number, None where it has none of this name."""
        value = (self.parameters or {}).get(name)
        return float(value) if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Group:
    """Runs over one path."""

    id: str
    title: str
    scenario: Scenario
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says a metric of a run comes to; open on a side where the bound is None."""

    run: str
    metric: str
    low: float | None
    high: float | None
    raw: Mapping[str, Any]

    def reproduced(self, measured: float | None) -> bool:
        """Whether a measured value lies in the allowed interval; nothing measured does not."""
        if measured is None:
            return False
        above = self.low is None or measured >= self.low
        below = self.high is None or measured <= self.high
        return above and below


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of a directory but the traces."""

    directory: Path
    title: str
    command: str
    groups: tuple[Group, ...]
    claims: tuple[Claim, ...]


def read_comparison(directory: Path) -> Comparison:
    """Reads a comparison's description and what its runs reported.

    Raises:
        LayoutError: a file is missing, or lacks a value, or has one that makes no sense.
    """
    top = read_json(directory / "comparison.json", "the directory of a comparison")
    groups = tuple(_group(directory, group) for group in top.objects("groups"))
    if not groups or not all(group.runs for group in groups):
        raise LayoutError(f"{top.where}: at least one group, and one run in each, is wanted")
    claims = top.objects("claims") if top.raw.get("claims") else []
    return Comparison(
        directory=directory,
        title=top.text("title"),
        command=top.text("command"),
        groups=groups,
        claims=tuple(
            Claim(
                run=claim.text("run"),
                metric=claim.text("metric"),
                low=claim.optional("low"),
                high=claim.optional("high"),
                raw=claim.raw,
            )
            for claim in claims
        ),
    )


def _group(directory: Path, group: Fields) -> Group:
    group_id = group.name("id")
    scenario = group.object("scenario")
    buffer = scenario.object("buffer")
    return Group(
        id=group_id,
        title=group.text("title"),
        scenario=Scenario(
            rate_bps=scenario.number("rate_bps", above=0),
            rtt_s=scenario.number("rtt_s"),
            buffer={unit: buffer.number(unit) for unit in buffer.raw},
            datagram_bytes=scenario.count("datagram_bytes", least=1),
            duration_s=scenario.number("duration_s", above=0),
            flows=scenario.count("flows", least=1),
            raw=scenario.raw,
        ),
        runs=tuple(
            _run(directory / "runs" / group_id / run.name("id")) for run in group.objects("runs")
        ),
    )


def _run(directory: Path) -> Run:
    run = read_json(directory / "run.json", "the directory of a comparison")
    bottleneck = run.object("bottleneck")
    queue = directory / "queue.csv"
    parameters = run.object("parameters").raw if run.raw.get("parameters") is not None else None
    return Run(
        id=run.text("id"),
        name=run.text("name"),
        options=run.text("options"),
        parameters=parameters,
        packet_wire_bytes=run.count("packet_wire_bytes", least=1),
        flows=tuple(
            Flow(
                trace=directory / flow.name("trace"),
                start_s=flow.number("start_s"),
                packets_sent=flow.count("packets_sent"),
                packets_lost=flow.count("packets_lost"),
                retransmitted_bytes=flow.count("retransmitted_bytes"),
                received_bytes=flow.count("received_bytes"),
            )
            for flow in run.objects("flows")
        ),
        queue_mean_packets=bottleneck.optional("queue_mean_packets"),
        queue_max_packets=bottleneck.optional("queue_max_packets"),
        forwarded_bytes=None
        if bottleneck.raw.get("forwarded_bytes") is None
        else bottleneck.count("forwarded_bytes"),
        duration_s=run.number("simulated_s", above=0),
        queue=read_queue(queue, schemas.QUEUE) if queue.exists() else None,
    )


def read_queue(path: Path, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """A queue over time, from a CSV with these columns.

    Raises:
        LayoutError: the file cannot be read or has other columns.
    """
    try:
        return pl.read_csv(path, schema_overrides=columns).select(columns.keys()).drop_nulls()
    except (pl.exceptions.PolarsError, OSError) as error:
        header = ",".join(columns)
        detail = str(error).splitlines()[0]
        raise LayoutError(f"{path}: a CSV of numbers under {header} is wanted: {detail}") from error
