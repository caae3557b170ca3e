"""What LeRobot's rollouts ask of a vector environment; nothing of LeRobot is needed for it."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from embodied.adapters.lerobot.vector_env import LeRobotVectorEnv, Success
from embodied.core.world import Outcome, World
from embodied.env.env import Env
from embodied.errors import ActionError, EmbodiedError, UnknownNameError
from tasks.swarm.single.hover import HoverConfig
from tests.kit.commands import interpreted
from tests.kit.drones import MAX_STEPS, BriefHover, lasting, plan, seeing_world


def seeing(num_envs: int, success: Success = Success.LAST) -> LeRobotVectorEnv:
    """Drones that carry a camera; some fall before the time limit."""
    return LeRobotVectorEnv(seeing_world(num_envs), "policy", success)


def test_observations_are_what_lerobot_reads() -> None:
    env = seeing(3)
    observation, _ = env.reset(seed=[1, 2, 3], options={"lerobot_new_rollout": True})
    assert env.observation_space.contains(observation)
    assert observation["pixels"]["front"].shape == (3, 16, 24, 3)
    assert observation["pixels"]["front"].dtype == np.uint8
    assert observation["agent_pos"].dtype == np.float32
    assert env.env.task.language is not None
    assert env.call("task_description") == (env.env.task.language.instructions[0],) * 3
    assert env.call("_max_episode_steps") == (MAX_STEPS,) * 3
    assert env.get_attr("task") == (env.env.name,) * 3
    films = env.call("render")
    assert [film.shape for film in films] == [(240, 360, 3)] * 3
    np.testing.assert_array_equal(films[0][::15, ::15], observation["pixels"]["front"][0])
    with pytest.raises(AttributeError, match="no attribute 'colour'; it has task, task_description"):
        env.call("colour")


def check_seeds(env: LeRobotVectorEnv, alone: LeRobotVectorEnv, rounding: float, differing: float) -> None:
    """An episode depends on its seed alone, up to rounding, by which such a share of its picture may differ."""
    first, _ = env.reset(seed=7)
    for row in range(3):
        own, _ = alone.reset(seed=[7 + row])
        np.testing.assert_allclose(own["agent_pos"][0], first["agent_pos"][row], rtol=rounding, atol=1e-6)
        assert np.mean(own["pixels"]["front"][0] != first["pixels"]["front"][row]) <= differing
    elsewhere, _ = env.reset(seed=[9, 30, 7])
    for seed, row in ((9, 0), (7, 2)):
        np.testing.assert_array_equal(elsewhere["agent_pos"][row], first["agent_pos"][seed - 7])
        np.testing.assert_array_equal(elsewhere["pixels"]["front"][row], first["pixels"]["front"][seed - 7])
    assert len({row.tobytes() for row in first["agent_pos"]}) == 3
    with pytest.raises(EmbodiedError, match="2 seeds; expected 3"):
        env.reset(seed=[1, 2])


def test_an_episode_depends_on_its_seed_alone() -> None:
    check_seeds(seeing(3), seeing(1), rounding=1e-6, differing=0.05)


AS_USERS = """
from tests.embodied.adapters.lerobot.test_vector_env import check_seeds, seeing
check_seeds(seeing(3), seeing(1), rounding=1e-7, differing=0.0)
"""


@pytest.mark.slow
def test_an_episode_s_pictures_depend_on_its_seed_alone() -> None:
    """As users compile: by the older emitters (tests/conftest.py) rounding differs between numbers of environments."""
    done = interpreted("-c", AS_USERS, XLA_FLAGS="")
    assert done.returncode == 0, done.stderr[-1000:]


def test_an_episode_ends_once_and_earns_nothing_afterwards() -> None:
    env = seeing(3)
    env.reset(seed=0)
    ended = early = np.zeros(3, bool)
    tape = plan(MAX_STEPS, 3).numpy()
    for actions in tape:
        _, reward, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        assert not (done & ended).any()
        assert (reward[ended] == 0).all()
        assert (reward[~ended] != 0).all()
        assert ("final_info" in infos) == done.any()
        if done.any():
            assert infos["final_info"]["is_success"].shape == (3,)
            assert not infos["final_info"]["is_success"][~done].any()
        early, ended = ended.copy(), ended | done
    assert ended.all()
    assert early.any(), "some drones should fall before the time limit, or this test shows little"
    env.reset(seed=0)
    _, reward, *_ = env.step(tape[0])
    assert (reward != 0).all()


class Slow(BriefHover):
    """Solved as long as the drone does not fall fast."""

    def outcome(self, world: World, state: Any) -> Outcome:
        return Outcome(success=world.qvel[2] > -0.5, failure=jnp.zeros((), bool))


@functools.cache
def slow_world() -> Env:
    return lasting(Slow(HoverConfig(start_speed=0.0)), 2, camera=True)


@pytest.mark.parametrize(("success", "expected"), [(Success.LAST, False), (Success.ANY, True)])
def test_success_is_of_the_last_step_or_of_any(success: Success, expected: bool) -> None:
    env = LeRobotVectorEnv(slow_world(), "policy", success)
    env.reset(seed=0)
    infos = {}
    for _ in range(MAX_STEPS):
        *_, infos = env.step(np.full((2, 4), -1.0))
    assert infos["final_info"]["is_success"].tolist() == [expected] * 2


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        LeRobotVectorEnv(embodied.make("swarm/hover", 1, cameras=("front",)), "colour")
    with pytest.raises(EmbodiedError, match="agents, and LeRobot takes one"):
        LeRobotVectorEnv(embodied.make("swarm/formation", 1), "policy")
    env = seeing(3)
    env.reset()
    with pytest.raises(ActionError, match=r"actions have shape \(4,\); expected \(3, 4\)"):
        env.step(np.zeros(4))
    env.close()
    env.close()
