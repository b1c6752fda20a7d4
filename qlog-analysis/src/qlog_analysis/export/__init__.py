"""Traces written as files for other programs."""
