"""Metrics, plots and reports from qlog traces of congestion controllers.

    >>> from qlog_analysis import load
    >>> log = load("flow-0.server.sqlog")
    >>> log.summary().throughput_bps, log.metrics(), log.losses()

`library` is the interface for notebooks and programs. Behind it, each package imports only from
those before it: `reading` turns a file into tidy tables, `metrics` turns these into numbers and
series, `export` writes them for other programs, `experiments` reads the simulator's results and
judges claims, `drawing` makes figures, `reports` makes the pages that people read, and `commands`
is the command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qlog_analysis.library import Log, load, load_all
    from qlog_analysis.metrics.summary import Summary

__all__ = ["Log", "Summary", "load", "load_all"]


def __getattr__(name: str) -> Any:
    # The commands say how numpy is to start before anything imports it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from qlog_analysis import library

    return getattr(library, name)
