"""`grasping/*-rotate-z`: a hand turns a cube about the vertical, as fast as it can, without dropping it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core import randomization
from embodied.core.facets import Language
from embodied.core.hooks import Observation, Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from embodied.math.rotations import random_quat
from tasks.grasping.inhand.base import CONTROL_HZ, PHYSICS_DT, InHand, InHandConfig
from tasks.grasping.inhand.gaits import gait_of

# A cube thrown off the hand spins fast, too: what it earns until it is lost has to stay below what the loss costs. A
# limit on the rate in every step (Qi et al. 2022, arXiv:2210.04887) does that, but pays next to nothing for fingers
# that turn a cube by strokes, fast and seldom; so what is limited is the rate over time.
FASTEST = 0.5  # rad/s, the mean rate beyond which turning earns no more (the same)
STROKE = 0.5  # rad, that may be turned at any rate after as much time as the mean rate needs for it
TURN = 2 * jnp.pi  # rad: an episode that turned the cube once round is a success
ACTIONS = 3  # that the policy remembers: fingers that swing have to know whether they go to or fro


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second (Playground's LEAP hand but for `spin`)."""

    spin: float = 4.0
    """Turning rate of the cube about the vertical, rad/s, as far as it is paid: see `FASTEST` and `STROKE`."""
    lost: float = -100.0
    """Once, when the cube is dropped: so, one control step of it."""
    action_rate: float = -0.001
    """Squared change of the action."""
    energy: float = -0.001
    """Power of the motors, W."""


@dataclasses.dataclass(frozen=True)
class RotateZConfig(InHandConfig):
    """Options of the rotate-z tasks."""

    action_scale: float = 0.6
    """rad that an action of 1 moves a joint's target from its home pose."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    step: Array
    """() control steps so far."""
    actions: Array
    """(3, m) the last actions, the newest first."""
    turned: Array
    """() rad, how far the cube has turned about the vertical so far."""
    allowance: Array
    """() rad, how much turning will be paid if it comes at once."""
    paid: Array
    """() rad, the turning of the last control step as far as it is paid."""


class RotateZ(InHand[TaskState]):
    """A cube in a hand, to be turned about the vertical.

    Task: turn the cube to the left for 25 s. Randomised: see `variations`. Success: it turned once round and was not
    dropped. Failure: dropped. The policy feels its joints only.

    Action: offset of the servos' targets from the home pose.
    """

    config_type = RotateZConfig
    config: RotateZConfig
    language = Language.of(
        "Turn the cube in your hand.", "Rotate the cube about the vertical axis.", "Spin the cube to the left."
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=25.0)

    def reset(self, key: Array) -> ResetState[TaskState]:
        place, turn, fields = jax.random.split(key, 3)
        qpos, qvel = self.initial_joint_state(place, random_quat(turn))
        still, nothing = jnp.zeros((ACTIONS, self.action_size)), jnp.zeros(())
        state = TaskState(step=nothing, actions=still, turned=nothing, allowance=jnp.asarray(STROKE), paid=nothing)
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        del world, key
        state = dataclasses.replace(state, actions=jnp.concatenate([action[None], state.actions[:-1]]))
        return jnp.asarray(self.home.targets) + self.config.action_scale * action, state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        """Count steps and turns, and what of them is paid."""
        del action, key
        dt = self.timing.control_dt
        turned = dt * world["cube_angvel"][2]
        paid = jnp.minimum(turned, state.allowance)
        return dataclasses.replace(
            state,
            step=state.step + 1,
            turned=state.turned + turned,
            allowance=jnp.minimum(state.allowance - paid + dt * FASTEST, STROKE),
            paid=paid,
        )

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Joint positions; the critic also sees the cube.

        `policy`: joint_pos (n) rad with noise, the last three actions (3 m), the newest first. `critic`: those;
        clean_joint_pos (n) rad, joint_vel (n) rad/s, tips (3 of each finger) m from the palm, touch (1 of each finger),
        log of 1 + N, clean_cube_pos (3) m from the palm, cube_linvel (3) m/s, cube_angvel (3) rad/s and cube_quat (4)
        wxyz, in the world; allowance (1) rad.
        """
        clean, noisy = self.sense(world, key)
        policy = {"joint_pos": noisy["joint_pos"], "actions": state.actions.ravel()}
        hidden = self.privileged(world, clean) | {"cube_quat": clean["cube_quat"], "allowance": state.allowance[None]}
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        return {
            "spin": state.paid / self.timing.control_dt,
            "lost": self.lost(world).astype(jnp.float32),
            "action_rate": squared_norm(state.actions[0] - state.actions[1]),
            "energy": self.power(world),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success once the cube has turned round; failure when it is dropped."""
        lost = self.lost(world)
        return Outcome(success=~lost & (state.turned > TURN), failure=lost)

    metric_units: Mapping[str, str] = {"spin": "rad/s"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Mean turning rate about the vertical, rad/s."""
        del state
        return {"spin": world["cube_angvel"][2]}

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """The hand's gait, which sees nothing of the cube."""
        del observation
        return gait_of(self.hand)(state.step * self.timing.control_dt)
