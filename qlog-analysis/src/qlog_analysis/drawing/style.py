"""How all figures look."""

from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from qlog_analysis.metrics.series import Series

# The colours of Okabe and Ito, which people with any colour vision can tell apart; their yellow
# is too faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY = "#666666"

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.dpi": 110,
    "font.size": 11,
    "grid.color": "#e4e4e4",
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "path.simplify": True,
    # Text stays text, and the same figure makes the same bytes.
    "svg.fonttype": "none",
    "svg.hashsalt": "qlog-analysis",
}


def style() -> AbstractContextManager[None]:
    """The look of figures that are made and saved in its scope."""
    return mpl.rc_context(_STYLE)


def step(axes: Axes, series: Series, label: str | None = None, **kwargs: Any) -> None:
    """Draws values that hold until the next one; nothing if there is none."""
    if len(series.time_s):
        axes.step(series.time_s, series.value, where="post", label=label, **kwargs)
