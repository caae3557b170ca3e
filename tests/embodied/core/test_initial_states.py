"""Episodes that begin where a bank says."""

import dataclasses

import jax
import numpy as np
import pytest

import embodied
from embodied.core.initial_states import StartBank, first_starts, load, save, with_starts
from embodied.engines import make_engine
from embodied.env.env import Env
from embodied.errors import EmbodiedError

TASK = "swarm/hover"


@pytest.fixture(scope="module")
def task():
    return embodied.make(TASK, 1).task


def bank_of(task, count=4, weights=None):
    return StartBank(first_starts(task, 7, count), np.ones(count) if weights is None else np.asarray(weights))


def drawn(task, count=400):
    """Starts of many environments, whichever way they begin."""
    return np.asarray(first_starts(task, 1, count).qpos)


def rows_of(qpos, bank):
    """Which start of the bank each row is; -1: none."""
    same = (qpos[:, None] == np.asarray(bank.starts.qpos)).all(-1)
    return np.where(same.any(1), same.argmax(1), -1)


def test_the_first_starts_are_those_of_an_environment(task):
    env = embodied.make(TASK, 3)
    env.reset(5)
    np.testing.assert_allclose(np.asarray(env.world().qpos), first_starts(task, 5, 3).qpos, atol=1e-6)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_episodes_begins_in_the_bank(task, share):
    bank = bank_of(task)
    rows = rows_of(drawn(with_starts(task, bank, share)), bank)
    assert np.mean(rows >= 0) == pytest.approx(share, abs=0.1)


def test_starts_are_drawn_as_often_as_their_weights_say(task):
    bank = bank_of(task, weights=[3.0, 0.0, 1.0, 0.0])
    rows = rows_of(drawn(with_starts(task, bank, 1.0)), bank)
    assert np.bincount(rows, minlength=4) / len(rows) == pytest.approx([0.75, 0.0, 0.25, 0.0], abs=0.1)


def test_episodes_that_follow_begin_there_too(task):
    bank, changed = bank_of(task), with_starts(task, bank_of(task), 1.0)
    state = jax.tree.map(lambda leaf: leaf[0], bank.starts.task_state)
    start = changed.restart(jax.random.PRNGKey(0), state)
    assert rows_of(np.asarray(start.qpos)[None], bank)[0] >= 0


def test_an_environment_runs_from_them_and_the_task_itself_is_as_before(task):
    bank = bank_of(task, 1)
    changed = with_starts(task, bank, 1.0)
    env = Env(changed, make_engine("rigid", changed, 8), 8)
    env.reset(0)
    np.testing.assert_allclose(np.asarray(env.world().qpos), np.tile(bank.starts.qpos, (8, 1)), atol=1e-6)
    assert type(env.task).__name__ == type(task).__name__
    assert (rows_of(drawn(task, 50), bank) == -1).all()


def test_a_file_brings_back_every_bit(task, tmp_path):
    bank = bank_of(task, weights=[1.0, 2.0, 3.0, 4.0])
    save(tmp_path / "starts.safetensors", bank)
    again = load(tmp_path / "starts.safetensors", task)
    np.testing.assert_array_equal(again.weights, bank.weights)
    jax.tree.map(np.testing.assert_array_equal, again.starts, bank.starts)


def test_starts_of_another_task_and_damaged_files_are_refused(task, tmp_path):
    path = tmp_path / "starts.safetensors"
    save(path, bank_of(task))
    other = embodied.make("locomotion/half-cheetah", 1).task
    with pytest.raises(EmbodiedError, match="does not hold starts of"):
        load(path, other)
    with pytest.raises(EmbodiedError, match="not those of"):
        with_starts(other, bank_of(task))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(EmbodiedError, match="no starts can be read from"):
        load(path, task)
    with pytest.raises(EmbodiedError, match="no starts can be read from"):
        load(tmp_path / "absent", task)


def test_weights_and_shares_must_make_sense(task):
    for weights in ([1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1.0]):
        with pytest.raises(EmbodiedError, match="weights"):
            bank_of(task, 2, weights)
    with pytest.raises(EmbodiedError, match="share 0"):
        with_starts(task, bank_of(task), 0.0)
    start = bank_of(task)
    wrong = dataclasses.replace(start.starts, qpos=start.starts.qpos[:, :3])
    with pytest.raises(EmbodiedError, match="'qpos' has shape"):
        with_starts(task, StartBank(wrong, np.ones(4)))
