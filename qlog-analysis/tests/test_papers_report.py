import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from page import Page
from synthetic import steady_trace
from synthetic_papers import Lab, both, claim, fairness, flow

from qlog_analysis.commands.cli import main
from qlog_analysis.drawing.chart import Chart, Line, Point, draw
from qlog_analysis.experiments.measured import Measured, read_measured
from qlog_analysis.experiments.model import read_experiment
from qlog_analysis.experiments.verdicts import read_outcomes
from qlog_analysis.metrics.numbers import NOTHING, show
from qlog_analysis.metrics.statistics import Interval
from qlog_analysis.reports import charts, tables
from qlog_analysis.reports import papers as report

KEPT = "traces/4/f-0.server.sqlog"


def buffers() -> Lab:
    """A sweep with plots of both kinds, a failed run, and a claim without a number."""
    lab = Lab("gallop/buffers", {"buffer": ["4p", "10p", "50p"], "run": ["vegas", "cubic-rfc9438"]})
    lab.flows = lambda axes: [
        flow("f", axes["run"], [KEPT] if axes == {"buffer": "50p", "run": "vegas"} else []),
        flow("web", "reno", background=True),
    ]
    lab.controllers = [
        {"name": "cubic-rfc9438", "summary": "CUBIC as RFC 9438 has it."},
        {"name": "reno", "summary": "quiche's Reno.", "stack": "quiche"},
    ]
    lab.measure(
        "flow/f",
        "throughput_bps",
        lambda axes, seed: 1e6 * float(axes["buffer"][:-1]) + 1e4 * seed,
    )
    lab.fail(1, 2, "flow `f` made no progress for 60 s")
    for time in range(50):
        lab.course(4, "flow/f", "cwnd_packets", time / 10, float(time % 7))
    plot = {"metric": "throughput_bps", "subject": "flow/f", "lines": "run"}
    lab.content = {
        "plots": [
            plot | {"title": "Throughput", "kind": "axis", "x": "buffer", "log-x": True},
            plot
            | {"title": "Window", "kind": "time", "metric": "cwnd_packets"}
            | {"where": {"buffer": "50p"}},
            {"title": "Kept", "kind": "trace", "flow": "f", "where": {"run": "vegas"}},
            {"title": "Not kept", "kind": "trace", "flow": "f", "where": {"buffer": "4p"}},
        ],
        "tables": [
            {
                "title": "Throughput",
                "metric": "throughput_bps",
                "subject": "flow/f",
                "rows": "buffer",
                "columns": "run",
            }
        ],
        "claims": [claim("gallop/none", "throughput_bps", "flow/f", {"buffer": "4p"})],
    }
    return lab


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = both(tmp_path_factory.mktemp("papers"), [fairness(), buffers()])
    steady_trace().save(directory / "gallop/buffers" / KEPT)
    assert main(["papers", str(directory), "--json", str(directory / "copy.json")]) == 0
    return directory


def text(directory: Path) -> str:
    return re.sub(r"\s+", " ", Page((directory / "report.html").read_text()).text)


def test_the_outcome_is_written(reported: Path) -> None:
    out = json.loads((reported / "papers.json").read_text())
    assert (reported / "copy.json").read_text() == (reported / "papers.json").read_text()
    assert [claim["reproduced"] for claim in out["claims"]] == [True, True, False, False]
    assert out["experiments"][1]["failed"] == [
        {"point": 1, "seed": 2, "reason": "flow `f` made no progress for 60 s"}
    ]


def test_the_page_is_whole_and_needs_nothing_else(reported: Path) -> None:
    html = (reported / "report.html").read_text()
    page = Page(html)
    assert page.open == []
    assert page.tags["link"] == page.tags["img"] == 0
    assert page.tags["script"] == 1
    assert all(source.startswith("#") for source in page.sources)
    assert not re.findall(r"url\((?!#)", html)
    anchors = set(re.findall(r'id="([^"]+)"', html))
    assert {source[1:] for source in page.sources} <= anchors


