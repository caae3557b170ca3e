"""`swarm/gate-race`: what it pays, and its gates as cameras see them."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import Array

import embodied
from embodied.core.hooks import PROPRIO
from embodied.core.world import World
from tasks.swarm.dynamics.drones import still
from tasks.swarm.single.gate_race import CAMERA, PROPRIO_TERMS, GateRace, GateRaceConfig, Goal
from tasks.swarm.team.gates import BARS, CLEAR, FRAME, OPENING, Gate, colour, frames, in_gate, random_course
from tests.kit.hooks import blank, compiled, partly
from tests.kit.worlds import task_of

COURSE = (Gate(0.0, 0.0, 1.0, 0.4), Gate(2.0, 1.0, 1.5, 2.0))


def test_frames_stand_around_the_openings() -> None:
    middle, heading, rows = jax.jit(lambda: (*(course := random_course(jax.random.key(3), 5)), frames(*course)))()
    assert len(rows) == 5 * len(BARS)
    for gate in range(5):
        reach = []
        for bar, (place, half) in BARS.items():
            row = rows[f"gate{gate}_{bar}"]
            np.testing.assert_allclose(in_gate(middle[gate], heading[gate], row[3:6]), place, atol=1e-5)
            np.testing.assert_allclose(row[:3], half, atol=1e-6)
            turn = np.array([np.cos(heading[gate] / 2), 0.0, 0.0, np.sin(heading[gate] / 2)])
            assert abs(float(row[6:10] @ turn)) == pytest.approx(1.0, abs=1e-5)
            low, high = np.abs(np.array(place)) - half, np.abs(np.array(place)) + half
            assert (low[1:] >= OPENING - 1e-6).any(), f"{bar} stands in the opening"
            reach.append(high[1:])
        np.testing.assert_allclose(np.max(reach, axis=0), OPENING + FRAME)


def test_a_drone_begins_before_its_first_gate_which_has_its_own_colour() -> None:
    task = task_of("swarm/gate-race")
    assert isinstance(task, GateRace)
    draw = partly(task.reset, lambda start: (start.qpos, task.pictures.geom_appearance(start.task_state)))
    for seed in range(3):
        qpos, looks = jax.tree.map(np.asarray, draw(jax.random.key(seed)))
        bars = np.array([looks[f"gate0_{bar}"] for bar in BARS])
        np.testing.assert_allclose(bars[:, 10:13], [colour(0, 5)[:3]] * len(BARS), atol=1e-6)
        ahead = bars[:, 3:6].mean(0) - qpos[:3]
        w, _, _, z = qpos[3:7]
        turned = np.arctan2(ahead[1], ahead[0]) - 2 * np.arctan2(z, w)
        assert abs((turned + np.pi) % (2 * np.pi) - np.pi) < np.deg2rad(20)


@pytest.mark.slow
def test_a_drone_sees_its_first_gate_ahead_of_it_in_its_colour() -> None:
    env = embodied.make("swarm/gate-race", 3, "rigid", seed=2, cameras=(CAMERA,), resolution=48)
    images = env.reset()[f"pixels/{CAMERA}"].reshape(3, 3, 48, 48).float() / 255
    share = images / images.sum(1, keepdim=True).clamp(min=1e-3)
    red = torch.tensor(colour(0, 5)) / sum(colour(0, 5))
    close = (share - red[None, :, None, None]).abs().sum(1) < 0.25
    for mask in close:
        rows, columns = np.nonzero(mask.numpy())
        assert len(rows) > 40, "the first gate's red is hardly in the picture"
        assert abs(columns.mean() - 23.5) < 8


@pytest.mark.parametrize("off", [-0.3, 0.0, 0.3])
def test_what_is_paid_for_a_course_does_not_depend_on_where_gates_are_passed(off: float) -> None:
    """Else the shortest way, along the inner sides of the gates, would pay least."""
    course = tuple(Gate(2 * np.cos(angle), 2 * np.sin(angle), 1.0, angle + np.pi / 2) for angle in (0.0, 1.2, 2.4))
    task = GateRace(GateRaceConfig(course=course))
    state = partly(task.reset, lambda start: start.task_state)(jax.random.key(0))
    angle = np.linspace(-0.4, 2.7, 400)  # rad, of a circle that crosses the gates `off` m outside their middles
    way = np.stack([(2 + off) * np.cos(angle), (2 + off) * np.sin(angle), np.ones_like(angle)], -1)

    @jax.jit
    def fly(goal: Goal, pos: Array) -> tuple[Goal, Array]:
        goal = task.advance(still(pos[None]), dataclasses.replace(state, goal=goal), jax.random.key(0))
        return goal, goal.progress[0]

    start = dataclasses.replace(state.goal, pos=jnp.asarray(way[:1]))
    goal, progress = jax.lax.scan(fly, start, jnp.asarray(way))
    assert goal.next.tolist() == [3]
    middles = np.array([[gate.x, gate.y, gate.z] for gate in course])
    stop = middles[2] + CLEAR * np.array([np.cos(course[2].heading), np.sin(course[2].heading), 0.0])
    left = sum(np.linalg.norm(to - at) for at, to in itertools.pairwise([way[0], *middles, stop]))
    assert float(progress.sum()) == pytest.approx(left - np.linalg.norm(stop - way[-1]), abs=1e-3)


def test_policies_that_see_are_told_what_a_drone_feels_and_not_where_gates_are() -> None:
    task = compiled(GateRace(GateRaceConfig(agents=2)))
    drones = still(jnp.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.2]]))
    world = World.posed(task.model, drones.qpos, drones.qvel)
    seen = task.observe(world, blank(task).task_state, jax.random.key(1))
    assert set(seen[PROPRIO]) == set(PROPRIO_TERMS) == set(seen["policy"]) - {"gates"}
    for name in PROPRIO_TERMS:
        np.testing.assert_array_equal(seen[PROPRIO][name], seen["policy"][name])
