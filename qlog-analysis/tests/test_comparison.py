import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import flow_entry, run_entry, write_comparison, write_json

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.comparison import Claim, read_comparison


def test_a_directory_is_read(tmp_path: Path) -> None:
    out = read_comparison(write_comparison(tmp_path))
    group = out.groups[0]
    vegas, plain = group.runs
    assert out.title == "Synthetic <comparison>"
    assert (group.scenario.rate_bps, group.scenario.buffer_text) == (10e6, "20 packets")
    assert (vegas.parameter("alpha"), vegas.parameter("no")) == (1.0, None)
    assert plain.parameter("alpha") is None
    assert vegas.flows[0].trace == tmp_path / "runs/paper/vegas/flow-0.server.sqlog"
    assert vegas.queue is not None
    assert vegas.queue.row(2) == (0.02, 2.0, 2500.0, 0.0)


def test_the_queue_is_optional(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    (tmp_path / "runs/paper/vegas/queue.csv").unlink()
    assert read_comparison(tmp_path).groups[0].runs[0].queue is None


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
        (["title"], None, r"comparison\.json: title is missing \(a string is wanted\)"),
        (["title"], 5, r"title must be a string, not 5"),
        (["groups"], {}, r"groups must be a list, not {}"),
        (["groups"], [], r"at least one group"),
        (["groups", 0, "runs"], [], r"at least one group, and one run in each"),
        (["groups", 0, "id"], "../other", r"groups\[0\]: id must be a plain name"),
        (["groups", 0, "scenario", "rate_bps"], 0, r"rate_bps must be more than 0, not 0"),
        (["groups", 0, "scenario", "rate_bps"], True, r"rate_bps must be a number, not true"),
        (["groups", 0, "scenario", "flows"], 1.5, r"flows must be an integer, not 1\.5"),
        (["groups", 0, "scenario", "datagram_bytes"], 0, r"datagram_bytes must be 1 or more"),
        (["groups", 0, "runs", 0], 5, r"runs\[0\]: an object is wanted, not 5"),
        (["groups", 0, "runs", 0, "id"], "other", r"other/run\.json: no such file"),
        (["claims", 0, "low"], "x", r"claims\[0\]: low must be a number"),
    ],
)
def test_what_is_wrong_in_the_comparison_is_named(
    tmp_path: Path, keys: list[str | int], value: Any, message: str
) -> None:
    write_comparison(tmp_path)
    changed(tmp_path / "comparison.json", keys, value)
    with pytest.raises(LayoutError, match=message):
        read_comparison(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flows": [flow_entry(trace="../x")]}, r"flows\[0\]: trace must be a plain name"),
        ({"flows": [flow_entry(packets_lost=-1)]}, r"packets_lost must be 0 or more, not -1"),
        ({"simulated_s": 0}, r"simulated_s must be more than 0"),
        ({"parameters": [1]}, r"parameters must be an object, not \[1\]"),
        ({"bottleneck": 3}, r"bottleneck must be an object"),
    ],
)
def test_what_is_wrong_in_a_run_is_named(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_comparison(tmp_path)
    path = tmp_path / "runs/paper/vegas/run.json"
    write_json(path, {**run_entry("vegas", [flow_entry()]), **changes})
    with pytest.raises(LayoutError, match=rf"vegas/run\.json.*{message}"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("content", ["", "{", '{"title": NaN}', "\x00"])
def test_what_is_no_json_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "comparison.json").write_text(content)
    with pytest.raises(LayoutError, match=r"comparison\.json: not JSON"):
        read_comparison(tmp_path)


def test_no_comparison_at_all(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match=r"comparison\.json: no such file"):
        read_comparison(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "time_s,packets,bytes,drops\n1,x,2,3\n"])
def test_a_bad_queue_is_named(tmp_path: Path, content: str) -> None:
    write_comparison(tmp_path)
    (tmp_path / "runs/paper/vegas/queue.csv").write_text(content)
    with pytest.raises(LayoutError, match=r"queue\.csv: a CSV of numbers under time_s,packets"):
        read_comparison(tmp_path)


@pytest.mark.parametrize(
    ("low", "high", "measured", "expected"),
    [
        (1.0, 2.0, 1.0, True),
        (1.0, 2.0, 2.0, True),
        (1.0, 2.0, 2.001, False),
        (1.0, 2.0, 0.999, False),
        (None, 2.0, -5.0, True),
        (1.0, None, 1e9, True),
        (None, None, 0.0, True),
        (None, None, None, False),
    ],
)
def test_verdicts(
    low: float | None, high: float | None, measured: float | None, expected: bool
) -> None:
    claim = Claim(run="g/r", metric="packets_lost", low=low, high=high, raw={})
    assert claim.reproduced(measured) is expected
