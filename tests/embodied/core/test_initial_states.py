"""Episodes that begin where a buffer says."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embodied.core.episode import first_keys
from embodied.core.initial_states import InitialStateBuffer, InitialStates, first_reset_states, load, save
from embodied.errors import EmbodiedError
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import task_of, toy_task, toy_world


@pytest.fixture(scope="module")
def task():
    return toy_task(Speck)


def buffer_of(task, count=4, weights=None):
    return InitialStateBuffer(starts_of(task, count), np.ones(count) if weights is None else np.asarray(weights))


@functools.cache
def starts_of(task, count):
    """The same for every buffer: `first_reset_states` compiles at each call."""
    return first_reset_states(task, 7, count)


def drawn(task, count=400):
    """Starts of many environments, whichever way they begin."""
    return np.asarray(first_reset_states(task, 1, count).qpos)


def rows_of(qpos, buffer):
    """Which start of the buffer each row is; -1: none."""
    same = (qpos[:, None] == np.asarray(buffer.reset_states.qpos)).all(-1)
    return np.where(same.any(1), same.argmax(1), -1)


def test_the_first_reset_states_are_those_of_an_environment(task):
    env = toy_world(Speck, "mujoco", 8)
    env.reset(5)
    np.testing.assert_allclose(np.asarray(env.world().qpos), first_reset_states(task, 5, 8).qpos, atol=1e-6)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_episodes_begins_in_the_buffer(task, share):
    buffer = buffer_of(task)
    rows = rows_of(drawn(InitialStates(task, buffer, share)), buffer)
    assert np.mean(rows >= 0) == pytest.approx(share, abs=0.1)


def test_starts_are_drawn_as_often_as_their_weights_say(task):
    buffer = buffer_of(task, weights=[3.0, 0.0, 1.0, 0.0])
    rows = rows_of(drawn(InitialStates(task, buffer, 1.0)), buffer)
    assert np.bincount(rows, minlength=4) / len(rows) == pytest.approx([0.75, 0.0, 0.25, 0.0], abs=0.1)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_same_share_of_the_episodes_that_follow_begins_there(task, share):
    buffer, changed = buffer_of(task), InitialStates(task, buffer_of(task), share)
    state = jax.tree.map(lambda leaf: leaf[0], buffer.reset_states.task_state)
    following = jax.jit(jax.vmap(lambda key: changed.restart(key, state).qpos))(first_keys(2, 400))
    assert np.mean(rows_of(np.asarray(following), buffer) >= 0) == pytest.approx(share, abs=0.1)


class Recalled(InitialStates):
    """Specks that all begin at one start."""

    def __init__(self):
        super().__init__(toy_task(Speck), buffer_of(toy_task(Speck), 1), 1.0)


def test_an_environment_runs_from_them_and_the_task_itself_is_as_before(task):
    buffer, env = buffer_of(task, 1), toy_world(Recalled, "mujoco", 8)
    env.reset(0)
    np.testing.assert_allclose(np.asarray(env.world().qpos), np.tile(buffer.reset_states.qpos, (8, 1)), atol=1e-6)
    assert env.task.unwrapped is task
    assert (rows_of(drawn(task, 50), buffer) == -1).all()


def test_a_file_brings_back_every_bit(task, tmp_path):
    buffer = buffer_of(task, weights=[1.0, 2.0, 3.0, 4.0])
    save(tmp_path / "initial_states.safetensors", buffer)
    again = load(tmp_path / "initial_states.safetensors", task)
    np.testing.assert_array_equal(again.weights, buffer.weights)
    jax.tree.map(np.testing.assert_array_equal, again.reset_states, buffer.reset_states)


def test_starts_of_another_task_and_damaged_files_are_refused(task, tmp_path):
    path = tmp_path / "initial_states.safetensors"
    save(path, buffer_of(task))
    other = task_of("swarm/hover")
    with pytest.raises(EmbodiedError, match="does not hold initial states of"):
        load(path, other)
    with pytest.raises(EmbodiedError, match="not those of"):
        InitialStates(other, buffer_of(task))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(EmbodiedError, match="no initial states can be read from"):
        load(path, task)
    with pytest.raises(EmbodiedError, match="no initial states can be read from"):
        load(tmp_path / "absent", task)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda name, rows: rows[:-1] if name == "qvel" else rows, r"'qvel' has \(3,\) rows; qpos has 4"),
        (
            lambda name, rows: rows * np.nan if name == "qpos" else rows,
            "'qpos' holds numbers that are not finite",
        ),
        (lambda name, rows: rows[0, 0] if name == "qpos" else rows, "'qpos' has shape"),
    ],
)
def test_a_file_whose_reset_states_are_none_is_refused(task, tmp_path, change, said):
    path = tmp_path / "initial_states.safetensors"
    save(path, buffer_of(task))
    save_file({name: np.array(change(name, rows)) for name, rows in load_file(path).items()}, path)
    with pytest.raises(EmbodiedError, match=said):
        load(path, task)


def test_weights_and_shares_must_make_sense(task):
    for weights in ([1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1.0]):
        with pytest.raises(EmbodiedError, match="weights"):
            buffer_of(task, 2, weights)
    with pytest.raises(EmbodiedError, match="share 0"):
        InitialStates(task, buffer_of(task), 0.0)
    start = buffer_of(task)
    wrong = dataclasses.replace(start.reset_states, qpos=start.reset_states.qpos[:, :3])
    with pytest.raises(EmbodiedError, match="'qpos' has shape"):
        InitialStates(task, InitialStateBuffer(wrong, np.ones(4)))
