import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from embodied.adapters.gymnasium import GymnasiumVectorEnv
from embodied.env.factory import make
from embodied.errors import EmbodiedError
from tests.kit.drones import MAX_STEPS, NUM_ENVS, brief_world, plan, seeing_world
from tests.kit.worlds import world

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from embodied.adapters.stable_baselines3 import SB3VecEnv


@pytest.fixture
def core():
    return brief_world()


def test_infos_carry_what_stable_baselines_reads(core):
    actions = plan().numpy()
    vector, env = GymnasiumVectorEnv(core), SB3VecEnv(core)
    vector.reset(seed=7)
    expected = [vector.step(action) for action in actions]
    env.seed(7)
    env.reset()
    limits = set()
    for action, (observation, reward, terminated, truncated, infos) in zip(actions, expected, strict=True):
        got = env.step(action)
        for ours, theirs in zip(got[:3], (observation, reward, terminated | truncated), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for index, info in enumerate(got[3]):
            if not got[2][index]:
                assert info == {}
                continue
            np.testing.assert_array_equal(info["terminal_observation"], infos["final_obs"][index])
            assert info["TimeLimit.truncated"] is bool(truncated[index])
            assert info["is_success"] is bool(infos["final_info"]["success"][index])
            for key in ("r", "l"):  # which `test_gymnasium.py` compares with Gymnasium's own sums
                assert info["episode"][key] == infos["final_info"]["episode"][key][index]
            limits.add(info["TimeLimit.truncated"])
    assert limits == {True, False}, "the drones should end both ways, or this test shows little"


def test_seed_holds_for_one_reset(core):
    env = SB3VecEnv(core)
    env.seed(3)
    first, second = env.reset(), env.reset()
    env.seed(3)
    np.testing.assert_array_equal(env.reset(), first)
    assert not np.allclose(first, second)


def test_attributes_and_methods_are_shared_by_all_environments(core):
    env = SB3VecEnv(core)
    assert env.env_is_wrapped(Monitor) == [True] * NUM_ENVS
    assert env.get_attr("engine_name") == ["rigid"] * NUM_ENVS
    assert env.get_attr("render_mode", indices=[0, 2]) == [None, None]
    assert not env.has_attr("colour")
    before = core.dump_folder
    env.set_attr("dump_folder", "elsewhere")
    assert core.dump_folder == "elsewhere"
    env.set_attr("dump_folder", before)
    assert env.env_method("world")[0].qpos.shape == (NUM_ENVS, 7)
    with pytest.raises(EmbodiedError, match=r"method 'world' was meant for environments \[1\]; all 4 share it"):
        env.env_method("world", indices=1)
    env.set_options({"wind": 3})
    with pytest.raises(EmbodiedError, match="unknown reset option 'wind'"):
        env.reset()


CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "negative seed": (lambda env: env.seed(-1), "seed=-1; expected a whole number, from 0 to 4294967295"),
    "long seed": (lambda env: env.seed(2**40), "seed=1099511627776; expected a whole number, from 0 to 4294967295"),
    "seed of text": (lambda env: env.seed("x"), "seed='x'; expected a whole number"),
    "half a seed": (lambda env: env.seed(0.5), "seed=0.5; expected a whole number"),
    "index": (lambda env: env.get_attr("num_envs", [99]), "indices=99; expected a whole number, from 0 to 3"),
    "negative index": (lambda env: env.get_attr("num_envs", -5), "indices=-5; expected a whole number, from 0 to 3"),
    "half an index": (lambda env: env.get_attr("num_envs", 2.5), "indices=2.5; expected a whole number, from 0 to 3"),
    "index of text": (lambda env: env.set_attr("dump_folder", 3, "x"), "indices='x'; expected a whole number"),
    "index of a method": (lambda env: env.env_method("world", indices=[99]), "indices=99; expected a whole number"),
    "index of a wrapper": (lambda env: env.env_is_wrapped(Monitor, 99), "indices=99; expected a whole number"),
    "no wrapper": (lambda env: env.env_is_wrapped(3), "wrapper_class=3; expected a class, such as Monitor"),
    "options": (lambda env: env.set_options(3), "options=3; expected a dictionary, or a list of them"),
    "list of options": (lambda env: env.set_options([None]), "options=[None]; expected a dictionary"),
    "no step": (lambda env: env.step_wait(), "step_wait() before step_async(): call step_async(actions) first"),
}


