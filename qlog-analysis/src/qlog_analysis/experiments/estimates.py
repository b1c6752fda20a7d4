"""From samples to the number that a claim, a cell or a point of a plot is about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from qlog_analysis.experiments.measured import Measured, Missing, Samples
from qlog_analysis.experiments.model import Across, Claim, Override, Quantity
from qlog_analysis.metrics.statistics import Interval, mean, ratio_of_means

Estimate = Interval | Missing


@dataclass(frozen=True, slots=True)
class _Pair:
    """Samples of a quantity and, for a ratio, of its denominator."""

    samples: Samples
    others: Samples | None

    def estimate(self) -> Estimate:
        # The same seed makes the same traffic and jitter, so that samples are paired by seed.
        seeds = sorted(self.samples)
        own = [self.samples[seed] for seed in seeds]
        if self.others is None:
            return mean(own)
        ratio = ratio_of_means(own, [self.others[seed] for seed in seeds])
        return Missing("divided by zero") if ratio is None else ratio


def estimate(measured: Measured, quantity: Quantity, ratio_to: Override | None) -> Estimate:
    """The mean of a quantity over its points, or the ratio of two such means."""
    return _pooled(measured, quantity, ratio_to, "mean")


def estimate_claim(measured: Measured, claim: Claim) -> Estimate:
    """The measurement of a claim's quantity."""
    if claim.across in ("mean", "sum"):
        return _pooled(measured, claim.value, claim.ratio_to, claim.across)
    each = _each(measured, claim.value, claim.ratio_to)
    if isinstance(each, Missing):
        return each
    if claim.across == "crossing":
        return _crossing_on(measured, each, claim.axis, claim.level)
    choose = min if claim.across == "min" else max
    return choose((value for _, value in each), key=lambda interval: interval.value)


def _pooled(
    measured: Measured, quantity: Quantity, ratio_to: Override | None, across: Across
) -> Estimate:
    own = _total(measured, quantity, across)
    if isinstance(own, Missing) or ratio_to is None:
        return own if isinstance(own, Missing) else _Pair(own, None).estimate()
    other = _total(measured, ratio_to.of(quantity), across)
    return other if isinstance(other, Missing) else _Pair(own, other).estimate()


def _total(measured: Measured, quantity: Quantity, across: Across) -> Samples | Missing:
    """For each seed the mean or the sum of a quantity over its points."""
    points = measured.experiment.points_where(quantity.where)
    each = []
    for point in points:
        samples = measured.samples(quantity.subject, quantity.metric, point)
        if isinstance(samples, Missing):
            return _at(measured, point, samples) if len(points) > 1 else samples
        each.append(samples)
    if not each:
        return Missing("not run", run=False)
    weight = 1 / len(each) if across == "mean" else 1.0
    return {seed: sum(samples[seed] for samples in each) * weight for seed in each[0]}


def _each(
    measured: Measured, quantity: Quantity, ratio_to: Override | None
) -> list[tuple[int, Interval]] | Missing:
    """The estimate at each point by itself; a ratio has its denominator at the like point."""
    out = []
    for point in measured.experiment.points_where(quantity.where):
        axes = measured.experiment.points[point].axes
        here = Quantity(
            quantity.metric,
            quantity.subject,
            {axis: (value,) for axis, value in axes.items()},
        )
        value = _pooled(measured, here, ratio_to, "mean")
        if isinstance(value, Missing):
            return _at(measured, point, value)
        out.append((point, value))
    return out or Missing("not run", run=False)


def _at(measured: Measured, point: int, missing: Missing) -> Missing:
    where = measured.where(point)
    return replace(missing, reason=f"{missing.reason} (at {where})") if where else missing


def _crossing_on(
    measured: Measured, each: Iterable[tuple[int, Interval]], axis: str, level: float
) -> Estimate:
    numbers = measured.numbers.get(axis, {})
    curve = []
    for point, value in each:
        text = measured.experiment.points[point].axes.get(axis, "")
        if text not in numbers:
            return Missing(f"axis {axis!r} has no numbers")
        curve.append((numbers[text], value))
    curve.sort(key=lambda pair: pair[0])
    if len({x for x, _ in curve}) < len(curve):
        return Missing(f"several points with the same {axis}")
    return crossing(curve, level)


def crossing(curve: Sequence[tuple[float, Interval]], level: float) -> Estimate:
    """The place at which a curve, linear between its points, first crosses a level.

    The ends of the interval are the places at which the bounds of the points' intervals cross it.
    """

    def first(values: Iterable[float | None]) -> float | None:
        before: tuple[float, float] | None = None
        for (x, _), y in zip(curve, values, strict=True):
            if y is None:
                return None
            if y == level:
                return x
            if before is not None and (before[1] < level) != (y < level):
                return before[0] + (x - before[0]) * (level - before[1]) / (y - before[1])
            before = (x, y)
        return None

    value = first(interval.value for _, interval in curve)
    if value is None:
        return Missing(f"never crosses {level:g}")
    bounds = (
        first(interval.low for _, interval in curve),
        first(interval.high for _, interval in curve),
    )
    low = min((x for x in bounds if x is not None and x <= value), default=None)
    high = max((x for x in bounds if x is not None and x >= value), default=None)
    return Interval(value, low, high)
