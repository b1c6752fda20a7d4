import math

import numpy as np

from qlog_analysis.metrics.series import Series, changes, thinned


def series(*values: float) -> Series:
    return Series(np.arange(len(values), dtype=float), np.array(values, dtype=float))


def test_changes_keep_gaps_but_no_repetitions() -> None:
    nan = math.nan
    out = changes(*series(nan, nan, 1, 1, 2, nan, nan, 2))
    assert out.time_s.tolist() == [2, 4, 5, 7]
    assert np.isnan(out.value).tolist() == [False, False, True, False]
    assert len(changes(*series()).value) == 0


def test_spikes_survive_thinning() -> None:
    values = np.zeros(100_000)
    values[[777, 54_321]] = [9.0, -5.0]
    out = thinned(Series(np.arange(100_000) / 1000, values), columns=100)
    assert len(out.value) <= 400
    assert out.value.max() == 9
    assert out.value.min() == -5
    assert out.time_s[out.value == 9].tolist() == [0.777]
    assert (np.diff(out.time_s) > 0).all()
    assert (out.time_s[0], out.time_s[-1]) == (0, 99.999)


def test_short_series_stay_as_they_are() -> None:
    short = series(*range(400))
    assert thinned(short, columns=100) is short


def test_a_part_starts_with_the_value_in_force() -> None:
    assert series(5, 6, 7, 8).between(1.5, 2.5).value.tolist() == [6, 7]
    assert series(5, 6).between(10, 20).value.tolist() == [6]
    assert series().between(0, 1).value.tolist() == []


def test_the_last_value_is_held() -> None:
    out = series(5, 6).until(9)
    assert (out.time_s.tolist(), out.value.tolist()) == ([0, 1, 9], [5, 6, 6])
    assert len(series().until(9).value) == 0
