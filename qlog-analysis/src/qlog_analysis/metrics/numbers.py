"""Numbers as texts for people."""

import math

from qlog_analysis.metrics.statistics import Interval

NOTHING = "\N{EN DASH}"
"""Stands for a number that does not exist: it did not happen, or was not measured."""

_MOST_DECIMALS = 6


def show(value: float | None, half: float | None = None, digits: int | None = None) -> str:
    """A number with the digits to which it is known.

    Args:
        value: the number.
        half: half the width of its interval, of which two digits are shown.
        digits: the digits after the point that people see of such numbers; with an interval it is
            one more at most. Without it, a whole number is written out and any other has three
            significant digits.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    return _text(value, _decimals(value, half, digits))


def _decimals(value: float, half: float | None, digits: int | None) -> int:
    """The number of digits after the point."""
    if half:
        most = _MOST_DECIMALS if digits is None else digits + 1
        return min(1 - math.floor(math.log10(half)), most)
    if digits is not None:
        return digits
    if value == round(value):
        return 0
    return 2 - math.floor(math.log10(abs(value)))


def _text(value: float, decimals: int) -> str:
    text = f"{value:,.{min(max(decimals, 0), _MOST_DECIMALS)}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def half_width(interval: Interval, scale: float = 1.0) -> float | None:
    """Half the width of an interval, None if it is open."""
    if interval.low is None or interval.high is None:
        return None
    return (interval.high - interval.low) / 2 * scale


def show_half(half: float | None, digits: int | None = None) -> str:
    """The half-width of an interval after ± with the digits of its number, or nothing."""
    return "" if half is None else f"± {show(half, half, digits) if half else '0'}"
