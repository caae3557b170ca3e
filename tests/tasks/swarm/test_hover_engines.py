"""`swarm/hover` flies the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import embodied
from tasks.swarm.single.hover import Hover, HoverConfig
from tests.kit.scripts import flown

N, STEPS = 8, 100  # one second


def fly(engine: str, **options: str) -> list[dict[str, np.ndarray]]:
    """Every sensor after each of 100 steps of open-loop rotor commands, while nobody crashed."""
    env = embodied.make(
        "swarm/hover",
        num_envs=N,
        engine=engine,
        engine_options=options,
        seed=3,
        device="cpu",
        start_tilt=20.0,
        noise=False,
    )
    env.reset()
    generator = torch.Generator().manual_seed(0)
    readings, flying, action = [], np.ones(N, bool), torch.zeros(N, 4)
    for step in range(STEPS):
        if step % 5 == 0:
            action = 0.1 * torch.randn(N, 4, generator=generator) + 0.05
        flying &= ~env.step(action).done.numpy()
        world = env.world()
        row = {name: np.asarray(world[name]).copy() for name in world.layout.names}
        readings.append(row | {"flying": flying.copy()})
    return readings


@pytest.fixture(scope="module")
def reference() -> list[dict[str, np.ndarray]]:
    return fly("mujoco")


LIMITS = {"position": 1e-3, "orientation": 3e-3, "linvel_w": 1e-2, "gyro": 5e-2, "accelerometer": 5e-2}
"""Single against double precision over 500 physics steps: 1 mm, 0.2 degrees, 1 cm/s, 0.05 rad/s, 0.05 m/s^2."""


@pytest.fixture(scope="module")
def tilted() -> Hover:
    """The task, whose programs on both engines are compiled."""
    task = Hover(HoverConfig(start_tilt=20.0, noise=False))
    for engine in ("rigid", "mujoco"):
        flown(task, engine, np.zeros((1, 4)), 0)
    return task


def test_half_a_second_of_open_loop_flight_agrees_between_rigid_and_mujoco(tilted: Hover) -> None:
    actions = np.repeat(0.1 * np.random.default_rng(0).normal(size=(10, 4)) + 0.05, 5, 0)
    for seed in (0, 1):
        ours, expected = (flown(tilted, engine, actions, seed).worlds for engine in ("rigid", "mujoco"))
        for name, limit in LIMITS.items():
            np.testing.assert_allclose(ours[name], expected[name], atol=limit, err_msg=name)


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("engine", "impl"),
    [
        ("rigid", None),
        ("mjx", "jax"),
        ("mjx", "warp"),
    ],
)
def test_one_second_of_open_loop_flight_agrees(
    engine: str, impl: str | None, reference: list[dict[str, np.ndarray]]
) -> None:
    readings = fly(engine, **({"impl": impl} if impl else {}))
    for step, (row, expected) in enumerate(zip(readings, reference, strict=True)):
        both = row["flying"] & expected["flying"]
        assert (row["flying"] == expected["flying"]).all() or step > 45
        for name, limit in LIMITS.items():
            np.testing.assert_allclose(
                row[name][both], expected[name][both], atol=limit, err_msg=f"{name}, step {step}"
            )
    assert reference[25]["flying"].sum() >= N - 2
