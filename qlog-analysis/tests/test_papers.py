import json
from pathlib import Path
from typing import Any

import pytest
from synthetic import write_json
from synthetic_papers import Lab, both, claim, fairness

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.estimates import crossing, estimate
from qlog_analysis.experiments.measured import Missing, read_measured
from qlog_analysis.experiments.model import Override, Quantity, read_experiment
from qlog_analysis.experiments.verdicts import Outcome, claims_json, read_outcomes
from qlog_analysis.metrics.statistics import Interval, mean, ratio_of_means, t_quantile


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_students_t(degrees: int, expected: float) -> None:
    assert t_quantile(degrees) == pytest.approx(expected, abs=5e-4)


def test_the_interval_of_a_mean() -> None:
    assert mean([5.0]) == Interval(5.0, None, None)
    out = mean([1.0, 2.0, 3.0])
    # s = 1, t = 4.303, n = 3
    assert out.value == 2
    assert out.low == pytest.approx(2 - 4.3027 / 3**0.5, abs=1e-3)
    assert out.high == pytest.approx(2 + 4.3027 / 3**0.5, abs=1e-3)


def test_the_interval_of_a_ratio() -> None:
    # Paired samples in a fixed ratio leave nothing uncertain, however far they spread.
    out = ratio_of_means([8.0, 10.0, 12.0], [4.0, 5.0, 6.0])
    assert out is not None
    assert (out.value, out.low, out.high) == pytest.approx((2, 2, 2))
    # A denominator without spread: the interval of the numerator, scaled.
    out, whole = ratio_of_means([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]), mean([1.0, 2.0, 3.0])
    assert out is not None and whole.low is not None and whole.high is not None
    assert (out.low, out.high) == pytest.approx((whole.low / 4, whole.high / 4))
    # A denominator that may be zero bounds nothing.
    assert ratio_of_means([1.0, 1.0], [-1.0, 2.0]) == Interval(2.0, None, None)
    assert ratio_of_means([1.0, 1.0], [0.0, 0.0]) is None
    assert ratio_of_means([3.0], [2.0]) == Interval(1.5)


def curve(*pairs: tuple[float, float]) -> list[tuple[float, Interval]]:
    return [(x, Interval(y, y - 1, y + 1)) for x, y in pairs]


def test_a_crossing_is_interpolated() -> None:
    out = crossing(curve((0, 0), (10, 5), (20, 10)), 6.0)
    assert out == Interval(12.0, 10.0, 14.0)
    assert crossing(curve((0, 10), (10, 0)), 5.0) == Interval(5.0, 4.0, 6.0)
    assert crossing(curve((0, 1), (4, 2)), 2.0) == Interval(4.0, 0.0, None)
    assert crossing([(0, Interval(0.0)), (4, Interval(2.0))], 1.0) == Interval(2.0)
    assert crossing(curve((0, 1), (4, 2)), 7.0) == Missing("never crosses 7")


def outcome(directory: Path, lab: Lab) -> Outcome:
    (out,) = read_outcomes(both(directory, [lab]))
    return out


def statuses(out: Outcome) -> dict[str, str]:
    return {verdict.claim.id: verdict.status for verdict in out.verdicts}


def test_claims_are_judged(tmp_path: Path) -> None:
    out = outcome(tmp_path, fairness())
    assert statuses(out) == {
        "ns2/lost": "reproduced",
        "ns2/ratio": "reproduced",
        "ns2/no": "not reproduced",
    }
    lost, ratio, _ = out.verdicts
    assert lost.measured == Interval(0.0, 0.0, 0.0)
    assert isinstance(ratio.measured, Interval)
    assert ratio.measured.value == 2


