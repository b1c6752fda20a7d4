"""Turns traces into what a report needs of them: numbers, and series small enough to draw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qlog_analysis.drawing.reduction import FlowCourse, FlowTask, rate_bin_s, reduce
from qlog_analysis.experiments.comparison import Flow, Run, Scenario
from qlog_analysis.metrics.runs import FlowMetrics, flow_metrics
from qlog_analysis.metrics.samples import rtt_samples_ms
from qlog_analysis.reading import parallel
from qlog_analysis.reading.reader import read_trace

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FlowResult:
    """A reduced trace: its numbers, its RTT samples, its series over all and over the start."""

    metrics: FlowMetrics
    rtts_ms: Floats
    course: FlowCourse


@dataclass(frozen=True, slots=True)
class Task:
    """A flow's trace to be reduced."""

    flow: Flow
    of_run: Run
    scenario: Scenario

    @property
    def trace(self) -> Path:
        """The file."""
        return self.flow.trace

    def run(self, on_bytes: Callable[[int], None] = lambda _: None) -> FlowResult:
        """Reads the trace and reduces it.

        Raises:
            NotQlogError: as `read_trace`.
        """
        trace = read_trace(self.trace, on_bytes)
        scenario = self.scenario
        task = FlowTask(
            self.trace,
            self.flow.start_s,
            self.of_run.duration_s,
            scenario.datagram_bytes,
            rate_bin_s(scenario.rtt_s),
        )
        return FlowResult(
            metrics=flow_metrics(trace, self.flow, self.of_run, scenario),
            rtts_ms=rtt_samples_ms(trace)[1],
            course=reduce(trace, task),
        )


def reduce_flows(tasks: Sequence[Task], on_bytes: Callable[[int], None]) -> list[FlowResult]:
    """Reduces traces on all cores, in the order of the tasks.

    Raises:
        NotQlogError: one of the files is no trace.
    """
    return parallel.run_all(tasks, on_bytes)
