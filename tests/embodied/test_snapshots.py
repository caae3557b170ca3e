"""A teacher's way, cut into initial states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import embodied
from embodied import snapshots as command
from embodied.core.initial_states import InitialStateBuffer, buffer_path, load
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.snapshots import snapshots
from policies.training.loading import load_policy
from tests.kit.task_file import WITH_EXPERT


@pytest.fixture(scope="module")
def mass(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A task whose teacher comes in time from some starts and too late from others."""
    file = tmp_path_factory.mktemp("lab") / "mass.py"
    file.write_text(WITH_EXPERT)
    return str(file)


@pytest.fixture(scope="module")
def env(mass: str) -> Env:
    return embodied.make(mass, 8)


@pytest.fixture(scope="module")
def buffer(env: Env) -> InitialStateBuffer:
    return snapshots(env, load_policy("expert", env), 100, seed=0)


def test_moments_lie_all_the_way_from_the_start_to_success(buffer: InitialStateBuffer) -> None:
    places = np.asarray(buffer.reset_states.qpos)[:, 0]
    distances = np.abs(np.asarray(buffer.reset_states.task_state.goal) - places)
    assert distances.max() > 0.2
    assert 0 < np.mean(distances < 0.1) < 0.6
    assert len(np.unique(places)) > 30


def test_an_episode_that_begins_there_goes_on_as_the_teachers_did(mass, buffer, tmp_path) -> None:
    """From a moment near the end the teacher needs a few steps more, and from everywhere it gets there."""
    command.save(buffer_path(tmp_path, mass), buffer)
    env = embodied.make(mass, 16, initial_states=buffer_path(tmp_path, mass), initial_states_share=1.0)
    expert = load_policy("expert", env)
    obs, solved = env.reset(1), torch.zeros(16, dtype=torch.bool)
    for step in range(49):
        result = env.step(expert(obs))
        obs = result.obs
        solved |= result.success
        if step == 0:
            assert 0 < solved.float().mean() < 0.9
    assert solved.all()


def test_a_teacher_that_solves_nothing_is_refused(env: Env) -> None:
    far = lambda obs: -torch.sign(obs["policy"][:, 2:])  # noqa: E731
    with pytest.raises(EmbodiedError, match="solved none of 8 episodes"):
        snapshots(env, far, 10, seed=1)


def test_the_command_writes_a_file_for_the_task(mass: str, tmp_path: Path) -> None:
    assert command.main([mass, "--out", str(tmp_path), "--count", "20", "--num-envs", "8"]) == 0
    entry = join_content()[mass]
    assert len(load(buffer_path(tmp_path, entry.name), entry.load()())) == 20
