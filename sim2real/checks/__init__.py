"""Checks of a log by preflight."""
