"""Hover by a drone that does not know its velocity: what a policy needs to remember positions for.

python -m embodied.train benchmarks/partial_hover.py --ppo.actor.architecture gru --ppo.actor.memory 64
"""

from __future__ import annotations

from jax import Array

from embodied.core.hooks import Observation
from embodied.core.world import World
from policies.registry import TrainConfig
from tasks.swarm.single.hover import Hover, TaskState
from tasks.swarm.single.training import solo

training: TrainConfig = solo(2_000_000)


class PartialHover(Hover):
    """Task: hover, with position, attitude and turning rate, but without velocity; the critic knows it.

    Success, failure and what is randomised are those of `swarm/hover`.
    """

    engines = ("rigid", "mujoco", "mjx")

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy`: as of `swarm/hover`, less velocity. `critic`: all."""
        groups = super().observe(world, state, key)
        seen = {name: value for name, value in groups["policy"].items() if name != "velocity"}
        return {**groups, "policy": seen}
