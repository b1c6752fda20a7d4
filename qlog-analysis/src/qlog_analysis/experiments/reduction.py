"""Turns traces into what a report needs of them: numbers, and series small enough to draw.

Traces are large and independent of each other, so each is read and reduced in a process of its
own pool, and only the reduced form comes back.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

import numpy as np
import polars as pl
from numpy.typing import NDArray

from qlog_analysis.experiments.comparison import Flow, Run, Scenario
from qlog_analysis.metrics.delivery import binned
from qlog_analysis.metrics.runs import FlowMetrics, flow_metrics
from qlog_analysis.metrics.samples import rtt_samples_ms
from qlog_analysis.metrics.series import Series, changes, thinned
from qlog_analysis.reading.reader import Trace, read_trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FlowSeries:
    """What is drawn of a flow, over the time of its run; a series without values is empty."""

    window_packets: Series
    ssthresh_packets: Series
    in_flight_packets: Series
    rtt_ms: Series
    base_rtt_ms: Series
    backlog_packets: Series
    sent_bps: Series


@dataclass(frozen=True, slots=True)
class FlowResult:
    """A reduced trace: its numbers, its RTT samples, its series over all and over the start."""

    metrics: FlowMetrics
    rtts_ms: Floats
    whole: FlowSeries
    beginning: FlowSeries
    truncated: bool


def beginning_s(duration_s: float) -> float:
    """How much of a run counts as its start: 15 s, or a fifth if that is more, at most half."""
    return max(duration_s / 5, min(15.0, duration_s / 2))


def rate_bin_s(scenario: Scenario) -> float:
    """The time over which a sending rate is a mean: ten RTTs, at most a second."""
    return min(1.0, max(0.01, 10 * scenario.rtt_s))


def reduce_flow(
    flow: Flow,
    run: Run,
    scenario: Scenario,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> FlowResult:
    """Reads a flow's trace and reduces it.

    Raises:
        NotQlogError: as `read_trace`.
    """
    trace = read_trace(flow.trace, on_bytes)
    end_s = run.duration_s
    return FlowResult(
        metrics=flow_metrics(trace, flow, run, scenario),
        rtts_ms=rtt_samples_ms(trace)[1],
        whole=_series(trace, flow, scenario, 0.0, end_s, rate_bin_s(scenario)),
        beginning=_series(trace, flow, scenario, 0.0, beginning_s(end_s), rate_bin_s(scenario) / 2),
        truncated=trace.truncated,
    )


def _series(
    trace: Trace, flow: Flow, scenario: Scenario, start_s: float, end_s: float, bin_s: float
) -> FlowSeries:
    metrics = trace.metrics
    seconds = flow.start_s + metrics["time_ms"].to_numpy() / 1000

    def drawn(column: pl.Series, scale: float = 1.0) -> Series:
        values = column.cast(pl.Float64).fill_null(np.nan).to_numpy() * scale
        return thinned(changes(seconds, values).between(start_s, end_s)).until(end_s)

    packet = 1 / scenario.datagram_bytes
    own = metrics["vegas_base_rtt_ms"]
    rtt_times, rtts = rtt_samples_ms(trace)
    return FlowSeries(
        window_packets=drawn(metrics["window_bytes"], packet),
        ssthresh_packets=drawn(metrics["ssthresh_bytes"], packet),
        in_flight_packets=drawn(metrics["in_flight_bytes"], packet),
        rtt_ms=thinned(Series(flow.start_s + rtt_times / 1000, rtts).between(start_s, end_s)),
        base_rtt_ms=drawn(metrics["min_rtt_ms"] if own.is_null().all() else own),
        backlog_packets=drawn(metrics["vegas_backlog_packets"]),
        sent_bps=_rate(trace, flow, end_s, bin_s),
    )


def _rate(trace: Trace, flow: Flow, end_s: float, bin_s: float) -> Series:
    """The sending rate in bins over the time of the run; the last bin only if it is whole."""
    times = flow.start_s + trace.sent["time_ms"].to_numpy() / 1000
    sizes = trace.sent["length_bytes"].to_numpy().astype(np.float64)
    sums = binned(times, sizes, bin_s, end_s)[: max(1, int(end_s / bin_s + 1e-9))]
    rate = Series(np.arange(len(sums), dtype=np.float64) * bin_s, sums * 8 / bin_s)
    return rate.until(len(sums) * bin_s)


Task = tuple[Flow, Run, Scenario]

_read_bytes: "Synchronized[int] | None" = None


def _start_worker(counter: "Synchronized[int]") -> None:
    global _read_bytes
    _read_bytes = counter


def _count_bytes(count: int) -> None:
    if _read_bytes is not None:
        with _read_bytes.get_lock():
            _read_bytes.value += count


def _reduce_in_worker(task: Task) -> FlowResult:
    return reduce_flow(*task, on_bytes=_count_bytes)


def reduce_flows(tasks: Sequence[Task], on_bytes: Callable[[int], None]) -> list[FlowResult]:
    """Reduces traces on all cores, in the order of the tasks.

    Raises:
        NotQlogError: one of the files is no trace.
    """
    workers = min(_cores(), len(tasks))
    if workers < 2:
        return [reduce_flow(*task, on_bytes=on_bytes) for task in tasks]
    # polars runs threads, which do not survive a fork.
    context = multiprocessing.get_context("spawn")
    counter: Synchronized[int] = context.Value("q", 0)
    with (
        _one_thread_each(),
        ProcessPoolExecutor(workers, context, _start_worker, (counter,)) as pool,
    ):
        # The longest first, so that no core is left with it at the end.
        order = sorted(range(len(tasks)), key=lambda i: _size(tasks[i]), reverse=True)
        futures = {i: pool.submit(_reduce_in_worker, tasks[i]) for i in order}
        try:
            for count in _until_done(futures.values(), counter):
                on_bytes(count)
            return [futures[i].result() for i in range(len(tasks))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _size(task: Task) -> int:
    trace = task[0].trace
    return trace.stat().st_size if trace.exists() else 0


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _until_done(
    futures: Iterable[Future[FlowResult]], counter: "Synchronized[int]"
) -> Iterator[int]:
    """Yields the bytes that were read since the last time; stops early when a future fails."""
    told = 0
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        now = counter.value
        yield now - told
        told = now


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Has the processes started meanwhile run polars on one thread: there is one per core."""
    name = "POLARS_MAX_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
