"""Velocities that avoid others: the wished one where nobody is in the way, and another where somebody is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.entity_rows import Kind, entity_rows
from tasks.swarm.maze.reciprocal import avoiding, until_touching

AHEAD = jnp.array([[0.9, 0.0]])
AVOIDING = jax.jit(avoiding, static_argnums=3)


def row(kind: Kind, x: float, y: float, velocity: tuple[float, float] = (0.0, 0.0), size: float = 0.14) -> jnp.ndarray:
    """What a drone at rest sees at (x, y) m, (1, 1, WIDTH)."""
    offset, moving = jnp.array([[[x, y, 0.0]]]), jnp.array([[[*velocity, 0.0]]])
    return entity_rows(kind, offset, moving, size, jnp.ones((1, 1), bool))


def chosen(rows: jnp.ndarray) -> np.ndarray:
    return np.asarray(AVOIDING(rows, jnp.zeros((1, 2)), AHEAD, 1.0))[0]


@pytest.mark.parametrize("kind", [Kind.TEAMMATE, Kind.OBSTACLE])
def test_who_is_beside_or_behind_changes_nothing(kind: Kind) -> None:
    alone = chosen(0 * row(kind, 0.4, 0.0))
    for x, y in ((0.0, 1.0), (-0.6, 0.0), (0.0, -1.0)):
        np.testing.assert_allclose(chosen(row(kind, x, y)), alone, atol=1e-5)
    np.testing.assert_allclose(alone, AHEAD[0], atol=0.01)  # a mean of velocities near the wished one


@pytest.mark.parametrize("kind", [Kind.TEAMMATE, Kind.OBSTACLE])
def test_what_is_right_ahead_is_not_flown_into(kind: Kind) -> None:
    found = chosen(row(kind, 0.45, 0.0))
    assert np.linalg.norm(found - np.asarray(AHEAD[0])) > 0.2


def test_two_who_meet_pass_each_other_on_their_right() -> None:
    assert chosen(row(Kind.TEAMMATE, 1.2, 0.0, (-0.9, 0.0)))[1] < 0


def test_time_until_touching() -> None:
    offset, reach = jnp.array([[1.0], [0.0]]), jnp.array([0.3])

    def until(u: float, v: float) -> float:
        return float(until_touching(offset, jnp.array([[u], [v]]), reach)[0])

    assert until(-0.5, 0.0) == pytest.approx(1.4, rel=1e-3)
    assert until(0.5, 0.0) == until(0.0, 0.5) == until(-0.5, 0.5) == np.inf
