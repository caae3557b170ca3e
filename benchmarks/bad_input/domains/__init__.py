"""Domains of input: each a module whose `KINDS` are ways of spoiling it."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.bad_input.case import Kinds
from benchmarks.bad_input.domains import api, configs, datasets, environment, logs, policies, robots, runs, tasks

DOMAINS: Mapping[str, Kinds] = {
    "runs": runs.KINDS,
    "policies": policies.KINDS,
    "datasets": datasets.KINDS,
    "robots": robots.KINDS,
    "tasks": tasks.KINDS,
    "logs": logs.KINDS,
    "configs": configs.KINDS,
    "environment": environment.KINDS,
    "api": api.KINDS,
}
"""Name -> kinds."""
