"""`locomotion/half-cheetah`: half a cheetah runs in a plane. Gymnasium's HalfCheetah-v5."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from tasks.locomotion.classic.base import Classic, ClassicConfig, Floor, TaskState


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step."""

    forward: float = 1.0
    """Speed along +x, m/s (`forward_reward_weight`)."""
    ctrl: float = -0.1
    """Sum of squared controls (minus `ctrl_cost_weight`)."""


@dataclasses.dataclass(frozen=True)
class HalfCheetahConfig(ClassicConfig):
    """Options of `locomotion/half-cheetah`, with Gymnasium's names and values."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


class HalfCheetah(Classic):
    """Six motors on two legs, and springs in every joint.

    Task: run along +x. Randomised: positions by U(-0.1, 0.1), velocities by 0.1 N(0, 1). An episode lasts 1000 steps of
    50 ms and never fails. Success: 3 m/s on average (Gymnasium calls a return of 4800, about 5 m/s, solved).

    Action: torque of each motor, hind thigh, shin and foot, then front ones.
    """

    config_type = HalfCheetahConfig
    config: HalfCheetahConfig
    language = Language.of(
        "Run forward as fast as you can.", "Gallop ahead.", "Make the half-cheetah run to the right."
    )
    asset = "robots/half_cheetah/half_cheetah.xml"
    floor = Floor(friction=(0.4, 0.1, 0.1), solimp=(0.0, 0.8, 0.01, 0.5, 2.0))
    physics_dt = 0.01
    integrator = mujoco.mjtIntegrator.mjINT_EULER
    planar = True
    gaussian_velocity = True
    fast = 3.0
    action_size = 6

    def healthy(self, world: World) -> Array:
        """Always: a cheetah on its back may run on."""
        del world
        return jnp.ones((), bool)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (17,): position (8) z m and angles rad, velocity (9) of x, z m/s and all angles rad/s."""
        del state, key
        return {"policy": {"position": self.positions(world), "velocity": world.qvel}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        return self.common_rewards(world, state, action)
