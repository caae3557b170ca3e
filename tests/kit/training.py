"""Commands that train and evaluate, at the cost of compiling once: environments of one kind share their programs."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from embodied import train
from embodied.engines import FUSED
from embodied.env.env import Env
from embodied.env.vectorized import EpisodeStatistics
from embodied.factory import default_engine, make
from embodied.registry import join_content
from tests.kit.budget import sharing
from tests.kit.worlds import NUM_ENVS

TASK = "swarm/hover"
SMALL = (TASK, "--num-envs", str(NUM_ENVS), "--engine", "rigid")
"""Words of a command whose programs are compiled once a worker."""
UNROLL = 8
STEP = NUM_ENVS * UNROLL
"""Environment steps of an iteration of `PPO`."""
PPO = ("--ppo.unroll", str(UNROLL), "--ppo.minibatches", "2", "--ppo.epochs", "1", "--ppo.actor.hidden", "16")
MAKERS = (
    "embodied.factory", "embodied.evaluate", "policies.training.task_session", "policies.training.choices",
)  # fmt: skip


def twin_of(env: Env, seed: int) -> Env:
    """Environments of their own that run the programs of others, whose engine keeps no state beside them."""
    twin = copy.copy(env)
    twin._simulator = copy.copy(env._simulator)
    twin.seed, twin._steps, twin._since, twin._started, twin._closed = seed, 0, 0, False, False
    twin._statistics = EpisodeStatistics()
    return twin


@functools.cache
def _prototypes() -> dict[str, Env]:
    return {}


def make_once(name: str, num_envs: int = 1, engine: str | None = None, seed: int = 0, **options: Any) -> Env:
    """As `embodied.make`; what was made before with the same options is not traced and compiled again."""
    usual = {parameter.name: parameter.default for parameter in inspect.signature(make).parameters.values()}
    entry = join_content()[name]
    usual["config"] = entry.load().config_type()
    told = {key: value for key, value in options.items() if value not in (None, {}, usual[key])}
    engine = engine or default_engine(entry)
    if engine not in FUSED or {"calibration", "initial_states", "cameras"} & told.keys():
        return make(name, num_envs, engine, seed, **told)
    key = repr((name, num_envs, engine, sorted(told.items())))
    if key not in _prototypes():
        with sharing(key):
            env = make(name, num_envs, engine, seed, **told)
            env.reset()
            env.episode_length = torch.full((num_envs,), env.max_episode_steps)
            for _ in range(2):  # the first one restarts all
                env.step(torch.zeros(env.action_shape))
            env.statistics()
            _prototypes()[key] = env
    return twin_of(_prototypes()[key], seed)


def hover(seed: int = 0) -> Env:
    """The environments of `SMALL`."""
    return make_once(TASK, NUM_ENVS, "rigid", seed)


@pytest.fixture(scope="module")
def compiled_once() -> Iterator[None]:
    """Let the commands of a module make their environments by `make_once`."""
    with pytest.MonkeyPatch.context() as patch:
        for module in MAKERS:
            patch.setattr(importlib.import_module(module), "make", make_once)
        yield


@pytest.fixture(scope="module")
def ppo_compiled(compiled_once: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The programs of `SMALL` with `PPO` are compiled."""
    del compiled_once
    words = [*SMALL, *PPO, "--steps", str(STEP), "--evaluate-episodes", "0"]
    assert train.main([*words, "--out", str(tmp_path_factory.mktemp("compiled") / "run")]) == 0
