"""Commands that train and evaluate, at the cost of compiling once: environments of one kind share their programs."""

from __future__ import annotations

import pytest

from embodied import train
from embodied.env.env import Env
from embodied.env.factory import make
from tests.kit.worlds import NUM_ENVS, compiled

TASK = "swarm/hover"
SMALL = (TASK, "--num-envs", str(NUM_ENVS), "--engine", "rigid")
"""Words of a command whose programs are compiled once a worker."""
UNROLL = 8
STEP = NUM_ENVS * UNROLL
"""Environment steps of an iteration of `PPO`."""
PPO = ("--ppo.unroll", str(UNROLL), "--ppo.minibatches", "2", "--ppo.epochs", "1", "--ppo.actor.hidden", "16")


def hover(seed: int = 0) -> Env:
    """The environments of `SMALL`."""
    return make(TASK, NUM_ENVS, "rigid", seed, device="cpu")


@pytest.fixture(scope="module")
def hover_compiled() -> None:
    """The programs of `SMALL` are compiled; those of a shared world may be forgotten."""
    compiled(hover())


@pytest.fixture(scope="module")
def ppo_compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The programs of `SMALL` with `PPO` are compiled."""
    words = [*SMALL, *PPO, "--steps", str(STEP), "--evaluate-episodes", str(NUM_ENVS)]
    assert train.main([*words, "--out", str(tmp_path_factory.mktemp("compiled") / "run")]) == 0
