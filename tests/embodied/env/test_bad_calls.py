"""Calls of the interface that mean nothing are refused in one line, with what was given and what is expected."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.evaluation.rollouts import evaluate

HOVER = "swarm/hover"
MAKE: dict[str, tuple[dict[str, Any], str]] = {
    "a path": ({"name": Path(HOVER)}, "expected a name, such as 'swarm/hover'"),
    "no name": ({"name": None}, "the task is None; expected a name"),
    "a number": ({"name": 3}, "the task is 3; expected a name"),
    "half an environment": ({"num_envs": 2.5}, "num_envs=2.5; expected a whole number"),
    "a million millions": ({"num_envs": 10**12}, "num_envs=1000000000000; expected at most 16,777,216"),
    "a processor's number": ({"device": "cpu:1"}, "unknown device 'cpu:1'; expected 'cpu', 'cuda' or 'cuda:N'"),
    "a device of shapes": ({"device": "meta"}, "unknown device 'meta'; expected 'cpu', 'cuda' or 'cuda:N'"),
    "a wrapper alone": ({"wrappers": 3}, "wrappers=3; expected a list of changes of the task"),
    "no function": ({"wrappers": [3]}, "wrappers contain 3; expected functions from a task to a task"),
    "no task": ({"wrappers": [lambda task: None]}, "returned None; expected the changed task"),
    "a camera's number": ({"cameras": 3}, "cameras=3; expected a camera's name, or a list of them"),
    "a config of nothing": ({"config": 3}, "config=3; expected a HoverConfig, or a mapping of its fields"),
    "a config of text": ({"config": "x"}, "config='x'; expected a HoverConfig"),
    "options of an engine": ({"engine_options": 3}, "engine_options=3; expected a mapping"),
    "an option without a name": ({"engine_options": {3: 4}}, "engine_options={3: 4}; expected a mapping of names"),
    "threads of text": (
        {"engine": "mujoco", "engine_options": {"threads": "x"}},
        "threads='x'; expected a whole number",
    ),
    "no threads": (
        {"engine": "mujoco", "engine_options": {"threads": -1}},
        "threads=-1; expected a whole number, at least 0",
    ),
    "engines": ({"engine": ["rigid"]}, "unknown engine ['rigid']"),
    "half an agent": ({"name": "swarm/formation", "agents": 2.5}, "agents=2.5; expected a whole number"),
    "a switch of text": ({"cameras": "track", "shadows": "x"}, "shadows='x'; expected true or false"),
    "a shift of numbers": ({"cameras": "track", "visual_shift": 3}, "visual_shift=3; expected text"),
    "a wall of pixels": (
        {"cameras": "track", "resolution": 10**9},
        "resolution=1000000000; expected at most 16384 pixels",
    ),
    "a field without a name": ({"config": {3: 4}}, "HoverConfig has no field 3; it has"),
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


@pytest.mark.parametrize("state", [None, {}, {"simulator": {}}, {"simulator": 3, "steps": 3}, "x"])
def test_a_state_that_is_none(state: Any) -> None:
    with pytest.raises(EmbodiedError, match=r"expected what Env\.state\(\) gave"):
        embodied.make(HOVER, 1, "rigid").load_state(state)


GIVEN: dict[str, tuple[Callable[[Env], Any], str]] = {
    "pickle": (pickle.dumps, "cannot be pickled or copied; make another, and give it this one's state"),
    "copy": (copy.deepcopy, "cannot be pickled or copied"),
    "steps of text": (lambda env: env.load_state(env.state() | {"steps": "x"}), "steps='x'; expected a whole number"),
    "no physics": (lambda env: env.load_state(env.state() | {"simulator": {}}), "the checkpoint lacks "),
    "length": (lambda env: setattr(env, "episode_length", 3), "episode_length=3; expected a tensor"),
    "lengths": (lambda env: setattr(env, "episode_length", torch.zeros(3)), "expected a tensor (1,) of control steps"),
    "task's state": (lambda env: setattr(env, "task_state", 3), "task_state has the shapes (); expected TaskState"),
    "sparse action": (lambda env: env.step(torch.zeros(1, 4).to_sparse()), "action is sparse_coo; expected a dense"),
    "action of shapes": (lambda env: env.step(torch.zeros(1, 4, device="meta")), "action is on no device"),
    "bytes": (lambda env: env.step(torch.zeros(1, 4).to(torch.float8_e4m3fn)), "action has dtype torch.float8"),
    "half an episode": (lambda env: evaluate(env, zero, 2.5), "episodes=2.5; expected a whole number"),  # type: ignore[arg-type]
    "no episode": (lambda env: evaluate(env, zero, 0), "episodes=0; expected a whole number, at least 1"),
    "policy's name": (lambda env: evaluate(env, "zero", 1), "policy='zero'; expected a function"),  # type: ignore[arg-type]
}


def zero(obs: Any) -> torch.Tensor:
    return torch.zeros(1, 4)


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_to_an_environment(name: str) -> None:
    call, expected = GIVEN[name]
    env = embodied.make(HOVER, 1, "rigid")
    env.reset()
    with pytest.raises(EmbodiedError) as caught:
        call(env)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


TRAIN: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": 3}, "name=3; expected text"),
    "config file": ({"config_file": 3}, "config_file=3; expected a path"),
    "learner": ({"algorithm_config": 3}, "algorithm_config=3; expected the settings PPOConfig"),
    "actor": ({"algorithm_config": {"actor": 3}}, "actor=3; expected the settings NetworkConfig"),
    "unroll": ({"algorithm_config": {"unroll": 2.5}}, "unroll=2.5; expected a whole number"),
}


@pytest.mark.parametrize("name", TRAIN)
def test_train_policy(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given, expected = TRAIN[name]
    with pytest.raises(EmbodiedError, match=re.escape(expected)):
        embodied.train_policy(HOVER, **given)
    assert not list(tmp_path.iterdir())


def test_one_thread_at_a_time_is_in_an_environment() -> None:
    """Another one would read arrays that this one has given away."""
    env = embodied.make(HOVER, 1, "rigid")
    env.reset()
    with env._busy, ThreadPoolExecutor(1) as other:
        for call in (env.reset, env.state, lambda: env.step(torch.zeros(1, 4))):
            with pytest.raises(EmbodiedError, match=r"while another thread is in it; make an environment for each"):
                other.submit(call).result()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(env.step, torch.zeros(1, 4)).result().reward.isfinite().all()


def test_seeds_may_be_an_array() -> None:
    env = embodied.make(HOVER, 2, "rigid")
    several = env.reset(np.array([3, 4]))["policy"].clone()
    assert (env.reset([3, 4])["policy"] == several).all()
    with pytest.raises(EmbodiedError, match=r"group_size=1\.0; expected a whole number"):
        env.reset(0, group_size=1.0)  # type: ignore[arg-type]