@pytest.mark.parametrize(
    ("across", "value"),
    [
        ("mean", 12 + 2),
        ("sum", 36 + 6),
        ("min", 1 + 2),
        ("max", 22 + 2),
        ({"across": "crossing", "axis": "x", "level": 9.0}, 0.001 + 0.012 * 6 / 12),
    ],
)
def test_points_that_are_left_over(tmp_path: Path, across: Any, value: float) -> None:
    lab = fairness()
    lab.content["claims"] = [
        claim("ns2/across", "received_packets", "flow/long", {"run": "vegas"}, across=across)
    ]
    (verdict,) = outcome(tmp_path, lab).verdicts
    assert isinstance(verdict.measured, Interval)
    assert verdict.measured.value == pytest.approx(value)
    # Seeds differ by ±1 around the mean.
    assert verdict.measured.low is not None
    assert verdict.measured.low < value


def test_a_ratio_to_another_controller(tmp_path: Path) -> None:
    lab = fairness()
    own = claim("ns2/both", "throughput_pps", "flow/long", {"run": "vegas", "x": ["1ms", "13ms"]})
    lab.content["claims"] = [
        own | {"ratio-to": {"where": {"run": "reno"}}},
        own | {"id": "ns2/zero", "ratio-to": {"metric": "lost_packets", "subject": "run"}},
    ]
    one, zero = outcome(tmp_path, lab).verdicts
    assert isinstance(one.measured, Interval)
    assert one.measured.value == 1
    assert zero.measured == Missing("divided by zero")


def test_members_of_a_flow_count_as_their_mean(tmp_path: Path) -> None:
    lab = Lab("vegas/many", {"run": ["vegas"]}, seeds=1)
    for index, value in enumerate([1.0, 2.0, 6.0]):
        lab.row(0, 1, "flow/f", "m", value, index=index)
    measured = read_measured(read_experiment(lab.save(tmp_path)))
    assert estimate(measured, Quantity("m", "flow/f", {}), None) == Interval(3.0)


def test_a_run_that_is_missing_is_no_number(tmp_path: Path) -> None:
    lab = fairness()
    lab.measure("flow/long", "sometimes_s", lambda _, seed: 1.0 if seed > 1 else None)
    lab.fail(0, 2, "flow `long` made no progress for 60 s")
    lab.rows = [row for row in lab.rows if row["point"] not in (4, 5)]
    lab.content["claims"] = [
        claim("ns2/failed", "received_packets", "flow/long", {"x": "1ms", "run": "vegas"}),
        claim("ns2/some", "received_packets", "flow/long", {"run": "vegas"}),
        claim("ns2/never", "sometimes_s", "flow/long", {"x": "13ms", "run": "vegas"}),
        claim("ns2/other", "no_such", "flow/long", {"x": "13ms", "run": "reno"}),
        claim("ns2/later", "received_packets", "flow/long", {"x": "22ms", "run": "reno"}),
    ]
    out = outcome(tmp_path, lab)
    assert set(statuses(out).values()) == {"not measured", "not run"}
    reasons = [v.measured.reason for v in out.verdicts if isinstance(v.measured, Missing)]
    assert reasons == [
        "1 of 3 runs failed: flow `long` made no progress for 60 s",
        "1 of 3 runs failed: flow `long` made no progress for 60 s (at x = 1ms, run = vegas)",
        "did not happen in 1 of 3 runs",
        "not measured",
        "not run",
    ]


def test_the_json(tmp_path: Path) -> None:
    out = json.loads(claims_json([outcome(tmp_path, fairness())]))
    ratio = next(claim for claim in out["claims"] if claim["id"] == "ns2/ratio")
    assert ratio == {
        "id": "ns2/ratio",
        "experiment": "ns2/fairness",
        "title": "Claim ns2/ratio",
        "paper": 1.0,
        "measured": 2.0,
        "low": 2.0,
        "high": 2.0,
        "tolerance": {"low": 1.9, "high": 2.1},
        "unit": "packets",
        "status": "reproduced",
        "reproduced": True,
        "robust": True,
        "source": "Zhang and Bian 2002, Table 3",
        "note": "Flat.",
    }
    (experiment,) = out["experiments"]
    assert (experiment["name"], experiment["points"], experiment["seeds"]) == ("ns2/fairness", 6, 3)
    assert (experiment["claims"], experiment["reproduced"], experiment["failed"]) == (3, 2, [])


