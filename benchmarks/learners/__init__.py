"""Every learner on the problem it is for, in one table: `python -m benchmarks.learners`."""
