"""`grasping/*-pour`: a bottle in a hand is tilted to a commanded angle and held there, one angle after the other.

There is no liquid: what counts is the angle between the bottle's axis and the vertical, which sets a flow. The hand is
on a floating base rather than on an arm, so that a turn of the wrist is one axis, and what is learned is to grip.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import CommandRange, Language, Operator, Pictures
from embodied.core.hooks import Observation, Timing
from embodied.core.randomization import Range
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import Sigmoid, squared_norm, tolerance
from embodied.math.rotations import quat_rotate, quat_rotate_inverse
from tasks.grasping.bimanual.base import FloatingHandsConfig, FloatingHandsTask, HandsState
from tasks.grasping.bimanual.initial_grasps import initial_grasp
from tasks.grasping.hands.floating_hand import Mount
from tasks.grasping.hands.hand import PHYSICS_DT, closing
from tasks.grasping.objects.object_spec import object_spec
from tasks.grasping.objects.shapes import capsule

CONTROL_HZ = 20
BODY, NECK = 0.05, 0.025  # m, diameters: a bottle of sauce, our choice
BOTTLE = object_spec(
    "bottle",
    0.3,
    (capsule(BODY, (0, 0, -0.065), (0, 0, 0.035)), capsule(NECK, (0, 0, 0.035), (0, 0, 0.1))),
    (0.2, 0.45, 0.3, 1.0),
)
"""Of 300 g, 20 cm tall; its axis is z."""
THUMB_UP = (float(np.sqrt(0.5)), -float(np.sqrt(0.5)), 0.0, 0.0)  # wxyz, world from palm: it looks to the left
UPRIGHT = (float(np.sqrt(0.5)), float(np.sqrt(0.5)), 0.0, 0.0)  # wxyz, palm from bottle: upright in that hand
POURER = Mount("right_", (0.0, 0.0, 0.6), THUMB_UP)
IN_PALM = (0.0, 0.0, 0.03)  # m, palm's frame, where the bottle is when the hand closes around it
LEAN = 0.2  # rad, by which the wrist's start varies to either side
TILTS = (0.6, 2.0)  # rad from upright, the range of commands: beyond a right angle the rest flows out
WITHIN = 0.1  # rad from the command
HOLD = 1.0  # s that it must stay there
GOALS = 3  # commands, by which an episode counts as solved
SLIPPED = 0.6  # rad that the bottle may turn in the hand, about any axis but its own
SLID = 0.05  # m that its middle may move in the hand
SEEN = ("joint_pos", "base_pos", "touch", "object_pos", "axis")
SPEED = 1.5  # rad/s at most, of the script
GAIN = 3.0  # 1/s, of the script


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second."""

    tilt: float = 2.0
    """Closeness of the bottle's tilt to the command, in [0, 1]."""
    within: float = 2.0
    """Whether it is within .1 rad."""
    reached: float = 100.0
    """Once for every command that is fulfilled: so, one control step of it."""
    slip: float = -1.0
    """Turn of the bottle in the hand, rad."""
    lost: float = -40.0
    """Once, when the bottle is dropped or slipped: so, one control step of it."""
    action_rate: float = -0.01
    """Squared change of the action."""


@dataclasses.dataclass(frozen=True)
class PourConfig(FloatingHandsConfig):
    """Options of the pouring tasks."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    hands: HandsState
    """State of the hand."""
    command: Array
    """() rad, the angle between the bottle's axis and the vertical."""
    stayed: Array
    """() s for which the bottle has been within reach of it."""
    reached: Array
    """() bool, whether a command was fulfilled in this step."""
    count: Array
    """() commands fulfilled so far."""
    axis: Array
    """(3,) of the bottle in the palm's frame at the start."""
    place: Array
    """(3,) m, its middle in the palm's frame at the start."""


