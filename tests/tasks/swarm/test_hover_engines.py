"""`swarm/hover` flies the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.swarm.single.hover import Hover, HoverConfig
from tests.kit.scripts import flown

LIMITS = {"position": 1e-3, "orientation": 3e-3, "linvel_w": 1e-2, "gyro": 5e-2, "accelerometer": 5e-2}
"""Single against double precision over 500 physics steps: 1 mm, 0.2 degrees, 1 cm/s, 0.05 rad/s, 0.05 m/s^2."""


@pytest.fixture(scope="module")
def tilted() -> Hover:
    """The task, whose programs on both engines are compiled."""
    task = Hover(HoverConfig(start_tilt=20.0, noise=False))
    for engine in ("rigid", "mujoco"):
        flown(task, engine, np.zeros((1, 4)), 0)
    return task


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "engine", ["rigid", *(pytest.param(f"mjx-{i}", marks=pytest.mark.slow) for i in ("jax", "warp"))]
)
def test_a_second_of_open_loop_flight_agrees_with_mujoco(tilted: Hover, engine: str) -> None:
    actions = np.repeat(0.1 * np.random.default_rng(0).normal(size=(20, 4)) + 0.05, 5, 0)
    for seed in (0, 1):
        ours, expected = (flown(tilted, name, actions, seed).worlds for name in (engine, "mujoco"))
        for name, limit in LIMITS.items():
            np.testing.assert_allclose(ours[name], expected[name], atol=limit, err_msg=name)
