"""`grasping/*-reorient`: a hand turns a cube to a target orientation, then to the next, and so on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import CommandRange, Language, Operator, Pictures
from embodied.core.hooks import Observation, Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import Sigmoid, squared_norm, tolerance
from embodied.math.rotations import (
    matrix_from_quat,
    quat_angle,
    quat_conjugate,
    quat_from_axis_angle,
    quat_integrate,
    quat_multiply,
    random_quat,
    rotation_vector_from_quat,
)
from embodied.storage.bounds import NOT_NEGATIVE, Bound, BoundError
from tasks.grasping.inhand.base import CONTROL_HZ, PHYSICS_DT, InHand, InHandConfig

REACHED = 0.1  # rad from the target (Playground)
# A new target is where the last one goes in a second or so of turning: it starts with U(1, 5) rad/s about each axis
# and slows down by a fifth in every step of twice the control's time (Playground's LEAP hand): 1.5 rad on average.
KICK = (1.0, 5.0)  # rad/s
HALF_TURN = 3.14  # rad, to which a user may turn the target about an axis: pi, in digits for a slider


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second but for the last two. The terms are those of Playground's LEAP hand and
    `progress`; where another weight is ours, its own stands behind."""

    orientation: float = 0.0
    """Closeness of the cube's orientation to the target, in [0, 1] (5)."""
    position: float = 0.5
    """Closeness of the cube to the middle of the hand, in [0, 1]."""
    lost: float = -600.0
    """Once, when the cube is dropped: so, one control step of it (-100)."""
    hand_pose: float = -0.1
    """Squared distance of the joints from home, rad^2 (-0.5)."""
    action_rate: float = -0.001
    """Squared change of the action, and squared change of that."""
    energy: float = -0.001
    """Power of the motors, W."""
    reached: float = 25.0
    """Once for every target that is reached (100)."""
    progress: float = 40.0
    """rad by which a step brought the cube closer to the target (Dactyl, arXiv:1808.00177: 1, beside 5 for reaching it
    and -20 for a drop). It pays at once for what `orientation` pays for little by little."""


ANGLE = Bound("more than 0 and less than pi", lambda angle: 0 < angle < np.pi)
TURN = Bound("at most pi", lambda angle: angle <= np.pi)


@dataclasses.dataclass(frozen=True)
class ReorientConfig(InHandConfig):
    """Options of the reorientation tasks."""

    action_scale: float = 0.15
    """rad that an action of 1 moves a servo's target in one control step (Playground: 0.5; its noise throws cubes)."""
    within: Annotated[float, ANGLE] = REACHED
    """rad from a target at which it counts as reached: 0.1 (Playground) is hard to come upon by chance, so a curriculum
    begins with more (Dactyl, arXiv:1808.00177: 0.4)."""
    first: Annotated[float, TURN] = np.pi
    """rad from the cube at the start to its first target at most, and `within` at least; pi: any orientation."""
    patience: Annotated[float, NOT_NEGATIVE] = 0.0
    """s in which a target is to be reached; then another takes its place, as far from the cube as a first one. 0: any
    time. Training needs it, lest most of what it sees is a cube that is stuck."""
    kick: tuple[float, float] = KICK
    """rad/s about each axis, smallest and largest, with which a target moves on: proportional to how far."""
    curriculum: bool = False
    """Whether each environment's targets begin near, and move away and shrink to `first`, `kick` and `within` as they
    are reached; those that are missed bring them back. Training needs it, and some `patience`."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.within < self.first:
            raise BoundError(f"first={self.first} must be more than within={self.within}")
        if self.curriculum and not self.patience:
            raise BoundError("curriculum with patience=0.0 s; expected patience with targets that are missed")
        randomization.require_ranges("reorient", {"kick": self.kick})


# A level is held where every other target is reached.
RISE = 0.02  # by which it rises with a target that is reached
FALL = 0.02  # by which it falls with one that is missed, or with a cube that is lost
# Targets move away first; when they are as far as they will be, they are to be met more and more exactly.
LEVELS = (0.0, 0.6, 1.0)
NEAREST = 1.0  # rad, how far the first target is at most, on level 0
SLOWEST = (0.6, 1.0)  # rad/s, smallest and largest, with which a target moves on, on level 0
WIDEST = 0.4  # rad at which a target counts as reached up to the second of `LEVELS` (Dactyl's, arXiv:1808.00177)


class Difficulty(NamedTuple):
    """Difficulty of targets."""

    within: Array
    """() rad at which one counts as reached."""
    first: Array
    """() rad from the cube, at most, of one that follows no other; pi: any orientation."""
    kick: tuple[Array, Array]
    """() rad/s each, smallest and largest about each axis, with which one that was reached moves on."""


def difficulty(config: ReorientConfig, level: Array) -> Difficulty:
    """Difficulty of a level, () from 0 to 1: on level 1 it is the config's, which no lower level exceeds."""

    def along(*values: float) -> Array:
        return jnp.interp(level, jnp.array(LEVELS), jnp.array(values))

    first, within = config.first, config.within
    (slow, fast), (low, high) = SLOWEST, config.kick
    return Difficulty(
        within=along(max(WIDEST, within), max(WIDEST, within), within),
        first=along(min(NEAREST, first), first, first),
        kick=(along(min(slow, low), low, low), along(min(fast, high), high, high)),
    )


