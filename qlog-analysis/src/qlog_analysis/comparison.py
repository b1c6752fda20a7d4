"""The directory of a comparison: which controllers ran over which paths, and what they reported.

DIR/comparison.json                            what was run, and what the papers claim of it
DIR/runs/<group>/<run>/run.json                counters of one run
DIR/runs/<group>/<run>/flow-<n>.server.sqlog   the sender's trace
DIR/runs/<group>/<run>/queue.csv               the bottleneck's queue over time
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from qlog_analysis.errors import LayoutError


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


class _Reader:
    """Takes values out of a JSON object; errors name the file and the key."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise LayoutError(f"{where}: an object is wanted, not {_brief(value)}")
        self.where = where
        self.raw: dict[str, Any] = value

    def _get(self, key: str, what: str, kinds: type | tuple[type, ...]) -> Any:
        if key not in self.raw:
            raise LayoutError(f"{self.where}: {key} is missing ({what} is wanted)")
        value = self.raw[key]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise LayoutError(f"{self.where}: {key} must be {what}, not {_brief(value)}")
        return value

    def text(self, key: str) -> str:
        return str(self._get(key, "a string", str))

    def name(self, key: str) -> str:
        """A string that is also the name of a directory."""
        value = self.text(key)
        if value in {"", ".", ".."} or "/" in value or "\\" in value:
            raise LayoutError(f"{self.where}: {key} must be a plain name, not {value!r}")
        return value

    def number(self, key: str, above: float | None = None) -> float:
        value = float(self._get(key, "a number", (int, float)))
        if above is not None and not value > above:
            raise LayoutError(f"{self.where}: {key} must be more than {above:g}, not {value:g}")
        return value

    def count(self, key: str, least: int = 0) -> int:
        value = int(self._get(key, "an integer", int))
        if value < least:
            raise LayoutError(f"{self.where}: {key} must be {least} or more, not {value}")
        return value

    def optional(self, key: str) -> float | None:
        return None if self.raw.get(key) is None else self.number(key)

    def object(self, key: str) -> "_Reader":
        return _Reader(f"{self.where}: {key}", self._get(key, "an object", dict))

    def objects(self, key: str) -> list["_Reader"]:
        values = self._get(key, "a list", list)
        return [_Reader(f"{self.where}: {key}[{i}]", value) for i, value in enumerate(values)]


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _read_json(path: Path) -> _Reader:
    try:
        return _Reader(str(path), json.loads(path.read_bytes(), parse_constant=_refuse))
    except FileNotFoundError as error:
        raise LayoutError(f"{path}: no such file; the directory of a comparison has one") from error
    except OSError as error:
        raise LayoutError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise LayoutError(f"{path}: not JSON: {error}") from error


def read_comparison(directory: Path) -> Comparison:
    """Reads a comparison's description and what its runs reported.

    Raises:
        LayoutError: a file is missing, or lacks a value, or has one that makes no sense.
    """
    top = _read_json(directory / "comparison.json")
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


def _group(directory: Path, group: _Reader) -> Group:
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
    run = _read_json(directory / "run.json")
    bottleneck = run.object("bottleneck")
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
        queue=_read_queue(directory / "queue.csv"),
    )


_QUEUE_COLUMNS = {
    "time_s": pl.Float64,
    "packets": pl.Float64,
    "bytes": pl.Float64,
    "drops": pl.Float64,
}


def _read_queue(path: Path) -> pl.DataFrame | None:
    if not path.exists():
        return None
    try:
        queue = pl.read_csv(path, schema_overrides=_QUEUE_COLUMNS)
        return queue.select(_QUEUE_COLUMNS.keys()).drop_nulls()
    except (pl.exceptions.PolarsError, OSError) as error:
        header = ",".join(_QUEUE_COLUMNS)
        detail = str(error).splitlines()[0]
        raise LayoutError(f"{path}: a CSV of numbers under {header} is wanted: {detail}") from error
