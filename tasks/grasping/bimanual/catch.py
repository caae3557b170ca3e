"""`grasping/*-catch`: one hand tosses a tennis ball to another one half a metre away, which catches and holds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core import randomization
from embodied.core.facets import Language
from embodied.core.hooks import Observation, Timing
from embodied.core.randomization import Range
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from tasks.grasping.bimanual.base import FloatingHandsConfig, FloatingHandsTask, HandsState
from tasks.grasping.bimanual.initial_grasps import initial_grasp
from tasks.grasping.hands.floating_hand import Mount
from tasks.grasping.hands.hand import PALM_UP, PHYSICS_DT, closing
from tasks.grasping.objects.household import household

GRAVITY = 9.81  # m/s^2
CONTROL_HZ = 40  # a toss is over in a quarter of a second
FACING = (0.0, 0.0, 0.0, 1.0)  # wxyz, palm up like the thrower's, turned to face it: neither thumb is in the way
# Palms never come closer than 20 cm: the ball has to fly.
THROWER = Mount("left_", (0.0, 0.0, 0.65), PALM_UP, travel=(0.1, 0.25, 0.25))
CATCHER = Mount("right_", (0.0, 0.55, 0.55), FACING, travel=(0.1, 0.1, 0.15))
SPREAD = (0.03, 0.03, 0.02)  # m, by which the catcher's start varies along each axis
IN_PALM = (0.0, 0.0, 0.038)  # m, palm's frame, where the ball is when the hand closes around it
FLIGHT = 0.15  # s without any contact that count as a throw: on its own it falls 11 cm
SHARPNESS = 5.0  # 1/m, of the rewards for being near
NEAR = 0.1  # m from the palm, of a ball that is held
STILL = 0.3  # m/s, of a ball that is held
SEEN = ("joint_pos", "base_pos", "touch", "object_pos", "object_linvel")
HOLD = 1.0  # s that it must be held

# The script, found by trial.
WAIT = 0.1  # s before the throw
SWING = 0.175  # s of it
THROW = (1.15, 1.25)  # m/s, sideways and up: 1.7 m/s in all
OPENING = 0.05  # s after which the fingers open: they are out of the way when the hand is at full speed
FOLLOW = 12.0  # 1/s, speed of the catcher over the distance by which the ball would miss it
MATCH = 0.6  # share of the ball's own speed sideways that the catcher takes on
MATCH_FOR = 0.12  # s before it lands
YIELD = 0.5  # m/s down
YIELD_FOR = 0.08  # s before it lands
SHUT = 0.05  # s before it lands, when the catcher closes


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per second."""

    aim: float = 2.0
    """Closeness of the ball's path, if it flies on as now, to the catcher's palm, in [0, 1]."""
    flying: float = 10.0
    """The same while it flies free, before it was caught."""
    near: float = 1.0
    """Closeness of the ball to the catcher's palm, in [0, 1]."""
    caught: float = 10.0
    """The ball flew and rests in the catcher."""
    lost: float = -40.0
    """Once, when the ball is dropped: so, one control step of it."""
    action_rate: float = -0.01
    """Squared change of the action."""