def next_level(config: ReorientConfig, level: Array, *, reached: Array, missed: Array) -> Array:
    """() the level after a control step; it stays at 1 without a curriculum in the config."""
    if not config.curriculum:
        return level
    return jnp.clip(level + RISE * reached - FALL * missed, 0.0, 1.0)


def target_near(key: Array, cube: Array, hard: Difficulty) -> Array:
    """(4,) wxyz, a target for a cube that lies as `cube` (4,) wxyz: near it, or any orientation."""
    towards, size, anywhere = jax.random.split(key, 3)
    axis = jax.random.normal(towards, (3,))
    angle = jax.random.uniform(size, minval=hard.within, maxval=hard.first)
    near = quat_multiply(cube, quat_from_axis_angle(axis / jnp.linalg.norm(axis), angle))
    return jnp.where(hard.first >= math.pi, random_quat(anywhere), near)


GOALS = 5  # in a row, by which an episode counts as solved
SLOWING = 0.8  # by which a target that moves on is as fast in every step as in the one before
PACE = 2.0  # by how much more than the control's time it moves on in a step (both Playground's)
GHOST = (0.0, 0.16, 0.06)  # m from the palm, where the cube is drawn in its target orientation
# The cube's observed orientation is the same in its 24 symmetric poses: sums over its three axes of all products of
# four of an axis's parts. They are smooth, and give the axes' directions but not which axis is which.
FOURS = np.array(list(itertools.combinations_with_replacement(range(3), 4)))  # (15, 4)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    goal: Array
    """(4,) wxyz, the target orientation in the world."""
    goal_spin: Array
    """(3,) rad/s, body frame: how fast the target still turns on to where it will stay."""
    targets: Array
    """(m,) rad, of the servos."""
    action: Array
    """(m,) the last action."""
    action_change: Array
    """(m,) the last action minus the one before."""
    action_bend: Array
    """(m,) the last change minus the one before."""
    reached: Array
    """() bool, whether the target was reached in this step."""
    count: Array
    """() targets reached so far."""
    waited: Array
    """() control steps for which the target has been this one."""
    angle: Array
    """() rad from the target now."""
    progress: Array
    """() rad by which the last step brought the cube closer to the target it had."""
    level: Array
    """() from 0 to 1, how hard the targets are: see `Difficulty`."""


