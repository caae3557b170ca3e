"""Trainings by other libraries through embodied's adapters; `python -m benchmarks.adapters --help`."""
