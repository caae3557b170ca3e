"""Hammer, nail, stick and thermos: what success measures, and what holds and slides."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from tasks.manipulation.rigid_objects.tools import AT_GOAL, DRIVEN, NAIL_TRAVEL, REACHED, STICK_HALF
from tests.tasks.manipulation.common.test_tabletop import posed, task_of
from tests.tasks.manipulation.sensed import cost, idle, outcomes, settles
from tests.tasks.manipulation.test_metaworld import FACTS, holds, start_of


def test_a_nail_is_in_where_metaworld_says_so_and_can_go_deeper() -> None:
    (term,) = FACTS["hammer"]["success"]
    assert (term["kind"], term["op"], term["threshold"]) == ("joint", ">", DRIVEN)
    task, start = start_of("hammer")
    depths = np.array([0.0, DRIVEN - 1e-4, DRIVEN + 1e-4, NAIL_TRAVEL])
    solved = [bool(task.solved(posed(task, start, nail=np.array([depth])), start.task_state)) for depth in depths]
    assert solved == [False, False, True, True]
    assert task.model.joint("nail").range[1] == NAIL_TRAVEL


@pytest.mark.parametrize(("push", "moves"), [(2.0, False), (8.0, True)])
def test_a_nail_stays_where_it_is_until_it_is_pushed(push: float, moves: bool) -> None:
    """Newtons for half a second."""
    model, data = idle("hammer", nail=0.02)
    data.xfrc_applied[model.body("nail").id, 1] = push
    mujoco.mj_step(model, data, nstep=round(0.5 / model.opt.timestep))
    moved = float(data.joint("nail").qpos[0]) - 0.02
    assert moved > 0.03 if moves else abs(moved) < 2e-3


def test_a_stick_has_pushed_where_metaworld_says_so() -> None:
    """The thermos at the goal, both pads on the stick, which is off the table: each alone is not enough."""
    rng, n = np.random.default_rng(0), 4000
    task, start = start_of("stick-push")
    goal = np.asarray(start.task_state.goal)
    thermos, sticks = goal + rng.uniform(-0.15, 0.15, (n, 3)), np.tile([0.3, 0.6, 0.0], (n, 1))
    sticks[:, 2] = rng.uniform(0.02, 0.06, n)
    touches = rng.choice([0.0, 0.01, 70.0], (2, n, 1))
    away = rng.choice([0.0, 0.2], n)
    readings = {"object2_pos": thermos, "object1_pos": sticks, "tcp_pos": sticks + np.outer(away, [1, 0, 0])}
    readings |= {"left_pad_touch": touches[0], "right_pad_touch": touches[1]}
    terms = {term["kind"]: term for term in FACTS["stick-push"]["success"]}
    near = holds(terms["distance"], {"obj2": thermos}, goal)
    lain = {"obj1": sticks, "stick_init_pos": np.asarray(start.qpos)[task.model.joint("stick").qposadr[0] :][:3]}
    lifted = holds(terms["axis"], lain, goal)
    expected = near & lifted & np.all(touches > 0, axis=0)[:, 0] & (away == 0)
    assert 100 < expected.sum() < 2000
    assert (outcomes("stick-push", readings) != expected).sum() <= 1


def test_a_stick_has_pulled_where_metaworld_says_so() -> None:
    rng, n = np.random.default_rng(0), 4000
    goal = np.asarray(start_of("stick-pull")[1].task_state.goal)
    handles = goal + rng.uniform(-0.1, 0.1, (n, 3))
    ends = handles + rng.uniform(-0.07, 0.07, (n, 3))
    points = {"obj2": handles, "site:stick_end": ends}
    expected = np.logical_and.reduce([holds(term, points, goal) for term in FACTS["stick-pull"]["success"]])
    assert 100 < expected.sum() < 3000
    assert (outcomes("stick-pull", {"object2_pos": handles, "stick_end": ends}) != expected).sum() <= 2


@pytest.mark.parametrize("name", ["stick-push", "stick-pull"])
def test_the_thermos_can_be_slid_to_every_goal_and_stops_when_left_alone(name: str) -> None:
    task, _ = start_of(name)
    goals = task.ranges.goal.corners[:, :2]
    body = np.array(task.model.body("thermos").pos[:2])
    travel = np.array([task.model.joint(joint).range for joint in ("thermos_x", "thermos_y")])
    handle = np.array([0.0, task.point])
    assert (goals - body - handle > travel[:, 0]).all()
    assert (goals - body - handle < travel[:, 1] + AT_GOAL).all(), "the farthest as near as success asks"
    model, data = idle(name)
    data.joint("thermos_x").qvel = 0.4
    mujoco.mj_step(model, data, nstep=round(1.0 / model.opt.timestep))
    assert 0.01 < data.joint("thermos_x").qpos[0] < 0.08
    assert abs(data.joint("thermos_x").qvel[0]) < 1e-3


def test_the_thermos_observed_is_metaworlds() -> None:
    for name in ("stick-push", "stick-pull"):
        _, data = idle(name)
        np.testing.assert_allclose(data.sensor("object2_pos").data, FACTS[name]["canonical"]["obs"][11:14], atol=1e-3)


def test_the_stick_fits_through_the_handle() -> None:
    """In the middle of the window and 1 cm beside it, nothing touches; 3 cm beside it, the upright is hit."""
    for beside, free in ((0.0, True), (-0.01, True), (-0.03, False)):
        model, data = idle("stick-pull")
        data.joint("stick").qpos[:3] = np.add(data.sensor("object2_pos").data, [0.02 - STICK_HALF[0], beside, 0.0])
        mujoco.mj_forward(model, data)
        assert (data.ncon == 0) == free


@pytest.mark.parametrize("name", ["hammer", "stick-push", "stick-pull"])
def test_starts_are_at_rest(name: str) -> None:
    depth, moved = settles(name)
    assert depth < 1e-4
    assert moved < 1e-3


@pytest.mark.parametrize(("name", "expected"), [("hammer", (31, 90)), ("stick-push", (41, 116))])
def test_pairs_and_contacts_are_few(name: str, expected: tuple[int, int]) -> None:
    assert cost(task_of(f"manipulation/{name}")) == expected


def test_the_goal_of_pulling_lies_below_the_handle() -> None:
    """So 4.3 cm are left along the table, which the script has to reach."""
    task, start = start_of("stick-pull")
    handle = float(start.task_state.goal[2]) - 0.132
    assert np.sqrt(REACHED**2 - handle**2) == pytest.approx(0.043, abs=1e-3)
    goals = jax.jit(jax.vmap(lambda key: task.reset(key).task_state.goal))(jax.random.split(jax.random.PRNGKey(0), 100))
    assert bool(jnp.all(goals[:, 2] == 0.02))
