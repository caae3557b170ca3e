"""A cube lies in every hand, targets move on when they are reached, and what is observed says where they are."""

import dataclasses
import functools
import itertools
from typing import Any

import embodied  # noqa: F401  isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import World
from embodied.errors import UnknownNameError
from embodied.math.rotations import quat_angle, quat_from_axis_angle, quat_multiply, random_quat
from tasks.grasping.hand_tasks import LeapReorient, LeapRotateZ
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.grasping.inhand import base
from tasks.grasping.inhand.gaits import gait_of
from tasks.grasping.inhand.reorient import FALL, NEAREST, REACHED, RISE, ReorientConfig, _lie, _turn, difficulty
from tasks.grasping.inhand.rotate_z import FASTEST, STROKE, TURN
from tasks.grasping.training import LATER_VARIATIONS
from tests.kit.hooks import compiled, partly
from tests.kit.scripts import hosted
from tests.kit.worlds import task_of

NOTHING = np.zeros(16, np.float32)
NAMES: dict[type[Any], str] = {LeapReorient: "grasping/leap-reorient", LeapRotateZ: "grasping/leap-rotate-z"}
EVEN = ReorientConfig(first=0.5, without=("all",))
MULTIPLY, ANGLE, LIE, TURNED = jax.jit(quat_multiply), jax.jit(quat_angle), jax.jit(_lie), jax.jit(_turn)
ANGLES = jax.jit(jax.vmap(quat_angle))


@functools.cache
def made(kind: type[Any], config: Any = None) -> Any:
    """A task whose hooks are compiled once for all tests."""
    return compiled(task_of(NAMES[kind]) if config is None else kind(config))


@functools.cache
def starts(task: Any) -> Any:
    """How 256 episodes of a task begin."""
    return jax.device_get(jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.key(0), 256)))


def some(task: Any, part: slice | int) -> Any:
    """Of these some, or one."""
    return jax.tree.map(lambda leaf: leaf[part], starts(task))


def simple(kind: type[Any]) -> Any:
    """A task of this kind of whose starts there are some already."""
    return made(LeapReorient, EVEN) if kind is LeapReorient else task_of(NAMES[kind])


def begun(kind: type[Any]) -> Any:
    """The state of the task as an episode begins."""
    return some(simple(kind), 0).task_state


@functools.cache
def world_of(kind: type[Any]) -> World:
    """One world as an episode begins."""
    start = some(simple(kind), 1)
    return World.posed(made(kind).model, start.qpos, start.qvel)


@pytest.mark.parametrize("hand", ["leap", *(pytest.param(h, marks=pytest.mark.slow) for h in HANDS if h != "leap")])
def test_most_cubes_stay_in_a_hand_that_does_nothing(hand: str) -> None:
    task = task_of(f"grasping/{hand}-rotate-z")
    start = some(task, slice(12))
    dropped = hosted(task, 40, np.zeros(task.action_size), count=12, start=start, watched=False).failure.any(0)
    assert dropped.mean() <= 0.25


def test_leaps_gait_turns_cubes_to_the_left_and_stillness_does_not() -> None:
    task, gait = task_of("grasping/leap-rotate-z"), gait_of(hand_named("leap"))
    dt = task.timing.control_dt
    times, start = dt * np.arange(round(4.0 / dt), dtype=np.float32), some(task, slice(12, 24))
    moving = np.asarray(jax.jit(jax.vmap(gait))(times))[:, None]
    turned = []
    for actions in (moving, 0 * moving):
        found = hosted(task, len(times), np.tile(actions, (1, 12, 1)), count=12, start=start, watched=False)
        lying = ~np.logical_or.accumulate(found.failure[1:])
        turned.append((lying * found.worlds["cube_angvel"][1:, :, 2]).sum(0).mean() * dt)
    assert turned[0] > 0.4
    assert abs(turned[1]) < 0.3


