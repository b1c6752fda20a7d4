"""Runs the command line as `python -m qlog_analysis`."""

import sys

from qlog_analysis.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
