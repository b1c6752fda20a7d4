"""The traces of a fleet as one data set, and the documented queries on it."""

import re
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from synthetic import HEADER, TraceText

from qlog_analysis.commands.cli import main
from qlog_analysis.errors import UsageError
from qlog_analysis.export import fleet
from qlog_analysis.export.fleet import fill
from qlog_analysis.library import load_all
from qlog_analysis.reading import parallel

LABELS = r"/(?P<network>net-[^/]+)/"
README = Path(__file__).parents[1] / "README.md"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_cores", lambda: 1)
    monkeypatch.setattr(fleet, "BATCH_FILES", 3)


def trace(controller: str, day: int, rtt_ms: float, lost: int = 0, packets: int = 10) -> TraceText:
    """A server's trace of a flow with one RTT, 50 ms of which are no queue."""
    start = {"reference_time": {"wall_clock_time": f"2026-01-0{day}T12:00:00Z"}}
    out = TraceText(
        HEADER
        | {
            "title": controller,
            "description": f"server, congestion control {controller}",
            "trace": {"vantage_point": {"type": "server"}, "common_fields": start},
        }
    )
    out.metrics(0.0, min_rtt=50.0, smoothed_rtt=rtt_ms, latest_rtt=rtt_ms)
    for number in range(packets):
        out.sent(float(number), number, 1000)
    for number in range(lost):
        out.event(20.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": number})
    out.metrics(100.0, latest_rtt=50.0)
    return out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Traces of two controllers in two networks: one slow before the second of January."""
    out = tmp_path / "traces"
    for network in ("net-a", "net-b"):
        for day, rtt_ms in ((1, 90.0), (2, 60.0)):
            for place in range(2):
                one = trace("canter:compete=on", day, rtt_ms + place, lost=1)
                one.save(out / network / f"canter-{day}-{place}.sqlog")
                trace("bbr2", 1, 80.0).save(out / network / f"bbr2-{day}-{place}.sqlog")
    (out / "net-a" / "notes.txt").write_text("no trace")
    return out


def rows(out: Path) -> pl.DataFrame:
    return pl.read_parquet(out / "traces", hive_partitioning=True).sort("trace")


def test_a_folder_becomes_a_partitioned_data_set(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    filled = fill([folder], out, labels=LABELS)
    assert (filled.files, filled.connections, filled.all_broken) == (16, 16, 0)
    table = rows(out)
    assert table["network"].to_list() == ["net-a"] * 8 + ["net-b"] * 8
    assert set(table["controller"]) == {"canter:compete=on", "bbr2"}
    folders = sorted(path.name for path in (out / "traces").iterdir())
    assert folders == ["date=2026-01-01", "date=2026-01-02"]
    assert len(pl.read_parquet(out / "losses")) == 8
    assert not (out / "packets").exists()


def test_a_second_run_reads_only_what_is_new_or_has_changed(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fill([folder], out)
    assert fill([folder], out).files == 0
    trace("bbr2", 3, 70.0).save(folder / "net-a" / "new.sqlog")
    filled = fill([folder], out)
    assert (filled.files, filled.known) == (1, 16)
    assert len(rows(out)) == 17
    # Its batch is read again, so that no row is there twice.
    trace("bbr2", 3, 70.0, packets=99).save(folder / "net-a" / "bbr2-1-0.sqlog")
    assert fill([folder], out).files == 3
    assert len(rows(out)) == 17
    assert rows(out)["sent_packets"].max() == 99


def test_a_run_that_was_interrupted_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    count = 0

    def killed(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 8:
            raise KeyboardInterrupt
        return load_all(*arguments)

    monkeypatch.setattr(fleet, "load_all", killed)
    with pytest.raises(KeyboardInterrupt):
        fill([folder], out)
    # A batch that was killed while it wrote leaves rows that count no more.
    stray = next(out.glob("traces/*/part-*.parquet"))
    stray.with_name("part-0123456789abcdef.parquet").write_bytes(stray.read_bytes())
    filled = fill([folder], out)
    assert (filled.files, filled.known) == (10, 6)
    assert len(rows(out)) == 16


def test_broken_files_are_left_out_counted_and_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "net-a" / "empty.sqlog").write_bytes(b"")
    (folder / "net-b" / "page.qlog").write_text("<html>")
    cut = folder / "net-b" / "bbr2-1-0.sqlog"
    cut.write_bytes(cut.read_bytes()[:-40])
    arguments = ["fleet", str(folder), "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "18 files read, 16 connections added; 0 files were known; 2 of all are broken" in out
    assert "an empty file" in err
    assert "HTML" in err
    assert main(arguments) == 0
    assert "0 files read" in capsys.readouterr().out


def test_wrong_usage_is_said(folder: Path, tmp_path: Path) -> None:
    for labels, part in (("(", "not a regular expression"), ("abc", "expected a named group")):
        with pytest.raises(UsageError, match=part):
            fill([folder], tmp_path / "out", labels=labels)
    with pytest.raises(UsageError, match="expected some of traces,"):
        fill([folder], tmp_path / "out", ["trace"])
    with pytest.raises(UsageError, match="no such folder"):
        fill([tmp_path / "missing"], tmp_path / "out")


def test_the_documented_queries_answer(folder: Path, tmp_path: Path) -> None:
    fill([folder], tmp_path / "fleet", labels=LABELS)
    queries = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(queries) == 3
    texts = [query.replace("'fleet/", f"'{tmp_path}/fleet/") for query in queries]
    by_controller, before_after, by_network = (duckdb.execute(one).fetchall() for one in texts)
    bbr2, canter = by_controller
    assert bbr2[:3] == ("bbr2", 8, 0.0)
    assert canter[:3] == ("canter:compete=on", 8, pytest.approx(0.1))
    # RTTs of 90, 91, 60 and 61 ms, each in two networks.
    assert canter[3] == pytest.approx(75.5)
    ((name, before, after, difference, half),) = before_after
    assert name == "canter:compete=on"
    assert (before, after) == (pytest.approx(40.5), pytest.approx(10.5))
    assert difference == pytest.approx(-30.0)
    # The variance of either mean is that of (0, 0, 1, 1) over four.
    assert half == pytest.approx(1.96 * (2 * (1 / 3) / 4) ** 0.5)
    assert [(row[0], row[1], row[2]) for row in by_network] == [
        ("net-a", "bbr2", 4),
        ("net-a", "canter:compete=on", 4),
        ("net-b", "bbr2", 4),
        ("net-b", "canter:compete=on", 4),
    ]
