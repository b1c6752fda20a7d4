"""A comparison as the simulator wrote it: its tables beside the traces that it kept."""

import re
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pytest
from page import Page

from qlog_analysis import load
from qlog_analysis.commands.cli import main
from qlog_analysis.experiments.comparison import read_comparison
from qlog_analysis.metrics.definitions import find, metric_of
from qlog_analysis.metrics.summary import SHARED
from qlog_analysis.reading import parallel
from qlog_analysis.reports import tables

ARCHIVE = Path(__file__).parent / "fixtures" / "comparison.zip"
RUNS = ["gallop-vegas", "cubic-rfc9438", "bbr2"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulator")
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(out)
    return out / "comparison"


def test_every_metric_is_in_the_table_of_metrics(directory: Path) -> None:
    for name, timed in (("results", False), ("series", True)):
        table = pl.read_parquet(directory / "main" / f"{name}.parquet")
        pairs = table.select("subject", "metric", "unit").unique().rows()
        assert len(pairs) > 3
        for subject, metric, unit in pairs:
            known = find(subject, metric, over_time=timed)
            assert known is not None and known.unit == unit, (subject, metric)


@pytest.mark.parametrize("run", RUNS)
def test_a_summary_of_the_trace_has_the_same_numbers(directory: Path, run: str) -> None:
    """The metrics that traces and the simulator share come to the same by name and unit."""
    measured = read_comparison(directory).outcomes["main"].measured
    point = list(measured.experiment.axes["run"]).index(run)
    (flow,) = measured.experiment.points[point].flows
    summary = load(flow.traces[0]).summary()
    for name in SHARED:
        theirs, ours = measured.first("flow/flow", name, point), getattr(summary, name)
        if metric_of("flow", name).unit == "s":
            # The simulator looks at a connection at most every 5 ms.
            assert ours == pytest.approx(theirs, rel=5e-3, abs=5e-3), name
        else:
            assert ours == pytest.approx(theirs), name


def test_the_report_has_the_simulators_numbers(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 1)
    assert main(["report", str(directory)]) == 0
    assert capsys.readouterr().err == ""
    text = re.sub(r"\s+", " ", Page((directory / "report.html").read_text()).text)
    measured = read_comparison(directory).outcomes["main"].measured
    table = tables.compare(measured)
    labels = [row.text for row, _ in table.rows]
    assert len(labels) == len(set(labels)) > 15
    for row, cells in table.rows:
        assert row.text in text
        assert all(cell.text in text for cell in cells)
    for run in RUNS:
        seeds = measured.values["run", "throughput_sum_bps"]
        point = list(measured.experiment.axes["run"]).index(run)
        assert len([key for key in seeds if key[0] == point]) == 2
    assert "Means over 2 seeds, ± 95 % interval." in text
    assert "quiche's BBRv2" in text
    assert len(list((directory / "plots").glob("main--*.svg"))) == 10
