"""Comparison of runs: which there are, their results, and how their settings and their curves differ."""
