"""Scripts for the point mass: one that solves it, and one that does the opposite."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from policies.data import demonstrations
from tests.kit.learning import PointMass

SPEC = dict(PointMass.observation_spec)


def homewards(obs: Mapping[str, Tensor]) -> Tensor:
    return (-10 * obs["policy"]).clamp(-1, 1)


def outwards(obs: Mapping[str, Tensor]) -> Tensor:
    return -homewards(obs)


def shown(episodes: int, num_envs: int = 4) -> demonstrations.Transitions:
    """The steps of some episodes of the script that solves it."""
    return demonstrations.record(PointMass(num_envs), homewards, episodes)


def saved(path: Path, episodes: int) -> Path:
    """The same as a file; returns its path."""
    demonstrations.save(path, shown(episodes, 8))
    return path
