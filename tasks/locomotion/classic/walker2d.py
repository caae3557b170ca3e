"""`locomotion/walker2d`: a biped walks in a plane. Gymnasium's Walker2d-v5."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.storage.bounds import OPEN_RANGE
from tasks.locomotion.classic.base import ClassicConfig, Floor, TaskState, within
from tasks.locomotion.classic.hopper import Hopper, Weights


@dataclasses.dataclass(frozen=True)
class Walker2dConfig(ClassicConfig):
    """Options of `locomotion/walker2d`, with Gymnasium's names and values."""

    frame_skip: int = 4
    """Physics steps per control step."""
    reset_noise_scale: float = 5e-3
    """Half-width of the noise on positions (m, rad) and velocities at the start."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy state ends the episode."""
    healthy_z_range: Annotated[tuple[float, float], OPEN_RANGE] = (0.8, 2.0)
    """m, bounds of the torso's height while healthy."""
    healthy_angle_range: Annotated[tuple[float, float], OPEN_RANGE] = (-1.0, 1.0)
    """rad, bounds of the torso's pitch while healthy."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


class Walker2d(Hopper):
    """Six motors: hip, knee and ankle of two legs. Observations and rewards are the hopper's.

    Task: walk along +x without falling. Randomised: positions and velocities by U(-0.005, 0.005). Failure: the torso
    lower than 0.8 m, higher than 2 m, or leaning more than 1 rad. Success: 1000 steps of 8 ms without a failure at
    1.5 m/s on average.

    Action: torque of each motor, right leg from the hip down, then left.
    """

    config_type = Walker2dConfig
    language = Language.of(
        "Walk forward without falling.", "Run ahead on two legs.", "Make the walker walk to the right."
    )
    asset = "robots/walker2d/walker2d.xml"
    floor = Floor(friction=(0.7, 0.1, 0.1))
    fast = 1.5
    action_size = 6

    def healthy(self, world: World) -> Array:
        z, pitch = world.qpos[1], world.qpos[2]
        return within(z, self.config.healthy_z_range) & within(pitch, self.config.healthy_angle_range)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (17,): position (8) z m and angles rad, velocity (9) m/s and rad/s clipped at 10."""
        return super().observe(world, state, key)