def test_a_tolerance_is_relative_to_the_paper(tmp_path: Path) -> None:
    lab = fairness()
    own = claim("ns2/t", "lost_packets", "run", {}, paper=4.0, tolerance=0.25)
    del own["low"], own["high"]
    lab.content["claims"] = [own]
    (verdict,) = outcome(tmp_path, lab).verdicts
    assert (verdict.claim.low, verdict.claim.high) == (3, 5)
    assert verdict.status == "reproduced"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, r"experiment\.json: seeds must be 1 or more"),
        ({"axes": [{"name": "x"}]}, r"axes\[0\]: values must be a list, not null"),
        ({"tables": [{"title": "t", "metric": "m"}]}, r"tables\[0\]: subject is missing"),
        (
            {"plots": [{"title": "t", "kind": "pie"}]},
            r"plots\[0\]: kind must be one of axis, time, trace, not 'pie'",
        ),
        (
            {"claims": [claim("c", "m", "run", {"no": "1"})]},
            r"claims\[0\]: value: where: no axis 'no'; expected one of x, run",
        ),
        (
            {"claims": [claim("c", "m", "run", {}, across="median")]},
            r"across must be one of mean, min, max, sum, crossing, not 'median'",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    lab = fairness()
    lab.content.update(changes)
    with pytest.raises(LayoutError, match=message):
        outcome(tmp_path, lab)


def test_some_experiments_by_name(tmp_path: Path) -> None:
    other = fairness()
    other.name = "ns2/other"
    both(tmp_path, [fairness(), other])
    (out,) = read_outcomes(tmp_path, ["ns2/other"])
    assert out.measured.experiment.name == "ns2/other"
    with pytest.raises(LayoutError, match=r"ns2/none/experiment\.json: no such file"):
        read_outcomes(tmp_path, ["ns2/none"])


def test_experiments_come_in_the_order_of_papers(tmp_path: Path) -> None:
    names = ["vegas/x", "ns2/x", "ns2/y", "linux/x", "gallop/x", "streaming/x", "mine"]
    for name in names:
        lab = fairness()
        lab.name = name
        lab.content["claims"] = []
        lab.save(tmp_path)
    experiments = [out.measured.experiment for out in read_outcomes(tmp_path)]
    assert [experiment.name for experiment in experiments] == names


def test_a_name_outside_the_directory_is_refused(tmp_path: Path) -> None:
    lab = fairness()
    lab.content["name"] = "ns2/../fairness"
    with pytest.raises(LayoutError, match="name must be plain names joined by /"):
        outcome(tmp_path, lab)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="no experiment in it"):
        read_outcomes(tmp_path)
    where = fairness().save(tmp_path)
    (where / "results.parquet").write_bytes(b"nothing")
    with pytest.raises(LayoutError, match=r"results\.parquet: expected a Parquet table"):
        read_outcomes(tmp_path)


def test_a_column_of_another_kind_is_named(tmp_path: Path) -> None:
    lab = fairness()
    lab.rows = [row | {"seed": str(row["seed"])} for row in lab.rows]
    with pytest.raises(LayoutError, match=r"results\.parquet: column seed must be Int64, not Str"):
        outcome(tmp_path, lab)


def test_names_of_claims_are_theirs_alone(tmp_path: Path) -> None:
    other = fairness()
    other.name = "ns2/other"
    with pytest.raises(LayoutError, match="claim 'ns2/lost' is in ns2/fairness and in ns2/other"):
        read_outcomes(both(tmp_path, [fairness(), other]))


def test_failures_must_be_a_list(tmp_path: Path) -> None:
    where = fairness().save(tmp_path)
    write_json(where / "failures.json", {})
    with pytest.raises(LayoutError, match=r"failures\.json: expected a list of failed runs"):
        read_outcomes(tmp_path)


def test_a_quantity_with_another_where() -> None:
    own = Quantity("m", "flow/a", {"x": ("1",), "run": ("a",)})
    other = Override(None, "flow/b", {"run": ("b",)}).of(own)
    assert other == Quantity("m", "flow/b", {"x": ("1",), "run": ("b",)})
