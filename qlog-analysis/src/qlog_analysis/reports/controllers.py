"""What the names of controllers stand for: said beside every table that compares them."""

from collections.abc import Iterable

from qlog_analysis.metrics.definitions import BUILT_IN

_AS_SHIPPED = "quiche's, as shipped"

# Baselines of this project, so that quiche's own are not the only measure.
_BASELINES = {
    "cubic-rfc9438": "cubic-rfc9438 is this project's: CUBIC as RFC 9438 has it, with HyStart++, "
    "in whole packets, without pacing.",
    "reno-whole": "reno-whole is this project's: NewReno as RFC 9002 has it, in whole packets, "
    "without pacing.",
}


def label(controllers: Iterable[str]) -> str:
    """What to add to the name of a column, by the controllers of its flows; often nothing."""
    names = list(controllers)
    if any(name in BUILT_IN for name in names):
        shipped = [name for name in names if name in BUILT_IN]
        return _AS_SHIPPED if len(names) == 1 else f"{', '.join(shipped)}: {_AS_SHIPPED}"
    if any(name in _BASELINES for name in names):
        return "baseline of this project"
    return ""


def notes(controllers: Iterable[str]) -> list[str]:
    """What the names among these stand for that are not what they may seem, in order."""
    known = BUILT_IN | _BASELINES
    return [known[name] for name in dict.fromkeys(controllers) if name in known]
