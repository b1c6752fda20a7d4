"""Fuzzes the reader of traces, guided by coverage.

    python tests/fuzz_reader.py -max_total_time=60

It takes libFuzzer's flags, and needs atheris, which is not among the requirements. New inputs are
collected below the folder `target` of the workspace; with `-keep` alone they are added to
`fuzz/qlog_reader.corpus`, which `test_fuzz_reader.py` replays.
"""

import math
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "fuzz" / "qlog_reader.corpus"
FOUND = ROOT / "target" / "fuzz" / "qlog_reader"
MAX_BYTES = 4096


def kept_inputs() -> list[bytes]:
    """The inputs in the repository: a line each in hexadecimal, among lines of comments."""
    lines = KEPT.read_text(encoding="ascii").splitlines()
    return [bytes.fromhex(line) for line in lines if line and not line.startswith("#")]


def keep(inputs: set[bytes]) -> None:
    """Replaces the inputs in the repository; an empty one is left out, as fuzzers try it anyway."""
    comment = "# Inputs of a fuzz target, a line each in hexadecimal. See docs/testing.md."
    lines = [comment, *(data.hex() for data in sorted(inputs) if data)]
    KEPT.write_text("\n".join(lines) + "\n", encoding="ascii")


def check(data: bytes, path: Path) -> None:
    """Holds the reader against one file: it reads it the same twice, or refuses it.

    Raises:
        AssertionError: What was read cannot be.
    """
    from qlog_analysis.errors import AnalysisError
    from qlog_analysis.reading.reader import Trace, read_traces

    def read() -> list[Trace] | str:
        try:
            return read_traces(path, received=True)
        except AnalysisError as error:
            return str(error)

    path.write_bytes(data)
    first, second = read(), read()
    if isinstance(first, str):
        assert first == second
        assert str(path) in first or path.name in first, first
        return
    assert not isinstance(second, str)
    assert len(first) == len(second) >= 1
    for trace, again in zip(first, second, strict=True):
        assert 0 <= trace.skipped <= trace.records
        for name in ("sent", "received", "acks", "losses", "states", "metrics"):
            table = getattr(trace, name)
            assert table.equals(getattr(again, name)), name
            assert all(math.isfinite(time) for time in table["time_ms"]), name


def main() -> None:
    """Runs libFuzzer."""
    if "-keep" in sys.argv:
        found = {path.read_bytes() for path in FOUND.iterdir()}
        keep(found.union(kept_inputs()))
        return
    import atheris

    with atheris.instrument_imports(include=["qlog_analysis"]):
        import qlog_analysis.reading.reader  # noqa: F401
    FOUND.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(kept_inputs()):
        (FOUND / f"kept-{number}").write_bytes(data)
    prefix = f"-artifact_prefix={FOUND.parent / 'qlog_reader-'}"
    arguments = [*sys.argv, prefix, f"-max_len={MAX_BYTES}", str(FOUND)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed.qlog"
        atheris.Setup(arguments, lambda data: check(data, path))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
