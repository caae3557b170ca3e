"""Malformed and unusual input, generated: what the suite makes of it. `python -m benchmarks.bad_input` runs it."""
