"""Metrics, plots and reports from qlog traces of congestion controllers.

    >>> from qlog_analysis import load
    >>> log = load("flow-0.server.sqlog")
    >>> log.summary().throughput_bps, log.metrics(), log.losses()

`library` is the face for notebooks and programs. `reader` turns a trace into tidy tables, `metrics`
these into numbers, `plots` and `report` the numbers into pictures and pages; `reduction` does the
first two for many traces at once, and `comparison` knows the directories that the simulator writes.
"""

from qlog_analysis.library import Log, load, load_all
from qlog_analysis.summary import Summary

__all__ = ["Log", "Summary", "load", "load_all"]
