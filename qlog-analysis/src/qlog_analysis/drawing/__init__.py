"""Figures of traces and of results, in one style."""
