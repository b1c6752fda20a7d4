import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from synthetic import TraceText, steady_trace

from qlog_analysis.commands.cli import main
from qlog_analysis.drawing.style import style
from qlog_analysis.drawing.svg import picture
from qlog_analysis.drawing.trace_graph import (
    View,
    thresholds,
    thresholds_of,
    trace_graph,
)
from qlog_analysis.metrics.series import Series
from qlog_analysis.metrics.timeline import timeline
from qlog_analysis.reading.reader import Trace, read_trace


def vegas() -> TraceText:
    """Sixty packets, some held back, one lost, a timeout, and two decisions."""
    trace = TraceText()
    trace.first_metrics()
    trace.metrics(1.0, pacing_rate=100_000.0, cf_app_limited=False)
    for number in range(60):
        time = 10.0 * number + 2
        # Only every second packet finds the window closed until an ACK comes just before it.
        closed = number % 2 == 0
        trace.metrics(time - 1, congestion_window=13_500, bytes_in_flight=13_500 if closed else 0)
        trace.metrics(time, bytes_in_flight=0)
        trace.sent(time, number)
    rounds = {"vegas_expected_bps": 1.2e6, "vegas_actual_bps": 1.0e6, "vegas_base_rtt_ms": 50.0}
    trace.metrics(200.0, **rounds)
    trace.metrics(250.0, vegas_actual_bps=1.1e6)
    trace.acked(300.0, [0, 20], [22, 27])
    trace.event(300.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": 21})
    trace.metrics(400.0, pto_count=1)
    trace.event(500.0, "packet_lost", header={"packet_type": "1RTT", "packet_number": 40})
    trace.metrics(550.0, pto_count=0)
    return trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(vegas().save(tmp_path / "trace.sqlog"))


def test_the_moments(trace: Trace) -> None:
    out = timeline(trace)
    assert len(out.sent_s) == 60
    assert out.acks_s.tolist() == [0.3]
    assert out.lost_s.tolist() == [0.212, 0.402]
    assert out.timeouts_s.tolist() == [0.4]
    # A loss that an ACK told of is no timer event; one in silence is.
    assert out.timers_s.tolist() == [0.4, 0.5]
    assert out.decisions_s.tolist() == [0.2, 0.25]
    assert out.held_s.tolist() == pytest.approx([0.012 + 0.02 * n for n in range(30)])
    rate = out.rate()
    assert rate.value.tolist() == pytest.approx([1350 / 0.01] * 48)


def test_a_sender_without_pacing_holds_nothing_back(tmp_path: Path) -> None:
    text = vegas()
    text.records = [record for record in text.records if "pacing_rate" not in record]
    assert timeline(read_trace(text.save(tmp_path / "t.sqlog"))).held_s.tolist() == []


def test_the_graphs(trace: Trace) -> None:
    queue = Series(np.array([0.0, 0.3]), np.array([1.0, 5.0]))
    figure = trace_graph(trace, View(alpha=2, beta=4, queue=queue))
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]
    assert titles == [
        "Windows",
        "Sending rate, from the last 12 packets",
        "Congestion avoidance",
        "Queue at the router",
    ]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {
        "ACK received",
        "packet sent",
        "sent now, lost later",
        "loss detection timer fired",
        "timeout (PTO)",
        "packet held back although the window had room",
        "numbers on top: the n-th KB was sent",
        "expected rate",
        "actual rate",
        "threshold α",
        "threshold β",
        "decision on the window",
    } <= set(legend)
    lines = {line.get_gid(): line for line in figure.axes[2].lines}
    # Two packets of 1350 bytes in 50 ms below 150 KB/s.
    assert np.asarray(lines["threshold α"].get_ydata())[0] == pytest.approx(150 - 54)
    kilobytes = [text.get_text() for text in figure.axes[0].texts]
    assert kilobytes == ["10", "20", "30", "40", "50", "60", "70", "80"]


def test_a_part_of_a_trace(trace: Trace) -> None:
    figure = trace_graph(trace, View(start_s=0.25, end_s=0.45))
    assert figure.axes[0].get_xlim() == (0.25, 0.45)
    lost = next(x for x in figure.axes[0].lines if x.get_gid() == "sent now, lost later")
    assert np.nanmax(np.asarray(lost.get_xdata(), dtype=float)) == 0.402


def test_inline_graphs_name_their_marks_and_keep_to_themselves(trace: Trace) -> None:
    with style():
        out = picture(trace_graph(trace, View()), "key").inline("a trace graph")
    titles = {element.text for element in ET.fromstring(out).iter("title")}
    assert {"timeout (PTO)", "congestion window", "packet sent"} <= titles
    assert "<style" not in out
    assert not re.findall(r'<g id="', out)
    assert len(out) < 50_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vegas:alpha=2,beta=4.5", (2.0, 4.5)),
        ("flow 0, gallop-vegas:gamma=1,beta=3", (None, 3.0)),
        ("reno", (None, None)),
    ],
)
def test_thresholds(name: str, expected: tuple[float | None, float | None]) -> None:
    assert thresholds(name) == expected


def test_logged_thresholds_come_before_those_of_the_title(tmp_path: Path) -> None:
    trace = vegas()
    path = tmp_path / "trace.sqlog"
    assert thresholds_of(read_trace(trace.save(path))) == (None, None)
    trace.metrics(600.0, vegas_alpha_packets=1.0, vegas_beta_packets=3.0)
    assert thresholds_of(read_trace(trace.save(path))) == (1.0, 3.0)


def test_a_trace_of_nothing_is_drawn(tmp_path: Path) -> None:
    path = TraceText().save(tmp_path / "empty.sqlog")
    for kind in ("trace-graph", "overview"):
        assert main(["plot", str(path), "--kind", kind]) == 0
        assert (tmp_path / f"empty.sqlog.{kind}.svg").stat().st_size > 1000


@pytest.mark.parametrize(("kind", "panels"), [("trace-graph", 2), ("overview", 4)])
def test_any_trace_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, panels: int
) -> None:
    path = steady_trace().save(tmp_path / "steady.sqlog")
    out = tmp_path / "out.svg"
    assert main(["plot", str(path), "--kind", kind, "--to", "4", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text().count("<clipPath ") == panels
    picture = tmp_path / "out.png"
    assert main(["plot", str(path), "--kind", kind, "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_trace_makes_the_same_picture(tmp_path: Path) -> None:
    path = vegas().save(tmp_path / "trace.sqlog")
    outs = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for out in outs:
        assert main(["plot", str(path), "--out", str(out)]) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x.gif"], "--out x.gif: expected a name that ends in .svg or .png"),
        (["--out", "no/such/x.svg"], "--out no/such/x.svg: there is no folder no/such"),
        (["--from", "2", "--to", "1"], "--to 1: expected a time after --from 2"),
        (
            ["--queue", "none.csv"],
            "none.csv: expected a CSV of numbers with the columns time_s, packets",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    vegas().save(tmp_path / "trace.sqlog")
    assert main(["plot", "trace.sqlog", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert main(["plot", "no.sqlog"]) == 1
    assert "no.sqlog: cannot read the trace" in capsys.readouterr().err


@pytest.mark.parametrize("time", ["-1", "nan", "soon"])
def test_times_are_times(capsys: pytest.CaptureFixture[str], time: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["plot", "trace.sqlog", f"--from={time}"])
    assert stop.value.code == 2
    assert "argument --from" in capsys.readouterr().err