@dataclasses.dataclass(frozen=True)
class CatchConfig(FloatingHandsConfig):
    """Options of the tasks of throwing and catching."""

    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of an episode beside the world."""

    hands: HandsState
    """State of both hands."""
    time: Array
    """() s since the start."""
    flight: Array
    """() s for which the ball has touched nothing."""
    flew: Array
    """() bool, whether it flew far enough at any time."""
    held: Array
    """() s for which it has rested in the catcher since."""


class Catch(FloatingHandsTask[TaskState]):
    """Two hands on floating bases, a tennis ball in the first one.

    Task: toss the ball to the other hand, catch it, and hold it for 1 s; 4 s in all. Randomised: see `variations`.
    Success: it flew free for .15 s, then lay in the other hand for 1 s. Failure: dropped.
    """

    config_type = CatchConfig
    config: CatchConfig
    language = Language.of(
        "Throw the ball to your other hand and catch it.",
        "Toss the ball across and hold it.",
        "Play catch between your two hands.",
    )
    timing = Timing(PHYSICS_DT, round(1 / CONTROL_HZ / PHYSICS_DT), episode_seconds=4.0)
    mounts = (THROWER, CATCHER)
    item = household("tennis_ball")
    view = ((1.2, -0.35, 1.0), (0.0, 0.23, 0.65))

    def start_ranges(self) -> tuple[Range, ...]:
        axes = zip("xyz", SPREAD, strict=True)
        return tuple(Range.spread(f"shift of the catcher along its base's {axis}", size, "m") for axis, size in axes)

    def reset(self, key: Array) -> ResetState[TaskState]:
        place, fields = jax.random.split(key)
        grip = initial_grasp(self.hand, self.item, THROWER, IN_PALM, (1.0, 0.0, 0.0, 0.0))
        spread = jnp.array(SPREAD) * ("start" in self.varied)
        shift = spread * jax.random.uniform(place, (3,), minval=-1.0)
        bases = jnp.zeros((2, 6)).at[1, :3].set(shift)
        joints, targets = self.initial_joints(grip)
        qpos, qvel = self.initial_joint_state(bases, joints, *self.object_pose(0, bases[0], grip))
        nothing = jnp.zeros(())
        state = TaskState(self.initial_hands(bases, targets), nothing, nothing, jnp.zeros((), bool), nothing)
        return ResetState(qpos, qvel, state, randomization.draw(self.model, self.terms, fields))

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        dt = self.timing.control_dt
        flight = jnp.where(world["object_touch"][0] > 0, 0.0, state.flight + dt)
        flew = state.flew | (flight >= FLIGHT)
        return dataclasses.replace(
            state,
            time=state.time + dt,
            flight=flight,
            flew=flew,
            held=jnp.where(flew & self.resting(world), state.held + dt, 0.0),
        )

    def resting(self, world: World) -> Array:
        """() bool, whether the ball lies in the catcher, touches it alone, and is still."""
        first, second = self.touch(world).sum(1)
        away = jnp.linalg.norm(world["object_pos"] - self.palms(world)[1])
        still = jnp.linalg.norm(world["object_linvel"]) < STILL
        return (first == 0) & (second > 0) & (away < NEAR) & still

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """See `sense` and `privileged`.

        `policy`, with noise: joint_pos (2 n) rad, base_pos (12) m and rad, touch (1 of each fingertip) log of 1 + N,
        object_pos (6) m from either palm, object_linvel (3) m/s, the last action. `critic`: those; privileged terms;
        flight (1) s and flew (1), whether and how long the ball has been flying.
        """
        clean, noisy = self.sense(world, key)
        policy = {**{name: noisy[name] for name in SEEN}, "action": state.hands.action}
        done = {"flight": state.flight[None], "flew": state.flew[None].astype(jnp.float32)}
        return {"policy": policy, "critic": {**policy, **self.privileged(world, clean), **done}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del action
        ball = world["object_pos"] - self.palms(world)[1]
        aim = jnp.exp(-SHARPNESS * jnp.linalg.norm(landing(ball, world["object_linvel"])[0]))
        return {
            "aim": aim * ~state.flew,
            "flying": aim * ((state.flight > 0) & (state.held == 0)),
            "near": jnp.exp(-SHARPNESS * jnp.linalg.norm(ball)),
            "caught": (state.held > 0).astype(jnp.float32),
            "lost": self.dropped(world).astype(jnp.float32),
            "action_rate": squared_norm(state.hands.change),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success once the ball was held for 1 s; failure when it is dropped."""
        lost = self.dropped(world)
        return Outcome(success=~lost & (state.held >= HOLD), failure=lost)

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Share of the time after a throw, and in the catcher."""
        del world
        return {"thrown": state.flew.astype(jnp.float32), "caught": (state.held > 0).astype(jnp.float32)}

    def expert(self, observation: Mapping[str, Array], state: TaskState) -> Array:
        """Throw sideways and up while the fingers open; run below the ball, yield to it, and close."""
        seen, since = self.split_terms(observation["policy"], SEEN), state.time - WAIT
        ball, speed = seen["object_pos"][3:], seen["object_linvel"]
        swinging = (since >= 0) & (since < SWING)
        first = jnp.where(swinging, jnp.array([0.0, *THROW, 0.0, 0.0, 0.0]), 0.0)
        miss, left = landing(ball, speed)
        flying = (state.flight > 0) & (ball[2] > 0)
        sideways = jnp.where(flying, FOLLOW * miss + MATCH * speed[:2] * (left < MATCH_FOR), 0.0)
        down = jnp.where(flying & (left < YIELD_FOR), -YIELD, 0.0)
        second = jnp.concatenate([sideways, down[None], jnp.zeros(3)])
        shut = (since > SWING) & (left < SHUT)
        shapes = (closing(self.hand, since < OPENING), closing(self.hand, shut))
        return self.towards(state.hands, jnp.stack([first, second]), jnp.stack(shapes))


def landing(ball: Array, speed: Array) -> tuple[Array, Array]:
    """Landing point of a ball, (2,) m from a palm, and time until then, () s, if nothing is in its way.

    `ball`: (3,) m, its centre from the palm, and `speed`: (3,) m/s, along the world's axes. A ball that lies in a palm
    is down already.
    """
    fall = jnp.maximum(ball[2] - IN_PALM[2], 0.0)
    left = (speed[2] + jnp.sqrt(speed[2] ** 2 + 2 * GRAVITY * fall)) / GRAVITY
    return ball[:2] + speed[:2] * left, left
