import csv
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from page import Page
from synthetic import SCENARIO, flow_entry, run_entry, steady_trace, write_comparison, write_json

from qlog_analysis.commands.cli import main
from qlog_analysis.metrics.definitions import BUILT_IN, METRICS
from qlog_analysis.reading import parallel


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pool of processes where it is not what is tested."""
    monkeypatch.setattr(parallel, "_cores", lambda: 1)


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time; for tests of something else."""
    monkeypatch.setattr("qlog_analysis.reports.comparison.draw", lambda _: [])


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_comparison(tmp_path_factory.mktemp("comparison"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_cores", lambda: 1)
        assert main(["report", str(directory), "--json", str(directory / "copy.json")]) == 0
    return directory


def summary(directory: Path) -> Any:
    return json.loads((directory / "summary.json").read_text())


def test_the_summary_has_the_numbers(reported: Path) -> None:
    out = summary(reported)
    assert out["title"] == "Synthetic <comparison>"
    assert out["command"] == "cargo xtask compare --preset synthetic"
    assert out["path"] == SCENARIO
    assert out["report"] == str(reported / "report.html")
    assert out["controllers"] == out["groups"][0]["controllers"]
    vegas, plain = out["controllers"]
    assert (vegas["name"], vegas["options"]) == ("vegas", "alpha=1,beta=3")
    assert vegas["slow_start_exit_s"] == 0.5
    assert plain["slow_start_exit_s"] == 0.25
    assert vegas["available_window_reached_s"] == 3.0
    assert vegas["available_window_low_packets"] == 51.0
    assert vegas["available_window_high_packets"] == 53.0
    assert plain["available_window_low_packets"] is None
    assert vegas["time_to_95_percent_s"] == 2.0
    assert vegas["throughput_bps"] == 800_000
    assert vegas["utilisation"] == 0.5
    assert vegas["queueing_delay_mean_ms"] == pytest.approx(1.5, abs=0.01)
    assert vegas["jain_index"] is None
    assert vegas["flows"][0]["delivery_from"] == "acknowledged"
    assert {metric.key for metric in METRICS} <= vegas.keys()


def test_claims_are_judged(reported: Path) -> None:
    exit_claim, loss_claim = summary(reported)["claims"]
    assert (exit_claim["id"], exit_claim["paper"]) == ("exit", 0.52)
    assert (exit_claim["measured"], exit_claim["reproduced"]) == (0.5, True)
    assert (loss_claim["measured"], loss_claim["reproduced"]) == (10, False)


def test_the_copy_of_the_summary_is_the_same(reported: Path) -> None:
    assert (reported / "copy.json").read_text() == (reported / "summary.json").read_text()


def test_the_csv_has_one_line_per_run(reported: Path) -> None:
    with (reported / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["group"], row["id"]) for row in rows] == [("paper", "vegas"), ("paper", "plain")]
    assert rows[0]["slow_start_exit_s"] == "0.5"
    assert rows[0]["jain_index"] == ""
    assert "flows" not in rows[0]


def test_plots_are_files(reported: Path) -> None:
    names = {path.name for path in (reported / "plots").iterdir()}
    assert names == {
        *(f"paper--{key}.svg" for key in ("window", "rate", "rtt", "queue", "start")),
        "paper--run-vegas.svg",
        "paper--run-plain.svg",
    }
    for path in (reported / "plots").iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_the_report_needs_nothing_else(reported: Path) -> None:
    page = Page((reported / "report.html").read_text())
    assert page.open == []
    assert page.tags["script"] == page.tags["link"] == 0
    assert page.tags["svg"] == 7
    assert page.tags["details"] == 2
    assert all(source.startswith("#") for source in page.sources)
    assert not re.findall(r"url\((?!#)", (reported / "report.html").read_text())


def test_the_report_says_it_all(reported: Path) -> None:
    html = (reported / "report.html").read_text()
    text = re.sub(r"\s+", " ", Page(html).text)
    assert "Synthetic <comparison>" in text
    assert "Synthetic &lt;comparison&gt;" in html
    for part in (
        "cargo xtask compare --preset synthetic",
        "10 Mbit/s",
        "50 ms",
        "20 packets",
        "1 of 2 reproduced",
        "It does lose & says so",
        "alpha = 1.0, beta = 3.0, gamma = 1.0",
        *(metric.meaning for metric in METRICS),
    ):
        assert part in text, part
    assert '<td>0.80</td><td class="best">1.60</td>' in html
    assert "Jain's fairness index</th>" not in html.replace("&#39;", "'")


@pytest.mark.usefixtures("no_plots")
def test_the_report_says_what_a_built_in_controller_is(tmp_path: Path) -> None:
    directory = write_comparison(tmp_path)
    run = directory / "runs" / "paper" / "plain" / "run.json"
    write_json(run, json.loads(run.read_text()) | {"name": "reno"})
    assert main(["report", str(directory)]) == 0
    text = re.sub(r"\s+", " ", Page((directory / "report.html").read_text()).text)
    assert BUILT_IN["reno"] in text
    assert BUILT_IN["cubic"] not in text


@pytest.mark.usefixtures("no_plots")
def test_the_table_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(write_comparison(tmp_path))]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "A path of 10 Mbit/s"
    rule = next(line for line in lines if line.startswith("---"))
    table = lines[2 : lines.index(rule) + 3]
    assert max(len(line) for line in table) <= 100
    assert len({len(line) for line in table[-2:]}) == 1
    assert table[-2].split() == [
        "vegas", "0.50", "3.00", "2.0", "0.80", "50.0", "10", "50.0", "50.0", "3.5",
    ]  # fmt: skip
    assert "Mbit/s" in "".join(table)
    assert "Of the papers' 2 claims 1 are reproduced." in lines
    assert err == ""


