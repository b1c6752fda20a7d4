"""The directory of a comparison, which `gallop-sim compare` writes.

DIR/comparison.json     its title, its command line, and the names of its experiments
DIR/<experiment>/       the directory of each experiment (see `model` and `measured`)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments.json_fields import read_json
from qlog_analysis.experiments.verdicts import Outcome, read_outcome

FILE = "comparison.json"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with the outcomes of its experiments, by the names of their directories."""

    title: str
    command: str
    outcomes: Mapping[str, Outcome]


def read_comparison(directory: Path) -> Comparison:
    """Reads a comparison and its results.

    Raises:
        LayoutError: a file is missing, or lacks a value, or has one that makes no sense.
    """
    top = read_json(directory / FILE, "the directory of a comparison")
    names = top.paths("experiments")
    if not names:
        raise LayoutError(f"{top.where}: experiments is empty; expected at least one name")
    return Comparison(
        title=top.text("title"),
        command=top.text("command"),
        outcomes={name: read_outcome(directory / name) for name in names},
    )
