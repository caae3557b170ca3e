"""Calls of the interface that mean nothing are refused in one line, with what was given and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError

HOVER = "swarm/hover"
MAKE: dict[str, tuple[dict[str, Any], str]] = {
    "a path": ({"name": Path(HOVER)}, "expected a name, such as 'swarm/hover'"),
    "no name": ({"name": None}, "the task is None; expected a name"),
    "a number": ({"name": 3}, "the task is 3; expected a name"),
    "half an environment": ({"num_envs": 2.5}, "num_envs=2.5; expected a whole number"),
    "a million millions": ({"num_envs": 10**12}, "num_envs=1000000000000; expected at most 16,777,216"),
    "a device of shapes": ({"device": "meta"}, "unknown device 'meta'; expected 'cpu', 'cuda' or 'cuda:N'"),
    "a wrapper alone": ({"wrappers": 3}, "wrappers=3; expected a list of changes of the task"),
    "no function": ({"wrappers": [3]}, "wrappers contain 3; expected functions from a task to a task"),
    "no task": ({"wrappers": [lambda task: None]}, "returned None; expected the changed task"),
    "a camera's number": ({"cameras": 3}, "cameras=3; expected a camera's name, or a list of them"),
    "a config of nothing": ({"config": 3}, "config=3; expected a HoverConfig, or a mapping of its fields"),
    "a config of text": ({"config": "x"}, "config='x'; expected a HoverConfig"),
    "options of an engine": ({"engine_options": 3}, "engine_options=3; expected a mapping"),
    "a path of numbers": ({"calibration": 3}, "calibration=3; expected a path"),
}


@pytest.mark.parametrize("call", MAKE)
def test_make(call: str) -> None:
    given, expected = MAKE[call]
    with pytest.raises(EmbodiedError) as caught:
        embodied.make(**{"name": HOVER, "num_envs": 1, "engine": "rigid", **given})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


READ: dict[str, Callable[[Env], Any]] = {
    "statistics()": lambda env: env.statistics(),
    "state()": lambda env: env.state(),
    "world()": lambda env: env.world(),
    "render_state()": lambda env: env.render_state(),
    "episode": lambda env: env.episode_length,
    "physics_state": lambda env: env.physics_state,
}


@pytest.mark.parametrize("name", READ)
def test_what_is_not_there_yet_or_any_more(name: str) -> None:
    env = embodied.make(HOVER, 1, "rigid")
    with pytest.raises(EmbodiedError, match=r"before reset\(\): call env\.reset\(\) once first") as caught:
        READ[name](env)
    assert str(caught.value).startswith(name)
    env.close()
    with pytest.raises(EmbodiedError, match=r"after close\(\) of swarm/hover: make the environment anew"):
        READ[name](env)


@pytest.mark.parametrize("state", [None, {}, {"simulator": {}}, "x"])
def test_a_state_that_is_none(state: Any) -> None:
    with pytest.raises(EmbodiedError, match=r"expected what Env\.state\(\) gave"):
        embodied.make(HOVER, 1, "rigid").load_state(state)


def test_seeds_may_be_an_array() -> None:
    env = embodied.make(HOVER, 2, "rigid")
    several = env.reset(np.array([3, 4]))["policy"].clone()
    assert (env.reset([3, 4])["policy"] == several).all()
    with pytest.raises(EmbodiedError, match=r"group_size=1\.0; expected a whole number"):
        env.reset(0, group_size=1.0)  # type: ignore[arg-type]
