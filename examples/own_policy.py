"""Policies of one's own, without training: what `--policy FILE.py:NAME` takes.

A function gets observation groups, name -> tensor (worlds, size), of a team (worlds, agents, size), and gives actions
of (worlds, action_size) or (worlds, agents, action_size) in [-1, 1]. A class is built with the environment, once, and
then called the same way. Here a drone that spoils what a team is doing: it flies at whoever is nearest.

    embodied evaluate swarm/formation --policy shipped --adversaries 1 --adversary examples/own_policy.py:pursuit \\
        --config.no-collisions-end
    embodied evaluate swarm/hover --policy examples/own_policy.py:Idle
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from embodied.core.entity_rows import COLUMNS, WIDTH
from embodied.env.env import Env
from tasks.swarm.team.waypoints import EGO_SIZE


def pursuit(obs: Mapping[str, Tensor]) -> Tensor:
    """Full speed at the nearest drone, whose row comes first after what a drone knows of itself; or hover."""
    nearest = obs["policy"][..., EGO_SIZE : EGO_SIZE + WIDTH]
    offset = nearest[..., COLUMNS["offset"]]
    direction = offset / offset.norm(dim=-1, keepdim=True).clamp(min=1e-3)
    return torch.cat([direction, torch.zeros_like(direction[..., :1])], -1)


class Idle:
    """Does nothing, in any task: zeros of the shape that its environment takes."""

    def __init__(self, env: Env) -> None:
        self.shape = env.action_shape

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Zeros on the device of the observations."""
        return obs["policy"].new_zeros(self.shape)