def test_the_page_says_it_all(reported: Path) -> None:
    out = text(reported)
    for part in (
        "2 of 4 robust claims reproduced",
        "Title of <ns2/fairness>",
        "Claim ns2/no: 7 ± 0 packets where 0 to 1 is allowed (Zhang and Bian 2002, Table 3).",
        "Claim gallop/none: not measured (Zhang and Bian 2002, Table 3). No number: 1 of 3 runs "
        "failed: flow `f` made",
        "The run at buffer = 4p, run = cubic-rfc9438, seed 2, failed: flow `f` made no progress",
        "1 run failed, in gallop/buffers: what rests on them has no number.",
        "quiche's Reno.",
        "CUBIC as RFC 9438 has it.",
        "Received of short over that of long. Means over 3 seeds, ± 95 % interval.",
        "Not drawn: no trace was kept",
        "1 packet/s here is 1 KB/s there",
    ):
        assert part in out, part


def test_columns_say_whose_controller_it_is(reported: Path) -> None:
    html = (reported / "report.html").read_text()
    assert 'Reno<br><span class="unit">quiche&#39;s, as shipped</span>' in html
    assert "<th>Cubic-Rfc9438</th>" in html
    assert "<th>Vegas</th>" in html


def test_trace_graphs_are_in_the_page(reported: Path) -> None:
    html = (reported / "report.html").read_text()
    assert html.count('aria-label="Kept"') == 1
    assert "f, vegas, buffer = 50p, run = vegas, seed 1" in html
    assert "<title>congestion window</title>" in html


def measured(lab: Lab, directory: Path) -> Measured:
    return read_measured(read_experiment(lab.save(directory)))


def test_a_table(tmp_path: Path) -> None:
    out = measured(fairness(), tmp_path)
    lost, other, ratio = (tables.fill(table, out) for table in out.experiment.tables)
    assert [heading.text for heading in lost.columns] == ["Vegas", "Reno"]
    assert [heading.text for heading, _ in lost.rows] == ["1ms", "13ms", "22ms"]
    vegas, reno = lost.rows[0][1]
    assert (vegas.text, vegas.half, vegas.best) == ("0", "± 0", True)
    assert (reno.text, reno.best) == ("7", False)
    assert [(heading.text, heading.small) for heading, _ in other.rows] == [
        ("Received", "packets"),
        ("Throughput", "packets/s"),
    ]
    assert other.caption == "Of long. At x = 1ms. Means over 3 seeds, ± 95 % interval."
    assert [cell.text for cell in ratio.rows[2][1]] == ["2", "2"]
    assert not any(cell.best for _, cells in ratio.rows for cell in cells)


def test_the_best_is_found_by_column_too(tmp_path: Path) -> None:
    lab = fairness()
    lab.content["tables"][0] |= {"rows": "run", "columns": "x"}
    out = measured(lab, tmp_path)
    table = tables.fill(out.experiment.tables[0], out)
    assert [[cell.best for cell in cells] for _, cells in table.rows] == [[True] * 3, [False] * 3]


def test_what_the_intervals_do_not_set_apart_is_best_too(tmp_path: Path) -> None:
    lab = Lab("ns2/close", {"run": ["a", "b", "c"]})
    value = {"a": 10.0, "b": 9.5, "c": 1.0}
    lab.measure("run", "jain", lambda axes, seed: value[axes["run"]] + seed)
    lab.measure("run", "lost_packets", lambda axes, seed: value[axes["run"]] / 1e6 + seed)
    lab.content["tables"] = [
        {
            "title": "Close",
            "metrics": ["jain", "lost_packets"],
            "subject": "run",
            "rows": "metric",
            "columns": "run",
        }
    ]
    out = measured(lab, tmp_path)
    table = tables.fill(out.experiment.tables[0], out)
    bests = [[cell.best for cell in cells] for _, cells in table.rows]
    assert bests == [[True, True, False], [False, False, False]]


