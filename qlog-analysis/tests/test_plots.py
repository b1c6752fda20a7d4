from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from synthetic import write_comparison

from qlog_analysis.drawing import plots
from qlog_analysis.experiments import reduction
from qlog_analysis.experiments.results import Results, analyse


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "_cores", lambda: 1)
        directory = write_comparison(tmp_path_factory.mktemp("comparison"))
        yield analyse(directory, lambda _: lambda _: None)


@pytest.fixture
def figures(results: Results) -> dict[str, Figure]:
    look = plots.looks(["vegas", "plain"])
    return {plot.path.stem: figure for figure, plot in plots._figures(results, Path(), look)}


def test_each_plot_is_told(results: Results, tmp_path: Path) -> None:
    told: list[int] = []
    drawn = plots.draw(results, tmp_path / "plots", lambda: told.append(1))
    assert len(drawn) == len(told) == plots.count(results) == 7
    assert [plot.run for plot in drawn if plot.run] == ["vegas", "plain"]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]


def test_the_backlog_is_drawn_where_there_is_one(figures: dict[str, Figure]) -> None:
    vegas, plain = figures["paper--run-vegas"], figures["paper--run-plain"]
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
    window, _, _, rate, queue = figures["paper--run-vegas"].axes
    assert window.get_ylim()[0] == rate.get_ylim()[0] == queue.get_ylim()[0] == 0
    assert window.get_ylim()[1] > 60
    assert rate.get_ylim()[1] > 8
    assert window.get_xlim() == queue.get_xlim() == (0, 10)
    assert figures["paper--start"].axes[0].get_xlim() == (0, 5)


def test_a_controller_has_one_colour_everywhere(figures: dict[str, Figure]) -> None:
    colours = plots.looks(["vegas", "plain"])
    for name in ("window", "rate", "rtt", "queue"):
        drawn = [line.get_color() for line in figures[f"paper--{name}"].axes[0].lines]
        assert drawn == [colours["vegas"].colour, colours["plain"].colour]
    window = figures["paper--run-plain"].axes[0].lines[-1]
    assert (window.get_label(), window.get_color()) == ("window", colours["plain"].colour)


def test_colours_come_again_with_another_dash() -> None:
    names = [f"controller {n}" for n in range(20)]
    assert len(set(plots.looks(names).values())) == 20
    assert len(plots.looks(["same", "same"])) == 1


def test_the_whole_rate_is_drawn(results: Results) -> None:
    rate = results.groups[0].runs[0].flows[0].whole.sent_bps
    # Half the rate in the first second; bins of 0.5 s, the last held to the end.
    assert rate.time_s.tolist() == [n / 2 for n in range(21)]
    assert rate.value.tolist() == [4e6] * 2 + [8e6] * 19


def test_the_beginning() -> None:
    assert reduction.beginning_s(60) == 15
    assert reduction.beginning_s(600) == 120
    assert reduction.beginning_s(10) == 5
