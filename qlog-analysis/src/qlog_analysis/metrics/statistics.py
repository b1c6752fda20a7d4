"""Means and ratios of few samples, with 95 % intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    # SciPy takes a fifth of a second to import, which a summary of traces does without.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class Ellipse:
    """An ellipse about the mean of pairs.

    Attributes:
        x: the mean of the first values.
        y: that of the second ones.
        across: the two half-axes as vectors.
    """

    x: float
    y: float
    across: tuple[tuple[float, float], tuple[float, float]]

    def outline(self, count: int) -> list[tuple[float, float]]:
        """So many points on it."""
        (ax, ay), (bx, by) = self.across
        angles = [2 * math.pi * step / count for step in range(count)]
        return [
            (
                self.x + ax * math.cos(angle) + bx * math.sin(angle),
                self.y + ay * math.cos(angle) + by * math.sin(angle),
            )
            for angle in angles
        ]


_FEWEST_PAIRS = 3


def ellipse(xs: Sequence[float], ys: Sequence[float]) -> Ellipse | None:
    """The ellipse that holds 95 % of a normal distribution with the covariance of these pairs.

    It tells how pairs scatter, and not how well their mean is known. Two pairs and less have none.
    """
    if len(xs) < _FEWEST_PAIRS:
        return None
    squares, vectors = np.linalg.eigh(np.cov(xs, ys, ddof=1))
    # The quantile of χ² with two degrees of freedom.
    quantile = -2 * math.log(1 - CONFIDENCE)
    radii = np.sqrt(np.clip(squares, 0.0, None) * quantile)
    (ax, bx), (ay, by) = (vectors * radii).tolist()
    return Ellipse(float(np.mean(xs)), float(np.mean(ys)), ((ax, ay), (bx, by)))
