"""`grasping/*-reorient`: a hand turns a cube to a target orientation, then to the next, and so on."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.task import Observation, Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import Sigmoid, squared_norm, tolerance
from embodied.math.rotations import (
    matrix_from_quat,
    quat_angle,
    quat_conjugate,
    quat_integrate,
    quat_multiply,
    random_quat,
)
from tasks.grasping.inhand.base import CONTROL_HZ, PHYSICS_DT, InHand
from tasks.grasping.inhand.targets import ReorientConfig, difficulty, next_level, target_near

GOALS = 5  # in a row, by which an episode counts as solved
SLOWING = 0.8  # by which a target that moves on is as fast in every step as in the one before
PACE = 2.0  # by how much more than the control's time it moves on in a step (both Playground's)
GHOST = (0.0, 0.16, 0.06)  # m from the palm, where the cube is drawn as it is to lie
ONCE = ("reached", "progress")  # reward terms that are not paid by the second
# What is told of how the cube lies is the same in its 24 symmetric poses: sums over its three axes of all products of
# four of an axis's parts. They are smooth, and say which way the axes lie but not which is which.
FOURS = np.array(list(itertools.combinations_with_replacement(range(3), 4)))  # (15, 4)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """What an episode carries along."""

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
    instruction = (
        "Turn the cube in your hand to the orientation shown.",
        "Reorient the cube to match the target.",
        "Rotate the cube until it looks like the goal, then do the next one.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=50.0)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        """Term -> weight per control step; the config gives all but `reached` and `progress` per second."""
        weights = dataclasses.asdict(self.config.weights)
        return {name: w if name in ONCE else self.timing.control_dt * w for name, w in weights.items()}

    def reset(self, key: Array) -> ResetState[TaskState]:
        """The cube over the hand, turned any way, and any target."""
        return self._start(key, jnp.zeros(()) if self.config.curriculum else jnp.ones(()))

    def restart(self, key: Array, state: TaskState) -> ResetState[TaskState]:
        """As `reset`, on the level that was reached."""
        return self._start(key, state.level)

    def _start(self, key: Array, level: Array) -> ResetState[TaskState]:
        place, turn, goal, fields = jax.random.split(key, 4)
        start = random_quat(turn)
        qpos, qvel = self.state_at_start(place, start)
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
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.field_terms, fields))

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
        """See whether the target was reached; then it moves on. Patience for one that is not has an end."""
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
        hidden = {**self.hidden(world, clean), "clean_turn": _turn(cube, state.goal), "clean_lie": _lie(cube)}
        return {"policy": policy, "critic": {**policy, **hidden}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        """See `Weights`."""
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

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Targets reached per step (times the length: per episode), the mean angle to the target in rad, the level."""
        return {
            "reached": state.reached.astype(jnp.float32),
            "angle": state.angle,
            "level": state.level,
        }

    def goal_visualization(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Beside the hand, the cube as it is to lie."""
        del world
        return {"cube": jnp.concatenate([self.palm + jnp.array(GHOST), state.goal])}


def _turn(quat: Array, goal: Array) -> Array:
    """(6,) the last two rows of the rotation from the goal to the cube: smooth where angles are not."""
    return matrix_from_quat(quat_multiply(quat, quat_conjugate(goal))).reshape(-1)[3:]


def _lie(quat: Array) -> Array:
    """(15,) which way the cube's axes lie in the world: see `FOURS`."""
    axes = matrix_from_quat(quat).T
    return axes[:, FOURS].prod(-1).sum(0)
