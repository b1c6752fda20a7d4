"""Replays what fuzzing the reader has collected, and short traces of each program."""

from pathlib import Path

import pytest
from fuzz_reader import MAX_BYTES, check, kept_inputs
from test_mutations import PROGRAMS, Fixture


@pytest.mark.parametrize("program", PROGRAMS)
def test_short_traces(program: str, tmp_path: Path) -> None:
    fixture = Fixture(PROGRAMS[program])
    for count in (0, 1, 5):
        check(fixture.text(fixture.events[:count]), tmp_path / "trace.qlog")


def test_kept_inputs(tmp_path: Path) -> None:
    inputs = kept_inputs()
    assert inputs
    for data in inputs:
        assert len(data) <= MAX_BYTES
        check(data, tmp_path / "trace.qlog")
