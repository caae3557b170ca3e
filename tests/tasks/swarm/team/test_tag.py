"""Tag: who is caught, what either side earns, how fast it flies, and what its drones see."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.entity_rows import COLUMNS, WIDTH
from embodied.core.episode import flatten_observation
from embodied.core.facets import Team
from embodied.core.world import World
from embodied.errors import EmbodiedError
from tasks.swarm.control.levels import Level
from tasks.swarm.dynamics.drones import still
from tasks.swarm.multi.tag import CATCH, EGO_SIZE, Tag, TagConfig, bound
from tests.kit.hooks import compiled
from tests.kit.scripts import obeyed

PREDATORS, PREY = slice(0, 3), 3
EVEN: dict[str, Any] = {"thrust_spread": 0.0, "mass_spread": 0.0, "effects": ()}


PLAIN = Tag()
TAG = compiled(PLAIN, "collided")


def at(task: Tag, *places: tuple[float, float, float]) -> tuple[World, Any]:
    """A world with still drones there and columns far away, and the state after a control step in it."""
    state = task.reset(jax.random.PRNGKey(0)).task_state
    columns = np.full_like(state.goal.columns, 50.0)
    state = dataclasses.replace(state, goal=dataclasses.replace(state.goal, columns=columns, caught=np.zeros(4, bool)))
    drones = still(jnp.array(places))
    world = World.posed(task.model, drones.qpos, drones.qvel)
    return world, task.post_step(world, state, state.action, jax.random.PRNGKey(1))


def test_prey_is_caught_by_the_nearest_predator_along_the_floor() -> None:
    task = TAG
    world, state = at(task, (0.2, 0, 1.5), (1, 1, 1), (-1, 1, 1), (0, 0, 1))
    assert state.goal.caught.tolist() == [False, False, False, True]
    terms = task.rewards(world, state, state.action)
    assert terms["caught"].tolist() == [1, 1, 1, -1]
    np.testing.assert_allclose(terms["distance"], [-0.2, -(2**0.5), -(2**0.5), 0.2], atol=1e-5)
    assert bool(task.outcome(world, state).success)
    metrics = task.metrics(world, state)
    assert metrics["caught"] == 1
    assert metrics["catches"] == task.timing.max_steps  # which a whole episode averages to one
    following = task.post_step(world, state, state.action, jax.random.PRNGKey(2))
    assert task.metrics(world, following)["catches"] == 0  # still the same catch
    world, state = at(task, (CATCH + 0.01, 0, 1), (1, 1, 1), (-1, 1, 1), (0, 0, 1))
    assert not bool(task.outcome(world, state).success)
    assert not state.goal.caught.any()


def test_only_touching_one_s_own_side_is_a_collision() -> None:
    task = TAG
    _, state = at(task, (0.1, 0, 1), (1, 1, 1), (1, 1.1, 1), (0, 0, 1))
    assert task.collided(state).tolist() == [False, True, True, False]


def test_the_penalty_for_leaving_is_simple_tags() -> None:
    def theirs(x: float) -> float:
        if x < 0.9:
            return 0.0
        return (x - 0.9) * 10 if x < 1.0 else min(float(np.exp(2 * x - 2)), 10.0)

    x = np.linspace(-4, 4, 801)
    np.testing.assert_allclose(jax.jit(bound)(x), [theirs(abs(value)) for value in x], atol=1e-4)
    task = TAG
    world, state = at(task, (2.5, 0, 1), (1, 1, 1), (-1, 1, 1), (2.2, -2.2, 1))
    found = task.rewards(world, state, state.action)["bound"]
    np.testing.assert_allclose(found, [0, 0, 0, 2 * np.exp(0.2)], rtol=1e-4)


def test_the_prey_is_faster_by_the_ratio_and_reaches_its_speed_as_soon() -> None:
    world, state = at(TAG, (1, 0, 1), (1, 1, 1), (-1, 1, 1), (0, 0, 1))
    action = np.zeros((4, 4), np.float32)
    action[:, :2] = 1.0  # faster than any drone may fly
    commanded = []
    for _ in range(18):
        _, state = TAG.process_action(world, state, jnp.asarray(action), jax.random.PRNGKey(0))
        commanded.append(np.asarray(state.action)[:, :2])
    speed = np.linalg.norm(np.array(commanded), axis=-1)  # (steps, agents)
    np.testing.assert_allclose(speed[-1, PREY], 1.0, rtol=1e-4)
    np.testing.assert_allclose(speed[-1, PREDATORS], 1 / 1.3, rtol=1e-4)
    dt = TAG.timing.control_dt
    np.testing.assert_allclose(speed[0, PREDATORS] / dt, 3.0 / 1.3, rtol=1e-3)
    np.testing.assert_allclose(speed[0, PREY] / dt, 4.0 / 1.3, rtol=1e-3)


def test_drones_see_sides() -> None:
    see = jax.jit(lambda world, state: flatten_observation(PLAIN.observe(world, state, jax.random.PRNGKey(0)), Team(4)))
    seen = []
    for seed in range(4):
        start = TAG.reset(jax.random.PRNGKey(seed))
        seen.append(see(World.posed(TAG.model, start.qpos, start.qvel), start.task_state)["policy"])
    obs = np.array(seen)
    own, rows = obs[..., :EGO_SIZE], obs[..., EGO_SIZE:].reshape(4, 4, -1, WIDTH)
    assert own[..., 0].tolist() == [[-1, -1, -1, 1]] * 4
    kinds = rows[..., :3, COLUMNS["kind"]].sum(2)  # of the three others: team-mates, obstacles, targets
    assert kinds[:, PREDATORS].tolist() == [[[2, 0, 1]] * 3] * 4
    assert kinds[:, PREY].tolist() == [[0, 0, 3]] * 4
    assert rows.shape[2] == 3 + 2


def test_an_exported_policy_may_drive_either_side() -> None:
    task, team = TAG, TAG.team
    assert team is not None
    world, state = at(task, (0.2, 0, 1), (1, 1, 1), (-1, 1, 1), (0, 0.5, 1))
    seen = task.observe(world, state, jax.random.PRNGKey(0))["policy"]
    turned = task.post_step(*team.seen_by(world, state, jnp.asarray(3)), state.action, jax.random.PRNGKey(0))
    world = team.seen_by(world, state, jnp.asarray(3))[0]
    first = task.observe(world, turned, jax.random.PRNGKey(0))["policy"]
    for term, value in seen.items():
        np.testing.assert_allclose(first[term][0], value[3], atol=1e-6, err_msg=term)


def test_scripted_predators_hold_a_prey_that_stays() -> None:
    """Of drones that do at once as they are told."""
    _, metrics = obeyed(Tag(TagConfig(**EVEN)), 400, scripted=True, idle=(PREY,))
    assert metrics["caught"][300:].mean() > 0.95


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prey": 0}, "prey=0 of agents=4; expected at least one drone on either side"),
        ({"prey": 4}, "prey=4 of agents=4"),
        ({"level": Level.RATES}, "level=rates; expected velocity"),
        ({"speed_ratio": 0.0}, "speed_ratio=0.0 must be positive"),
        ({"neighbours": 0}, "neighbours=0; expected at least 1"),
        ({"obstacles": -1}, "obstacles=-1 must be 0 or more"),
    ],
)
def test_games_that_cannot_be_played_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        TagConfig(**options)


def test_a_square_without_room_is_refused() -> None:
    with pytest.raises(EmbodiedError, match=r"size=1.0 m: 4 starts and 2 columns of 0.4 m radius find no room"):
        Tag(TagConfig(size=1.0))
