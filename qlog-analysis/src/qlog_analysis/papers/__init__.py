"""The report of paper against measured: from the results of experiments, see `model`."""
