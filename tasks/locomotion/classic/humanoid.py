"""`locomotion/humanoid`: two legs, two arms, 17 motors. Gymnasium's Humanoid-v5."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation
from embodied.core.world import World
from embodied.math.rewards import squared_norm
from embodied.storage.bounds import OPEN_RANGE
from tasks.locomotion.classic.base import Classic, ClassicConfig, Floor, TaskState, within

ROOT_DOFS = 6  # of the free joint, on which no motor acts
SOLVER_ITERATIONS = 50


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step."""

    forward: float = 1.25
    """Speed of the mass centre along +x, m/s (`forward_reward_weight`)."""
    survive: float = 5.0
    """1 while healthy (`healthy_reward`)."""
    ctrl: float = -0.1
    """Sum of squared controls, which go to 0.4 (minus `ctrl_cost_weight`)."""
    contact: float = -5e-7
    """Sum of squared contact forces, N^2 and (N m)^2 (minus `contact_cost_weight`)."""


@dataclasses.dataclass(frozen=True)
class HumanoidConfig(ClassicConfig):
    """Options of `locomotion/humanoid`, with Gymnasium's names and values."""

    reset_noise_scale: float = 1e-2
    """Half-width of the noise on positions (m, rad) and velocities at the start."""
    terminate_when_unhealthy: bool = True
    """Whether an unhealthy state ends the episode."""
    healthy_z_range: Annotated[tuple[float, float], OPEN_RANGE] = (1.0, 2.0)
    """m, bounds of the torso's height while healthy."""
    contact_cost_range: Annotated[tuple[float, float], OPEN_RANGE] = (-math.inf, 10.0)
    """Bounds of the weighted contact cost."""
    include_cinert_in_observation: bool = True
    """Whether the policy sees each body's mass and inertia about the common mass centre."""
    include_cvel_in_observation: bool = True
    """Whether the policy sees each body's velocity about the common mass centre."""
    include_qfrc_actuator_in_observation: bool = True
    """Whether the policy sees the torques of the motors."""
    include_cfrc_ext_in_observation: bool = True
    """Whether the policy sees the contact forces. Without them, and with a contact weight of 0, physics is faster."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


class Humanoid(Classic):
    """A body of thirteen parts that may fall in any direction.

    Task: walk along +x without falling. Randomised: positions and velocities by U(-0.01, 0.01). Failure: the torso
    lower than 1 m or higher than 2 m. Success: 1000 steps of 15 ms without a failure at 1 m/s on average.

    Action: torque of each motor: waist (y, z, x), right leg, left leg, right arm, left arm. An action of 1 is a control
    of 0.4, the motors' limit; in Gymnasium the action is the control.
    """

    config_type = HumanoidConfig
    config: HumanoidConfig
    language = Language.of("Walk forward without falling.", "Run ahead on two legs.", "Make the humanoid walk.")
    asset = "robots/humanoid/humanoid.xml"
    floor = Floor(friction=(1.0, 0.1, 0.1), margin=0.001)
    physics_dt = 0.003
    fast = 1.0
    action_size = 17

    def build_spec(self) -> mujoco.MjSpec:
        """The body on its floor, with the solver it was tuned with; engines without PGS take Newton."""
        spec = super().build_spec()
        spec.option.solver = mujoco.mjtSolver.mjSOL_PGS
        spec.option.iterations = SOLVER_ITERATIONS
        return spec

    def fields(self, bodies: int) -> Mapping[str, int]:
        config = self.config
        wanted = {
            "xipos": (3 * bodies, True),
            "cinert": (10 * bodies, config.include_cinert_in_observation),
            "cvel": (6 * bodies, config.include_cvel_in_observation),
            "qfrc_actuator": (ROOT_DOFS + self.action_size, config.include_qfrc_actuator_in_observation),
            "cfrc_ext": (6 * bodies, config.include_cfrc_ext_in_observation or config.weights.contact),
        }
        return {field: size for field, (size, use) in wanted.items() if use}

    def followed(self, model: mujoco.MjModel) -> np.ndarray:
        """(bodies,) each body's share of the mass."""
        return np.asarray(model.body_mass / model.body_mass.sum(), np.float32)

    def place(self, world: World) -> Array:
        """(bodies,) m, x of the bodies' mass centres, as the last physics step left them: what Gymnasium reads."""
        return world["xipos"][::3]

    def healthy(self, world: World) -> Array:
        return within(world.qpos[2], self.config.healthy_z_range)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (348,): position (22) z m, quaternion, angles rad; velocity (23) m/s, rad/s; of the last step

        - inertia (130): each body's about the humanoid's mass centre, six of kg m^2, three of kg m, mass kg;
        - body velocity (78): each body's rotation rad/s and velocity m/s at the humanoid's mass centre;
        - actuator torques (17) N m, in the order of the joints;
        - contact forces (78): torque N m about the humanoid's mass centre and force N on each body.
        """
        del state, key
        config = self.config
        terms = {"position": self.positions(world), "velocity": world.qvel}
        if config.include_cinert_in_observation:
            terms["inertia"] = world["cinert"][10:]
        if config.include_cvel_in_observation:
            terms["body_velocity"] = world["cvel"][6:]
        if config.include_qfrc_actuator_in_observation:
            terms["actuator_torques"] = world["qfrc_actuator"][ROOT_DOFS:]
        if config.include_cfrc_ext_in_observation:
            terms["contact_forces"] = world["cfrc_ext"][6:]
        return {"policy": terms}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        return {
            **self.common_rewards(world, state, action),
            "survive": self.healthy(world).astype(jnp.float32),
            "contact": self._contact(world),
        }

    def _contact(self, world: World) -> Array:
        """() N^2, squared contact forces as far as their cost stays within its range."""
        weight = -self.config.weights.contact
        if not weight:
            return jnp.zeros(())
        low, high = self.config.contact_cost_range
        return jnp.clip(weight * squared_norm(world["cfrc_ext"]), low, high) / weight