@pytest.mark.parametrize("call", CALLS)
def test_bad_input_is_refused_in_a_line(core, call):
    ask, expected = CALLS[call]
    with pytest.raises(EmbodiedError) as caught:
        ask(SB3VecEnv(core))
    assert str(caught.value).startswith(expected)


def test_a_step_is_waited_for_once(core):
    env: Any = SB3VecEnv(core)
    assert len(env.seed(2**32 - 1)) == len(env.seed()) == NUM_ENVS
    env.seed(np.int64(3))
    env.reset()
    assert env.get_attr("num_envs", np.int64(1)) == [NUM_ENVS]
    env.step(np.zeros((NUM_ENVS, 4), np.float32))
    with pytest.raises(EmbodiedError, match=r"step_wait\(\) before step_async\(\)"):
        env.step_wait()


@pytest.fixture(scope="module")
def model():
    """A learner that has taken its first steps, which import much."""
    model = PPO("MlpPolicy", SB3VecEnv(brief_world()), n_steps=24, batch_size=96, n_epochs=1, seed=0, device="cpu")
    return model.learn(24 * NUM_ENVS)


def test_its_ppo_learns_from_our_episodes(model):
    """Its losses are finite, its parameters move, and it knows the return and the success of the episodes."""
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(24 * NUM_ENVS)
    losses = {name: value for name, value in model.logger.name_to_value.items() if "loss" in name}
    assert losses.keys() == {"train/loss", "train/policy_gradient_loss", "train/value_loss", "train/entropy_loss"}
    assert np.isfinite(list(losses.values())).all(), losses
    assert not all(torch.equal(old, new) for old, new in zip(before, model.policy.parameters(), strict=True))
    assert model.ep_info_buffer is not None
    assert model.ep_success_buffer is not None
    assert len(model.ep_info_buffer) == len(model.ep_success_buffer) >= NUM_ENVS


def test_stable_baselines_evaluation_believes_our_episodes(core, model):
    env = SB3VecEnv(core)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it would warn of an environment that does not report its episodes
        returns, lengths = evaluate_policy(model, env, n_eval_episodes=8, return_episode_rewards=True)
    assert isinstance(lengths, list)
    assert isinstance(returns, list)
    assert len(returns) == 8
    assert max(lengths) <= MAX_STEPS
    assert np.isfinite(returns).all()


def test_pictures_are_a_dictionary_and_one_agent_is_no_axis() -> None:
    env = SB3VecEnv(seeing_world(), ("policy", "pixels/front"))
    observation = env.reset()
    assert isinstance(observation, dict)
    assert env.observation_space.contains({name: values[0] for name, values in observation.items()})
    assert observation["pixels/front"].shape == (3, 16, 24, 3)
    landing = SB3VecEnv(world("swarm/landing", "mujoco"))
    first, actions = landing.reset(), np.stack([landing.action_space.sample()] * landing.num_envs)
    assert isinstance(first, np.ndarray)
    assert all(landing.observation_space.contains(row) for row in first)
    _, reward, done, _ = landing.step(actions)
    assert reward.shape == done.shape == (landing.num_envs,)


@pytest.mark.slow
def test_stable_baselines_learns_from_pictures_and_vectors_together_and_from_one_agent() -> None:
    made = make("swarm/hover", 2, seed=0, cameras=("front",), resolution=36)
    env = SB3VecEnv(made, ("policy", "pixels/front"))
    PPO("MultiInputPolicy", env, n_steps=4, batch_size=8, n_epochs=1).learn(8)
    PPO("MlpPolicy", SB3VecEnv(make("swarm/landing", 2, seed=0)), n_steps=4, batch_size=8, n_epochs=1).learn(8)
