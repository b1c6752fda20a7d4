"""Claims held against measurements, and the outcome as JSON."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from qlog_analysis.errors import LayoutError
from qlog_analysis.experiments import sources
from qlog_analysis.experiments.estimates import Estimate, estimate_claim
from qlog_analysis.experiments.measured import Measured, Missing, read_measured
from qlog_analysis.experiments.model import Claim, read_experiment

Status = Literal["reproduced", "not reproduced", "not measured", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim with its measurement."""

    experiment: str
    claim: Claim
    measured: Estimate

    @property
    def status(self) -> Status:
        """Says if the measured value lies in the interval allowed."""
        if isinstance(self.measured, Missing):
            return "not measured" if self.measured.run else "not run"
        claim, value = self.claim, self.measured.value
        above = claim.low is None or value >= claim.low
        below = claim.high is None or value <= claim.high
        return "reproduced" if above and below else "not reproduced"

    @property
    def reproduced(self) -> bool:
        """True if it was measured and lies in the interval allowed."""
        return self.status == "reproduced"

    @property
    def why(self) -> str:
        """The reason why there is no number, if there is none, and the claim's own note."""
        reason = self.measured.reason if isinstance(self.measured, Missing) else ""
        return " ".join(filter(None, (reason and f"No number: {reason}.", self.claim.note)))

    @property
    def paper(self) -> str:
        """The key of the paper that the claim is from."""
        return sources.paper_of(self.claim.id)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment, its results and its claims."""

    measured: Measured
    verdicts: tuple[Verdict, ...]


def read_outcome(directory: Path) -> Outcome:
    """Reads the experiment of a directory with its results, and judges its claims.

    Raises:
        LayoutError: a file is missing or senseless.
    """
    measured = read_measured(read_experiment(directory))
    experiment = measured.experiment
    return Outcome(
        measured,
        tuple(
            Verdict(experiment.name, claim, estimate_claim(measured, claim))
            for claim in experiment.claims
        ),
    )


def read_outcomes(
    directory: Path,
    names: Sequence[str] = (),
    on_start: Callable[[int], Callable[[], None]] = lambda _: lambda: None,
) -> list[Outcome]:
    """Reads the experiments below a directory, in the order of reports.

    Args:
        directory: the directory with those of the experiments.
        names: the experiments to read; all if it is empty.
        on_start: given the number of experiments; returns a function that is called after each.

    Raises:
        LayoutError: there is no experiment, or a file is missing or senseless.
    """
    found = (path.parent for path in directory.rglob("experiment.json"))
    known = names or [path.relative_to(directory).as_posix() for path in found]
    order = {name: (sources.position(sources.paper_of(name)), name) for name in known}
    places = [directory / name for name in sorted(known, key=order.__getitem__)]
    if not places:
        raise LayoutError(
            f"{directory}: no experiment in it; gallop-sim sweep writes NAME/experiment.json"
        )
    on_each = on_start(len(places))
    out = []
    for place in places:
        out.append(read_outcome(place))
        on_each()
    _check_ids(out)
    return out


def _check_ids(outcomes: Sequence[Outcome]) -> None:
    seen: dict[str, str] = {}
    for outcome in outcomes:
        for verdict in outcome.verdicts:
            name = verdict.claim.id
            if name in seen:
                raise LayoutError(
                    f"claim {name!r} is in {seen[name]} and in {verdict.experiment}; expected a "
                    "name of its own for each claim"
                )
            seen[name] = verdict.experiment


def claims_json(outcomes: Sequence[Outcome]) -> str:
    """All claims and experiments as text of JSON."""
    content = {
        "claims": [_claim(verdict) for outcome in outcomes for verdict in outcome.verdicts],
        "experiments": [_experiment(outcome) for outcome in outcomes],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _claim(verdict: Verdict) -> dict[str, Any]:
    claim, measured = verdict.claim, verdict.measured
    found = None if isinstance(measured, Missing) else measured
    return {
        "id": claim.id,
        "experiment": verdict.experiment,
        "title": claim.title,
        "paper": claim.paper,
        "measured": None if found is None else _rounded(found.value),
        "low": None if found is None else _rounded(found.low),
        "high": None if found is None else _rounded(found.high),
        "tolerance": {"low": claim.low, "high": claim.high},
        "unit": claim.unit,
        "status": verdict.status,
        "reproduced": verdict.reproduced,
        "robust": claim.robust,
        "source": claim.source,
        "note": verdict.why,
    }


def _experiment(outcome: Outcome) -> dict[str, Any]:
    measured = outcome.measured
    experiment = measured.experiment
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "about": experiment.about,
        "command": experiment.command,
        "seeds": len(experiment.seeds),
        "points": len(experiment.points),
        "failed": [
            {"point": point, "seed": seed, "reason": reason}
            for (point, seed), reason in sorted(measured.failed.items())
        ],
        "claims": len(outcome.verdicts),
        "reproduced": sum(verdict.reproduced for verdict in outcome.verdicts),
    }


def _rounded(value: float | None) -> float | None:
    """A number with nine digits, without the noise of floating-point sums."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.9g}")
