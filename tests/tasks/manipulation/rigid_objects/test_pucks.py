"""What the seven tasks with a free puck cost: their pairs of shapes and their contacts."""

from __future__ import annotations

import pytest

from embodied.engines.mjx.buffers import admitted_pairs
from tests.tasks.manipulation.common.test_tabletop import task_of


@pytest.mark.parametrize(("name", "pairs", "contacts"), [("push", 11, 36), ("push-wall", 17, 56)])
def test_pairs_and_contacts_are_few(name: str, pairs: int, contacts: int) -> None:
    """Five shapes of the robot with table, thing and wall, and the thing with table and wall."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(f"manipulation/{name}").model
    assert admitted_pairs(model) == pairs
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape == (contacts,)
    assert model.ngeom <= 8
