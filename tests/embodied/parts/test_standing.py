"""Creeping at a command of zero: what counts as it, and in which episodes it is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.math.rotations import quat_from_yaw
from embodied.parts import standing
from tasks.locomotion.joystick import Joystick
from tasks.locomotion.reach import Reach
from tests.kit.hooks import partly

DT, STEPS = 0.02, 1000  # s, -: an episode of the joystick tasks


def measured(place: Callable[[Any], tuple[Any, Any, Any]], pushed: Callable[[Any], Any], asked: bool) -> Any:
    """The means over an episode of a trunk that is at x, y and heading `place(t)`, pushed while `pushed(t)`."""

    def step(before: standing.Standing, number: Any) -> Any:
        x, y, heading = place(number * DT)
        pose = standing.pose_of(jnp.stack([x, y, 0.3]), quat_from_yaw(heading))
        after = standing.advanced(before, pose, pushed(number * DT), number, DT)
        return after, standing.metrics(after)

    @jax.jit
    def episode() -> Any:
        start = standing.started(jnp.asarray(asked), jnp.stack(place(0.0)))
        values = jax.lax.scan(step, start, jnp.arange(1.0, STEPS + 1))[1]
        return {name: jnp.mean(value) for name, value in values.items()}

    return {name: float(value) for name, value in episode().items()}


def still(time: Any) -> Any:
    return jnp.asarray(time < 0)


def test_creeping_is_net_displacement_by_time_and_swaying_is_none() -> None:
    """Also a turn beyond half a circle. 2 cm of sway within 20 s leave at most 6 cm a minute."""
    sway = lambda t: 0.02 * jnp.sin(7 * t)  # noqa: E731
    crept = measured(lambda t: (0.01 * t + sway(t), sway(t), 3.0 + 0.4 * t), still, asked=True)
    assert crept["drift"] == pytest.approx(0.6, abs=0.13)
    assert crept["turning"] == pytest.approx(np.degrees(0.4 * 60), rel=1e-3)


def test_settling_and_pushes_do_not_count() -> None:
    landing = lambda t: (jnp.clip(t, 0.0, 0.9), 0.0 * t, 0.0 * t)  # noqa: E731
    assert measured(landing, still, asked=True)["drift"] == pytest.approx(0, abs=1e-5)
    shoved = lambda t: (jnp.clip(t - 8, 0.0, 1.0), 0.0 * t, 0.0 * t)  # noqa: E731
    during = lambda t: (t >= 8) & (t < 8.2)  # noqa: E731
    assert measured(shoved, during, asked=True)["drift"] == pytest.approx(0, abs=1e-5)
    assert measured(shoved, still, asked=True)["drift"] > 2


def test_an_episode_that_asks_for_more_measures_nothing() -> None:
    assert np.isnan(list(measured(lambda t: (t, t, t), still, asked=False).values())).all()


def test_one_episode_in_ten_is_of_standing_and_its_command_stays_zero() -> None:
    task = Joystick()
    start = jax.vmap(partly(task.reset, lambda start: (start.task_state.standing.asked, start.task_state.command)))
    asked, command = (np.asarray(part) for part in start(jax.random.split(jax.random.PRNGKey(0), 2000)))
    assert 0.07 < asked.mean() < 0.13
    assert not command[asked].any()
    assert command[~asked].any(1).mean() > 0.9


def test_commands_of_a_path_leave_nothing_to_measure() -> None:
    asked = partly(Reach().reset, lambda start: start.task_state.standing.asked)
    assert not any(bool(asked(key)) for key in jax.random.split(jax.random.PRNGKey(0), 64))
