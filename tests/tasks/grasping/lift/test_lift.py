"""Grasp and lift: an episode's object, what counts as lifted, what is earned, and that a script can do it."""

import dataclasses
import functools
from typing import Any

import embodied  # noqa: F401  isort: skip  (before jax, whose environment variables the package sets)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.math.rotations import quat_rotate
from tasks.grasping.hand_tasks import LeapLift, ShadowLift
from tasks.grasping.hands.models import hand_named
from tasks.grasping.lift.lift import AWAY, HELD, RAISED, Lift, LiftConfig
from tasks.grasping.objects.household import household
from tasks.grasping.planner.grasp_trajectory import APPROACHING, CLOSING, SETTLING, setpoint
from tasks.manipulation.common import panda
from tests.kit.hooks import compiled
from tests.kit.scripts import hosted
from tests.kit.worlds import jitted

STILL = LiftConfig(objects="sugar_box", without=("all",))


NOTHING: Any = np.zeros(22, np.float32)


@functools.cache
def lift(config: LiftConfig = STILL) -> Lift:
    return LeapLift(config)


@functools.cache
def task_for(objects: str = "sugar_box") -> Lift:
    return compiled(lift(LiftConfig(objects=objects, without=("all",))))


@pytest.fixture(scope="module")
def began() -> tuple[Any, Any]:
    """The world and the state at an episode's start."""
    task = task_for()
    start = task.reset(jax.random.key(0))
    return World.posed(task.model, start.qpos, start.qvel), start.task_state


def raised(world: Any, height: float, aside: float = 0.0) -> Any:
    """The same world with the object elsewhere."""
    sensed = np.array(world.sensordata)
    sensed[world.layout.slices["object_pos"]] += [aside, 0.0, height]
    return dataclasses.replace(world, sensordata=jnp.asarray(sensed))


def test_the_script_lifts_a_sugar_box():
    assert hosted(lift(), 80, count=2, watched=False).success.any(0).all()


def test_the_palm_begins_before_the_grasp_and_the_hand_opened(began):
    world, state = began
    task = task_for()
    ahead = state.palm[:3] - world["palm_pos"]
    assert np.asarray(ahead) == pytest.approx(
        np.asarray(0.08 * quat_rotate(state.palm[3:], jnp.array([0, 0, 1.0]))), abs=4e-3
    )
    assert np.asarray(world.qpos[task.layout.qpos]) == pytest.approx(task.opened.joints, abs=1e-5)


def test_an_episode_has_the_mass_and_the_shape_of_its_object():
    task = task_for("train")
    body = task.model.body("object").id
    for seed in range(6):
        start = task.reset(jax.random.key(seed))
        item = task.object_specs[int(start.task_state.item)]
        assert float(start.model["body_mass"][body]) == pytest.approx(item.mass, rel=1e-5)
        heights = task.plans.place[task.rows == int(start.task_state.item), 2]
        assert np.isclose(heights, float(start.qpos[task.object_qpos + 2]), atol=1e-6).any()
        assert item.name in task.names


def test_an_object_that_this_hand_cannot_take_is_said_so():
    with pytest.raises(EmbodiedError, match="no grasp of gelatin_box is planned for the hand 'shadow'"):
        ShadowLift(LiftConfig(objects="gelatin_box"))


def test_success_is_ten_centimetres_for_a_second_on_end(began):
    world, state = began
    up, low = raised(world, RAISED + 0.01), raised(world, RAISED - 0.01)
    steps = round(HELD * 20)

    def after(worlds: list[Any]) -> Any:
        now = state
        for at in worlds:
            now = task_for().post_step(at, now, NOTHING, jax.random.key(0))
        return now

    enough, short, broken = after([up] * steps), after([up] * (steps - 1)), after([up] * (steps - 1) + [low, up])
    assert bool(task_for().outcome(up, enough).success)
    assert not bool(task_for().outcome(up, short).success)
    assert not bool(task_for().outcome(up, broken).success)


def test_what_is_pushed_away_is_lost(began):
    world, state = began
    assert not bool(task_for().outcome(raised(world, 0.0, AWAY - 0.01), state).failure)
    assert bool(task_for().outcome(raised(world, 0.0, AWAY + 0.01), state).failure)


def test_only_what_fingers_hold_earns_by_rising_and_whatever_falls_costs(began):
    world, state = began
    after = dataclasses.replace(state, height=jnp.float32(0.02), change=jnp.array([0.0, 0.02, 0.0]))
    earned = [
        float(task_for().rewards(world, dataclasses.replace(after, touching=jnp.float32(n)), NOTHING)["lifting"])
        for n in range(5)
    ]
    assert earned == pytest.approx([0.0, 0.0, 0.01, 0.015, 0.02])
    fallen = dataclasses.replace(state, height=jnp.float32(0.0), change=jnp.array([0.0, -0.02, 0.0]))
    assert float(task_for().rewards(world, fallen, NOTHING)["lifting"]) == pytest.approx(-0.02)


def test_actions_move_the_palm_along_its_own_axes():
    """Forwards out of the palm for half a second: so many cm, and nowhere else."""
    actions = np.zeros((20, 2, 22), np.float32)
    actions[:10, :, 2] = 0.5
    worlds = hosted(lift(), 20, actions, count=2, watched=False).worlds
    moved = np.asarray(worlds["palm_pos"][-1] - worlds["palm_pos"][0])
    along = np.asarray(jax.vmap(quat_rotate, (0, None))(jnp.asarray(worlds["palm_quat"][-1]), jnp.array([0, 0, 1.0])))
    forward = (moved * along).sum(1)
    assert forward == pytest.approx(np.full(2, 0.05), abs=6e-3)
    assert np.linalg.norm(moved - forward[:, None] * along, axis=1).max() < 8e-3


def test_the_script_closes_only_when_it_has_arrived():
    hand = hand_named("leap")
    palm = jnp.array([0.1, 0.6, 0.1, 0.0, 1.0, 0.0, 0.0])
    arrived, gone = APPROACHING + SETTLING - 1, APPROACHING + SETTLING + CLOSING
    at = jitted(lambda step: dataclasses.asdict(setpoint(hand, palm, jnp.array(False), step)))
    closing = [at(jnp.float32(step)) for step in (0, arrived, gone - 1, gone + 5)]
    assert np.asarray(closing[1]["pos"]) == pytest.approx(np.asarray(palm[:3]))
    assert np.asarray(closing[0]["targets"]) == pytest.approx(np.asarray(closing[1]["targets"]))
    assert np.abs(np.asarray(closing[2]["targets"] - closing[1]["targets"])).max() > 1.0
    assert float(closing[3]["pos"][2]) > float(closing[2]["pos"][2]) + 0.03


def test_pictures_show_the_object_of_the_episode():
    task = task_for("mustard_bottle")
    looks = task.pictures.geom_appearance(task.reset(jax.random.key(0)).task_state)
    sizes = np.array([np.asarray(row)[:3].max() for row in looks.values()])
    assert sizes.max() == pytest.approx(max(max(part.size) for part in household("mustard_bottle").parts), rel=0.01)
    assert np.asarray(next(iter(looks.values())))[10:] == pytest.approx(household("mustard_bottle").rgba)


def test_the_arm_keeps_its_speed_limits():
    joints = hosted(lift(), 5, np.ones(22), count=2, watched=False).states.joints
    assert (np.abs(np.diff(joints, axis=0)) <= panda.SPEED_LIMITS * 0.05 + 1e-5).all()
