"""The look of all figures and pages."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from qlog_analysis.metrics.series import Series

PALETTE = {
    # name: (on a light page, on a dark page)
    "paper": ("#ffffff", "#14171b"),
    "ink": ("#1b1f24", "#e3e7eb"),
    "soft": ("#59636e", "#9aa4af"),
    "faint": ("#aab2ba", "#6b7681"),
    "line": ("#d8dee4", "#343b44"),
    "shade": ("#f3f5f7", "#1f242a"),
    "good": ("#0a6c3f", "#6fdca6"),
    "good-shade": ("#d9f2e4", "#14382a"),
    "bad": ("#a8281e", "#ff9a8f"),
    "bad-shade": ("#fbe3e0", "#45201c"),
    # From far outside a limit to far inside it. Orange and blue differ for people with any colour
    # vision.
    "out-3": ("#c2410c", "#f97316"),
    "out-2": ("#f79a4b", "#a9490f"),
    "out-1": ("#fdd9b5", "#57290f"),
    "in-1": ("#e3eff9", "#16283a"),
    "in-2": ("#b9d9ef", "#1d4468"),
    "in-3": ("#86bde0", "#27659b"),
    # The colours of Okabe and Ito, which people with any colour vision can tell apart, dark enough
    # for white paper, and with a purple in place of their yellow and second blue.
    "c0": ("#0072b2", "#5ab4ec"),
    "c1": ("#d55e00", "#ff8f45"),
    "c2": ("#008060", "#3fd0a0"),
    "c3": ("#b8558c", "#f0a3cd"),
    "c4": ("#b57b00", "#f0bc4a"),
    "c5": ("#6a3d9a", "#c7a6f2"),
    "c6": ("#444b53", "#c5ccd3"),
}
"""The colours of pages and figures. Figures are drawn with the light ones; within a page each
becomes the CSS variable of its name, so that a figure follows the page's colour scheme."""

INK, SOFT, FAINT, BAND = (PALETTE[name][0] for name in ("ink", "soft", "faint", "good-shade"))

COLOURS = tuple(light for name, (light, _) in PALETTE.items() if name[1:].isdigit())

Dash = Literal["-", "--", ":"]
_DASHES: tuple[Dash, ...] = ("-", "--", ":")


@dataclass(frozen=True, slots=True)
class Look:
    """The look of one line among several.

    Attributes:
        colour: a colour of the palette.
        variable: its name in CSS.
        dash: its dash.
    """

    colour: str
    variable: str
    dash: Dash


def look(number: int) -> Look:
    """The look of a line by its number; when the colours run out they recur with another dash."""
    colour = number % len(COLOURS)
    return Look(COLOURS[colour], f"--c{colour}", _DASHES[number // len(COLOURS) % len(_DASHES)])


_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": PALETTE["faint"][0],
    "axes.facecolor": PALETTE["paper"][0],
    "axes.grid": True,
    "axes.labelcolor": SOFT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.dpi": 110,
    "figure.facecolor": PALETTE["paper"][0],
    "font.size": 11,
    "grid.color": PALETTE["line"][0],
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "path.simplify": True,
    # Text stays text, and the same figure makes the same bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "qlog-analysis",
    "text.color": INK,
    # A name of a file or a controller is not a formula.
    "text.parse_math": False,
    # The grid shows the places of the numbers.
    "xtick.bottom": False,
    "xtick.color": PALETTE["faint"][0],
    "xtick.labelcolor": SOFT,
    "ytick.color": PALETTE["faint"][0],
    "ytick.labelcolor": SOFT,
    "ytick.left": False,
}


def style() -> AbstractContextManager[None]:
    """The look of figures that are made and saved within it."""
    return mpl.rc_context(_STYLE)


_LEGEND_CHARACTERS = 110
"""The characters of a legend's row that a figure has room for, with about six for each line."""


def legend(figure: Figure, handles: Sequence[Line2D], names: Sequence[str]) -> None:
    """Adds a legend above a figure, with as many columns as it has room for."""
    widest = max(map(len, names), default=0) + 6
    columns = max(1, min(len(names), _LEGEND_CHARACTERS // widest))
    # matplotlib leaves out names that begin with "_", so that they are set afterwards.
    added = figure.legend(handles, ["-"] * len(names), loc="outside upper left", ncols=columns)
    for text, name in zip(added.get_texts(), names, strict=True):
        text.set_text(name)


def step(axes: Axes, series: Series, label: str | None = None, **kwargs: Any) -> None:
    """Draws values that hold until the next one, or nothing if there is none."""
    if len(series.time_s):
        axes.step(series.time_s, series.value, where="post", label=label, **kwargs)
