"""The directory of a comparison: how it is read, and what is said of a bad one."""

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_comparison import PATH, comparison_lab, save_comparison, write_comparison

from qlog_analysis.errors import LayoutError, NotQlogError
from qlog_analysis.experiments.comparison import Comparison, read_comparison
from qlog_analysis.experiments.model import Flow
from qlog_analysis.reading import parallel
from qlog_analysis.reports import courses, tables
from qlog_analysis.reports.comparison import path_facts


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 1)


def ignore(_: int) -> None:
    pass


def drawn(comparison: Comparison) -> courses.Traces:
    return courses.read_traces(comparison, lambda _: ignore)


def test_a_directory_is_read(tmp_path: Path) -> None:
    out = read_comparison(write_comparison(tmp_path))
    experiment = out.outcomes["main"].measured.experiment
    assert (out.title, list(out.outcomes)) == ("Synthetic <comparison>", ["main"])
    assert experiment.name == "gallop/figure-4"
    assert list(experiment.seeds) == [5, 6, 7]
    vegas, plain = experiment.points.values()
    assert vegas.path is not None
    assert (vegas.path.rate_bps, vegas.path.buffer) == (10e6, {"packets": 20})
    assert vegas.flows == (
        Flow(
            name="flow",
            cc="vegas:alpha=1,beta=3",
            count=1,
            background=False,
            parameters={"alpha": 1.0, "beta": 3.0, "gamma": 1.0},
            traces=(tmp_path / "main/traces/vegas/flow-0.server.sqlog",),
        ),
    )
    assert plain.flows[0].parameters == {}
    assert experiment.controllers_of("plain") == ("cubic",)
    assert [one.stack for one in experiment.controllers] == ["", "quiche"]


def test_the_queue_is_of_the_first_seed(tmp_path: Path) -> None:
    comparison = read_comparison(write_comparison(tmp_path))
    (path,) = courses.courses(comparison, drawn(comparison))
    for run in path.runs:
        assert run.queue.time_s.tolist() == [step / 10 for step in range(100)]
        assert run.queue.value.tolist()[:5] == [0, 1, 2, 3, 0]
    assert path.payload_bps == 8e6
    assert path.runs[0].available_window == (51, 53)
    assert path.runs[1].available_window is None
    assert (path.runs[0].alpha, path.runs[0].beta, path.runs[1].alpha) == (1, 3, None)


def test_the_table_has_means_over_seeds(tmp_path: Path) -> None:
    measured = read_comparison(write_comparison(tmp_path)).outcomes["main"].measured
    table = tables.compare(measured)
    assert table.caption == "Means over 3 seeds, ± 95 % interval."
    assert [(heading.text, heading.small) for heading in table.columns] == [
        ("Vegas", ""),
        ("Plain", "quiche's, as shipped"),
    ]
    rows = {heading.text: cells for heading, cells in table.rows}
    throughput = rows["Throughput, all flows"]
    # Samples of 0.80, 0.81 and 0.82 Mbit/s: s = 0.01, t = 4.303, n = 3.
    assert (throughput[0].text, throughput[0].half) == ("0.810", "± 0.025")
    assert [cell.best for cell in throughput] == [False, True]
    reached = next(cells for heading, cells in table.rows if heading.text.startswith("95 %"))
    assert (reached[0].text, reached[0].half) == ("2.0", "± 0")
    assert reached[1].missing == "did not happen in 1 of 3 runs"
    # Jain's index of one flow, and what was not measured at all, have no row.
    assert len(table.rows) == 8
    assert all(heading.tip for heading, _ in table.rows)


def test_the_order_of_rows_is_that_of_the_report(tmp_path: Path) -> None:
    lab = comparison_lab(seeds=1, flows=2)
    measured = read_comparison(save_comparison(tmp_path, [lab])).outcomes["main"].measured
    assert tables.overview(measured) == (
        ("run", "slow_start_exit_s"),
        ("run", "time_to_95_percent_s"),
        ("run", "throughput_sum_bps"),
        ("link/bottleneck", "utilisation"),
        ("run", "lost_packets"),
        ("flow/flow", "window_at_exit_packets"),
        ("flow/flow", "available_window_low_packets"),
        ("flow/flow", "available_window_high_packets"),
        ("run", "jain"),
    )
    table = tables.compare(measured)
    assert table.caption == "One run with seed 5. Windows are means over the flows."
    assert [cell.half for _, cells in table.rows for cell in cells] == [""] * 18


