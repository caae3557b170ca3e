"""Runs beside each other: which there are, what they came to, how their settings and their curves differ."""