class Pour(FloatingHandsTask[TaskState]):
    """A hand on a floating base with a bottle in it.

    Task: tilt the bottle to the commanded angle from upright and keep it within .1 rad for 1 s; then the next angle is
    commanded; 20 s. Randomised: see `variations`. Success: three angles. Failure: dropped, or slipped in the hand.
    """

    config_type = PourConfig
    config: PourConfig
    language = Language.of(
        "Tilt the bottle to the angle shown and keep it there.",
        "Pour from the bottle, holding it at each angle asked for.",
        "Tip the bottle as told without letting it slip.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=20.0)
    mounts = (POURER,)
    item = BOTTLE
    view = ((0.85, -0.3, 0.85), (0.0, 0.0, 0.6))

    def start_ranges(self) -> tuple[Range, ...]:
        return (Range.spread("turn of the wrist", LEAN, "rad"),)

    def reset(self, key: Array) -> ResetState[TaskState]:
        """The bottle in the hand's grip, more or less upright, and any command."""
        lean, command, fields = jax.random.split(key, 3)
        grip = initial_grasp(self.hand, self.item, POURER, IN_PALM, UPRIGHT)
        lean = LEAN * ("start" in self.varied) * jax.random.uniform(lean, minval=-1.0)
        bases = jnp.zeros((1, 6)).at[0, 3].set(lean)
        pos, quat = self.object_pose(0, bases[0], grip)
        joints, targets = self.initial_joints(grip)
        qpos, qvel = self.initial_joint_state(bases, joints, pos, quat)
        nothing = jnp.zeros(())
        state = TaskState(
            hands=self.initial_hands(bases, targets),
            command=_command(command),
            stayed=nothing,
            reached=jnp.zeros((), bool),
            count=nothing,
            axis=_axis(jnp.asarray(grip.palm_quat)),
            place=jnp.asarray(grip.palm_pos),
        )
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action
        dt = self.timing.control_dt
        inside = jnp.abs(_tilt(_axis(world["object_quat"])) - state.command) < WITHIN
        stayed = jnp.where(inside, state.stayed + dt, 0.0)
        reached = stayed >= HOLD - dt / 2
        return dataclasses.replace(
            state,
            command=jnp.where(reached, _command(key), state.command),
            stayed=jnp.where(reached, 0.0, stayed),
            reached=reached,
            count=state.count + reached,
        )

    def slip(self, world: World, state: TaskState) -> tuple[Array, Array]:
        """() rad and () m, how far the bottle has turned, but about its own axis, and slid in the hand."""
        palm = world[f"{POURER.prefix}palm_quat"]
        axis = quat_rotate_inverse(palm, _axis(world["object_quat"]))
        place = quat_rotate_inverse(palm, world["object_pos"] - self.palms(world)[0])
        return _between(axis, state.axis), jnp.linalg.norm(place - state.place)

    def lost(self, world: World, state: TaskState) -> Array:
        """() bool, whether the bottle was dropped or slipped in the hand."""
        turned, slid = self.slip(world, state)
        return self.dropped(world) | (turned > SLIPPED) | (slid > SLID)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """See `sense` and `privileged`.

        `policy`, with noise: joint_pos (n) rad, base_pos (6) m and rad, touch (1 of each fingertip) log of 1 + N,
        object_pos (3) m from the palm, axis (3) of the bottle, along the world's axes, command (1) rad, error (1) rad
        from the bottle's tilt to it, the last action. `critic`: those; privileged terms; slip (2) rad and m, stayed (1)
        s within the command.
        """
        clean, noisy = self.sense(world, key)
        axis = _axis(noisy["object_quat"])
        values = {**noisy, "axis": axis}
        command = {"command": state.command[None], "error": (state.command - _tilt(axis))[None]}
        policy = {**{name: values[name] for name in SEEN}, **command, "action": state.hands.action}
        more = {"slip": jnp.stack(self.slip(world, state)), "stayed": state.stayed[None]}
        return {"policy": policy, "critic": {**policy, **self.privileged(world, clean), **more}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        error = jnp.abs(_tilt(_axis(world["object_quat"])) - state.command)
        return {
            "tilt": tolerance(error, 0.0, 0.0, margin=1.5, sigmoid=Sigmoid.LINEAR),
            "within": (error < WITHIN).astype(jnp.float32),
            "reached": state.reached.astype(jnp.float32),
            "slip": self.slip(world, state)[0],
            "lost": self.lost(world, state).astype(jnp.float32),
            "action_rate": squared_norm(state.hands.change),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success after three commands; failure when the bottle is dropped or slips."""
        lost = self.lost(world, state)
        return Outcome(success=~lost & (state.count >= GOALS), failure=lost)

    metric_units: Mapping[str, str] = {"angle": "rad", "slip": "rad"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Commands fulfilled per step (times the length: per episode), mean error and slip in rad."""
        error = jnp.abs(_tilt(_axis(world["object_quat"])) - state.command)
        return {"reached": state.reached * 1.0, "angle": error, "slip": self.slip(world, state)[0]}

    @functools.cached_property
    def operator(self) -> Operator:
        return Operator(
            commands={"command": "rad between the bottle's axis and the vertical"},
            ranges=(CommandRange("tilt from upright", "rad", *TILTS, "command"),),
            measured=lambda world, state: _tilt(_axis(world["object_quat"]))[None],
        )

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(markers=self._markers)

    def _markers(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Place of the bottle's mouth at the commanded angle, tilted to the left of the hand."""
        direction = jnp.stack([jnp.zeros(()), jnp.sin(state.command), jnp.cos(state.command)])
        return {"goal": world["object_pos"] + jnp.array([[0.1], [0.12], [0.14]]) * direction}

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """Turn the wrist inwards or back, and keep the grip."""
        axis = self.split_terms(observation["policy"], SEEN)["axis"]
        rate = jnp.clip(-GAIN * (state.command - _tilt(axis)), -SPEED, SPEED)
        velocity = jnp.zeros((1, 6)).at[0, 3].set(rate)
        return self.towards(state.hands, velocity, closing(self.hand, 1.0)[None])


def _axis(quat: Array) -> Array:
    """(3,) the bottle's axis, towards its mouth, in the frame that `quat` (4,) wxyz leads to."""
    return quat_rotate(quat, jnp.array([0.0, 0.0, 1.0]))


def _tilt(axis: Array) -> Array:
    """() rad between a unit vector and the vertical; its gradient is finite everywhere."""
    return jnp.arctan2(jnp.sqrt(axis[0] ** 2 + axis[1] ** 2 + 1e-12), axis[2])


def _between(first: Array, second: Array) -> Array:
    """() rad between two unit vectors."""
    return jnp.arctan2(jnp.linalg.norm(jnp.cross(first, second) + 1e-9), first @ second)


def _command(key: Array) -> Array:
    """() rad, any angle of the range."""
    return jax.random.uniform(key, minval=TILTS[0], maxval=TILTS[1])
