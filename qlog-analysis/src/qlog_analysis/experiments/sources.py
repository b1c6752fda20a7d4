"""The papers that experiments are from."""

OTHERS = "Others"
"""The key of experiments that are from no paper."""

_PAPERS = {
    "vegas": "TCP Vegas (Brakmo et al. 1994)",
    "ns2": "Reno, SACK and Vegas in ns-2 (Zhang and Bian 2002)",
    "linux": "Vegas for Linux (Cardwell and Bak 1999)",
    "gallop": "Gallop-Vegas (Ho et al. 2006)",
    "streaming": "Vegas for streaming media (Boyden et al. 2007)",
}
"""Titles in the order of reports, by the papers' keys (docs/references.md)."""


def paper_of(name: str) -> str:
    """The key of the paper of an experiment or claim, which is the first part of its name."""
    key = name.split("/")[0]
    return key if key in _PAPERS else OTHERS


def title(paper: str) -> str:
    """The title of a paper by its key."""
    return _PAPERS.get(paper, paper)


def position(paper: str) -> int:
    """The place of a paper in the order of reports."""
    return [*_PAPERS, OTHERS].index(paper)
