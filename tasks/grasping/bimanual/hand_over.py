"""`grasping/*-hand-over`: a hand holds a relay baton by one end, another one takes it by the other and carries it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core import randomization
from embodied.core.facets import Language, Pictures
from embodied.core.hooks import Observation, Timing
from embodied.core.randomization import Range
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from embodied.math.rotations import quat_rotate
from tasks.grasping.bimanual.base import FloatingHandsConfig, FloatingHandsTask, HandsState
from tasks.grasping.bimanual.initial_grasps import initial_grasp
from tasks.grasping.hands.floating_hand import Mount
from tasks.grasping.hands.hand import PALM_DOWN, PALM_UP, PHYSICS_DT, closing
from tasks.grasping.objects.object_spec import object_spec
from tasks.grasping.objects.shapes import capsule

CONTROL_HZ = 20
LENGTH, WIDTH = 0.29, 0.04  # m; World Athletics' rules for relay batons: 28 to 30 cm, 12 to 13 cm around, 50 g or more
BATON = object_spec(
    "baton", 0.1, (capsule(WIDTH, (0, WIDTH / 2, 0), (0, LENGTH - WIDTH / 2, 0)),), (0.9, 0.3, 0.15, 1.0), shell=0.002
)
"""Of 100 g; its axis is y."""
GIVER = Mount("left_", (0.0, 0.0, 0.6), PALM_UP)
TAKER = Mount("right_", (0.0, 0.22, 0.75), PALM_DOWN)
HELD_AT = 0.075  # m from the baton's middle towards its end, where the giver holds it
TAKE_AT = 0.075  # m from the middle towards the other end, where the taker should
ALONG = 0.01  # m by which the first of these varies
IN_PALM = 0.03  # m over the palm, where the baton is when the giver closes
SPREAD = (0.04, 0.03, 0.03)  # m, by which the taker's start varies along each axis
GOAL = (0.0, 0.26, 0.72)  # m, world frame, where the baton's middle shall be in the end
GOAL_SPREAD = (0.06, 0.05, 0.05)  # m, by which that varies along each axis
REACHED = 0.04  # m from the goal
LEVEL = 0.35  # rad between the baton and the horizontal line from left to right
STILL = 0.15  # m/s
HOLD = 1.0  # s that it must rest there
SHARPNESS = 10.0  # 1/m, alpha of the reward for being at the goal
# The script, found by trial.
DESCEND, CLOSE, RELEASE, LEAVE = 1.0, 2.0, 3.0, 4.0  # s from the start
ABOVE, CONTACT = 0.1, 0.02  # m over the baton, while the taker moves there and when it takes hold
FOLLOW = 4.0  # 1/s, how fast the taker makes up for its distance
CARRY = 0.3  # m/s at most, with the baton
SEEN = ("joint_pos", "base_pos", "touch", "object_pos", "axis", "goal")


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second."""

    goal: float = 2.0
    """Closeness to the goal, exp(-.2 (alpha d + angle)): Bi-DexHands' reward, with an alpha of 50 per m."""
    reach: float = 1.0
    """Closeness of the taker's palm to the place where it should hold the baton, in [0, 1]."""
    grasp: float = 1.0
    """Share of the taker's fingertips that touch, in [0, 1], counted once its palm is there."""
    passed: float = 4.0
    """The taker holds the baton, the giver does not touch it."""
    rest: float = 4.0
    """And it is at the goal, and still."""
    lost: float = -40.0
    """Once, when the baton is dropped: so, one control step of it."""
    action_rate: float = -0.01
    """Squared change of the action."""


@dataclasses.dataclass(frozen=True)
class HandOverConfig(FloatingHandsConfig):
    """Options of the hand-over tasks."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    hands: HandsState
    """State of both hands."""
    goal: Array
    """(3,) m, world frame, of the baton's middle."""
    time: Array
    """() s since the start."""
    rested: Array
    """() s for which it has rested at the goal in the taker's hand."""


