"""The parts that reports share: the templates' environment, and claims as rows of a table."""

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from qlog_analysis.drawing.style import PALETTE
from qlog_analysis.metrics.numbers import NOTHING


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim as texts, for the table of claims; `anchor` is its name in links."""

    title: str
    source: str
    status: str
    paper: str
    measured: str
    allowed: str
    unit: str
    note: str
    interval: str = ""
    robust: bool = False
    anchor: str = ""


def environment() -> Environment:
    """The templates, which escape everything that goes into HTML."""
    made = Environment(
        loader=PackageLoader("qlog_analysis.reports"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"palette": PALETTE, "nothing": NOTHING}
    return made


def number(value: float | None) -> str:
    """A claim's number with five digits, never with an exponent."""
    return NOTHING if value is None else f"{float(f'{value:.5g}'):,.15g}"


def allowed(low: float | None, high: float | None) -> str:
    """The interval in which a claim is reproduced, in words."""
    if low is not None and low == high:
        return number(low)
    if low is not None and high is not None:
        return f"{number(low)} to {number(high)}"
    if low is not None:
        return f"at least {number(low)}"
    if high is not None:
        return f"at most {number(high)}"
    return "any"
