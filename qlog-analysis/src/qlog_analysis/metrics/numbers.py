"""Numbers as texts for people."""

import math

from qlog_analysis.metrics.statistics import Interval

NOTHING = "\N{EN DASH}"
"""Stands for a number that does not exist: it did not happen, or was not measured."""


def show(value: float | None, half: float | None = None, digits: int | None = None) -> str:
    """A number with the digits to which it is known.

    Args:
        value: the number.
        half: half the width of its interval, of which two digits are shown.
        digits: the digits after the point of a number without an interval. Without it, a whole
            number is written out and any other has three significant digits.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if half:
        decimals = 1 - math.floor(math.log10(half))
    elif digits is not None:
        decimals = digits
    elif value == round(value):
        decimals = 0
    else:
        decimals = 2 - math.floor(math.log10(abs(value)))
    text = f"{value:,.{min(max(decimals, 0), 6)}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def half_width(interval: Interval, scale: float = 1.0) -> float | None:
    """Half the width of an interval, None if it is open."""
    if interval.low is None or interval.high is None:
        return None
    return (interval.high - interval.low) / 2 * scale


def show_half(half: float | None) -> str:
    """The half-width of an interval after ±, or nothing if there is none."""
    return "" if half is None else f"± {show(half, half) if half else '0'}"