@pytest.mark.parametrize(
    ("values", "label"),
    [
        (["1ms", "0.2s"], "x (s)"),
        (["4p", "10p"], "x (packets)"),
        (["1.5mbit", "5mbit"], "x (bit/s)"),
        (["187.5pps"], "x (packets/s)"),
        (["5kb", "1e3b"], "x (bytes)"),
        (["0.5", "1e-3"], "x"),
    ],
)
def test_axes_have_units(tmp_path: Path, values: list[str], label: str) -> None:
    lab = Lab("ns2/axis", {"x": values, "run": ["a"]})
    lab.measure("run", "jain", lambda _, seed: float(seed))
    plot = {"title": "P", "kind": "axis", "metric": "jain", "subject": "run", "x": "x"}
    lab.content["plots"] = [plot]
    out = measured(lab, tmp_path)
    assert f">{label}</text>" in charts.fill(out.experiment.plots[0], out, "key").drawing


def test_a_cell_without_a_number_says_why(tmp_path: Path) -> None:
    out = measured(buffers(), tmp_path)
    table = tables.fill(out.experiment.tables[0], out)
    failed = table.rows[0][1][1]
    assert (failed.text, failed.best) == (NOTHING, False)
    assert table.missing == (
        "1 of 3 runs failed: flow `f` made no progress for 60 s (4p, Cubic-Rfc9438)",
    )
    assert table.rows[0][1][0].text == "4.020"


def test_points_that_were_not_asked_for_are_left_out(tmp_path: Path) -> None:
    lab = fairness()
    lab.content["points"] = [
        lab.point(number) for number, axes in enumerate(lab.points()) if axes["x"] == "13ms"
    ]
    out = measured(lab, tmp_path)
    assert [heading.text for heading, _ in tables.fill(out.experiment.tables[0], out).rows] == [
        "13ms"
    ]
    (outcome,) = read_outcomes(tmp_path)
    assert [verdict.status for verdict in outcome.verdicts] == [
        "reproduced",
        "not run",
        "not reproduced",
    ]
    assert report.summary([outcome]).splitlines() == [
        "1 of 2 robust claims are reproduced, and of all 2 claims 1.",
        "  not reproduced: ns2/no (Claim ns2/no)",
        "1 more claims are about points that were not run, and are not counted.",
    ]


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (9.5912, 0.0034, "9.5912"),
        (6275.83, 85.0, "6,276"),
        (12.3, 45.0, "12"),
        (0.012345, None, "0.0123"),
        (1234567.0, None, "1,234,567"),
        (3.0, None, "3"),
        (3.0, 0.0, "3"),
        (-1.5, None, "−1.50"),
        (0.0, 0.01, "0.000"),
        (None, None, NOTHING),
        (float("nan"), None, NOTHING),
    ],
)
def test_numbers_have_the_digits_that_are_known(
    value: float | None, half: float | None, expected: str
) -> None:
    assert show(value, half) == expected


def test_a_plot_without_points_and_one_with_one_are_drawn() -> None:
    for points in ([], [Point(0.0, Interval(0.0), "x = 0")]):
        out = draw(Chart([Line("a", 0, points)], "x", "y", log_x=True), "Title", "key")
        assert out.startswith("<svg")
        assert "nan" not in out


def test_names_are_escaped() -> None:
    out = draw(
        Chart([Line("<a>", 0, [Point(1.0, Interval(1.0), "<b>")])], "<x>", "<y>"), '"<t>"', "key"
    )
    for raw in ("<a>", "<b>", "<x>", "<y>", "<t>"):
        assert raw not in out


def test_an_empty_directory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", str(tmp_path)]) == 1
    assert "no experiment in it" in capsys.readouterr().err


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

# Points at the middle of each plot, as a mouse would.
_POINT = """<script>
for (const chart of document.querySelectorAll("svg.chart")) {
  const box = chart.getBoundingClientRect();
  const clientX = box.left + box.width / 2;
  chart.dispatchEvent(new PointerEvent("pointermove", { clientX }));
}
</script>"""


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_a_browser_shows_the_page(reported: Path, tmp_path: Path) -> None:
    assert CHROMIUM
    page = tmp_path / "pointed.html"
    page.write_text((reported / "report.html").read_text() + _POINT)
    out = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "CONSOLE" not in out.stderr
    tips = re.findall(r'<div class="tip"[^>]*>(.*?)</div></div>', out.stdout)
    assert len(tips) == 3
    assert "buffer = 10p" in tips[1]
    assert "Vegas: 10.020 ± 0.025" in tips[1]
