"""A cart that has to find out to which of two sides it is to go, and to remember it.

python -m embodied.train benchmarks/hidden_side.py --episodes-per-trial 3

There is time for one side only: without knowing, half of the episodes fail. A policy that remembers the first episode
of a trial, and its reward, needs to fail in none of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.hooks import Observation, TaskConfig, Timing
from embodied.core.randomization import Term
from embodied.core.scenes import compose
from embodied.core.task import Task
from embodied.core.world import Outcome, ResetState, World
from policies.networks.config import Architecture, NetworkConfig
from policies.ppo.config import PPOConfig
from policies.registry import TrainConfig

SIDE = 0.4  # m, from the middle to either goal
REACHED = 0.1  # m
PUSH, DRAG, MASS = 10.0, 10.0, 1.0  # N at action 1, N s/m, kg: 1 m/s at most, after a tenth of a second

training = TrainConfig(
    num_envs=256,
    steps=600_000,
    algorithms=(
        PPOConfig(
            unroll=60,
            minibatches=4,
            actor=NetworkConfig(hidden=(32,), architecture=Architecture.GRU, memory=32),
            critic=NetworkConfig(hidden=(64, 64), output_gain=1.0),
        ),
    ),
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one episode."""

    side: Array
    """() 1 or -1, where the goal is."""


class HiddenSide(Task[TaskState]):
    """Task: bring a cart to a goal 40 cm to the left or right within 1 s. Randomised: the side, which is hidden.

    Action: force, 1 is 10 N. Success: within 10 cm of the goal, and that alone is paid.
    """

    config: TaskConfig
    timing = Timing(physics_dt=0.01, substeps=5, episode_seconds=1.0)
    action_size = 1

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"success": 1.0}

    def build_spec(self) -> mujoco.MjSpec:
        spec = compose("scenes/floor.xml")
        cart = spec.worldbody.add_body(name="cart", pos=[0, 0, 0.1])
        cart.add_joint(name="rail", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], damping=[DRAG, 0, 0])
        cart.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 0.05, 0.05], mass=MASS, contype=0, conaffinity=0)
        motor = spec.add_actuator(name="motor", trntype=mujoco.mjtTrn.mjTRN_JOINT, target="rail")
        motor.gear[0] = PUSH
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        return (Term("side", "left or right", optional=False, no_range="either side"),)

    def reset(self, key: Array) -> ResetState[TaskState]:
        """The cart in the middle, at rest."""
        return ResetState(jnp.zeros(1), jnp.zeros(1), TaskState(jax.random.rademacher(key, (), jnp.float32)))

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy`: position (1) m and velocity (1) m/s. `critic`: those, and side (1)."""
        del key
        seen = {"position": world.qpos, "velocity": world.qvel}
        return {"policy": seen, "critic": {**seen, "side": state.side[None]}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        return {"success": self.outcome(world, state).success.astype(jnp.float32)}

    def outcome(self, world: World, state: TaskState) -> Outcome:
        reached = jnp.abs(world.qpos[0] - SIDE * state.side) <= REACHED
        return Outcome(success=reached, failure=jnp.zeros((), bool))
