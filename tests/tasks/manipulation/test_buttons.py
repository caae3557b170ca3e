"""The boxes with a button: room for hand and wall, how far the button goes in, and that it comes out again."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.engines.mjx import admitted_pairs
from embodied.world import World
from tasks.manipulation import panda
from tasks.manipulation.buttons import HEAD_RADIUS, TRAVEL
from tests.tasks.manipulation.test_tabletop import task_of

SIDEWAYS, TOPDOWN = "button-press", "button-press-topdown"
NAMES = [SIDEWAYS, f"{SIDEWAYS}-wall", TOPDOWN, f"{TOPDOWN}-wall"]
each = pytest.mark.parametrize("name", NAMES)


def drawn(name: str) -> list[tuple[Any, mujoco.MjData, Any]]:
    """The task, its world and its start, for the corners of what it draws."""
    task, worlds = task_of(f"manipulation/{name}"), []
    goal_box = task.ranges.goal or task.ranges.start
    for corner, goal in zip(task.ranges.start.corners[[0, 3, 4, 7]], goal_box.corners[[7, 4, 3, 0]], strict=True):
        start = task.begin(task.place(jnp.asarray(corner), jnp.asarray(goal)))
        data = mujoco.MjData(task.model)
        data.qpos, data.mocap_pos = start.qpos, start.mocap_pos
        data.ctrl[:7] = start.memory.joints
        mujoco.mj_forward(task.model, data)
        worlds.append((task, data, start))
    return worlds


@jax.jit
def joints_at(target: Any, joints: Any) -> Any:
    """(7) rad with the tcp at a point (3) m, from joints nearby."""
    return jax.lax.fori_loop(0, 300, lambda _, q: panda.follow(q, target), joints)


def lead_hand(data: mujoco.MjData, target: np.ndarray, finger: float) -> None:
    """Put the tcp at a point (3) m, the fingers at `finger` m."""
    joints = joints_at(jnp.asarray(target, jnp.float32), jnp.asarray(data.ctrl[:7], jnp.float32))
    data.qpos[:9] = [*np.asarray(joints), finger, finger]
    mujoco.mj_forward(data.model, data)
    np.testing.assert_allclose(data.sensor("tcp_pos").data, target, atol=5e-3)


def touching(data: mujoco.MjData) -> set[frozenset[str]]:
    """Pairs of shapes in contact."""
    return {frozenset(data.model.geom(i).name for i in contact.geom) for contact in data.contact}


def idle(data: mujoco.MjData, seconds: float) -> None:
    """Let the world be."""
    mujoco.mj_step(data.model, data, round(seconds / data.model.opt.timestep))


@pytest.mark.parametrize("name", [*NAMES, "coffee-button", "coffee-push", "coffee-pull"])
def test_nothing_sticks_in_anything_or_moves_by_itself(name: str) -> None:
    for _, data, _ in drawn(name):
        assert min(data.contact.dist, default=0.0) > -2e-3
        before = data.sensor("object1_pos").data.copy()
        idle(data, 1.0)
        np.testing.assert_allclose(data.sensor("object1_pos").data, before, atol=5e-4)
        assert np.abs(data.qvel[9:]).max() < 1e-2


@each
def test_the_button_is_pressed_at_its_end_not_on_half_the_way_and_comes_out_again(name: str) -> None:
    task, data, start = drawn(name)[0]
    face = data.sensor("object1_pos").data.copy()
    solved = []
    for pressed in (0.5 * TRAVEL, TRAVEL):
        data.joint("button").qpos = -pressed
        mujoco.mj_forward(task.model, data)
        world = World.posed(task.model, jnp.asarray(data.qpos), start.qvel, start.mocap_pos)
        solved.append(bool(task.solved(world, start.memory)))
    assert solved == [False, True]
    idle(data, 1.0)
    np.testing.assert_allclose(data.sensor("object1_pos").data, face, atol=5e-4)


@each
def test_the_fingers_can_press_the_button_to_its_end_and_nothing_else_is_touched(name: str) -> None:
    """The hand's body is 20 cm along y: beside a higher box it would stop short of the button."""
    for task, data, _ in drawn(name):
        data.joint("button").qpos = -TRAVEL
        mujoco.mj_forward(task.model, data)
        face = data.sensor("object1_pos").data + 1e-3 * np.asarray(task.outward)
        lead_hand(data, face + np.asarray(task.touch), 0.0)
        assert all("housing" not in pair and "wall" not in pair for pair in touching(data))
        assert 0 < data.sensor("tcp_pos").data[2] - data.sensor("object1_pos").data[2] < HEAD_RADIUS


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("wall")])
def test_the_wall_is_between_robot_and_box(name: str) -> None:
    for task, data, start in drawn(name):
        wall, housing = data.geom("wall"), data.geom("housing")
        half = np.abs(housing.xmat.reshape(3, 3)) @ task.model.geom("housing").size
        assert wall.xpos[1] + task.model.geom("wall").size[1] < housing.xpos[1] - half[1]
        assert data.sensor("tcp_pos").data[1] < wall.xpos[1] < start.memory.goal[1]


@pytest.mark.parametrize(("name", "pairs", "contacts"), [(SIDEWAYS, 20, 56), (f"{SIDEWAYS}-wall", 25, 72)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    """Five shapes of the robot with table, box, head and shaft of the button, and wall."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