def test_a_run_that_failed_is_not_drawn(tmp_path: Path) -> None:
    lab = comparison_lab()
    lab.fail(1, 5, "no progress")
    save_comparison(tmp_path, [lab])
    (tmp_path / "main/traces/plain/flow-0.server.sqlog").unlink()
    comparison = read_comparison(tmp_path)
    (path,) = courses.courses(comparison, drawn(comparison))
    assert [run.key for run in path.runs] == ["vegas"]
    table = tables.compare(comparison.outcomes["main"].measured)
    assert table.missing == ("1 of 3 runs failed: no progress",)


def test_a_trace_that_is_missing_is_named(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    (tmp_path / "main/traces/plain/flow-0.server.sqlog").unlink()
    comparison = read_comparison(tmp_path)
    with pytest.raises(NotQlogError, match=r"plain/flow-0\.server\.sqlog: cannot read the trace"):
        drawn(comparison)


def test_a_path_is_told_in_words(tmp_path: Path) -> None:
    lab = comparison_lab()
    lab.path = {**PATH, "flows": 12, "buffer": {"bytes": 25000}, "novelty": 7}
    point = read_comparison(save_comparison(tmp_path, [lab])).outcomes["main"].measured
    path = point.experiment.points[0].path
    assert path is not None
    assert dict(path_facts(path)) == {
        "Bottleneck": "10 Mbit/s",
        "RTT without queues": "50 ms",
        "Buffer": "25000 bytes",
        "Datagrams": "1000 bytes",
        "On the wire": "1250 bytes",
        "Duration": "10 s",
        "Initial window": "2 packets",
        "Packets per ACK": "1",
        "Longest ACK delay": "25 ms",
        "Flows": "12",
        "novelty": "7",
    }


def changed(path: Path, keys: list[str | int], value: Any) -> None:
    content = json.loads(path.read_text())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["title"], None, r"title is missing; expected a string"),
        (["title"], 5, r"title must be a string, not 5"),
        (["experiments"], {}, r"experiments must be a list, not {}"),
        (["experiments"], [], r"experiments is empty; expected at least one name"),
        (["experiments"], ["../x"], r"experiments must be plain names joined by /, not '\.\./x'"),
    ],
)
def test_problems_of_the_comparison_are_named(
    tmp_path: Path, keys: list[str | int], value: Any, message: str
) -> None:
    write_comparison(tmp_path)
    changed(tmp_path / "comparison.json", keys, value)
    with pytest.raises(LayoutError, match=rf"comparison\.json: {message}"):
        read_comparison(tmp_path)


POINT = ["points", 0]


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["first-seed"], None, r"first-seed is missing; expected an integer"),
        ([*POINT, "path", "rate_bps"], 0, r"points\[0\]: path: rate_bps must be more than 0"),
        ([*POINT, "path", "rate_bps"], True, r"rate_bps must be a number, not true"),
        ([*POINT, "path", "datagram_bytes"], 0, r"datagram_bytes must be 1 or more"),
        ([*POINT, "path"], 5, r"path must be an object, not 5"),
        ([*POINT, "flows"], None, r"points\[0\]: flows is missing; expected a list"),
        ([*POINT, "flows", 0], 5, r"flows\[0\]: expected an object, not 5"),
        ([*POINT, "flows", 0, "traces"], ["/etc/x"], r"traces must be plain names joined by /"),
        ([*POINT, "flows", 0, "traces"], [3], r"traces must be plain names joined by /, not 3"),
        ([*POINT, "flows", 0, "parameters"], {"a": "1"}, r"parameters: a must be a number"),
        (["controllers", 0, "summary"], None, r"controllers\[0\]: summary is missing"),
    ],
)
def test_problems_of_an_experiment_are_named(
    tmp_path: Path, keys: list[str | int], value: Any, message: str
) -> None:
    write_comparison(tmp_path)
    changed(tmp_path / "main" / "experiment.json", keys, value)
    with pytest.raises(LayoutError, match=rf"main/experiment\.json: .*{message}"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"title": NaN}', "\x00"])
def test_a_file_that_is_not_json_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "comparison.json").write_text(content)
    with pytest.raises(LayoutError, match=r"comparison\.json: not JSON"):
        read_comparison(tmp_path)


def test_no_comparison_at_all(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"comparison\.json: no such file"):
        read_comparison(tmp_path / "nowhere")


def test_another_unit_is_refused(tmp_path: Path) -> None:
    lab = comparison_lab()
    for row in lab.rows:
        if row["metric"] == "slow_start_exit_s":
            row["unit"] = "ms"
    message = r"results\.parquet: slow_start_exit_s of run is in 'ms'; expected 's'"
    with pytest.raises(LayoutError, match=message):
        read_comparison(save_comparison(tmp_path, [lab]))
