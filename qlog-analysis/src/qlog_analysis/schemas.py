"""The columns and types of all tables: those made from traces, and the simulator's."""

import polars as pl

Schema = dict[str, type[pl.DataType]]

# Tables made from a trace; `time_ms` counts from its start.

PACKETS: Schema = {
    "time_ms": pl.Float64,
    "packet_type": pl.String,
    "packet_number": pl.Int64,
    "length_bytes": pl.Int64,
}

ACKS: Schema = {
    "time_ms": pl.Float64,
    "packet_type": pl.String,
    "first": pl.Int64,
    "last": pl.Int64,
}
"""Acknowledged ranges, both ends included."""

STATES: Schema = {"time_ms": pl.Float64, "state": pl.String}

TIMES: Schema = {"time_ms": pl.Float64}

# Tables that the simulator writes.

_KEYS: Schema = {
    "point": pl.Int64,
    "seed": pl.Int64,
    "subject": pl.String,
    "index": pl.Int64,
    "cc": pl.String,
    "background": pl.Boolean,
    "metric": pl.String,
    "unit": pl.String,
}

RESULTS: Schema = {**_KEYS, "value": pl.Float64}
"""results.parquet: one row per point, seed, subject, index and metric."""

SERIES: Schema = {**_KEYS, "time_s": pl.Float64, "value": pl.Float64}
"""series.parquet: the same over time."""

QUEUE: Schema = {"time_s": pl.Float64, "packets": pl.Float64}
"""A CSV with a router's queue over time, which `plot --queue` takes."""
