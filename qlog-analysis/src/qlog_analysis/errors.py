"""Errors that a user can mend."""


class AnalysisError(Exception):
    """The input cannot be analysed.

    The message names the thing, the place and what would be right.
    """


class NotQlogError(AnalysisError):
    """A file cannot be read or is not a qlog trace."""


class LayoutError(AnalysisError):
    """A directory of results lacks a file, or a file in it lacks a value."""


class UsageError(AnalysisError):
    """An argument makes no sense."""


class SeveralTracesError(AnalysisError):
    """A file holds the traces of several connections and only one can be taken."""
