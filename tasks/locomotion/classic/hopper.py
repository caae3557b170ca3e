"""`locomotion/hopper`: a one-legged jumper in a plane. Gymnasium's Hopper-v5."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated

import jax.numpy as jnp
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.storage.bounds import OPEN_RANGE
from tasks.locomotion.classic.base import Classic, ClassicConfig, Floor, TaskState, within

LARGEST_OBSERVED_SPEED = 10.0  # m/s and rad/s, where observed velocities are clipped


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step."""

    forward: float = 1.0
    """Speed along +x, m/s (`forward_reward_weight`)."""
    survive: float = 1.0
    """1 while healthy (`healthy_reward`)."""
    ctrl: float = -1e-3
    """Sum of squared controls (minus `ctrl_cost_weight`)."""


@dataclasses.dataclass(frozen=True)
class HopperConfig(ClassicConfig):
    """Options of `locomotion/hopper`, with Gymnasium's names and values."""

    frame_skip: int = 4
    """Physics steps per control step."""
    reset_noise_scale: float = 5e-3
    """Half-width of the noise on positions (m, rad) and velocities at the start."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy state ends the episode."""
    healthy_state_range: Annotated[tuple[float, float], OPEN_RANGE] = (-100.0, 100.0)
    """Bounds of every angle and velocity but x and z while healthy, m, rad, m/s, rad/s."""
    healthy_z_range: Annotated[tuple[float, float], OPEN_RANGE] = (0.7, math.inf)
    """m, bounds of the torso's height while healthy."""
    healthy_angle_range: Annotated[tuple[float, float], OPEN_RANGE] = (-0.2, 0.2)
    """rad, bounds of the torso's pitch while healthy."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


class Hopper(Classic):
    """Three motors: hip, knee, ankle.

    Task: hop along +x without falling. Randomised: positions and velocities by U(-0.005, 0.005). Failure: the torso
    lower than 0.7 m or leaning more than 0.2 rad, or a state beyond 100. Success: 1000 steps of 8 ms without a failure
    at 1.5 m/s on average (Gymnasium calls a return of 3800, about 2.8 m/s, solved).

    Action: torque of each motor, from the hip down.
    """

    config_type = HopperConfig
    config: HopperConfig
    language = Language.of(
        "Hop forward without falling.", "Jump ahead on one leg.", "Make the hopper hop to the right."
    )
    asset = "robots/hopper/hopper.xml"
    floor = Floor(margin=0.001, solimp=(0.8, 0.8, 0.01, 0.5, 2.0))
    physics_dt = 0.002
    planar = True
    fast = 1.5
    action_size = 3

    def healthy(self, world: World) -> Array:
        config = self.config
        state = jnp.concatenate([world.qpos[2:], world.qvel])
        return (
            within(state, config.healthy_state_range)
            & within(world.qpos[1], config.healthy_z_range)
            & within(world.qpos[2], config.healthy_angle_range)
        )

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (11,): position (5) z m and angles rad, velocity (6) m/s and rad/s clipped at 10."""
        del state, key
        velocity = jnp.clip(world.qvel, -LARGEST_OBSERVED_SPEED, LARGEST_OBSERVED_SPEED)
        return {"policy": {"position": self.positions(world), "velocity": velocity}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        survive = self.healthy(world).astype(jnp.float32)
        return {**self.common_rewards(world, state, action), "survive": survive}
