"""A teacher's way, cut into initial states."""

import numpy as np
import pytest
import torch

import embodied
from embodied import snapshots as command
from embodied.core.initial_states import buffer_path, load
from embodied.errors import EmbodiedError
from embodied.snapshots import snapshots
from policies.training.loading import load_policy

TASK = "manipulation/drawer-close"


@pytest.fixture(scope="module")
def buffer():
    env = embodied.make(TASK, 8)
    return snapshots(env, load_policy("expert", env), 200, seed=0)


def test_moments_lie_all_the_way_from_the_start_to_success(buffer):
    drawer = embodied.make(TASK, 1).task.model.joint("drawer").qposadr[0]
    opening = -np.asarray(buffer.reset_states.qpos)[:, drawer]
    assert opening.max() > 0.1
    assert 0 < np.mean(opening < 0.05) < 0.5
    assert len(np.unique(np.asarray(buffer.reset_states.qpos), axis=0)) > 100


def test_an_episode_that_begins_there_goes_on_as_the_teachers_did(buffer, tmp_path):
    """From a moment near the end the teacher needs a few steps more, and from everywhere it gets there."""
    command.save(buffer_path(tmp_path, TASK), buffer)
    env = embodied.make(TASK, 32, initial_states=buffer_path(tmp_path, TASK), initial_states_share=1.0)
    expert = load_policy("expert", env)
    obs = env.reset(1)
    solved = torch.zeros(32, dtype=torch.bool)
    first = []
    for step in range(150):
        result = env.step(expert(obs))
        obs = result.obs
        solved |= result.success
        first.append(float(solved.float().mean()))
        if step == 0:
            assert 0 < first[0] < 0.9
    assert first[-1] == 1.0


def test_a_teacher_that_solves_nothing_is_refused():
    env = embodied.make(TASK, 2)
    with pytest.raises(EmbodiedError, match="solved none of 2 episodes"):
        snapshots(env, load_policy("zero", env), 10)


def test_the_command_writes_a_file_for_the_task(tmp_path):
    assert command.main([TASK, "--out", str(tmp_path), "--count", "20", "--num-envs", "2"]) == 0
    assert len(load(buffer_path(tmp_path, TASK), embodied.make(TASK, 1).task)) == 20
