"""Hands on floating bases start with what they hold, and passing, catching and pouring count only as they should."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import embodied  # noqa: F401  isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.core.world import World
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.math.rotations import quat_from_axis_angle, quat_multiply
from policies.training.loading import load_policy
from tasks.grasping import hand_tasks
from tasks.grasping.bimanual import catch, pour
from tasks.grasping.bimanual.catch import Catch, CatchConfig, landing
from tasks.grasping.bimanual.hand_over import HandOver
from tasks.grasping.bimanual.initial_grasps import initial_grasp
from tasks.grasping.bimanual.pour import Pour
from tasks.grasping.hands.floating_hand import Mount
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.grasping.objects.object_spec import object_spec
from tasks.grasping.objects.shapes import sphere
from tests.kit.hooks import compiled
from tests.kit.scripts import hosted

BASES = (HandOver, Catch, Pour)
SMALL, MULTIPLY = 4, jax.jit(quat_multiply)
each_task = pytest.mark.parametrize("base", BASES)
slow_hands = [pytest.param(name, marks=[] if name == "leap" else pytest.mark.slow) for name in HANDS]


@functools.cache
def task_of(base: type, hand: str = "leap", *without: str) -> Any:
    kind = getattr(hand_tasks, hand.capitalize() + base.__name__)
    return kind(kind.config_type(without=without))


@functools.cache
def env_of(base: type, hand: str = "leap") -> Env:
    task = task_of(base, hand)
    return Env(task, make_engine("mujoco", task, SMALL), SMALL, seed=0)


@functools.cache
def starts(base: type, hand: str = "leap") -> Any:
    """How 64 episodes begin."""
    return jax.device_get(jax.jit(jax.vmap(task_of(base, hand).reset))(jax.random.split(jax.random.key(0), 64)))


def world_of(task: Any, qpos: Any) -> World:
    return World.posed(task.model, np.asarray(qpos), np.zeros(task.model.nv))


@functools.cache
def first_world(base: type) -> tuple[Any, World, Any]:
    """A task without variations, the world at its start, and the state."""
    task = compiled(task_of(base, "leap", "all"), "error", "passed", "resting", "slip", "lost", "touch")
    start = task.reset(jax.random.key(0))
    return task, world_of(task, start.qpos), start.task_state


@each_task
@pytest.mark.parametrize("hand", slow_hands)
def test_what_is_held_at_the_start_stays_there_while_nothing_is_done(base: type, hand: str) -> None:
    task = task_of(base, hand)
    start, nothing = jax.tree.map(lambda leaf: leaf[:SMALL], starts(base, hand)), np.zeros(task.action_shape)
    found = hosted(task, round(1 / task.timing.control_dt), nothing, count=SMALL, start=start, watched=False)
    assert not (found.failure | found.success).any()
    place = np.asarray(found.worlds["object_pos"])
    assert np.linalg.norm(place[-1] - place[0], axis=1).max() < 0.02
    felt = np.asarray(jax.jit(jax.vmap(task.touch))(jax.tree.map(lambda leaf: leaf[-1], found.worlds))).sum(2)
    assert (felt[:, 0] > 1).all()
    assert (felt[:, 1:] == 0).all(), "the other hand is empty"


@each_task
@pytest.mark.parametrize("hand", [pytest.param(name, marks=pytest.mark.slow) for name in HANDS])
def test_the_script_solves_it(base: type, hand: str, request: pytest.FixtureRequest) -> None:
    if hand == "shadow" and base is Catch:
        request.applymarker(
            pytest.mark.xfail(reason="its long fingers flick the ball away: it catches about every third")
        )
    env = env_of(base, hand)
    policy, obs, solved = load_policy("expert", env), env.reset(seed=1), torch.zeros(SMALL, dtype=torch.bool)
    for _ in range(env.max_episode_steps - 1):
        step = env.step(policy(obs))
        obs, solved = step.obs, solved | step.success
    assert solved.sum() >= SMALL - 1


@each_task
def test_starts_without_variations_are_alike_and_with_them_are_not(base: type) -> None:
    first, second = (first_world(base)[0].reset(jax.random.key(seed)) for seed in range(2))
    np.testing.assert_array_equal(first.qpos, second.qpos)
    assert not first.model
    assert not task_of(base, "leap", "all").variations
    task = task_of(base)
    assert starts(base).qpos.std(0).max() > 0.003
    ratio = starts(base).model["body_mass"][:, task.model.body("object").id] / task.item.mass
    assert 0.8 <= ratio.min() < 0.9 < 1.1 < ratio.max() <= 1.2


def test_the_objects_friction_decides_whatever_it_touches() -> None:
    task = task_of(Catch)
    data, layout = mujoco.MjData(task.model), task.layouts[0]
    start = starts(Catch)
    data.qpos, data.ctrl[layout.actuators] = start.qpos[0], start.task_state.hands.targets[0, 0]
    geoms = np.flatnonzero(task.model.geom_bodyid == task.model.body("object").id)
    friction = start.model["geom_friction"][0, geoms[0], 0]
    assert 0.6 <= friction <= 1.0
    task.model.geom_friction[geoms, 0], kept = friction, task.model.geom_friction[geoms, 0].copy()
    mujoco.mj_step(task.model, data, nstep=20)
    touching = [contact for contact in data.contact if set(contact.geom) & set(geoms)]
    task.model.geom_friction[geoms, 0] = kept
    assert touching
    assert all(contact.friction[0] == pytest.approx(friction) for contact in touching)


def test_bad_options_are_refused_in_plain_words() -> None:
    with pytest.raises(ValueError, match="finger_speed=0 must be positive"):
        CatchConfig(finger_speed=0)
    with pytest.raises(UnknownNameError, match=r"variation 'ball_mass'.*object_mass"):
        task_of(Catch, "leap", "ball_mass")
    mount, at, turn = Mount("left_", (0, 0, 0.6)), (0.0, 0.0, 0.04), (1.0, 0.0, 0.0, 0.0)
    wide = object_spec("melon", 0.5, (sphere(0.2, (0, 0, 0)),), (0, 1, 0, 1))
    with pytest.raises(EmbodiedError, match=r"the object 'melon' 20.0 cm wide does not fit the hand 'leap'"):
        initial_grasp(hand_named("leap"), wide, mount, at, turn)
    small = object_spec("pea", 0.001, (sphere(0.005, (0, 0, 0)),), (0, 1, 0, 1))
    with pytest.raises(EmbodiedError, match="the hand 'leap' does not hold the object 'pea' where it is put"):
        initial_grasp(hand_named("leap"), small, mount, (0.2, 0.2, 0.1), turn)


# Catch.


def test_where_a_ball_lands_is_where_physics_puts_it() -> None:
    ball, speed = jnp.array([-0.1, -0.3, 0.25]), jnp.array([0.1, 1.0, 1.2])
    offset, left = map(np.asarray, jax.jit(landing)(ball, speed))
    there = ball + speed * left + jnp.array([0, 0, -catch.GRAVITY / 2]) * left**2
    np.testing.assert_allclose(there, [*offset, catch.IN_PALM[2]], atol=1e-5)
    np.testing.assert_allclose(landing(jnp.array([0.02, 0.01, 0.0]), jnp.zeros(3))[0], [0.02, 0.01], atol=1e-7)


def test_a_ball_that_never_flew_is_not_caught() -> None:
    task, world, state = first_world(Catch)
    swapped = dataclasses.replace(task.initial_hands(jnp.zeros((2, 6)), state.hands.targets[::-1]))
    # The second hand has the first one's shape, and the ball lies in it as it lay in the first.
    qpos = np.array(world.qpos)
    hands, place = task.joint_qpos, task.object_qpos
    qpos[hands] = qpos[hands][::-1]
    offset = qpos[place : place + 3] - np.array(catch.THROWER.pos)
    qpos[place : place + 3] = np.array(catch.CATCHER.pos) + offset * [-1, -1, 1]
    qpos[place + 3 : place + 7] = MULTIPLY(np.array(catch.FACING), qpos[place + 3 : place + 7])
    there = world_of(task, qpos)
    state = dataclasses.replace(state, hands=swapped)
    assert bool(task.resting(there))
    assert not bool(task.resting(world))
    for flew, expected in ((False, 0.0), (True, task.timing.control_dt)):
        after = task.post_step(
            there, dataclasses.replace(state, flew=jnp.array(flew)), np.zeros(1, np.float32), jax.random.key(0)
        )
        assert float(after.held) == pytest.approx(expected)
    done = dataclasses.replace(state, held=jnp.asarray(catch.HOLD))
    assert bool(task.outcome(there, done).success)
    assert not bool(task.outcome(there, state).success)


def test_flight_is_counted_only_while_nothing_touches() -> None:
    task, world, state = first_world(Catch)
    qpos = np.array(world.qpos)
    qpos[task.object_qpos + 2] += 0.3
    for _ in range(round(catch.FLIGHT / task.timing.control_dt)):
        assert not bool(state.flew)
        state = task.post_step(world_of(task, qpos), state, np.zeros(1, np.float32), jax.random.key(0))
    assert bool(state.flew)
    assert float(task.post_step(world, state, np.zeros(1, np.float32), jax.random.key(0)).flight) == 0
    qpos[task.object_qpos + 2] = 0.3
    assert bool(task.outcome(world_of(task, qpos), state).failure)


# Hand-over.


def test_a_baton_that_the_giver_still_holds_is_not_passed() -> None:
    task, world, state = first_world(HandOver)
    assert not bool(task.passed(world))
    near = dataclasses.replace(state, goal=world["object_pos"], rested=jnp.asarray(0.5))
    assert float(task.error(world, near)[0]) == 0
    after = task.post_step(world, near, np.zeros(1, np.float32), jax.random.key(0))
    assert float(after.rested) == 0, "it lies at the goal, but in the wrong hand"
    assert float(task.rewards(world, near, np.zeros(1, np.float32))["passed"]) == 0


# Pour.


def turned(task: Any, world: World, axis: tuple[float, float, float], angle: float) -> World:
    """The bottle turned in the hand, about an axis of its own."""
    qpos, place = np.array(world.qpos), task.object_qpos + 3
    turn = quat_from_axis_angle(jnp.array(axis), angle)
    qpos[place : place + 4] = MULTIPLY(qpos[place : place + 4], turn)
    return world_of(task, qpos)


def test_slip_is_what_turns_in_the_hand_but_about_the_bottles_axis() -> None:
    task, world, state = first_world(Pour)
    assert [float(value) for value in task.slip(world, state)] == pytest.approx([0, 0], abs=2e-3)
    assert float(task.slip(turned(task, world, (0.0, 0.0, 1.0), 1.0), state)[0]) == pytest.approx(0, abs=2e-3)
    assert float(task.slip(turned(task, world, (1.0, 0.0, 0.0), 0.3), state)[0]) == pytest.approx(0.3, abs=2e-3)
    assert not bool(task.lost(world, state))
    assert bool(task.lost(turned(task, world, (1.0, 0.0, 0.0), 1.01 * pour.SLIPPED), state))


def test_turning_the_wrist_is_no_slip_but_tilts() -> None:
    task, _, state = first_world(Pour)
    grip = initial_grasp(task.hand, task.item, pour.POURER, pour.IN_PALM, pour.UPRIGHT)
    for angle in (-1.0, -1.8):
        bases = jnp.zeros((1, 6)).at[0, 3].set(angle)
        pose = jax.jit(
            lambda bases: task.initial_joint_state(
                bases, jnp.asarray(grip.joints)[None], *task.object_pose(0, bases[0], grip)
            )[0]
        )
        there = world_of(task, pose(bases))
        assert float(task.slip(there, state)[0]) < 5e-3
        command = dataclasses.replace(state, command=jnp.asarray(-angle))
        assert float(task.metrics(there, command)["angle"]) < 0.1


def test_a_command_that_was_kept_for_a_second_counts_and_the_next_one_comes() -> None:
    task, world, state = first_world(Pour)
    tilt = abs(float(state.command) - float(task.metrics(world, state)["angle"]))
    state = dataclasses.replace(state, command=jnp.asarray(tilt))
    steps = round(pour.HOLD / task.timing.control_dt)
    for _ in range(steps - 1):
        state = task.post_step(world, state, np.zeros(1, np.float32), jax.random.key(0))
        assert not bool(state.reached)
    state = task.post_step(world, state, np.zeros(1, np.float32), jax.random.key(0))
    assert bool(state.reached)
    assert float(state.count) == 1
    assert pour.TILTS[0] <= float(state.command) <= pour.TILTS[1]
    assert not bool(task.outcome(world, state).success)
    assert bool(task.outcome(world, dataclasses.replace(state, count=jnp.asarray(3.0))).success)