def test_the_cube_is_the_published_one() -> None:
    model = made(LeapReorient).model
    cube = model.body("cube")
    assert model.geom("cube").size == pytest.approx([0.035] * 3)
    assert cube.mass[0] == base.MASS
    # A hollow cube's moment lies between a solid one's, m a^2 / 6, and that of all mass at its corners, m a^2 / 2.
    assert 1 / 6 < cube.inertia[0] / (base.MASS * base.EDGE**2) < 1 / 2
    assert cube.ipos == pytest.approx([0, 0, 0])


def test_a_target_that_is_reached_counts_and_moves_on() -> None:
    task, world = made(LeapReorient), world_of(LeapReorient)
    state = begun(LeapReorient)
    at_goal = dataclasses.replace(state, goal=world["cube_quat"], angle=jnp.zeros(()))
    np.testing.assert_array_equal(task.pictures.goals(world, at_goal)["cube"][3:], world["cube_quat"])
    after = task.post_step(world, at_goal, NOTHING, jax.random.key(1))
    assert bool(after.reached)
    assert float(after.count) == 1
    for number in range(60):
        after = task.post_step(world, after, NOTHING, jax.random.key(2 + number))
        assert float(after.count) == 1
    assert np.linalg.norm(after.goal_spin) < 1e-4
    assert float(ANGLE(world["cube_quat"], after.goal)) > REACHED
    rewards = task.rewards(world, at_goal, NOTHING)
    assert float(rewards["orientation"]) == 1.0


def farthest(task: Any) -> float:
    """rad, the largest turn from the cube to its first target in many starts."""
    start = starts(task)
    quats = start.qpos[:, task.cube_qpos + 3 : task.cube_qpos + 7]
    return float(np.max(ANGLES(quats, start.task_state.goal)))


def test_the_first_target_is_as_near_as_asked() -> None:
    task = made(LeapReorient, EVEN)
    assert 0.4 < farthest(task) <= 0.501
    with pytest.raises(ValueError, match=r"first=4 must be at most pi"):
        ReorientConfig(first=4)


def test_targets_grow_harder_up_to_what_was_asked_and_none_is_harder_than_that() -> None:
    config = ReorientConfig(first=2.0, kick=(0.5, 3.0), within=0.2, patience=1.0, curriculum=True)
    level = jax.jit(lambda level: difficulty(config, level))
    levels = [level(jnp.float32(part)) for part in np.linspace(0, 1, 11)]
    hardest = levels[-1]
    assert (float(hardest.within), float(hardest.first)) == pytest.approx((config.within, config.first))
    assert tuple(map(float, hardest.kick)) == pytest.approx(config.kick)
    for easier, harder in itertools.pairwise(levels):
        assert float(easier.within) >= float(harder.within)
        assert float(easier.first) <= float(harder.first)
        assert all(float(a) <= float(b) for a, b in zip(easier.kick, harder.kick, strict=True))
        assert float(easier.within) < float(easier.first)
    assert float(levels[0].first) < float(levels[5].first)
    assert float(levels[5].within) == pytest.approx(0.4)