class Reorient(InHand[TaskState]):
    """A cube in a hand, to be turned to one target orientation after the other.

    Task: reach as many targets as possible in 50 s, each within 0.1 rad or `config.within`. Randomised: see
    `variations`. Success: five targets. Failure: dropped. With `config.curriculum` targets begin near, and grow harder
    from episode to episode as they are reached.

    Action: change of the servos' targets.
    """

    config_type = ReorientConfig
    config: ReorientConfig
    language = Language.of(
        "Turn the cube in your hand to the orientation shown.",
        "Reorient the cube to match the target.",
        "Rotate the cube until it looks like the goal, then do the next one.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=50.0)
    once = ("reached", "progress")

    def reset(self, key: Array) -> ResetState[TaskState]:
        return self._start(key, jnp.zeros(()) if self.config.curriculum else jnp.ones(()))

    def restart(self, key: Array, state: TaskState) -> ResetState[TaskState]:
        """As `reset`, on the level that was reached."""
        return self._start(key, state.level)

    def _start(self, key: Array, level: Array) -> ResetState[TaskState]:
        place, turn, goal, fields = jax.random.split(key, 4)
        start = random_quat(turn)
        qpos, qvel = self.initial_joint_state(place, start)
        nothing = jnp.zeros(self.action_size)
        first = target_near(goal, start, difficulty(self.config, level))
        state = TaskState(
            goal=first,
            goal_spin=jnp.zeros(3),
            targets=jnp.asarray(self.home.targets),
            action=nothing,
            action_change=nothing,
            action_bend=nothing,
            reached=jnp.zeros((), bool),
            count=jnp.zeros(()),
            waited=jnp.zeros(()),
            angle=quat_angle(start, first),
            progress=jnp.zeros(()),
            level=level,
        )
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Servo targets (m,) rad, in their ranges."""
        del world, key
        low, high = self.layout.targets.T
        targets = jnp.clip(state.targets + self.config.action_scale * action, low, high)
        change = action - state.action
        state = dataclasses.replace(
            state, targets=targets, action=action, action_change=change, action_bend=change - state.action_change
        )
        return targets, state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        """Check whether the target was reached; then it moves on. One that is not is replaced after `patience`."""
        del action
        cube, dt = world["cube_quat"], self.timing.control_dt
        angle, hard = quat_angle(cube, state.goal), difficulty(self.config, state.level)
        reached = angle < hard.within
        waited = jnp.where(reached, 0.0, state.waited + 1)
        over = (self.config.patience > 0) & (waited * dt >= self.config.patience)
        another, further = jax.random.split(key)
        kick = jax.random.uniform(further, (3,), minval=hard.kick[0], maxval=hard.kick[1])
        spin = jnp.where(reached, kick, SLOWING * state.goal_spin)
        goal = jnp.where(over, target_near(another, cube, hard), quat_integrate(state.goal, spin, PACE * dt))
        return dataclasses.replace(
            state,
            goal=goal,
            goal_spin=jnp.where(over, 0.0, spin),
            reached=reached,
            count=state.count + reached,
            waited=jnp.where(over, 0.0, waited),
            angle=quat_angle(cube, goal),
            progress=state.angle - angle,
            level=next_level(self.config, state.level, reached=reached, missed=over | self.lost(world)),
        )

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Playground's 57 numbers for the policy (of a hand with 16 joints), and how the cube lies.

        `policy`, with noise: joint_pos (n) rad, targets (m) rad from home, cube_pos (3) m from the palm, turn (6) two
        rows of the rotation from target to cube, lie (15) of the cube, see `FOURS`, the last action (m).
        `critic`: those; clean_joint_pos (n) rad, joint_vel (n) rad/s, tips (3 of each finger) m from the palm, touch (1
        of each finger), log of 1 + N, clean_cube_pos (3) m from the palm, cube_linvel (3) m/s and cube_angvel (3) rad/s
        in the world, clean_turn (6), clean_lie (15).
        """
        clean, noisy = self.sense(world, key)
        policy = {
            "joint_pos": noisy["joint_pos"],
            "targets": state.targets - self.home.targets,
            "cube_pos": noisy["cube_pos"],
            "turn": _turn(noisy["cube_quat"], state.goal),
            "lie": _lie(noisy["cube_quat"]),
            "action": state.action,
        }
        cube = clean["cube_quat"]
        hidden = {**self.privileged(world, clean), "clean_turn": _turn(cube, state.goal), "clean_lie": _lie(cube)}
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        away = jnp.linalg.norm(world["cube_pos"] - self.palm)
        bent = world.qpos[self.layout.qpos] - self.home.joints
        return {
            "orientation": tolerance(state.angle, 0.0, 0.2, margin=np.pi, sigmoid=Sigmoid.LINEAR),
            "position": tolerance(away, 0.0, 0.05, margin=0.05, sigmoid=Sigmoid.LINEAR),
            "lost": self.lost(world).astype(jnp.float32),
            "hand_pose": squared_norm(bent),
            "action_rate": squared_norm(state.action_change) + squared_norm(state.action_bend),
            "energy": self.power(world),
            "reached": state.reached.astype(jnp.float32),
            "progress": state.progress,
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success after five targets; failure when the cube is dropped."""
        lost = self.lost(world)
        return Outcome(success=~lost & (state.count >= GOALS), failure=lost)

    metric_units: Mapping[str, str] = {"angle": "rad"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Targets reached per step (times the length: per episode), the mean angle to the target in rad, the level."""
        return {"reached": state.reached.astype(jnp.float32), "angle": state.angle, "level": state.level}

    @functools.cached_property
    def operator(self) -> Operator:
        """The target as a rotation vector: rad about the world's axes, within half a turn."""
        commands = {
            "goal": "orientation the cube shall have, quaternion wxyz, world frame",
            "goal_spin": "rad/s with which that still turns, in its own frame; zeros where it stays",
        }
        ranges = tuple(
            CommandRange(
                f"about {axis}", "rad", -HALF_TURN, HALF_TURN, "goal", (i,), rotation=True, derivatives=("goal_spin",)
            )
            for i, axis in enumerate("xyz")
        )

        measured = lambda world, state: rotation_vector_from_quat(world["cube_quat"])  # noqa: E731
        return Operator(commands, ranges=ranges, measured=measured)

    @functools.cached_property
    def pictures(self) -> Pictures:
        place = self.palm + jnp.array(GHOST)
        return Pictures(goals=lambda world, state: {"cube": jnp.concatenate([place, state.goal])})


def _turn(quat: Array, goal: Array) -> Array:
    """(6,) the last two rows of the rotation from the goal to the cube: smooth where angles are not."""
    return matrix_from_quat(quat_multiply(quat, quat_conjugate(goal))).reshape(-1)[3:]


def _lie(quat: Array) -> Array:
    """(15,) which way the cube's axes lie in the world: see `FOURS`."""
    axes = matrix_from_quat(quat).T
    return axes[:, FOURS].prod(-1).sum(0)