class HandOver(FloatingHandsTask[TaskState]):
    """Two hands on floating bases, a relay baton in the first one.

    Task: take the baton with the other hand, carry it to a target, level, and hold it there for 1 s; 10 s in all.
    Randomised: see `variations`. Success: it rested at the target for 1 s, in the second hand alone. Failure: dropped.
    """

    config_type = HandOverConfig
    config: HandOverConfig
    language = Language.of(
        "Pass the baton to your other hand and hold it up.",
        "Hand the stick over from one hand to the other.",
        "Take the baton with your other hand and bring it to the mark.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=10.0)
    mounts = (GIVER, TAKER)
    item = BATON
    view = ((1.1, -0.3, 1.1), (0.0, 0.15, 0.66))

    def start_ranges(self) -> tuple[Range, ...]:
        return (
            *(
                Range.spread(f"shift of the taker along its base's {axis}", size, "m")
                for axis, size in zip("xyz", SPREAD, strict=True)
            ),
            Range.spread("shift of the baton in the grip", ALONG, "m"),
            *(
                Range(f"goal's {axis}", at - size, at + size, "m")
                for axis, at, size in zip("xyz", GOAL, GOAL_SPREAD, strict=True)
            ),
        )

    def reset(self, key: Array) -> ResetState[TaskState]:
        place, along, goal, fields = jax.random.split(key, 4)
        varied = 1.0 * ("start" in self.varied)
        grip = initial_grasp(self.hand, self.item, GIVER, (0.0, HELD_AT, IN_PALM), (1.0, 0.0, 0.0, 0.0))
        bases = jnp.zeros((2, 6))
        bases = bases.at[1, :3].set(varied * jnp.array(SPREAD) * jax.random.uniform(place, (3,), minval=-1.0))
        joints, targets = self.initial_joints(grip)
        pos, quat = self.object_pose(0, bases[0], grip)
        # A round rod is the same everywhere along its axis, and so is the grip.
        pos = pos + varied * ALONG * jax.random.uniform(along, minval=-1.0) * _axis(quat)
        qpos, qvel = self.initial_joint_state(bases, joints, pos, quat)
        aim = jnp.array(GOAL) + varied * jnp.array(GOAL_SPREAD) * jax.random.uniform(goal, (3,), minval=-1.0)
        state = TaskState(self.initial_hands(bases, targets), aim, jnp.zeros(()), jnp.zeros(()))
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        dt = self.timing.control_dt
        rested = jnp.where(self.at_rest(world, state), state.rested + dt, 0.0)
        return dataclasses.replace(state, time=state.time + dt, rested=rested)

    def error(self, world: World, state: TaskState) -> tuple[Array, Array]:
        """() m from the baton's middle to the goal, and () rad between its axis and the level line y."""
        away = jnp.linalg.norm(world["object_pos"] - state.goal)
        return away, jnp.arccos(jnp.clip(jnp.abs(_axis(world["object_quat"])[1]), 0.0, 1.0))

    def passed(self, world: World) -> Array:
        """() bool, whether the taker touches the baton and the giver does not."""
        giver, taker = self.touch(world).sum(1)
        return (giver == 0) & (taker > 0) & (world["object_touch"][0] > 0)

    def at_rest(self, world: World, state: TaskState) -> Array:
        """() bool, whether the baton is held by the taker alone, at the goal, level and still."""
        away, angle = self.error(world, state)
        still = jnp.linalg.norm(world["object_linvel"]) < STILL
        return self.passed(world) & (away < REACHED) & (angle < LEVEL) & still

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """See `sense` and `privileged`.

        `policy`, with noise: joint_pos (2 n) rad, base_pos (12) m and rad, touch (1 of each fingertip) log of 1 + N,
        object_pos (6) m from either palm, axis (3) of the baton, goal (3) m from it, along the world's axes, the last
        action. `critic`: those, and privileged terms.
        """
        clean, noisy = self.sense(world, key)
        goal = state.goal - self.palms(world)[0] - noisy["object_pos"][:3]
        values = {**noisy, "axis": _axis(noisy["object_quat"]), "goal": goal}
        policy = {**{name: values[name] for name in SEEN}, "action": state.hands.action}
        return {"policy": policy, "critic": {**policy, **self.privileged(world, clean)}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        away, angle = self.error(world, state)
        place = world["object_pos"] + TAKE_AT * _axis(world["object_quat"])
        near = jnp.exp(-SHARPNESS * jnp.linalg.norm(place - self.palms(world)[1]))
        touching = jnp.mean(self.touch(world)[1, : len(self.hand.fingers)] > 0)
        return {
            "goal": jnp.exp(-SHARPNESS * away - 0.2 * angle),
            "reach": near,
            "grasp": touching * near,
            "passed": self.passed(world).astype(jnp.float32),
            "rest": (state.rested > 0).astype(jnp.float32),
            "lost": self.dropped(world).astype(jnp.float32),
            "action_rate": squared_norm(state.hands.change),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success once the baton rested for 1 s; failure when it is dropped."""
        lost = self.dropped(world)
        return Outcome(success=~lost & (state.rested >= HOLD), failure=lost)

    metric_units: Mapping[str, str] = {"position_error": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Share of the time in the taker's hand alone, mean distance to the goal in m."""
        return {"passed": self.passed(world).astype(jnp.float32), "position_error": self.error(world, state)[0]}

    @functools.cached_property
    def pictures(self) -> Pictures:
        along = jnp.array([[0.0, y, 0.0] for y in (-LENGTH / 2, 0.0, LENGTH / 2)])
        return Pictures(markers=lambda world, state: {"goal": state.goal + along})

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """Over the free end, down, close, let go, carry: by the clock, guided by the baton's observed pose."""
        seen, time = self.split_terms(observation["policy"], SEEN), state.time
        above = CONTACT + jnp.where(time < DESCEND, ABOVE, 0.0)
        place = seen["object_pos"][3:] + TAKE_AT * seen["axis"] + above * jnp.array([0.0, 0.0, 1.0])
        carry = FOLLOW * seen["goal"]
        carry = carry * jnp.minimum(1.0, CARRY / jnp.maximum(jnp.linalg.norm(carry), 1e-6))
        moving = jnp.where(time < CLOSE, FOLLOW * place, jnp.where(time < LEAVE, 0.0, carry))
        second = jnp.concatenate([moving, jnp.zeros(3)])
        shapes = (closing(self.hand, time < RELEASE), closing(self.hand, time >= CLOSE))
        return self.towards(state.hands, jnp.stack([jnp.zeros(6), second]), jnp.stack(shapes))


def _axis(quat: Array) -> Array:
    """(3,) the baton's axis in the world."""
    return quat_rotate(quat, jnp.array([0.0, 1.0, 0.0]))