def test_the_level_follows_what_is_reached_through_the_episodes() -> None:
    config = ReorientConfig(patience=0.1, curriculum=True, without=("all",))
    task, world = made(LeapReorient, config), world_of(LeapReorient)
    start = dataclasses.replace(begun(LeapReorient), level=jnp.float32(0.0))
    assert not starts(task).task_state.level.any()
    assert farthest(task) <= NEAREST + 1e-3
    there = dataclasses.replace(start, goal=world["cube_quat"])
    risen = task.post_step(world, there, NOTHING, jax.random.key(1))
    assert float(risen.level) == pytest.approx(RISE)
    far = MULTIPLY(world["cube_quat"], jnp.array([0.0, 1.0, 0.0, 0.0]))
    missed = dataclasses.replace(start, goal=far, level=jnp.float32(0.5))
    for _ in range(2):
        missed = task.post_step(world, missed, NOTHING, jax.random.key(2))
    assert float(missed.level) == pytest.approx(0.5 - FALL)
    still = dataclasses.replace(missed, level=jnp.float32(3 * FALL))
    for key in jax.random.split(jax.random.key(4), 12):
        still = task.post_step(world, still, NOTHING, key)
    assert float(still.level) == 0.0, "no target is met by a cube that nobody turns"
    again = partly(task.restart, lambda begin: begin.task_state.level)
    assert float(again(jax.random.key(3), missed)) == float(missed.level)
    plain = made(LeapReorient)
    assert float(plain.post_step(world, begun(LeapReorient), NOTHING, jax.random.key(1)).level) == 1
    with pytest.raises(ValueError, match=r"curriculum with patience=0\.0 s"):
        ReorientConfig(curriculum=True)


def test_training_begins_without_any_variation_but_the_start() -> None:
    assert set(LATER_VARIATIONS) == set(made(LeapReorient).variations) - {"start"}


def test_far_away_targets_are_not_reached() -> None:
    task, world = made(LeapReorient), world_of(LeapReorient)
    start = begun(LeapReorient)
    turned = MULTIPLY(world["cube_quat"], jnp.array([np.cos(0.1), np.sin(0.1), 0.0, 0.0]))
    after = task.post_step(world, dataclasses.replace(start, goal=turned), NOTHING, jax.random.key(1))
    assert not bool(after.reached)
    np.testing.assert_allclose(after.goal, turned, atol=1e-6)


def test_progress_is_how_much_nearer_the_target_came_and_a_target_that_moves_is_none() -> None:
    task, world = made(LeapReorient), world_of(LeapReorient)
    start = begun(LeapReorient)
    goal = MULTIPLY(world["cube_quat"], jnp.array([np.cos(0.3), np.sin(0.3), 0.0, 0.0]))
    nearer = task.post_step(
        world, dataclasses.replace(start, goal=goal, angle=np.float32(0.8)), NOTHING, jax.random.key(1)
    )
    assert float(nearer.progress) == pytest.approx(0.2, abs=1e-5)
    assert float(task.rewards(world, nearer, NOTHING)["progress"]) == float(nearer.progress)
    there = dataclasses.replace(start, goal=world["cube_quat"], angle=jnp.zeros(()))
    for number in range(20):
        there = task.post_step(world, there, NOTHING, jax.random.key(2 + number))
        assert float(there.progress) == pytest.approx(0.0, abs=1e-3)
    assert float(there.angle) > REACHED


def test_patience_for_a_target_ends() -> None:
    config = ReorientConfig(first=0.5, patience=0.5, within=0.2)
    task = made(LeapReorient, config)
    world = world_of(LeapReorient)
    far = MULTIPLY(world["cube_quat"], jnp.array([0.0, 1.0, 0.0, 0.0]))
    state = dataclasses.replace(begun(LeapReorient), goal=far)
    for number in range(10):
        np.testing.assert_allclose(state.goal, far, atol=1e-6)
        state = task.post_step(world, state, NOTHING, jax.random.key(1 + number))
        assert not bool(state.reached)
    assert 0.2 <= float(ANGLE(world["cube_quat"], state.goal)) <= 0.5
    assert float(state.waited) == 0
    with pytest.raises(ValueError, match="patience=-1 must be 0 or more"):
        ReorientConfig(patience=-1)


def test_what_is_observed_of_the_turn_depends_on_the_difference_alone() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    cube, goal, world = jax.jit(jax.vmap(random_quat))(keys)
    np.testing.assert_allclose(TURNED(cube, cube), [0, 1, 0, 0, 0, 1], atol=1e-6)
    # The same turn of the world before both leaves what is between them in the world's frame turned along.
    first = TURNED(MULTIPLY(cube, world), MULTIPLY(goal, world))
    np.testing.assert_allclose(first, TURNED(cube, goal), atol=1e-5)