@pytest.mark.usefixtures("no_plots")
def test_skipped_records_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_comparison(tmp_path)
    with (tmp_path / "runs/paper/vegas/flow-0.server.sqlog").open("a") as file:
        file.write('\x1ebroken\n\x1e{"time":9999')
    assert main(["report", str(tmp_path)]) == 0
    warning = "paper/vegas/flow-0.server.sqlog: 2 of "
    told = capsys.readouterr().err
    assert warning in told
    assert "the file ends in the middle of one" in told
    assert warning in (tmp_path / "report.html").read_text()


def test_several_groups_and_flows(tmp_path: Path) -> None:
    directory = write_comparison(tmp_path)
    content = json.loads((directory / "comparison.json").read_text())
    scenario = {**SCENARIO, "flows": 12, "buffer": {"bytes": 25000}}
    content["groups"].append(
        {"id": "many", "title": "Many", "scenario": scenario, "runs": [{"id": "vegas", "cc": ""}]}
    )
    content["claims"] = []
    write_json(directory / "comparison.json", content)
    where = directory / "runs/many/vegas"
    trace = steady_trace()
    flows = [flow_entry(number, start_s=number / 10) for number in range(12)]
    for flow in flows:
        trace.save(where / flow["trace"])
    write_json(where / "run.json", run_entry("vegas", flows))
    assert main(["report", str(directory)]) == 0
    out = summary(directory)
    assert [len(group["controllers"]) for group in out["groups"]] == [2, 1]
    assert len(out["groups"][1]["controllers"][0]["flows"]) == 12
    assert out["groups"][1]["controllers"][0]["jain_index"] == pytest.approx(1, abs=0.01)
    assert out["claims"] == []
    html = (directory / "report.html").read_text()
    assert "Paper against measurement" not in html
    assert "25000 bytes" in html


def test_processes_give_what_one_gives(reported: Path, tmp_path: Path) -> None:
    """The whole command in a process of its own, with the cores there are."""
    directory = write_comparison(tmp_path)
    command = [sys.executable, "-m", "qlog_analysis", "report", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert summary(directory)["groups"] == summary(reported)["groups"]


@pytest.mark.usefixtures("no_plots")
def test_a_pool_gives_what_one_process_gives(
    reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 2)
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    directory = write_comparison(tmp_path)
    assert main(["report", str(directory)]) == 0
    assert summary(directory)["groups"] == summary(reported)["groups"]
    assert "POLARS_MAX_THREADS" not in os.environ


@pytest.mark.parametrize("cores", [1, 2])
def test_a_trace_that_is_none_is_an_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: cores)
    write_comparison(tmp_path)
    (tmp_path / "runs/paper/plain/flow-0.server.sqlog").write_text("hello")
    assert main(["report", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("qlog-analysis: ")
    assert "plain/flow-0.server.sqlog: not a qlog trace" in err
    assert not (tmp_path / "report.html").exists()


def claim(**changes: Any) -> dict[str, Any]:
    return {"id": "c", "run": "paper/vegas", "metric": "loss_rate", "low": 0, "high": 1, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": "paper/none"}, "claim 'c': no run 'paper/none'; there are paper/vegas, paper/pl"),
        ({"metric": "flows"}, "claim 'c': no metric 'flows'; there are slow_start_exit_s, "),
    ],
)
def test_a_claim_of_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], message: str
) -> None:
    write_comparison(tmp_path, claims=[claim(**changes)])
    assert main(["report", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("no_plots")
def test_errors_of_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_comparison(tmp_path)
    target = tmp_path / "no" / "such" / "summary.json"
    assert main(["report", str(tmp_path), "--json", str(target)]) == 1
    assert f"{target}: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["report", "--help"]])
def test_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "example: qlog-analysis report" in capsys.readouterr().out


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report"])
    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err
