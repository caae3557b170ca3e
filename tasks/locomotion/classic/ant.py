"""`locomotion/ant`: four legs, eight motors. Gymnasium's Ant-v5."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated

import jax.numpy as jnp
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.math.rewards import squared_norm
from embodied.storage.bounds import OPEN_RANGE
from tasks.locomotion.classic.base import Classic, ClassicConfig, Floor, TaskState


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step."""

    forward: float = 1.0
    """Speed of the torso along +x, m/s (`forward_reward_weight`)."""
    survive: float = 1.0
    """1 while healthy (`healthy_reward`)."""
    ctrl: float = -0.5
    """Sum of squared controls (minus `ctrl_cost_weight`)."""
    contact: float = -5e-4
    """Sum of squared, clipped contact forces, N^2 and (N m)^2 (minus `contact_cost_weight`)."""


@dataclasses.dataclass(frozen=True)
class AntConfig(ClassicConfig):
    """Options of `locomotion/ant`, with Gymnasium's names and values."""

    terminate_when_unhealthy: bool = True
    """Whether an unhealthy state ends the episode."""
    healthy_z_range: Annotated[tuple[float, float], OPEN_RANGE] = (0.2, 1.0)
    """m, bounds of the torso's height while healthy, themselves included."""
    contact_force_range: Annotated[tuple[float, float], OPEN_RANGE] = (-1.0, 1.0)
    """N and N m, where contact forces are clipped before anyone sees them."""
    include_cfrc_ext_in_observation: bool = True
    """Whether the policy sees the contact forces. Without them, and with a contact weight of 0, physics is faster."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


class Ant(Classic):
    """A ball on four two-joint legs.

    Task: run along +x. Randomised: positions by U(-0.1, 0.1), velocities by 0.1 N(0, 1). Failure: the torso lower than
    0.2 m or higher than 1 m. Success: 1000 steps of 50 ms without a failure at 2 m/s on average (Gymnasium calls a
    return of 6000, about 5 m/s, solved).

    Action: torque of each motor, leg by leg hip then ankle, in the order of legs 4, 1, 2, 3.
    """

    config_type = AntConfig
    config: AntConfig
    language = Language.of(
        "Run forward on four legs.", "Make the ant walk ahead.", "Move along the x axis as fast as you can."
    )
    asset = "robots/ant/ant.xml"
    floor = Floor(friction=(1.0, 0.5, 0.5), margin=0.01)
    physics_dt = 0.01
    gaussian_velocity = True
    fast = 2.0
    action_size = 8

    def fields(self, bodies: int) -> Mapping[str, int]:
        contact = self.config.include_cfrc_ext_in_observation or self.config.weights.contact
        return {"xpos": 3 * bodies, **({"cfrc_ext": 6 * bodies} if contact else {})}

    def place(self, world: World) -> Array:
        """(1,) m, x of the torso, which is body 1, as the last physics step left it: Gymnasium reads it there."""
        return world["xpos"][3:4]

    def contact_forces(self, world: World) -> Array:
        """(bodies, 6) N m and N, clipped: torque about the ant's mass centre and force of all contacts on each body."""
        return jnp.clip(world["cfrc_ext"].reshape(-1, 6), *self.config.contact_force_range)

    def healthy(self, world: World) -> Array:
        low, high = self.config.healthy_z_range
        return (low <= world.qpos[2]) & (world.qpos[2] <= high)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (105,): position (13) z m, quaternion, angles rad; velocity (14) m/s, rad/s; contact forces (78).

        Contact forces, by body: torque N m, force N, clipped at 1, of the last physics step.
        """
        del state, key
        terms = {"position": self.positions(world), "velocity": world.qvel}
        if self.config.include_cfrc_ext_in_observation:
            terms["contact_forces"] = self.contact_forces(world)[1:].ravel()
        return {"policy": terms}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        forces = self.contact_forces(world).ravel() if "cfrc_ext" in world.layout.slices else jnp.zeros(1)
        return {
            **self.common_rewards(world, state, action),
            "survive": self.healthy(world).astype(jnp.float32),
            "contact": squared_norm(forces),
        }
