"""An experiment as it was run: the experiment.json that the simulator writes beside results.

Keys and values are those of the experiment's TOML file (docs/experiments.md), and these:

    name             the file's name without .toml
    command          the command line that runs it again
    packet-bytes     stream bytes that a full datagram carries
    first-seed       the first seed
    seeds            the number of seeds: first-seed, first-seed + 1, ...
    axes             [{"name": "x", "values": ["1ms", "13ms"]}, ...] in the order of the file;
                     the axis of the compared controllers is "run", its values are ids
    points           [{"point": 0, "axes": {"x": "1ms", "run": "vegas"}, "flows": [...]}, ...]:
                     the points to be run, with the flows of each; a point whose network is one
                     dumbbell has its "path" too
    controllers      [{"name": "vegas", "summary": "..."}, ...]: the controllers of all flows; with
                     "stack" if they are part of a QUIC stack
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import Fields, brief, read_json

Where = Mapping[str, tuple[str, ...]]
"""The values that axes may have, as texts; an axis that is not named may have any."""

RUN_AXIS = "run"

Across = Literal["mean", "min", "max", "sum", "crossing"]
_ACROSS: tuple[Across, ...] = ("mean", "min", "max", "sum", "crossing")

PlotKind = Literal["axis", "time", "trace"]
_PLOT_KINDS: tuple[PlotKind, ...] = ("axis", "time", "trace")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric of a subject at some points."""

    metric: str
    subject: str
    where: Where


@dataclass(frozen=True, slots=True)
class Override:
    """The parts in which another quantity differs from a first one; None where it does not."""

    metric: str | None
    subject: str | None
    where: Where

    def of(self, quantity: Quantity) -> Quantity:
        """The other quantity."""
        return Quantity(
            self.metric or quantity.metric,
            self.subject or quantity.subject,
            {**quantity.where, **self.where},
        )


