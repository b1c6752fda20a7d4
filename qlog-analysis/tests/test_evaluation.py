import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page import Page
from synthetic_evaluation import evaluation, save_evaluation, summary

from qlog_analysis.commands.cli import main
from qlog_analysis.drawing.panels import MOST_PARTS, Part, bars
from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.evaluation import read_evaluation
from qlog_analysis.metrics.statistics import ellipse
from qlog_analysis.reports import evaluation as report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("evaluation")
    return directory, evaluation(directory)


@pytest.fixture
def content(made: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return copy.deepcopy(made[1])


@pytest.fixture
def page_of(made: tuple[Path, dict[str, Any]]) -> Callable[..., str]:
    def written(content: dict[str, Any], **options: Any) -> str:
        content["summary"] = summary(content)
        directory = save_evaluation(made[0], content)
        return report.html(read_evaluation(directory), directory, directory, **options)

    return written


def cell(content: dict[str, Any], family: int, scenario: int, controller: int) -> dict[str, Any]:
    found: dict[str, Any] = content["families"][family]["scenarios"][scenario]["cells"][controller]
    return found


def test_every_link_of_the_page_leads_somewhere(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    html = page_of(content)
    page = Page(html)
    assert not page.open
    links = [link[1:] for link in page.sources if link.startswith("#")]
    assert len(links) > 2 * 6 * 3
    assert all(f'id="{link}"' in html for link in links)
    # Nothing comes from elsewhere, and every cell has its detail.
    assert all(link.startswith("#") for link in page.sources)
    assert page.tags["details"] == 2 * 6 * 3
    assert "cargo xtask evaluate --fast" in page.text
    assert "4 in each scenario, from 1" in page.text


def test_goals_tell_how_many_scenarios_meet_them_and_the_furthest_value(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    first, second = (one["id"] for one in content["controllers"][:2])
    results = [
        {"controller": first, "is_reached": True, "met": 5, "of": 6, "scenario": "s4"},
        {"controller": second, "is_reached": False, "met": 0, "of": 2, "value": 0.0123},
    ]
    goal = {"title": "half of the delay", "metric": "rtt_mean_s", "subject": "flow/tested"}
    content["families"][0]["goals"] = [goal | {"results": results}]
    text = Page(page_of(content)).text
    assert "half of the delay" in text
    # The first never got there in s4; of the second the mean counts.
    assert "5/6" in text and "never, s4" in text
    assert "12.3 ms" in text and "0/2" not in text


def test_failures_come_first(content: dict[str, Any], page_of: Callable[..., str]) -> None:
    for scenario in content["families"][0]["scenarios"]:
        for one in scenario["cells"]:
            one["verdict"] = "pass"
    cell(content, 0, 4, 0)["verdict"] = "fail"
    for controller in (0, 2):
        cell(content, 0, 2, controller)["verdict"] = "broken"
    html = page_of(content)
    places = [html.index(f'<th scope="row"><a href="#noise/s{n}">') for n in (2, 4, 0, 1, 3, 5)]
    assert places == sorted(places)


def test_the_best_controller_comes_first(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    for family in content["families"]:
        for scenario in family["scenarios"]:
            for number, one in enumerate(scenario["cells"]):
                one["verdict"] = "pass" if number == 1 else "fail"
    html = page_of(content)
    headings = html[html.index('<table class="map"') :]
    assert headings.index(">vegas<") < headings.index(">gallop-vegas<")
    assert "12/12" in html and "0/12" in html


def test_cells_that_did_not_run_are_named(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    missing = cell(content, 0, 1, 1)
    missing.clear()
    missing.update(controller="vegas", verdict="missing")
    del content["families"][1]["scenarios"][3]["cells"][2]
    cell(content, 0, 0, 0).update(
        verdict="broken", distance=None, failures=["seed 3: no progress for 60 s"], limits=[]
    )
    content["not_run"] = ["cubic on 10 Gbit/s: it takes an hour"]
    html = page_of(content)
    text = Page(html).text
    assert "2 of 36 cells were not run." in text
    assert "In 1 cell a run failed" in text
    assert "cubic on 10 Gbit/s" in text
    assert text.count("seed 3: no progress for 60 s") == 2
    assert 'aria-label="vegas: not run"' in html
    assert 'aria-label="copa: not run"' in html
    # A tally is of what was run.
    assert "/11" in text


def test_a_cell_tells_its_worst_limit(content: dict[str, Any], page_of: Callable[..., str]) -> None:
    one = cell(content, 0, 0, 0)
    one["limits"][0].update(verdict="fail", distance=-0.25)
    one["limits"][0]["value"].update(mean=0.675, low=0.65, high=0.7)
    one["limits"][1].update(distance=0.1)
    one.update(verdict="fail", distance=-0.25)
    html = page_of(content)
    figure = "Utilisation, bottleneck 67.5 %, at least 90 %"
    tile = f'class="out-2" href="#noise/s0/gallop-vegas" aria-label="gallop-vegas: fails. {figure}"'
    assert tile in html
    assert "67.5 ± 2.5 %" in html
    assert "25 % outside" in html
    assert "max(0.005, 2 * loss)" in html
    assert "A link that is paid for is meant to be used." in html


def test_texts_of_files_are_escaped(content: dict[str, Any], page_of: Callable[..., str]) -> None:
    bad = "<script>alert(1)</script>\"'&"
    content["title"] = content["command"] = bad
    content["not_run"] = [bad]
    content["controllers"][0].update(title=bad, summary=bad)
    for family in content["families"]:
        family.update(title=bad, about=bad, file=bad)
        for scenario in family["scenarios"]:
            scenario.update(title=bad, about=bad, parameters={bad: bad})
            scenario["limits"][0] = {**scenario["limits"][0], "why": bad, "low": bad}
            for one in scenario["cells"]:
                one.update(failures=[bad], command=bad, traces=[bad.replace("/", "")])
                one["shares"][0]["cc"] = bad
    content["families"][0]["scenarios"][0]["id"] = bad
    html = page_of(content)
    # The page's own.
    assert html.count("<script>") == 1
    assert html.count("</script>") == 1
    assert "alert(1)" in html
    assert not Page(html).open


def test_names_in_backticks_are_code(content: dict[str, Any], page_of: Callable[..., str]) -> None:
    content["families"][0]["about"] = "`noise` is <b>`&`</b>"
    assert "<code>noise</code> is &lt;b&gt;<code>&amp;</code>&lt;/b&gt;" in page_of(content)


def test_links_to_traces_are_relative_to_the_page(
    content: dict[str, Any], made: tuple[Path, dict[str, Any]]
) -> None:
    cell(content, 0, 0, 0)["traces"] = ["traces/17/a b#.sqlog"]
    directory = save_evaluation(made[0], content)
    assert main(["evaluation", str(directory)]) == 0
    html = (directory / "evaluation.html").read_text()
    assert 'href="./noise/traces/17/a%20b%23.sqlog"' in html
    out = directory / "noise" / "page.html"
    assert main(["evaluation", str(directory), "--out", str(out)]) == 0
    assert 'href="../noise/traces/17/a%20b%23.sqlog"' in out.read_text()
    assert not list(directory.rglob("*.part"))


def test_only_failures_and_the_best_are_drawn_over_time(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    for scenario in content["families"][0]["scenarios"]:
        for number, one in enumerate(scenario["cells"]):
            one["verdict"] = "pass"
            one["power"]["mean"] = float(number)
    content["families"] = content["families"][:1]
    cell(content, 0, 3, 0)["verdict"] = "fail"
    html = page_of(content)
    # Throughput, window, RTT and queue of six that are best and one that fails.
    assert html.count(" over time: ") == 4 * 7
    assert "7 in all" in html
    assert "left out, the least bad first" not in html
    less = page_of(content, pictures_bytes=15_000)
    drawn = less.count(" over time: ") // 4
    assert 0 < drawn < 7
    assert f"{7 - drawn} of these pictures are left out" in less
    assert less.count(report._NOT_DRAWN) == 7 - drawn
    assert len(less) < len(html)


def test_no_series_no_pictures(content: dict[str, Any], tmp_path: Path) -> None:
    directory = save_evaluation(tmp_path, content)
    html = report.html(read_evaluation(directory), directory, directory)
    assert " over time: " not in html
    assert "Throughput against delay" in html


def test_shares_are_drawn_of_two_flows_and_more(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    html = page_of(content)
    assert html.count("Shares of the flows: ") == 6
    assert "beside 1 (cubic)" in html


def test_a_bar_has_a_bounded_number_of_parts() -> None:
    parts = [Part(1.0, 0, f"flow {number}") for number in range(MOST_PARTS + 36)]
    drawn = bars([("vegas", parts)], len(parts), "shares")
    assert drawn.count("<rect") == MOST_PARTS + 1
    assert "36 more flows" in drawn
    few = bars([("vegas", parts[:4])], 4, "shares")
    # Three marks between four equal shares.
    assert re.findall(r'class="equal" d="([^"]*)"', few)[0].count("M") == 3


def test_an_ellipse_has_the_axes_of_the_covariance() -> None:
    # Deviations from the means: x -1, 1, -2, 2, 0 and y 1, -1, -2, 2, 0. So both variances are
    # 10/4, and the covariance is 6/4.
    xs, ys = [1.0, 3.0, 0.0, 4.0, 2.0], [3.0, 1.0, 0.0, 4.0, 2.0]
    found = ellipse(xs, ys)
    assert found is not None
    assert (found.x, found.y) == (2, 2)
    lengths = sorted(math.hypot(*half) for half in found.across)
    # Eigenvalues 2.5 ± 1.5, and -2 ln 0.05, the 95 % point of chi squared with two degrees.
    scale = -2 * math.log(0.05)
    assert lengths == pytest.approx([math.sqrt(1 * scale), math.sqrt(4 * scale)])
    (x, y) = max(found.across, key=lambda half: math.hypot(*half))
    assert x == pytest.approx(y)
    inverse = (2.5 / 4, -1.5 / 4)
    for x, y in found.outline(12):
        x, y = x - 2, y - 2
        assert inverse[0] * (x * x + y * y) + 2 * inverse[1] * x * y == pytest.approx(scale)


def test_two_pairs_have_no_ellipse() -> None:
    assert ellipse([1.0, 2.0], [1.0, 2.0]) is None


def test_pairs_on_a_line_have_a_flat_ellipse() -> None:
    found = ellipse([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    assert found is not None
    assert {round(y, 9) for _, y in found.outline(8)} == {5.0}


def test_a_single_seed_and_odd_numbers_are_no_problem(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    one = cell(content, 0, 0, 0)
    one["throughput_bps"] = {"unit": "bit/s", "mean": 0.0, "values": [0.0]}
    one["delay_s"] = {"unit": "s", "mean": 0.0, "low": None, "high": None, "values": [0.0]}
    one["limits"][0]["value"] = None
    one["limits"][0].update(verdict="missing", distance=None)
    one["shares"] = [{"subject": "flow/tested", "throughput_bps": 0.0, "index": n} for n in (0, 1)]
    other = cell(content, 0, 0, 1)
    other["throughput_bps"]["values"] = [None, 1e6, 2e6, 3e6]
    other["limits"][0]["bound"] = 1e300
    html = page_of(content)
    assert not re.search(r"\b(nan|inf)\b", html)
    assert "not measured" in html


def test_what_did_not_happen_under_every_seed_has_no_mean(
    content: dict[str, Any], page_of: Callable[..., str]
) -> None:
    held = cell(content, 0, 0, 0)["limits"][0]
    held["value"].update(mean=None, low=None, high=None, values=[None, 1.0, None, 2.0])
    html = page_of(content)
    assert "under 2 of 4 seeds only" in html


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda top: top.pop("title"), r"missing required field `title`"),
        (lambda top: top.update(title=5), r"Expected `str`, got `int` - at `\$\.title`"),
        (
            lambda top: top.update(families={}),
            r"Expected `array`, got `object` - at `\$\.families`",
        ),
        (
            lambda top: cell(top, 1, 2, 0).update(verdict="maybe"),
            r"'maybe' - at `\$\.families\[1\]\.scenarios\[2\]\.cells\[0\]\.verdict`",
        ),
        (
            lambda top: cell(top, 0, 0, 0).update(distance="far"),
            r"got `str` - at `\$\.families\[0\]\.scenarios\[0\]\.cells\[0\]\.distance`",
        ),
        (
            lambda top: cell(top, 0, 0, 0).update(controller="tahoe"),
            r"family 'noise': scenario 's0': cells: controller must be one of .*, not 'tahoe'",
        ),
        (
            lambda top: cell(top, 0, 0, 0).update(controller="vegas"),
            r"scenario 's0': cells: 'vegas' is there twice",
        ),
        (
            lambda top: cell(top, 0, 0, 0)["limits"].pop(),
            r"cell of 'gallop-vegas': limits must have the scenario's 3, not 2",
        ),
        (
            lambda top: cell(top, 0, 0, 0).update(traces=["../x"]),
            r"traces must be plain names joined by /, not '\.\./x'",
        ),
        (
            lambda top: top["families"][0].update(directory="/etc"),
            r"family 'noise': directory must be plain names joined by /, not '/etc'",
        ),
        (lambda top: top["summary"].pop(), r"summary has no controller 'copa'"),
    ],
)
def test_problems_are_named_and_nothing_is_written(
    content: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], Any],
    message: str,
) -> None:
    change(content)
    save_evaluation(tmp_path, content)
    with pytest.raises(LayoutError, match=rf"evaluation\.json: .*{message}"):
        read_evaluation(tmp_path)
    assert main(["evaluation", str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]


def test_a_folder_without_an_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluation", str(tmp_path)]) == 1
    assert "evaluation.json: no such file" in capsys.readouterr().err


def test_series_that_are_no_table_are_named(
    content: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_evaluation(tmp_path, content)
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise/series.parquet").write_text("hello")
    assert main(["evaluation", str(tmp_path)]) == 1
    assert "noise/series.parquet: expected a Parquet table" in capsys.readouterr().err
    assert not (tmp_path / "evaluation.html").exists()


def test_null_is_as_if_left_out(content: dict[str, Any], page_of: Callable[..., str]) -> None:
    one = cell(content, 0, 0, 0)
    one.update(power=None, delay_s=None, distance=None, points=None, traces=None)
    assert page_of(json.loads(json.dumps(content)))


def test_a_large_evaluation_keeps_to_the_budget(tmp_path: Path) -> None:
    made = evaluation(tmp_path, scenarios=50, families=4, controllers=8, seeds=10)
    directory = save_evaluation(tmp_path, made)
    page = report.write(read_evaluation(directory), directory, directory / "evaluation.html")
    size = page.stat().st_size
    assert size < report.BUDGET_BYTES
    # Most of its cells fail, so that the pictures reach their part of the budget.
    assert size > report.PICTURES_BYTES
