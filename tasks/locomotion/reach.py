"""`locomotion/reach` and `-biped`: a legged robot walks to points on the ground."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.facets import CommandRange, Operator, Pictures
from embodied.core.randomization import Range, Term
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rotations import quat_rotate, quat_rotate_inverse
from embodied.math.sampling import between
from tasks.locomotion.humanoid_joystick import HumanoidConfig, HumanoidJoystick
from tasks.locomotion.joystick import Joystick, JoystickConfig, TaskState

SLOW_DOWN = 1.0  # m from a target, within which the robot is to go slower
BRISK = 0.7  # of the commands' limits: forward, sideways and turning at once
TURN = 1.0  # 1/s: commanded turning rate, for each rad that the target lies aside


@dataclasses.dataclass(frozen=True)
class Targets:
    """Options of the targets."""

    target_distance: tuple[float, float] = (2.0, 6.0)
    """m to a new target along the ground, drawn uniformly."""
    reach: float = 0.3
    """m along the ground from the trunk to a target that counts as reached."""


@dataclasses.dataclass(frozen=True)
class ReachConfig(Targets, JoystickConfig):
    """Options of `locomotion/reach`."""


@dataclasses.dataclass(frozen=True)
class BipedReachConfig(Targets, HumanoidConfig):
    """Options of `locomotion/reach-biped`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ReachState(TaskState):
    """State of an episode."""

    target: Array
    """(2,) m, world frame."""
    reached: Array
    """() targets reached so far."""


class Guided(Joystick):
    """A velocity task whose commands lead to points on the ground.

    The command leads forward and sideways as the target lies, and turns towards it, at 70 % of the task's fastest,
    slower within 1 m; what lies behind is turned to first. So a policy of the velocity task runs here as it is.
    """

    config: Any  # a ReachConfig or a BipedReachConfig

    def declared_terms(self) -> tuple[Term, ...]:
        nearest, farthest = self.config.target_distance
        ranges = (
            Range("distance along the ground", nearest, farthest, "m"),
            Range.spread("direction", 180.0, "degrees"),
        )
        target = Term("target", "a new one whenever it is reached", optional=False, ranges=ranges)
        return (*super().declared_terms(), target)

    def _start(self, key: Array, level: Array) -> ResetState[TaskState]:
        key, drawn = jax.random.split(key)
        start = super()._start(key, level)
        fields = {field.name: getattr(start.task_state, field.name) for field in dataclasses.fields(TaskState)}
        target = self._draw_target(start.qpos[self.layout.root_qpos : self.layout.root_qpos + 2], drawn)
        state = ReachState(**fields, target=target, reached=jnp.zeros(()))
        base = start.qpos[self.layout.root_qpos : self.layout.root_qpos + 7]
        stands = dataclasses.replace(state.standing, asked=jnp.zeros((), bool))
        command = self._guide(base[:3], base[3:], state.target)
        state = dataclasses.replace(state, command=command, standing=stands)
        return dataclasses.replace(start, task_state=state)

    def _draw_target(self, origin: Array, key: Array) -> Array:
        uniform = jax.random.uniform(key, (2,))
        angle = 2 * jnp.pi * uniform[0]
        return origin + between(self.config.target_distance, uniform[1]) * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def _guide(self, pos: Array, quat: Array, target: Array) -> Array:
        """(3,) forward m/s, sideways m/s and turning rad/s that lead from a pose of the trunk to a target (2,) m."""
        limits = jnp.asarray(self.velocities.limits)
        forward = quat_rotate(quat, jnp.array([1.0, 0.0, 0.0]))
        heading = jnp.arctan2(forward[1], forward[0])
        yaw = jnp.stack([jnp.cos(heading / 2), jnp.zeros(()), jnp.zeros(()), jnp.sin(heading / 2)])
        away = quat_rotate_inverse(yaw, jnp.append(target - pos[:2], 0.0))[:2]
        distance = jnp.maximum(jnp.linalg.norm(away), 1e-6)
        ahead, aside = away / distance
        pace = BRISK * jnp.minimum(distance / SLOW_DOWN, 1.0)
        speed = pace * limits[:2] * jnp.stack([jnp.maximum(ahead, 0.0), aside])
        turn = jnp.clip(TURN * jnp.arctan2(away[1], away[0]), -BRISK * limits[2], BRISK * limits[2])
        return jnp.append(speed, turn)

    def post_step(self, world: World, state: Any, action: Array, key: Array) -> ReachState:
        keys = jax.random.split(key)
        state = super().post_step(world, state, action, keys[0])
        there = self._distance(world, state) < self.config.reach
        following = self._draw_target(world["position"][:2], keys[1])
        target = jnp.asarray(jnp.where(there, following, state.target))
        command = self._guide(world["position"], world["orientation"], target)
        return dataclasses.replace(state, target=target, reached=state.reached + there, command=command)

    def outcome(self, world: World, state: Any) -> Outcome:
        """Success: at least one target reached, and still on its feet. Failure: fallen."""
        fallen = self._fallen(world)
        return Outcome(success=(state.reached > 0) & ~fallen, failure=fallen)

    metric_units: Mapping[str, str] = {"velocity_error": "m/s", "yaw_error": "rad/s", "target_distance": "m"}

    def metrics(self, world: World, state: Any) -> Mapping[str, Array]:
        """As of the velocity task; distance to the target in m, and the targets reached so far."""
        return {
            **super().metrics(world, state),
            "target_distance": self._distance(world, state),
            "reached": state.reached,
        }

    @functools.cached_property
    def operator(self) -> Operator:
        """The target, as far from the middle of the floor as one is from the next; measured is the trunk's position."""
        far = self.config.target_distance[1]
        return dataclasses.replace(
            super().operator,
            commands={"target": "x and y m of the point on the ground to walk to, world frame"},
            ranges=tuple(CommandRange(axis, "m", -far, far, "target", (i,)) for i, axis in enumerate("xy")),
            measured=lambda world, state: world["position"][:2],
        )

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(markers=self._markers)

    def _markers(self, world: World, state: Any) -> Mapping[str, Array]:
        return {"target": jnp.append(state.target, self.ground.height(state.target[None])[0] + 0.05)}

    def _distance(self, world: World, state: Any) -> Array:
        return jnp.linalg.norm(state.target - world["position"][:2])


class Reach(Guided):
    """A legged robot walks to points on the ground.

    Task: get within 30 cm of the target, then of the next, which lies 2 to 6 m away in any direction. Actions,
    observations and rewards are those of `locomotion/velocity`; the command leads to the target. Randomised: see
    `variations`. Success: at least one target reached in 20 s, and still on its feet. Failure: fallen, as there.
    """

    config_type = ReachConfig
    other: ClassVar = {True: "locomotion/reach-biped"}


class BipedReach(Guided, HumanoidJoystick):
    """A robot on two feet walks to points on the ground.

    Task: get within 30 cm of the target, then of the next, which lies 2 to 6 m away in any direction. Actions,
    observations and rewards are those of `locomotion/velocity-biped`; the command leads to the target. Randomised: see
    `variations`. Success: at least one target reached in 20 s, and still on its feet. Failure: fallen, as there.
    """

    config_type = BipedReachConfig
    other: ClassVar = {False: "locomotion/reach"}
