import csv
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from page import Page
from synthetic import TraceText
from synthetic_comparison import CONTROLLERS, comparison_lab, save_comparison, write_comparison

from qlog_analysis.commands.cli import main
from qlog_analysis.metrics.definitions import find, metric_of
from qlog_analysis.reading import parallel

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pool of processes, except in the tests of the pool."""
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
        assert main(["report", str(directory)]) == 0
    return directory


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_csv_has_a_line_for_each_number(reported: Path) -> None:
    out = rows(reported)
    # Eight metrics of two controllers.
    assert len(out) == 16
    throughput = next(row for row in out if row["metric"] == "throughput_sum_bps")
    assert (throughput["experiment"], throughput["run"]) == ("main", "vegas")
    assert (throughput["subject"], throughput["unit"], throughput["seeds"]) == ("run", "bit/s", "3")
    assert float(throughput["mean"]) == pytest.approx(810_000)
    assert float(throughput["low"]) < 800_000 < 820_000 < float(throughput["high"])
    never = [row for row in out if row["metric"] == "time_to_95_percent_s"]
    assert [row["mean"] for row in never] == ["2.0", ""]


def test_units_of_the_csv_are_those_of_the_table_of_metrics(reported: Path) -> None:
    for row in rows(reported):
        metric = find(row["subject"], row["metric"])
        assert metric is not None and metric.unit == row["unit"]


def test_claims_are_judged(reported: Path) -> None:
    content = json.loads((reported / "claims.json").read_text())
    exits, loss = content["claims"]
    assert (exits["id"], exits["paper"]) == ("gallop/exit", 0.52)
    assert (exits["measured"], exits["reproduced"]) == (0.5, True)
    assert (loss["measured"], loss["reproduced"]) == (11.0, False)


def test_plots_are_files(reported: Path) -> None:
    names = {path.name for path in (reported / "plots").iterdir()}
    assert names == {
        *(f"main--{key}.svg" for key in ("window", "rate", "rtt", "queue", "losses", "start")),
        "main--run-vegas.svg",
        "main--run-plain.svg",
    }
    for path in (reported / "plots").iterdir():
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_the_report_needs_nothing_else(reported: Path) -> None:
    page = Page((reported / "report.html").read_text())
    assert page.open == []
    assert page.tags["link"] == page.tags["img"] == 0
    assert page.tags["svg"] == 9
    assert page.tags["details"] == 2
    for source in page.sources:
        assert source.startswith("#") or (reported / source).is_file(), source
    assert not re.findall(r"url\((?!#)", (reported / "report.html").read_text())


def test_the_report_says_it_all(reported: Path) -> None:
    html = (reported / "report.html").read_text()
    text = re.sub(r"\s+", " ", Page(html).text)
    assert "Synthetic <comparison>" in text
    assert "Synthetic &lt;comparison&gt;" in html
    shown = [
        ("run", "slow_start_exit_s"),
        ("run", "throughput_sum_bps"),
        ("link/bottleneck", "utilisation"),
        ("flow/flow", "available_window_low_packets"),
    ]
    for part in (
        "cargo xtask compare --preset synthetic",
        "10 Mbit/s",
        "50 ms",
        "20 packets",
        "3 (seeds 5 to 7)",
        "Means over 3 seeds, ± 95 % interval.",
        "From the traces of seed 5.",
        "1 of 2 reproduced",
        "It does lose & says so",
        "vegas:alpha=1,beta=3 (alpha = 1, beta = 3, gamma = 1)",
        *(controller["summary"] for controller in CONTROLLERS),
        *(metric_of(subject, name).meaning for subject, name in shown),
    ):
        assert part in text, part
    assert metric_of("run", "jain").meaning not in text


@pytest.mark.usefixtures("no_plots")
def test_the_outcome_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(write_comparison(tmp_path))]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "Of the papers' 2 claims 1 are reproduced.",
        f"Report: {tmp_path / 'report.html'}",
    ]
    assert err == ""


@pytest.mark.usefixtures("no_plots")
def test_skipped_records_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_comparison(tmp_path)
    with (tmp_path / "main/traces/vegas/flow-0.server.sqlog").open("a") as file:
        file.write('\x1ebroken\n\x1e{"time":9999')
    assert main(["report", str(tmp_path)]) == 0
    warning = "main/traces/vegas/flow-0.server.sqlog: 2 of "
    told = capsys.readouterr().err
    assert warning in told
    assert "the file ends in the middle of one" in told
    assert warning in (tmp_path / "report.html").read_text()


def test_several_experiments_and_flows(tmp_path: Path) -> None:
    many = comparison_lab("gallop/figure-4", seeds=1, flows=12)
    many.axes = {"run": ["vegas"]}
    many.rows = [row for row in many.rows if row["point"] == 0]
    many.series = [row for row in many.series if row["point"] == 0]
    many.content["claims"] = []
    one = comparison_lab()
    one.content["claims"] = []
    assert main(["report", str(save_comparison(tmp_path, [one, many]))]) == 0
    assert not (tmp_path / "claims.json").exists()
    assert {row["experiment"] for row in rows(tmp_path)} == {"main", "more-1"}
    html = (tmp_path / "report.html").read_text()
    text = re.sub(r"\s+", " ", Page(html).text)
    assert "Paper against measurement" not in text
    assert "(10 of 12 flows)" in text
    assert metric_of("run", "jain").meaning in text
    assert {path.name for path in (tmp_path / "plots").glob("more-1--run-*")} == {
        "more-1--run-vegas.svg"
    }


def test_the_whole_command_in_a_process_of_its_own(reported: Path, tmp_path: Path) -> None:
    directory = write_comparison(tmp_path)
    command = [sys.executable, "-m", "qlog_analysis", "report", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for path in (reported / "plots").iterdir():
        assert (directory / "plots" / path.name).read_text() == path.read_text()


@pytest.mark.usefixtures("no_plots")
def test_a_pool_gives_what_one_process_gives(
    reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 2)
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    directory = write_comparison(tmp_path)
    assert main(["report", str(directory)]) == 0
    assert (directory / "summary.csv").read_text() == (reported / "summary.csv").read_text()
    assert "POLARS_MAX_THREADS" not in os.environ


@pytest.mark.parametrize("cores", [1, 2])
def test_a_file_that_is_no_trace_is_an_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: cores)
    write_comparison(tmp_path)
    (tmp_path / "main/traces/plain/flow-0.server.sqlog").write_text("hello")
    assert main(["report", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("qlog-analysis: ")
    assert "plain/flow-0.server.sqlog: not a qlog trace" in err
    assert not (tmp_path / "report.html").exists()


def test_errors_of_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(FIXTURES / "udp-vegas.server.sqlog.gz")
    (tmp_path / "file").write_text("")
    assert main(["to-parquet", trace, "--out", str(tmp_path / "file" / "out")]) == 1
    assert f"qlog-analysis: {tmp_path / 'file' / 'out'}: Not a directory" in capsys.readouterr().err


def piped(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command with a pipe as stdout of which nothing is read."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, "-m", "qlog_analysis", *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    finally:
        os.close(write)


@pytest.mark.parametrize("command", [["summary"], ["summary", "--json"], ["compare"]])
def test_a_reader_that_goes_away_is_no_error(command: list[str], tmp_path: Path) -> None:
    done = piped(tmp_path, *command, str(FIXTURES / "udp-vegas.server.sqlog.gz"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "name", ["$x^2_1$.sqlog", "_.sqlog", "a_b^c\\frac.sqlog", "<&>.sqlog", "naïve \udcff.sqlog"]
)
@pytest.mark.parametrize("kind", ["trace-graph", "overview"])
def test_any_file_name_can_be_drawn(name: str, kind: str, tmp_path: Path) -> None:
    trace = TraceText({**json.loads(TraceText().records[0]), "title": ""})
    for number in range(20):
        trace.sent(float(number), number)
        trace.acked(40.0 + number, [0, number])
    trace.metrics(40.0, congestion_window=10_000, min_rtt=40.0, latest_rtt=40.0)
    path = trace.save(tmp_path / name)
    for ending in ("svg", "png"):
        out = tmp_path / f"out.{ending}"
        assert main(["plot", str(path), "--kind", kind, "--out", str(out)]) == 0
        assert out.stat().st_size > 1000
    shown = name.replace("\udcff", "\N{REPLACEMENT CHARACTER}")
    texts = [element.text or "" for element in ET.parse(tmp_path / "out.svg").iter()]
    assert any(text.startswith(shown) for text in texts)


def test_a_name_that_is_not_text_is_analysed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TraceText()
    trace.sent(1.0, 0)
    path = str(trace.save(tmp_path / "\udcff.sqlog"))
    assert main(["summary", path]) == 0
    assert main(["summary", "--json", path]) == 0
    assert main(["compare", path, "--out", str(tmp_path / "report")]) == 0
    assert main(["to-parquet", path, "--out", str(tmp_path / "tables")]) == 0
    assert "\N{REPLACEMENT CHARACTER}.sqlog" in (tmp_path / "report" / "report.html").read_text()
    assert "\\udcff.sqlog" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [("-1", "not '-1'"), ("x", "not 'x'"), ("1min", "not '1min'")],
)
def test_a_bad_time_is_named(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plot", "trace.sqlog", "--from", text])
    err = capsys.readouterr().err
    assert "--from" in err and message in err


@pytest.mark.parametrize(
    "command", ["report", "papers", "plot", "convert", "summary", "to-parquet", "compare"]
)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"example: qlog-analysis {command}" in capsys.readouterr().out


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report"])
    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err
