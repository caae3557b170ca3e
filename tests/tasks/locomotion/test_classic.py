"""The classic bodies are Gymnasium v5's: the same machines, and the same environments step by step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import gymnasium
import jax
import mujoco
import numpy as np
import pytest

from benchmarks.gymnasium_transfer import BODIES
from embodied.env.factory import configured
from embodied.env.registry import join_content
from tests.kit.scripts import hosted
from tests.kit.worlds import task_of

gymnasium_mujoco = pytest.importorskip("gymnasium.envs.mujoco")

N = 2
TOLERANCE = 1e-5  # absolute near zero, relative where numbers are large: float32 against float64
AGREED = {"half-cheetah": 25}
"""Control steps that are compared at once; Gymnasium's state is then set to ours again.

The cheetah's masses agree to one rounding, 2e-16, since MuJoCo no longer wants a model to set its total mass; bouncing
magnifies a difference tenfold every 0.2 s, and some bounces much faster: 1e-13 became 3e-5 in 20 steps. The ant and
the humanoid agree to the last bit, the hopper and the walker fall and lie still.
"""
FLOAT32 = 2.0**-23  # relative distance between neighbouring numbers

pytestmark = pytest.mark.timeout(120)
each_body = pytest.mark.parametrize("name", BODIES)


def reference(name: str) -> Any:
    """Gymnasium's environment with its defaults, without the wrapper that counts steps."""
    return gymnasium.make(BODIES[name]).unwrapped


def body_task(name: str) -> Any:
    return task_of(f"locomotion/{name}")


def stepped(model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """(len(controls), nq + nv) the states after each physics step."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    rows = []
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        rows.append(np.concatenate([data.qpos, data.qvel]))
    return np.array(rows)


@each_body
def test_both_models_move_alike(name: str) -> None:
    """50 physics steps from ten random states near and in the floor: equal to 1e-9 (in fact 2e-13 at most)."""
    theirs, task = reference(name).model, body_task(name)
    rng = np.random.default_rng(0)
    for model in (task.model, task.visual_model):
        model.opt.timestep = task.timing.physics_dt
        for _ in range(5):
            qpos = theirs.qpos0 + rng.uniform(-0.1, 0.1, theirs.nq)
            height = 2 if theirs.nq > theirs.nv else 1
            qpos[height] -= rng.uniform(0, 0.4)
            qvel = rng.normal(size=theirs.nv)
            low, high = theirs.actuator_ctrlrange.T
            controls = rng.uniform(low, high, (50, theirs.nu))
            ours, expected = (stepped(m, qpos, qvel, controls) for m in (model, theirs))
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)


@each_body
def test_names_and_order_are_theirs(name: str) -> None:
    theirs, ours = reference(name).model, body_task(name).model
    assert [ours.joint(i).name for i in range(ours.njnt)] == [theirs.joint(i).name for i in range(theirs.njnt)]
    np.testing.assert_array_equal(ours.actuator_trnid, theirs.actuator_trnid)
    np.testing.assert_array_equal(ours.actuator_ctrlrange, theirs.actuator_ctrlrange)
    np.testing.assert_array_equal(ours.actuator_gear, theirs.actuator_gear)
    np.testing.assert_array_equal(ours.qpos0, theirs.qpos0)
    np.testing.assert_allclose(ours.body_mass, theirs.body_mass, rtol=1e-12)


class Twin:
    """Gymnasium's environment, made to follow one of ours."""

    def __init__(self, name: str) -> None:
        self.env = reference(name)
        self.scale = np.asarray(body_task(name).model.actuator_ctrlrange[:, 1], np.float32)
        self.env.reset()
        # Gymnasium forgets its last forces and controls before it draws a start, and keeps nothing else.
        mujoco.mj_resetData(self.env.model, self.env.data)

    def agree(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """Take over a state of ours; returns what is observed there."""
        self.env.set_state(qpos.astype(float), qvel.astype(float))
        return self.env._get_obs()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, dict[str, float]]:
        observation, reward, terminated, _, info = self.env.step(self.scale * action)
        return observation, float(reward), bool(terminated), info


def assert_close(ours: Any, expected: Any, what: str, extra: float = 0.0) -> float:
    """Equal to 1e-5, relative where larger than one, plus `extra`; returns the largest difference so scaled."""
    ours, expected = np.asarray(ours, np.float64), np.asarray(expected, np.float64)
    gap = np.abs(ours - expected) / np.maximum(1.0, np.abs(expected))
    assert gap.max() <= TOLERANCE + extra, f"{what}: differs by {gap.max():.2e} at {gap.argmax()}"
    return float(gap.max())


@each_body
def test_observations_rewards_their_terms_and_ends_are_theirs(name: str) -> None:
    """100 control steps of random actions from our starts; who falls lies there.

    A speed is the difference of two float32 positions, over the control step: that much more may rewards differ.
    """
    task, steps = body_task(name), AGREED.get(name, 100)
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, N, task.action_size)).astype(np.float32)
    ours = hosted(task, steps, actions, count=N)
    fell = 0
    for i, twin in enumerate([Twin(name) for _ in range(N)]):
        qpos, qvel = np.asarray(ours.worlds.qpos)[:, i], np.asarray(ours.worlds.qvel)[:, i]
        assert_close(ours.seen["policy"][0, i], twin.agree(qpos[0], qvel[0]), f"first observation of {i}")
        for step in range(1, steps + 1):
            where = f"step {step}, environment {i}"
            observation, reward, terminated, info = twin.step(actions[step - 1, i])
            farthest = max(1.0, abs(info["x_position"]) + 1.0)
            rounding = task.config.weights.forward * farthest * FLOAT32 / task.timing.control_dt
            assert_close(ours.seen["policy"][step, i], observation, f"observation, {where}")
            terms = {term: task.reward_weights[term] * ours.terms[term][step, i] for term in task.reward_weights}
            for term, value in terms.items():
                assert_close(value, info[f"reward_{term}"], f"{term}, {where}", rounding)
            assert_close(sum(terms.values()), reward, f"reward, {where}", 2 * rounding)
            assert bool(ours.failure[step, i]) == terminated, where
            fell += terminated
    assert fell > 0 or name == "half-cheetah" or name == "ant"


