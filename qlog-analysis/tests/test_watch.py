"""The table of the connections whose traces are being written."""

import os
from pathlib import Path

import pytest
from synthetic import HEADER, TraceText

from qlog_analysis.commands import watch
from qlog_analysis.commands.cli import main
from qlog_analysis.commands.watch import QUIET_S, Watched


def trace() -> TraceText:
    out = TraceText(HEADER | {"title": "canter"})
    out.state(0.0, "startup")
    out.metrics(1.0, congestion_window=13_500, smoothed_rtt=40.0, pacing_rate=1_000_000)
    return out


def written(folder: Path, content: str, at_s: float, name: str = "one_server.sqlog") -> None:
    path = folder / name
    path.write_text(content)
    os.utime(path, (at_s, at_s))


def test_a_table_follows_the_trace_as_it_grows(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    one = trace()
    whole = str(one)
    # The last record is not whole yet.
    written(tmp_path, whole[:-5], 1000.0)
    first = list(watched.table(1001.0, 10))
    assert "1 open, 0 just closed" in first[0]
    assert ("canter" in first[2], "startup" in first[2], "13.5 kB" in first[2]) == (1, 1, 0)
    written(tmp_path, whole, 1001.0)
    line = list(watched.table(1003.0, 10))[2]
    for part in ("13.5 kB", "40.0 ms", "8.0 Mbit/s", "2 s"):
        assert part in line
    one.metrics(1500.0, congestion_window=27_000, cf_lost_packets={"total": 3})
    one.state(1500.0, "cruise")
    written(tmp_path, str(one), 1004.0)
    line = list(watched.table(1004.0, 10))[2]
    for part in ("27.0 kB", "40.0 ms", "cruise", "1.5 s", " 3 "):
        assert part in line
    one.event(1600.0, "connection_closed")
    written(tmp_path, str(one), 1005.0)
    lines = list(watched.table(1005.0, 10))
    assert "0 open, 1 just closed" in lines[0]
    assert len(list(watched.table(1006.0 + QUIET_S, 10))) == 2


def test_another_trace_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    one = trace()
    one.metrics(9000.0, congestion_window=99_000)
    written(tmp_path, str(one), 1000.0)
    assert "99.0 kB" in list(watched.table(1000.0, 10))[2]
    written(tmp_path, str(trace()), 1001.0)
    assert "13.5 kB" in list(watched.table(1001.0, 10))[2]


def test_of_a_long_trace_the_end_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_MOST_BYTES_AT_ONCE", 2000)
    one = trace()
    for at in range(500):
        one.metrics(float(at), congestion_window=1000 * at)
    written(tmp_path, str(one), 1000.0)
    line = list(Watched(tmp_path).table(1000.0, 10))[2]
    assert ("canter" in line, "499.0 kB" in line) == (True, True)


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    written(tmp_path, "\x1e7\n\x1e{}\n\x1enothing\n" + str(trace()), 1000.0)
    written(tmp_path, '\x1e{"name":7,"data":[]}\n', 1000.0, "two_server.sqlog")
    lines = list(Watched(tmp_path).table(1000.0, 10))
    assert len(lines) == 4
    assert any("13.5 kB" in line for line in lines)
    assert list(Watched(tmp_path).table(1000.0, 1))[-1] == "and 1 more"


def test_the_command_shows_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace().save(tmp_path / "one_server.sqlog")
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert "canter" in capsys.readouterr().out
    assert main(["watch", str(tmp_path / "missing")]) == 1
    assert "is no folder" in capsys.readouterr().err