def test_how_a_cube_lies_is_told_alike_in_its_symmetric_poses_and_in_no_others() -> None:
    quat = jax.jit(random_quat)(jax.random.key(3))
    about = jax.jit(quat_from_axis_angle)
    quarters = [about(axis, np.pi / 2) for axis in np.eye(3)]
    alike = quat
    for turn in (0, 1, 1, 2, 0, 1, 2, 2, 0):
        alike = MULTIPLY(alike, quarters[turn])
        np.testing.assert_allclose(LIE(alike), LIE(quat), atol=1e-5)
    for axis in np.eye(3):
        other = MULTIPLY(quat, about(axis, 0.3))
        assert np.abs(np.subtract(LIE(other), LIE(quat))).max() > 0.1


def test_a_whole_turn_is_a_success_until_the_cube_is_lost() -> None:
    task, world = made(LeapRotateZ), world_of(LeapRotateZ)
    state = dataclasses.replace(begun(LeapRotateZ), turned=np.float32(1.01 * TURN))
    assert bool(task.outcome(world, state).success)
    assert not bool(task.outcome(world, dataclasses.replace(state, turned=jnp.zeros(()))).success)


@pytest.mark.parametrize(("rate", "seconds"), [(0.3, 10.0), (8.0, 2.0), (-1.0, 2.0)])
def test_turning_is_paid_in_full_up_to_a_mean_rate_and_a_throw_is_not(rate: float, seconds: float) -> None:
    task, world = made(LeapRotateZ), world_of(LeapRotateZ)
    spun = world.sensordata.at[world.layout.slices["cube_angvel"]].set(jnp.array([0.0, 0.0, rate]))
    turning = dataclasses.replace(world, sensordata=spun)
    state, action, paid = begun(LeapRotateZ), NOTHING, 0.0
    for _ in range(round(seconds / task.timing.control_dt)):
        state = task.post_step(turning, state, action, jax.random.key(1))
        paid += task.timing.control_dt * float(task.rewards(turning, state, action)["spin"])
    np.testing.assert_allclose(paid, min(rate * seconds, STROKE + FASTEST * seconds), atol=0.05)


def test_variations_can_be_left_out_by_name() -> None:
    task = made(LeapReorient, EVEN)
    first, second = some(task, 0), some(task, 1)
    assert not first.model
    np.testing.assert_allclose(first.qpos[task.layout.qpos], second.qpos[task.layout.qpos])
    assert not task.variations
    with pytest.raises(UnknownNameError, match=r"variation 'cube_weight'.*cube_mass"):
        LeapReorient(ReorientConfig(without=("cube_weight",)))
    with pytest.raises(ValueError, match=r"vary.friction=\(1.0, 0.5\); expected the smaller number first"):
        base.Variation(friction=(1.0, 0.5))
    with pytest.raises(ValueError, match="action_scale=0 must be positive"):
        ReorientConfig(action_scale=0)
    reset = partly(jax.vmap(task_of(NAMES[LeapReorient]).reset), lambda start: start.model["body_mass"])
    drawn = reset(jax.random.split(jax.random.key(0), 256))
    cube = made(LeapReorient).model.body("cube").id
    ratio = np.asarray(drawn)[:, cube] / base.MASS
    assert 0.8 <= ratio.min() < 0.85 < 1.15 < ratio.max() <= 1.2


def test_the_cubes_friction_decides_on_every_part_of_the_hand() -> None:
    """Of two shapes the one with priority says how they slide, of equals the rougher: randomising must have effect."""
    model = made(LeapReorient).model
    cube = model.geom("cube").id
    others = [
        geom for geom in range(model.ngeom) if geom != cube and model.geom_contype[geom] | model.geom_conaffinity[geom]
    ]
    assert max(model.geom_priority[others]) < model.geom_priority[cube]
