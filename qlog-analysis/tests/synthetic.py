"""Makes traces as quiche writes them, with known answers."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

RS = "\x1e"
NONE_YET = 18446744073709551615

HEADER = {
    "file_schema": "urn:ietf:params:qlog:file:sequential",
    "serialization_format": "JSON-SEQ",
    "title": "synthetic",
    "trace": {"vantage_point": {"type": "server"}, "event_schemas": []},
}


class TraceText:
    """The text of a trace, written event by event; times in milliseconds."""

    def __init__(self, header: Mapping[str, Any] = HEADER) -> None:
        self.records = [json.dumps(header, separators=(",", ":"))]

    def event(self, time: float, name: str, **data: Any) -> None:
        record = {"time": time, "name": f"quic:{name}", "data": data}
        self.records.append(json.dumps(record, separators=(",", ":")))

    def sent(self, time: float, number: int, length: int = 1350, kind: str = "1RTT") -> None:
        self.event(
            time,
            "packet_sent",
            header={"packet_type": kind, "packet_number": number},
            raw={"length": length, "payload_length": length - 35},
            send_at_time=time,
            frames=[{"frame_type": "stream", "stream_id": 0, "offset": 0}],
        )

    def acked(self, time: float, *ranges: Sequence[int], kind: str = "1RTT") -> None:
        self.event(
            time,
            "packet_received",
            header={"packet_type": kind, "packet_number": 0},
            raw={"length": 44, "payload_length": 27},
            frames=[{"frame_type": "ack", "ack_delay": 0.0, "acked_ranges": [*map(list, ranges)]}],
        )

    def received(self, time: float) -> None:
        """A packet without an acknowledgement."""
        self.event(
            time,
            "packet_received",
            header={"packet_type": "1RTT", "packet_number": 1},
            raw={"length": 100},
            frames=[{"frame_type": "stream", "stream_id": 0, "offset": 0}],
        )

    def metrics(self, time: float, **data: Any) -> None:
        self.event(time, "recovery_metrics_updated", **data)

    def first_metrics(self, window: int = 13500) -> None:
        """The placeholders quiche starts with."""
        self.metrics(
            0.0,
            cf_lost_packets={"total": 0, "delta": 0},
            min_rtt=333.0,
            smoothed_rtt=333.0,
            rtt_variance=166.5,
            congestion_window=window,
            bytes_in_flight=0,
            ssthresh=NONE_YET,
        )

    def state(self, time: float, new: str) -> None:
        self.event(time, "congestion_state_updated", new=new)

    def raw(self, text: str) -> None:
        self.records.append(text)

    def __str__(self) -> str:
        return "".join(f"{RS}{record}\n" for record in self.records)

    def save(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(self), encoding="utf-8")
        return path


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def steady_trace(exit_ms: float = 500.0) -> TraceText:
    """Ten seconds of a sender that fills the bottleneck from the second second on.

    Half the rate in the first second, all of it after that: 1000 datagrams of 1000 bytes a second,
    each acknowledged 50 ms after it was sent. The window goes from 2 to 40 packets on leaving slow
    start, and to 60 packets at 3 s.
    """
    trace = TraceText()
    trace.records = list(_steady_records(exit_ms))
    return trace


@cache
def _steady_records(exit_ms: float) -> tuple[str, ...]:
    rtt = 50.0
    trace = TraceText()
    trace.first_metrics(2000)
    trace.state(0.0, "slow_start")
    sent = [2.0 * n for n in range(500)] + [1000.0 + n for n in range(9000)]
    events = [(time, 1, number) for number, time in enumerate(sent)]
    events += [(time + rtt, 0, number) for number, time in enumerate(sent) if time + rtt < 10_000]
    events += [(exit_ms, 2, 0), (3000.0, 3, 0)]
    for time, what, number in sorted(events):
        if what == 0:
            trace.acked(time, [0, number])
            if number == 0:
                trace.metrics(time, min_rtt=rtt, smoothed_rtt=rtt, latest_rtt=rtt)
        elif what == 1:
            trace.sent(time, number, 1000)
        elif what == 2:
            trace.metrics(time, congestion_window=40_000, ssthresh=30_000)
            trace.state(time, "congestion_avoidance")
        else:
            trace.metrics(time, congestion_window=60_000)
    return tuple(trace.records)
