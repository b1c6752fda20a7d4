"""The one table of metrics, and the names that summaries of traces share with it."""

from dataclasses import fields

import pytest

from qlog_analysis.errors import LayoutError
from qlog_analysis.metrics.definitions import best, find, metric_of, position
from qlog_analysis.metrics.numbers import NOTHING
from qlog_analysis.metrics.summary import SHARED, Summary, metrics

# The unit that the end of a name promises.
UNITS = {
    "s": "s", "bps": "bit/s", "packets": "packets", "bytes": "bytes", "ratio": "",
}  # fmt: skip

# Fields of a summary that are not metrics.
DESCRIPTIONS = {
    "trace", "connection", "program", "controller", "started", "vantage", "delivered_from",
    "losses_from", "records", "skipped_records", "unordered_records", "truncated",
}  # fmt: skip


def test_every_number_of_a_summary_is_defined_once() -> None:
    names = [metric.name for metric in metrics()]
    assert len(set(names)) == len(names)
    assert set(names) == {field.name for field in fields(Summary)} - DESCRIPTIONS


def test_a_number_that_both_measure_is_the_simulators() -> None:
    for metric in metrics():
        shared = find("flow", metric.name)
        if metric.name in SHARED:
            assert metric == shared
        else:
            # Another number must not have the name of one that the simulator measures.
            assert shared is None, metric.name
            assert find("flow", metric.name, over_time=True) is None


@pytest.mark.parametrize("metric", metrics(), ids=lambda metric: metric.name)
def test_a_name_ends_with_the_unit(metric: object) -> None:
    name = metric.name  # type: ignore[attr-defined]
    assert metric.unit == UNITS[name.rpartition("_")[2]]  # type: ignore[attr-defined]


def test_the_table_is_read() -> None:
    throughput = metric_of("run", "throughput_sum_bps")
    assert (throughput.unit, throughput.shown_unit, throughput.better) == (
        "bit/s",
        "Mbit/s",
        "high",
    )
    assert throughput.show(12_345_678.0) == "12.35"
    assert throughput.show(None) == NOTHING
    assert metric_of("link/bottleneck", "queue_packets", over_time=True).unit == "packets"
    assert position(throughput) > position(metric_of("flow/a", "throughput_bps"))


def test_metrics_of_several_subjects_are_told_apart() -> None:
    of_flow, of_run = metric_of("flow/f", "lost_packets"), metric_of("run", "lost_packets")
    assert of_flow.unit == of_run.unit
    assert of_flow.meaning != of_run.meaning


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(LayoutError, match="no metric 'oddity' of 'link/b'; expected one of util"):
        metric_of("link/b", "oddity")
    with pytest.raises(LayoutError, match="no metric 'jain' of 'nobody'; there are none"):
        metric_of("nobody", "jain")
    with pytest.raises(LayoutError, match="no metric 'utilisation' of 'link/b' over time"):
        metric_of("link/b", "utilisation", over_time=True)


def test_the_best_of_some_values() -> None:
    lost, sent = metric_of("flow/f", "lost_packets"), metric_of("flow/f", "sent_packets")
    assert best(lost, [3, 1, None, 2]) == 1
    assert best(lost, [3, 3]) is None
    assert best(sent, [3, 1]) is None
    assert best(metric_of("run", "jain"), [0.5, 1.0]) == 1.0
