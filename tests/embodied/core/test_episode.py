"""What a task hands to the engine has the shapes of its model."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from embodied.core.episode import Episode, apply_action
from embodied.core.world import Control, World
from embodied.errors import ActionError
from tests.embodied.engines.toys import Ball


@pytest.mark.parametrize(
    ("control", "message"),
    [
        (Control(wrench=jnp.zeros((3, 6))), r"Told.apply_action gives wrench \(3, 6\); expected \(2, 6\)"),
        (Control(ctrl=jnp.zeros(1)), r"gives ctrl \(1,\); expected \(0,\)"),
        (Control(mocap_pos=jnp.zeros(3)), r"gives mocap_pos \(3,\); expected \(0, 3\)"),
    ],
)
def test_controls_of_another_shape_are_refused(control: Control, message: str) -> None:
    class Told(Ball):
        def apply_action(self, world: World, state: Any, command: Any) -> tuple[Control, Any]:
            return control, state

    task, key = Told(), jax.random.key(0)
    begun = Episode(task.reset(key).task_state, key, jnp.zeros((), int), jnp.zeros(()), {}, {}, jnp.zeros((), bool))
    with pytest.raises(ActionError, match=message):
        apply_action(task, World.zeros(task.model), begun, jnp.zeros(1))
