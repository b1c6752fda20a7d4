"""Metrics, plots and reports from qlog traces of congestion controllers.

`reader` turns a trace into tidy tables, `metrics` these into numbers, `plots` and `report` the
numbers into pictures and pages; `reduction` does the first two for many traces at once, and
`comparison` knows the directories that the simulator writes.
"""
