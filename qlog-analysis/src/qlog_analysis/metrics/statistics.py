"""Means and ratios of few samples, with 95 % intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its 95 % interval; a bound is None if the samples set none.

    Attributes:
        value: the estimate.
        low: the interval's lower end.
        high: its upper end.
    """

    value: float
    low: float | None = None
    high: float | None = None


def mean(samples: Sequence[float]) -> Interval:
    """The mean with Student's interval, which a single sample does not have."""
    value = float(np.mean(samples))
    if len(samples) < 2:
        return Interval(value)
    half = t_quantile(len(samples) - 1) * float(np.std(samples, ddof=1)) / math.sqrt(len(samples))
    return Interval(value, value - half, value + half)


def ratio_of_means(numerators: Sequence[float], denominators: Sequence[float]) -> Interval | None:
    """The ratio of the means of paired samples with Fieller's interval; None if it divides by zero.

    The interval holds all ratios r for which the mean of a − r·b is not distinguishable from
    zero (Fieller 1954). If the mean of the denominators is itself not distinguishable from zero,
    no interval is bounded and none is given.
    """
    a, b = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    mean_a, mean_b = float(a.mean()), float(b.mean())
    if mean_b == 0:
        return None
    value = mean_a / mean_b
    if len(a) < 2:
        return Interval(value)
    covariance = np.cov(a, b, ddof=1) * t_quantile(len(a) - 1) ** 2 / len(a)
    square = mean_b**2 - float(covariance[1, 1])
    middle = mean_a * mean_b - float(covariance[0, 1])
    constant = mean_a**2 - float(covariance[0, 0])
    if square <= 0:
        return Interval(value)
    spread = math.sqrt(max(0.0, middle**2 - square * constant))
    return Interval(value, (middle - spread) / square, (middle + spread) / square)


def t_quantile(degrees: int) -> float:
    """The value of Student's t that |t| exceeds with a probability of 5 %."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees))
