"""Values over time, reduced to a size that can be drawn."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COLUMNS = 1000
"""About the number of pixel columns of a plot."""


class Series(NamedTuple):
    """Values that hold from their times on, in order of time; NaN is a gap."""

    time_s: Floats
    value: Floats

    def between(self, start_s: float, end_s: float) -> "Series":
        """The part in an interval, with the value that is in force at its start."""
        first = max(0, int(np.searchsorted(self.time_s, start_s, side="right")) - 1)
        last = int(np.searchsorted(self.time_s, end_s, side="right"))
        return Series(self.time_s[first:last], self.value[first:last])

    def until(self, end_s: float) -> "Series":
        """The same, with the last value held to the end."""
        if not len(self.value) or self.time_s[-1] >= end_s:
            return self
        return Series(np.append(self.time_s, end_s), np.append(self.value, self.value[-1]))


def changes(time_s: Floats, value: Floats) -> Series:
    """Drops values that repeat the one before, and NaN at the start."""
    same = (value[1:] == value[:-1]) | (np.isnan(value[1:]) & np.isnan(value[:-1]))
    keep = np.concatenate(([len(value) > 0 and not np.isnan(value[0])], ~same))[: len(value)]
    return Series(time_s[keep], value[keep])


def thinned(series: Series, columns: int = COLUMNS) -> Series:
    """Keeps the first, lowest, highest and last value of each pixel column, so that spikes stay."""
    count = len(series.time_s)
    if count <= 4 * columns:
        return series
    start, end = series.time_s[0], series.time_s[-1]
    edges = np.searchsorted(series.time_s, np.linspace(start, end, columns + 1)[1:-1])
    bounds = np.concatenate(([0], edges, [count]))
    keep: list[int] = []
    for low, high in pairwise(bounds.tolist()):
        if high > low:
            part = series.value[low:high]
            keep += {low, low + int(np.argmin(part)), low + int(np.argmax(part)), high - 1}
    index = np.unique(keep)
    return Series(series.time_s[index], series.value[index])
