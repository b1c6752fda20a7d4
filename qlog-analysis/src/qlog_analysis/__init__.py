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

from qlog_analysis.library import Log, load, load_all
from qlog_analysis.metrics.summary import Summary

__all__ = ["Log", "Summary", "load", "load_all"]
