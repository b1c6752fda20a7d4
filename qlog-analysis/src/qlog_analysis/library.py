"""The interface for notebooks and programs: `load` a trace and ask it for tables."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from qlog_analysis.metrics.losses import losses
from qlog_analysis.metrics.summary import Summary, summarise, warnings
from qlog_analysis.reading.reader import Trace, read_trace, read_traces


class Log:
    """The qlog trace of one connection as one end saw it.

    Tables are polars data frames in order of time; `time_ms` counts from the start of the trace.
    `.to_pandas()` makes them pandas' (with pandas and pyarrow installed).
    """

    def __init__(self, trace: Trace) -> None:
        """Takes a trace that was read with all packets received."""
        self.trace = trace
        self._summary: Summary | None = None

    def metrics(self) -> pl.DataFrame:
        """The sender's knowledge of the path and its controller's state, one row per change.

        `time_ms`, `min_rtt_ms`, `smoothed_rtt_ms`, `latest_rtt_ms`, `window_bytes`,
        `in_flight_bytes`, `ssthresh_bytes` (NaN while it is unset), `pacing_bps`,
        `lost_packets`, `pto_count`, `app_limited`, and `vegas_*` of our controllers; null if the
        program does not log it.
        """
        return self.trace.metrics

    def packets(self) -> pl.DataFrame:
        """Packets sent and received.

        The columns are `time_ms`, `direction`, `packet_type`, `packet_number`, and `length_bytes`
        (null if the program does not log it).
        """
        both = [
            table.with_columns(pl.lit(direction).alias("direction"))
            for direction, table in (("sent", self.trace.sent), ("received", self.trace.received))
        ]
        columns = ("time_ms", "direction", "packet_type", "packet_number", "length_bytes")
        return pl.concat(both, how="diagonal").select(columns).sort("time_ms", maintain_order=True)

    def acks(self) -> pl.DataFrame:
        """Acknowledged ranges as they arrived: `time_ms`, `packet_type`, `first`, `last`."""
        return self.trace.acks

    def losses(self) -> pl.DataFrame:
        """Application data packets declared lost: `sent_ms`, `lost_ms`, `packet_number`.

        They are as logged or, if the program logs no losses, derived from the acknowledgements by
        RFC 9002 §6.1.
        """
        return losses(self.trace)

    def states(self) -> pl.DataFrame:
        """Changes of the congestion state: `time_ms`, `state`."""
        return self.trace.states

    def summary(self) -> Summary:
        """Throughput, round-trip times, losses and more, as numbers."""
        if self._summary is None:
            self._summary = summarise(self.trace)
        return self._summary

    def warnings(self) -> list[str]:
        """The problems that were met in the trace, for people."""
        return warnings(self.trace)

    def __repr__(self) -> str:
        """The file and the connection."""
        of = f", {self.trace.connection}" if self.trace.connection else ""
        return f"<Log {self.trace.path}{of}: {self.trace.records} records>"


def load(
    path: str | Path,
    on_bytes: Callable[[int], None] = lambda _: None,
    *,
    connection: str | None = None,
) -> Log:
    """Loads the qlog trace of one connection, of any program, also compressed by gzip or zstd.

    Args:
        path: the file.
        on_bytes: told the number of bytes after each part that was read, for a progress bar.
        connection: the name of the connection, if the file holds several: "trace 2".

    Raises:
        NotQlogError: the file cannot be opened or is not a qlog trace.
        SeveralTracesError: it holds several connections, and none or an unknown one was asked
            for; `load_all` takes them all.
    """
    return Log(read_trace(Path(path), on_bytes, received=True, connection=connection))


def load_all(path: str | Path, on_bytes: Callable[[int], None] = lambda _: None) -> list[Log]:
    """Loads all connections of a file, at least one.

    Raises:
        NotQlogError: the file cannot be opened or is not a qlog trace.
    """
    return [Log(trace) for trace in read_traces(Path(path), on_bytes, received=True)]