@each_body
def test_the_defaults_are_theirs(name: str) -> None:
    """Options of the same name, and the clocks; reward weights are checked by the rewards."""
    theirs, task = reference(name), body_task(name)
    for field in dataclasses.fields(task.config):
        if hasattr(theirs, f"_{field.name}"):
            assert getattr(task.config, field.name) == pytest.approx(getattr(theirs, f"_{field.name}")), field.name
    assert task.timing.control_dt == pytest.approx(theirs.dt)
    assert task.timing.max_steps == gymnasium.spec(BODIES[name]).max_episode_steps


@each_body
def test_starts_are_spread_as_theirs(name: str) -> None:
    """Mean and deviation of 400 starts of either kind agree within four standard errors."""
    theirs, task = reference(name), body_task(name)
    starts = jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.PRNGKey(0), 400))
    drawn = np.concatenate([starts.qpos, starts.qvel], axis=1)
    rows = []
    for seed in range(400):
        theirs.reset(seed=seed)
        rows.append(theirs.state_vector())
    expected = np.array(rows)
    nq = task.model.nq
    for part in (slice(0, nq), slice(nq, None)):
        ours, other = (values[:, part] - values[:, part].mean(axis=0) for values in (drawn, expected))
        assert ours.std() == pytest.approx(other.std(), rel=0.05)
        assert np.abs(ours).max() == pytest.approx(np.abs(other).max(), rel=0.3)
    np.testing.assert_allclose(drawn.mean(axis=0), expected.mean(axis=0), atol=5 * expected.std() / np.sqrt(400))


def test_without_contact_forces_an_ant_sees_what_gymnasium_shows_without_them() -> None:
    ant = configured(join_content()["locomotion/ant"], {"include_cfrc_ext_in_observation": False})
    assert sum(math.prod(shape) for shape in ant.observation_terms["policy"].values()) == 27
    theirs = gymnasium.make("Ant-v5", include_cfrc_ext_in_observation=False)
    assert theirs.observation_space.shape == (27,)
