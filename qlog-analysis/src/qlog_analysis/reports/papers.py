"""Writes the report on the papers' claims: HTML for people, Markdown for the documentation."""

from collections.abc import Callable, Sequence
from pathlib import Path

from qlog_analysis.experiments import sources
from qlog_analysis.experiments.verdicts import Outcome, Verdict
from qlog_analysis.metrics.definitions import position
from qlog_analysis.reports.experiments import (
    claim_row,
    controllers,
    definitions,
    named,
    reproduced,
    section,
)
from qlog_analysis.reports.pages import ClaimRow, environment

_PACKETS = (
    "The papers' packets have 1000 bytes or 1 KB; QUIC needs datagrams of 1200 and more. So "
    "packets per second, packets of buffer and packets of transfer are as in the papers, and bytes "
    "scale with the datagram: 1 packet/s here is 1 KB/s there."
)


def html(outcomes: Sequence[Outcome], on_each: Callable[[], None] = lambda: None) -> str:
    """The report as one page; `on_each` is called after each experiment."""
    verdicts = _were_run(outcomes)
    robust = [verdict for verdict in verdicts if verdict.claim.robust]
    others = [verdict for verdict in verdicts if not verdict.claim.robust]
    experiments = []
    for outcome in outcomes:
        experiments.append(section(outcome))
        on_each()
    return (
        environment()
        .get_template("papers.html")
        .render(
            title="The papers' experiments: paper against measured",
            packets=_PACKETS,
            claims=len(verdicts),
            reproduced=reproduced(verdicts),
            robust=len(robust),
            robust_reproduced=reproduced(robust),
            failures=_failures(outcomes),
            not_run=_not_run(outcomes),
            open=[
                ("Robust claims that are not reproduced", _open(robust)),
                ("Other claims that are not reproduced", _open(others)),
            ],
            contents=[
                (
                    sources.title(paper),
                    [one for one in experiments if sources.paper_of(one["name"]) == paper],
                )
                for paper in dict.fromkeys(sources.paper_of(one["name"]) for one in experiments)
            ],
            experiments=experiments,
            controllers=controllers(outcome.measured.experiment for outcome in outcomes),
            definitions=sorted(
                definitions(
                    name for outcome in outcomes for name in named(outcome.measured.experiment)
                ),
                key=position,
            ),
        )
    )


def markdown(outcomes: Sequence[Outcome]) -> str:
    """A table of claims for each paper."""
    verdicts = _were_run(outcomes)
    parts = [" ".join(filter(None, (_tally(verdicts), _not_run(outcomes))))]
    for paper in dict.fromkeys(verdict.paper for verdict in verdicts):
        of_paper = [verdict for verdict in verdicts if verdict.paper == paper]
        rows = [
            "| claim | paper | here | allowed | |",
            "|---|---|---|---|---|",
            *(_markdown_row(verdict) for verdict in of_paper),
        ]
        notes = [
            f"- {_plain(verdict.claim.title)}: {_plain(verdict.why)}"
            for verdict in of_paper
            if not verdict.reproduced and verdict.why
        ]
        parts += [f"### {sources.title(paper)}", "\n".join(rows)]
        parts += ["\n".join(notes)] if notes else []
    return "\n\n".join(parts) + "\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    """The outcome in a few lines, for a terminal."""
    verdicts = _were_run(outcomes)
    robust = [verdict for verdict in verdicts if verdict.claim.robust]
    lines = [_tally(verdicts)]
    lines += [
        f"  {verdict.status}: {verdict.claim.id} ({verdict.claim.title})"
        for verdict in robust
        if not verdict.reproduced
    ]
    lines += [line for line in (_not_run(outcomes), _failures(outcomes)) if line]
    return "\n".join(lines)


def _tally(verdicts: Sequence[Verdict]) -> str:
    robust = [verdict for verdict in verdicts if verdict.claim.robust]
    return (
        f"{reproduced(robust)} of {len(robust)} robust claims are reproduced, and of all "
        f"{len(verdicts)} claims {reproduced(verdicts)}."
    )


def _markdown_row(verdict: Verdict) -> str:
    row = claim_row(verdict)
    name = _plain(row.title) + (" (robust)" if row.robust else "")
    here = f"{row.measured} {row.interval}".strip()
    unit = f" {_plain(row.unit)}" if row.unit else ""
    outcome = "yes" if verdict.reproduced else f"**{row.status}**"
    return f"| {name} | {row.paper}{unit} | {here}{unit} | {row.allowed} | {outcome} |"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _were_run(outcomes: Sequence[Outcome]) -> list[Verdict]:
    """The claims about points that were run."""
    return [
        verdict
        for outcome in outcomes
        for verdict in outcome.verdicts
        if verdict.status != "not run"
    ]


def _open(verdicts: Sequence[Verdict]) -> list[ClaimRow]:
    return [claim_row(verdict) for verdict in verdicts if not verdict.reproduced]


def _not_run(outcomes: Sequence[Outcome]) -> str:
    count = sum(verdict.status == "not run" for outcome in outcomes for verdict in outcome.verdicts)
    if not count:
        return ""
    return f"{count} more claims are about points that were not run, and are not counted."


def _failures(outcomes: Sequence[Outcome]) -> str:
    failed = sum(len(outcome.measured.failed) for outcome in outcomes)
    if not failed:
        return ""
    names = [outcome.measured.experiment.name for outcome in outcomes if outcome.measured.failed]
    runs = "1 run" if failed == 1 else f"{failed} runs"
    return f"{runs} failed, in {', '.join(names)}: what rests on them has no number."


def write(outcomes: Sequence[Outcome], directory: Path, on_each: Callable[[], None]) -> Path:
    """Writes report.html and papers.md; returns the path of the report."""
    report = directory / "report.html"
    report.write_text(html(outcomes, on_each), encoding="utf-8")
    (directory / "papers.md").write_text(markdown(outcomes), encoding="utf-8")
    return report
