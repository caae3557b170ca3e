"""The coffee machine: room for the hand at its button and around a cup before it, and how far the button goes in."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.engines.mjx import admitted_pairs
from embodied.world import World
from tasks.manipulation.coffee import BUTTON_TRAVEL, CUP_AHEAD, CUP_RADIUS, GRIP, TOUCH
from tests.tasks.manipulation.test_buttons import drawn, idle, lead_hand, touching
from tests.tasks.manipulation.test_tabletop import task_of

ROBOT = {"hand_collision", "wrist_collision", "forearm_collision", "left_pad", "right_pad"}
CUPS = ["coffee-push", "coffee-pull"]


def test_the_button_goes_in_as_far_as_its_goal_and_stays() -> None:
    task, data, start = drawn("coffee-button")[0]
    for pressed, solved in ((0.0, False), (0.008, False), (0.012, True), (BUTTON_TRAVEL, True)):
        data.joint("button").qpos = pressed
        mujoco.mj_forward(task.model, data)
        world = World.posed(task.model, jnp.asarray(data.qpos), start.qvel, start.mocap_pos)
        assert bool(task.solved(world, start.memory)) == solved
    np.testing.assert_allclose(data.sensor("object1_pos").data, start.memory.goal, atol=1e-4)
    idle(data, 1.0)
    np.testing.assert_allclose(data.sensor("object1_pos").data, start.memory.goal, atol=5e-4)


def test_the_fingers_can_press_the_button_to_its_end_and_nothing_else_is_touched() -> None:
    """The hand's body is 20 cm along y: it passes above the machine."""
    for task, data, _ in drawn("coffee-button"):
        data.joint("button").qpos = BUTTON_TRAVEL
        mujoco.mj_forward(task.model, data)
        lead_hand(data, data.sensor("object1_pos").data + np.asarray(TOUCH), 0.0)
        others = {shape for pair in touching(data) if pair & ROBOT for shape in pair - ROBOT}
        assert others <= {"button"}


@pytest.mark.parametrize("name", CUPS)
def test_the_hand_can_hold_a_cup_before_the_machine_and_touches_nothing_else(name: str) -> None:
    """At the cup's place before the machine, which is where it starts or where it goes."""
    for _, data, start in drawn(name):
        place = np.asarray(start.memory.fixtures)[0] - [0, CUP_AHEAD, 0]
        data.joint("cup").qpos[:3] = place
        lead_hand(data, np.add(place, [0, 0, GRIP]), CUP_RADIUS)
        others = {shape for pair in touching(data) if pair & ROBOT for shape in pair - ROBOT}
        assert not others
        assert frozenset(("cup", "table")) in touching(data)


@pytest.mark.parametrize("name", CUPS)
def test_the_machine_stands_behind_the_cups_place_at_it(name: str) -> None:
    for _, data, start in drawn(name):
        machine = np.asarray(start.memory.fixtures)[0]
        cup, goal = data.sensor("object1_pos").data, np.asarray(start.memory.goal)
        np.testing.assert_allclose(machine - (goal if name == "coffee-push" else cup), [0, 0.22, 0], atol=1e-6)


def test_the_cup_of_coffee_button_stands_fast() -> None:
    """It is no free body, but the hand cannot pass through it."""
    model = task_of("manipulation/coffee-button").model
    assert model.nq == 9 + 1
    assert model.geom("cup").contype[0] == 1


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("coffee-button", 30, 96), ("coffee-push", 31, 104)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    """Five shapes of the robot with table, machine, its head, cup, handle, button; a free cup with the first three."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