@dataclass(frozen=True, slots=True)
class Claim:
    """The value that a paper gives for a quantity; open on a side where the bound is None.

    `across` says how the points that are left over become one number; `axis` and `level` belong to
    its value "crossing".
    """

    id: str
    title: str
    paper: float | None
    low: float | None
    high: float | None
    unit: str
    source: str
    note: str
    robust: bool
    value: Quantity
    ratio_to: Override | None
    across: Across
    axis: str
    level: float


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report: metrics or subjects or the values of an axis over those of another."""

    title: str
    metrics: tuple[str, ...]
    subjects: tuple[str, ...]
    rows: str
    columns: str
    where: Where
    ratio_to: Override | None


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the report; `flow` belongs to kind "trace", `x` and `log_x` to kind "axis"."""

    title: str
    kind: PlotKind
    metric: str
    subjects: tuple[str, ...]
    x: str
    lines: str
    log_x: bool
    flow: str
    where: Where
    ratio_to: Override | None


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared controllers, or combinations of them."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Controller:
    """A congestion controller; `stack` names the QUIC stack that it is part of, if any."""

    name: str
    summary: str
    stack: str


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow of a point, which may stand for several connections of one kind.

    Attributes:
        name: its name.
        cc: its controller with all options given.
        count: the number of its members.
        background: true if it is no part of the comparison.
        parameters: the numeric parameters of its controller, as far as they are known.
        traces: the qlogs that were kept, the n-th of member n.
    """

    name: str
    cc: str
    count: int
    background: bool
    parameters: Mapping[str, float]
    traces: tuple[Path, ...]

    @property
    def subject(self) -> str:
        """Its name in the tables of results."""
        return f"flow/{self.name}"

    @property
    def controller(self) -> str:
        """The name of its controller without options."""
        return self.cc.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Dumbbell:
    """The path of a point whose network is one dumbbell with a constant rate.

    Attributes:
        rate_bps: the bottleneck's rate.
        rtt_s: the RTT without queues.
        buffer: the bottleneck's buffer by its unit, "packets" or "bytes".
        datagram_bytes: UDP payload of a full datagram.
        packet_wire_bytes: bytes of a full datagram on the wire.
        duration_s: the duration of the simulation.
        raw: all that the file says of the path.
    """

    rate_bps: float
    rtt_s: float
    buffer: Mapping[str, float]
    datagram_bytes: int
    packet_wire_bytes: int
    duration_s: float
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of an experiment: the values of its axes, its flows, and its path if it is simple."""

    axes: Mapping[str, str]
    flows: tuple[Flow, ...]
    path: Dumbbell | None


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment as it was run."""

    directory: Path
    name: str
    title: str
    source: str
    about: str
    command: str
    packet_bytes: int
    seeds: range
    axes: Mapping[str, tuple[str, ...]]
    points: Mapping[int, Point]
    runs: tuple[Run, ...]
    controllers: tuple[Controller, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    claims: tuple[Claim, ...]

    def points_where(self, where: Where) -> list[int]:
        """The points whose axes have one of these values."""
        return [
            number
            for number, point in self.points.items()
            if all(point.axes.get(axis) in values for axis, values in where.items())
        ]

    def controllers_of(self, run: str) -> tuple[str, ...]:
        """The names of the controllers of a run's flows, each once, without the background's."""
        names = (
            flow.controller
            for point in self.points.values()
            if point.axes.get(RUN_AXIS, "") == run
            for flow in point.flows
            if not flow.background
        )
        return tuple(dict.fromkeys(names))


def read_experiment(directory: Path) -> Experiment:
    """Reads the experiment.json of a directory.

    Raises:
        LayoutError: the file is missing, or lacks a value, or has one that makes no sense.
    """
    top = read_json(directory / "experiment.json", "the directory of an experiment")
    axes = {axis.text("name"): _texts(axis, "values") for axis in top.objects("axes")}
    reader = _Reader(axes)
    return Experiment(
        directory=directory,
        name=top.path("name"),
        title=top.text("title"),
        source=_optional_text(top, "source"),
        about=_optional_text(top, "about"),
        command=_optional_text(top, "command"),
        packet_bytes=top.count("packet-bytes", least=1),
        seeds=range(first := top.count("first-seed"), first + top.count("seeds", least=1)),
        axes=axes,
        points={point.count("point"): _point(directory, point) for point in top.objects("points")},
        controllers=tuple(
            Controller(one.text("name"), one.text("summary"), _optional_text(one, "stack"))
            for one in _objects(top, "controllers")
        ),
        runs=tuple(
            Run(run.text("id"), _optional_text(run, "title") or run.text("id"))
            for run in _objects(top, "runs")
        ),
        tables=tuple(reader.table(table) for table in _objects(top, "tables")),
        plots=tuple(reader.plot(plot) for plot in _objects(top, "plots")),
        claims=tuple(reader.claim(claim) for claim in _objects(top, "claims")),
    )


def _point(directory: Path, point: Fields) -> Point:
    return Point(
        axes={axis: _text(point, axis, value) for axis, value in point.object("axes").raw.items()},
        flows=tuple(_flow(directory, flow) for flow in point.objects("flows")),
        path=_dumbbell(point.object("path")) if point.raw.get("path") is not None else None,
    )


def _flow(directory: Path, flow: Fields) -> Flow:
    has_parameters = flow.raw.get("parameters") is not None
    parameters = flow.object("parameters") if has_parameters else None
    return Flow(
        name=flow.text("name"),
        cc=flow.text("cc"),
        count=flow.count("count"),
        background=flow.raw.get("background") is True,
        parameters={}
        if parameters is None
        else {name: parameters.number(name) for name in parameters.raw},
        traces=tuple(directory / trace for trace in flow.paths("traces")),
    )


def _dumbbell(path: Fields) -> Dumbbell:
    buffer = path.object("buffer")
    return Dumbbell(
        rate_bps=path.number("rate_bps", above=0),
        rtt_s=path.number("rtt_s"),
        buffer={unit: buffer.number(unit) for unit in buffer.raw},
        datagram_bytes=path.count("datagram_bytes", least=1),
        packet_wire_bytes=path.count("packet_wire_bytes", least=1),
        duration_s=path.number("duration_s", above=0),
        raw=path.raw,
    )


_Text = TypeVar("_Text", bound=str)


class _Reader:
    """Reads the parts that refer to axes."""

    def __init__(self, axes: Mapping[str, tuple[str, ...]]) -> None:
        self.axes = axes

    def claim(self, claim: Fields) -> Claim:
        paper, low, high = (claim.optional(key) for key in ("paper", "low", "high"))
        tolerance = claim.optional("tolerance")
        if tolerance is not None and paper is not None:
            low, high = sorted((paper * (1 - tolerance), paper * (1 + tolerance)))
        value = claim.object("value")
        # `across = { across = "crossing", axis = "buffer", level = 1.0 }` has them in a table.
        how = claim.object("across") if isinstance(claim.raw.get("across"), dict) else claim
        return Claim(
            id=claim.text("id"),
            title=claim.text("title"),
            paper=paper,
            low=low,
            high=high,
            unit=_optional_text(claim, "unit"),
            source=_optional_text(claim, "source"),
            note=_optional_text(claim, "note"),
            robust=claim.raw.get("robust") is True,
            value=Quantity(value.text("metric"), value.text("subject"), self.where(value)),
            ratio_to=self.ratio_to(claim),
            across=_one_of(how, "across", _optional_text(how, "across") or "mean", _ACROSS),
            axis=_optional_text(how, "axis"),
            level=how.optional("level") or 0.0,
        )

    def table(self, table: Fields) -> Table:
        return Table(
            title=table.text("title"),
            metrics=_one_or_more(table, "metric", "metrics"),
            subjects=_one_or_more(table, "subject", "subjects"),
            rows=table.text("rows"),
            columns=table.text("columns"),
            where=self.where(table),
            ratio_to=self.ratio_to(table),
        )

    def plot(self, plot: Fields) -> Plot:
        kind = _one_of(plot, "kind", plot.text("kind"), _PLOT_KINDS)
        return Plot(
            title=plot.text("title"),
            kind=kind,
            metric="" if kind == "trace" else plot.text("metric"),
            subjects=() if kind == "trace" else _one_or_more(plot, "subject", "subjects"),
            x=plot.text("x") if kind == "axis" else "",
            lines=_optional_text(plot, "lines") or RUN_AXIS,
            log_x=plot.raw.get("log-x") is True,
            flow=plot.text("flow") if kind == "trace" else "",
            where=self.where(plot),
            ratio_to=self.ratio_to(plot),
        )

    def ratio_to(self, parent: Fields) -> Override | None:
        if parent.raw.get("ratio-to") is None:
            return None
        other = parent.object("ratio-to")
        return Override(
            _optional_text(other, "metric") or None,
            _optional_text(other, "subject") or None,
            self.where(other),
        )

    def where(self, parent: Fields) -> Where:
        if parent.raw.get("where") is None:
            return {}
        where = parent.object("where")
        out = {}
        for axis, value in where.raw.items():
            if axis not in self.axes:
                known = ", ".join(self.axes) or "none"
                raise LayoutError(f"{where.where}: no axis {axis!r}; expected one of {known}")
            values = value if isinstance(value, list) else [value]
            out[axis] = tuple(_text(where, axis, one) for one in values)
        return out


def _objects(parent: Fields, key: str) -> list[Fields]:
    return parent.objects(key) if parent.raw.get(key) is not None else []


def _optional_text(parent: Fields, key: str) -> str:
    value = parent.raw.get(key)
    return value if isinstance(value, str) else ""


def _text(parent: Fields, key: str, value: Any) -> str:
    """A value of an axis: the text of a string, anything else as JSON has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise LayoutError(f"{parent.where}: {key} must be a string or a number, not {brief(value)}")


def _texts(parent: Fields, key: str) -> tuple[str, ...]:
    values = parent.raw.get(key)
    if not isinstance(values, list):
        raise LayoutError(f"{parent.where}: {key} must be a list, not {brief(values)}")
    return tuple(_text(parent, key, value) for value in values)


def _one_or_more(parent: Fields, one: str, several: str) -> tuple[str, ...]:
    if parent.raw.get(several) is not None:
        return _texts(parent, several)
    return (parent.text(one),)


def _one_of(parent: Fields, key: str, value: str, known: tuple[_Text, ...]) -> _Text:
    for one in known:
        if value == one:
            return one
    raise LayoutError(f"{parent.where}: {key} must be one of {', '.join(known)}, not {value!r}")
