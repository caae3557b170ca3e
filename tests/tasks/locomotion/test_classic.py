"""The classic bodies are Gymnasium v5's: the same machines, and the same environments step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
import torch

import embodied
from benchmarks.gymnasium_transfer import BODIES
from embodied.env.env import Env
from embodied.registry import join_content

gymnasium_mujoco = pytest.importorskip("gymnasium.envs.mujoco")

N = 3
TOLERANCE = 1e-5  # absolute near zero, relative where numbers are large: float32 against float64
AGREED = {"half-cheetah": 25}
"""Control steps after which Gymnasium's state is set to ours again.

The cheetah's masses agree to one rounding, 2e-16, since MuJoCo no longer wants a model to set its total mass; bouncing
magnifies a difference tenfold every 0.2 s, which would be 1e-5 after 2.5 s. The ant and the humanoid agree to the last
bit, the hopper and the walker begin anew often enough.
"""
FLOAT32 = 2.0**-23  # relative distance between neighbouring numbers

pytestmark = pytest.mark.timeout(120)
each_body = pytest.mark.parametrize("name", BODIES)


def reference(name: str) -> Any:
    """Gymnasium's environment with its defaults, without the wrapper that counts steps."""
    return gymnasium.make(BODIES[name]).unwrapped


@pytest.fixture(scope="module")
def env_of() -> Callable[[str], Env]:
    """Our environments by name, built once."""
    built: dict[str, Env] = {}

    def get(name: str) -> Env:
        if name not in built:
            built[name] = embodied.make(f"locomotion/{name}", num_envs=N, engine="mujoco", device="cpu")
        return built[name]

    return get


def task_of(name: str) -> Any:
    return join_content()[f"locomotion/{name}"].load()()


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
    theirs, task = reference(name).model, task_of(name)
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
    theirs, ours = reference(name).model, task_of(name).model
    assert [ours.joint(i).name for i in range(ours.njnt)] == [theirs.joint(i).name for i in range(theirs.njnt)]
    np.testing.assert_array_equal(ours.actuator_trnid, theirs.actuator_trnid)
    np.testing.assert_array_equal(ours.actuator_ctrlrange, theirs.actuator_ctrlrange)
    np.testing.assert_array_equal(ours.actuator_gear, theirs.actuator_gear)
    np.testing.assert_array_equal(ours.qpos0, theirs.qpos0)
    np.testing.assert_allclose(ours.body_mass, theirs.body_mass, rtol=1e-12)


class Twin:
    """Gymnasium's environment, made to follow one of ours."""

    def __init__(self, name: str, ours: Env, index: int) -> None:
        self.env, self.ours, self.index = reference(name), ours, index
        self.scale = np.asarray(ours.task.model.actuator_ctrlrange[:, 1], np.float32)

    def restart(self) -> np.ndarray:
        """Take over the state that ours begins with; returns the first observation."""
        self.env.reset()
        # Gymnasium forgets its last forces and controls before it draws a start, and keeps nothing else.
        mujoco.mj_resetData(self.env.model, self.env.data)
        self.agree()
        return self.env._get_obs()

    def agree(self) -> None:
        """Take over the present state of ours."""
        batch = self.ours.engine.batch
        self.env.set_state(batch.qpos[self.index].copy(), batch.qvel[self.index].copy())

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
def test_observations_rewards_and_ends_are_theirs(name: str, env_of: Callable[[str], Env]) -> None:
    """300 control steps of random actions, restarts included, from our starts.

    A speed is the difference of two float32 positions, over the control step: that much more may rewards differ.
    """
    env = env_of(name)
    first = env.reset(seed=0)["policy"].numpy().copy()
    twins = [Twin(name, env, i) for i in range(N)]
    for i, twin in enumerate(twins):
        assert_close(first[i], twin.restart(), f"first observation of {i}")
    weights = env.task.config.weights
    generator = torch.Generator().manual_seed(0)
    ends = 0
    for step in range(300):
        actions = 2 * torch.rand(N, env.action_size, generator=generator) - 1
        if step and step % AGREED.get(name, 300) == 0:
            for twin in twins:
                twin.agree()
        result = env.step(actions)
        for i, twin in enumerate(twins):
            where = f"step {step}, environment {i}"
            observation, reward, terminated, info = twin.step(actions[i].numpy())
            farthest = max(1.0, abs(info["x_position"]) + 1.0)
            rounding = weights.forward * farthest * FLOAT32 / env.control_dt
            assert_close(result.final_obs["policy"][i], observation, f"observation, {where}")
            assert_close(result.reward[i], reward, f"reward, {where}", rounding)
            assert bool(result.terminated[i]) == terminated, where
            if result.done[i]:
                ends += 1
                assert_close(result.obs["policy"][i], twin.restart(), f"restart, {where}")
    assert ends > 0 or name == "half-cheetah" or name == "ant"


@each_body
def test_every_reward_term_is_theirs(name: str, env_of: Callable[[str], Env]) -> None:
    """The terms have Gymnasium's names, and their sums over the first steps its values."""
    env = env_of(name)
    env.reset(seed=1)
    twin = Twin(name, env, 0)
    twin.restart()
    totals = dict.fromkeys(env.task.reward_weights, 0.0)
    for action in 2 * torch.rand(4, N, env.action_size, generator=torch.Generator().manual_seed(1)) - 1:
        env.step(action)
        info = twin.step(action[0].numpy())[3]
        totals = {term: total + info[f"reward_{term}"] for term, total in totals.items()}
    ours = env.episode.terms
    for term, total in totals.items():
        assert float(ours[term][0]) == pytest.approx(total, rel=1e-4, abs=1e-4), term


@each_body
def test_the_defaults_are_theirs(name: str) -> None:
    """Options of the same name, and the clocks; reward weights are checked by the rewards."""
    theirs, task = reference(name), task_of(name)
    for field in dataclasses.fields(task.config):
        if hasattr(theirs, f"_{field.name}"):
            assert getattr(task.config, field.name) == pytest.approx(getattr(theirs, f"_{field.name}")), field.name
    assert task.timing.control_dt == pytest.approx(theirs.dt)
    assert task.timing.max_steps == gymnasium.spec(BODIES[name]).max_episode_steps


@each_body
def test_starts_are_spread_as_theirs(name: str, env_of: Callable[[str], Env]) -> None:
    """Mean and deviation of 400 starts of either kind agree within four standard errors."""
    import jax

    theirs, task = reference(name), env_of(name).task
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
    env = embodied.make(
        "locomotion/ant", num_envs=1, engine="mujoco", device="cpu", include_cfrc_ext_in_observation=False
    )
    assert env.observation_spec["policy"].shape == (27,)
    theirs = gymnasium.make("Ant-v5", include_cfrc_ext_in_observation=False)
    assert theirs.observation_space.shape == (27,)
