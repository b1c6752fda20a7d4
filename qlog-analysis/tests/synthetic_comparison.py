"""Writes the directory of a comparison as the simulator does, with known answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthetic import steady_trace, write_json
from synthetic_papers import Axes, Lab, claim

PATH: dict[str, Any] = {
    # 1000 packets a second of 1250 bytes on the wire.
    "rate_bps": 10e6,
    "rtt_s": 0.05,
    "buffer": {"packets": 20},
    "datagram_bytes": 1000,
    "packet_wire_bytes": 1250,
    "initial_window_packets": 2,
    "ack_every": 1,
    "max_ack_delay_s": 0.025,
    "duration_s": 10.0,
    "flows": 1,
}

CONTROLLERS = [
    {"name": "vegas", "summary": "Vegas as Brakmo et al. 1994 have it."},
    {"name": "cubic", "summary": "quiche's CUBIC, without pacing.", "stack": "quiche"},
]


def comparison_lab(name: str = "gallop/figure-4", seeds: int = 3, flows: int = 1) -> Lab:
    """Two controllers over one path: one with backlog thresholds, and one of quiche's."""
    lab = Lab(name, {"run": ["vegas", "plain"]}, seeds)
    lab.first_seed = 5
    lab.path = PATH | {"flows": flows}
    lab.controllers = CONTROLLERS
    lab.flows = lambda axes: [_flow(axes["run"], flows)]

    def by_run(vegas: float | None, plain: float | None, step: float = 0.0) -> Any:
        """A value for each run, which grows with the seed."""

        def value(axes: Axes, seed: int) -> float | None:
            first = vegas if axes["run"] == "vegas" else plain
            return None if first is None else first + step * (seed - 5)

        return value

    measure = lab.measure
    measure("run", "slow_start_exit_s", by_run(0.5, 0.25))
    measure("run", "throughput_sum_bps", by_run(0.8e6, 1.6e6, 1e4))
    measure("link/bottleneck", "utilisation", by_run(0.5, 0.75))
    measure("run", "lost_packets", by_run(0.0, 10.0, 1.0))
    # It did not happen under the first seed.
    measure(
        "run",
        "time_to_95_percent_s",
        lambda axes, seed: None if axes["run"] == "plain" and seed == 5 else 2.0,
    )
    measure("run", "jain", by_run(None, None) if flows == 1 else by_run(1.0, 0.9))
    for index in range(flows):
        measure("flow/flow", "window_at_exit_packets", by_run(30.0, 40.0), index=index)
        measure("flow/flow", "available_window_low_packets", by_run(51.0, None), index=index)
        measure("flow/flow", "available_window_high_packets", by_run(53.0, None), index=index)
    for point in (0, 1):
        for step in range(100):
            lab.course(point, "link/bottleneck", "queue_packets", step / 10, float(step % 4))
    lab.content["claims"] = [
        claim(
            "gallop/exit",
            "slow_start_exit_s",
            "run",
            {"run": "vegas"},
            title="Vegas leaves slow start",
            paper=0.52,
            low=0.5,
            high=0.6,
            unit="s",
        ),
        claim(
            "gallop/loss",
            "lost_packets",
            "run",
            {"run": "plain"},
            title="No loss",
            paper=0,
            low=None,
            high=0,
            note="It does lose & says so",
        ),
    ]
    return lab


def _flow(run: str, count: int) -> dict[str, Any]:
    vegas = run == "vegas"
    return {
        "name": "flow",
        "cc": "vegas:alpha=1,beta=3" if vegas else "cubic",
        "count": count,
        "background": False,
        "traces": [f"traces/{run}/flow-{index}.server.sqlog" for index in range(count)],
    } | ({"parameters": {"alpha": 1.0, "beta": 3.0, "gamma": 1.0}} if vegas else {})


def save_comparison(directory: Path, labs: Sequence[Lab], **changes: Any) -> Path:
    """Writes experiments with traces of all flows as the comparison's `main` and others."""
    vegas = steady_trace(500.0)
    vegas.metrics(9_990.0, vegas_base_rtt_ms=50.0, vegas_backlog_packets=2.0)
    plain = steady_trace(250.0)
    names = ["main", *(f"more-{number}" for number in range(1, len(labs)))]
    for name, lab in zip(names, labs, strict=True):
        where = lab.save(directory, name)
        for axes in lab.points():
            for flow in lab.flows(axes):
                for trace in flow["traces"]:
                    (vegas if axes["run"] == "vegas" else plain).save(where / trace)
    content = {
        "title": "Synthetic <comparison>",
        "command": "cargo xtask compare --preset synthetic",
        "experiments": names,
    }
    write_json(directory / "comparison.json", content | changes)
    return directory


def write_comparison(directory: Path, **changes: Any) -> Path:
    """Writes one experiment of three seeds as a comparison."""
    return save_comparison(directory, [comparison_lab()], **changes)
