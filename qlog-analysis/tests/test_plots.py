import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from synthetic_comparison import write_comparison

from qlog_analysis.drawing import runs
from qlog_analysis.drawing.reduction import beginning_s
from qlog_analysis.drawing.style import COLOURS, INK, look
from qlog_analysis.drawing.svg import Picture
from qlog_analysis.experiments.comparison import read_comparison
from qlog_analysis.reading import parallel
from qlog_analysis.reports.courses import courses, read_traces


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[runs.PathCourses]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_cores", lambda: 1)
        comparison = read_comparison(write_comparison(tmp_path_factory.mktemp("comparison")))
        (path,) = courses(comparison, read_traces(comparison, lambda _: lambda _: None))
        yield path


@pytest.fixture
def figures(path: runs.PathCourses, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures behind the pictures, by the names of their files."""
    made: dict[str, Figure] = {}

    def picture(figure: Figure, key: str) -> Picture:
        made[key] = figure
        return Picture(0, 0, "")

    monkeypatch.setattr(runs, "picture", picture)
    assert len(list(runs.draw(path))) == runs.count(path) == 8
    return made


def test_each_plot_has_a_name(path: runs.PathCourses) -> None:
    drawn = list(runs.draw(path))
    assert [plot.run for plot in drawn if plot.run] == ["vegas", "plain"]
    assert len({plot.name for plot in drawn}) == 8


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]


def test_the_backlog_is_drawn_where_there_is_one(figures: dict[str, Figure]) -> None:
    vegas, plain = figures["main--run-vegas"], figures["main--run-plain"]
    assert len(vegas.axes) == 5
    assert len(plain.axes) == 4
    labels = [line.get_label() for line in vegas.axes[2].lines]
    assert labels == ["backlog", "α = 1", "β = 3"]


def test_placeholders_are_never_drawn(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        for axes in figure.axes:
            for line in axes.lines:
                values = np.asarray(line.get_ydata(), dtype=float)
                assert not np.isin(values, [333.0]).any()
                assert not (values > 1000).any()


def test_axes_start_at_zero_and_hold_the_data(figures: dict[str, Figure]) -> None:
    window, _, _, rate, queue = figures["main--run-vegas"].axes
    assert window.get_ylim()[0] == rate.get_ylim()[0] == queue.get_ylim()[0] == 0
    assert window.get_ylim()[1] > 60
    assert rate.get_ylim()[1] > 8
    assert window.get_xlim() == queue.get_xlim() == (0, 10)
    assert figures["main--start"].axes[0].get_xlim() == (0, 5)


def test_a_controller_has_one_colour_everywhere(figures: dict[str, Figure]) -> None:
    for name in ("window", "rate", "rtt", "queue", "losses"):
        drawn = [line.get_color() for line in figures[f"main--{name}"].axes[0].lines]
        assert sorted(set(drawn) - {INK}) == sorted(COLOURS[:2])
    window = figures["main--run-plain"].axes[0].lines[-1]
    assert (window.get_label(), window.get_color()) == ("window", COLOURS[1])


def test_colours_recur_with_another_dash() -> None:
    assert len({look(number) for number in range(21)}) == 21


def test_the_whole_rate_is_drawn(path: runs.PathCourses) -> None:
    rate = path.runs[0].flows[0].whole.sent_bps
    # Half the rate in the first second; bins of 0.5 s, the last held to the end.
    assert rate.time_s.tolist() == [n / 2 for n in range(21)]
    assert rate.value.tolist() == [4e6] * 2 + [8e6] * 19


def test_the_beginning() -> None:
    assert beginning_s(60) == 15
    assert beginning_s(600) == 120
    assert beginning_s(10) == 5


def test_losses_of_all_flows_are_counted_together(
    path: runs.PathCourses, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = [
        replace(path.runs[0].flows[0], lost_s=np.array(times)) for times in ([1.0, 3.0], [2.0])
    ]
    both = replace(path, runs=(replace(path.runs[0], flows=tuple(flows)),))
    made: dict[str, Figure] = {}

    def picture(figure: Figure, key: str) -> Picture:
        made[key] = figure
        return Picture(0, 0, "")

    monkeypatch.setattr(runs, "picture", picture)
    list(runs.draw(both))
    (line,) = made["main--losses"].axes[0].lines
    assert np.asarray(line.get_xdata()).tolist() == [0, 1, 2, 3, 10]
    assert np.asarray(line.get_ydata()).tolist() == [0, 1, 2, 3, 3]


@pytest.mark.parametrize("name", ["$x^2_1$", "_hidden", "a_b^c", "\\frac", "<&>", "naïve $"])
def test_a_name_is_shown_as_it_is(path: runs.PathCourses, name: str) -> None:
    named = replace(path, runs=(replace(path.runs[0], name=name), *path.runs[1:]))
    for plot in runs.draw(named):
        if not plot.run:
            texts = [element.text for element in ET.fromstring(plot.picture.document()).iter()]
            assert name in texts
