"""The plots that a reader can zoom into: their data, and their use in a browser."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browser
from synthetic_comparison import comparison_lab, save_comparison

from qlog_analysis.commands.cli import main
from qlog_analysis.drawing import runs
from qlog_analysis.drawing.runs import wander
from qlog_analysis.experiments.comparison import read_comparison
from qlog_analysis.metrics.series import Series
from qlog_analysis.reading import parallel
from qlog_analysis.reports import courses, live

REPORTS = Path(live.__file__).parent
PACKAGE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a comparison with its report."""
    lab = comparison_lab()
    for point in (0, 1):
        for step in range(100):
            rate = 4e6 if step < 50 else 8e6
            lab.course(point, "flow/flow", "throughput_bps", step / 10, rate)
    lab.measure("run", "throughput_sum_bps", lambda axes, seed: 1e6 * seed * len(axes["run"]))
    lab.measure("run", "rtt_mean_s", lambda _, seed: 0.06 + seed**2 / 1e3)
    folder = save_comparison(
        tmp_path_factory.mktemp("comparison"),
        [lab],
        command="gallop-sim compare --duration 10s --cc vegas:alpha=1,beta=3 --cc cubic --out x",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_cores", lambda: 1)
        assert main(["report", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def path(made: Path) -> runs.PathCourses:
    comparison = read_comparison(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_cores", lambda: 1)
        traces = courses.read_traces(comparison, lambda _: lambda _: None)
    return courses.courses(comparison, traces)[0]


def line(data: dict[str, Any], group: str, title: str, name: str) -> Series:
    """A line as the browser reads it."""
    (chart,) = [one for one in data["groups"][group] if one["title"].startswith(title)]
    (found,) = [one for one in chart["lines"] if one["name"] == name]
    numbers = np.frombuffer(zlib.decompress(base64.b64decode(data["numbers"])), "<f4")
    at, count = found["at"]
    both = numbers[at : at + 2 * count].astype(np.float64)
    return Series(both[:count], both[count:])


def test_the_numbers_are_those_of_the_traces(path: runs.PathCourses) -> None:
    data = live.data(path)
    window = line(data, "vegas", "Congestion window", "window")
    # The window of 2 packets, then 40 from 0.5 s and 60 from 3 s.
    assert window.time_s.tolist() == [0.0, 0.5, 3.0, 10.0]
    assert window.value.tolist() == [2.0, 40.0, 60.0, 60.0]
    goodput = line(data, live.SHARED, "Goodput", "Plain")
    assert set(goodput.value[goodput.time_s < 5].tolist()) == {4.0}
    assert set(goodput.value[goodput.time_s >= 5].tolist()) == {8.0}
    chart = data["groups"][live.SHARED][0]
    assert chart["levels"] == [{"name": "capacity", "value": 8.0}]


def test_phases_are_bands(path: runs.PathCourses) -> None:
    chart = live.data(path)["groups"]["vegas"][0]
    assert [one["name"] for one in chart["states"]] == ["congestion_avoidance", "slow_start"]
    assert chart["bands"] == [
        {"from": 0.0, "to": 0.5, "state": 1},
        {"from": 0.5, "to": 10.0, "state": 0},
    ]


def test_the_delay_of_the_queue_is_shared_out_over_time(path: runs.PathCourses) -> None:
    # 0, 1, 2, 3 packets in turn, each for a quarter of the time, of 1 ms each.
    for _, _, points in live.queueing_delays(path):
        at = {percent: delay for delay, percent in points}
        assert [at[percent] for percent in (20.0, 40.0, 70.0, 90.0)] == [0, 1, 2, 3]


def test_what_wanders_most_lies_below() -> None:
    calm = Series(np.arange(3.0), np.array([1.0, 2.0, np.nan]))
    wild = Series(np.arange(3.0), np.array([0.0, 9.0, 0.0]))
    assert (wander(calm), wander(wild)) == (1.0, 18.0)


def test_rows_lead_to_traces_tables_and_commands(made: Path) -> None:
    text = (made / "report.html").read_text()
    links = re.findall(r'<a href="([^"#]+)">', text)
    assert "main/traces/vegas/flow-0.server.sqlog" in links
    assert {"summary.csv", "main/results.parquet", "plots/main--run-vegas.svg"} <= set(links)
    for link in links:
        assert (made / link).is_file(), link
    assert "gallop-sim compare --duration 10s --cc cubic<" in text
    assert 'href="#run-main-vegas"' in text
    assert 'id="run-main-vegas"' in text


def test_the_library_is_the_one_that_is_pinned() -> None:
    lock = json.loads((PACKAGE / "vendor/package-lock.json").read_text())
    version = lock["packages"]["node_modules/uplot"]["version"]
    script = (REPORTS / "templates/vendor/uplot.js").read_text()
    assert script.startswith(f"/*! https://github.com/leeoniya/uPlot (v{version}) */")
    assert "MIT License" in (REPORTS / "templates/vendor/uplot.LICENSE").read_text()


def test_a_page_without_scripts_has_its_pictures(made: Path) -> None:
    text = (made / "report.html").read_text()
    assert text.count('<figure class="wide static">') == 9
    # Only a script hides them, and not on paper.
    assert "@media screen { .has-live .static { display: none; } }" in text
    assert not re.search(r'(src|href)="(https?:)?//', text)


def ranges(page: Browser) -> set[tuple[float, float]]:
    values = page.value("window.livePlots[0].map((one) => [one.scales.x.min, one.scales.x.max])")
    return {tuple(round(end, 3) for end in pair) for pair in values}


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_a_reader_zooms_points_and_switches(made: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as page:
        page.open(made / "report.html")
        page.until("document.documentElement.classList.contains('has-live')")
        assert ranges(page) == {(0.0, 10.0)}

        # A drag over one plot zooms all.
        plot = "window.livePlots[0][0]"
        page.drag(f"{plot}.over", 0.25, 0.75)
        ((start, end),) = ranges(page)
        assert start == pytest.approx(2.5, abs=0.1)
        assert end == pytest.approx(7.5, abs=0.1)

        # The pointer reads the values that hold at its time: 4 before 5 s, 8 after it.
        box = page.box(f"{plot}.over")
        for share, value in ((0.25, "4"), (0.75, "8")):
            page.mouse("moved", box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
            values = f"[...{plot}.root.querySelectorAll('.u-value')].map((one) => one.innerText)"
            assert page.value(values)[1:] == [value, value]

        # A name switches its line in every plot of all runs.
        page.click(f"{plot}.root.querySelectorAll('.u-series')[1].querySelector('th')")
        shown = page.value(
            "window.livePlots[0].map((plot) => plot.series.slice(1).map((one) => one.show))"
        )
        assert {sum(lines) for lines in shown} == {1}

        # The buttons move and zoom; the last shows all.
        page.click("document.querySelector('.tools button:nth-of-type(4)')")
        ((later, _),) = ranges(page)
        assert later > start
        page.click("document.querySelector('.tools button:nth-of-type(5)')")
        assert ranges(page) == {(0.0, 10.0)}

        # A run by itself is drawn when it is opened, over the same time.
        page.drag(f"{plot}.over", 0.5, 0.9)
        (before,) = ranges(page)
        count = page.value("window.livePlots[0].length")
        page.click("document.querySelector('#run-main-vegas summary')")
        page.until(f"window.livePlots[0].length > {count}")
        assert ranges(page) == {before}

        # On paper there are the pictures.
        page.call("Emulation.setEmulatedMedia", media="print")
        seen = "(name) => getComputedStyle(document.querySelector(name)).display"
        assert page.value(f"['.live', '.static'].map({seen})") == ["none", "block"]
        assert page.errors == []


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_a_phone_shows_plots_that_fit(made: Path, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as page:
        page.open(made / "report.html", 390, 800, mobile=True)
        page.until("document.documentElement.classList.contains('has-live')")
        widths = page.value("window.livePlots[0].map((one) => one.root.offsetWidth)")
        assert max(widths) <= 390
        assert page.value("document.documentElement.scrollWidth") <= 390
        assert page.errors == []
