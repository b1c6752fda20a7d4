"""Errors a user can mend."""


class AnalysisError(Exception):
    """The input cannot be analysed.

    The message names the thing, the place and what would be right.
    """


class NotQlogError(AnalysisError):
    """A file is no qlog trace in JSON-SEQ."""


class LayoutError(AnalysisError):
    """A comparison directory lacks a file, or a file in it lacks a value."""


class UsageError(AnalysisError):
    """An argument makes no sense."""
