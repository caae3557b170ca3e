import warnings

import numpy as np
import pytest

import embodied
from embodied.env.adapters.gymnasium import GymnasiumVectorEnv
from embodied.errors import EmbodiedError
from tests.embodied.env.adapters.drones import MAX_STEPS, brief_env

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecMonitor

from embodied.env.adapters.stable_baselines3 import SB3VecEnv

NUM_ENVS = 4


@pytest.fixture(scope="module")
def core():
    return brief_env(NUM_ENVS)


def test_infos_carry_what_stable_baselines_reads(core):
    plan = np.random.default_rng(5).uniform(-1, 1, (3 * MAX_STEPS, NUM_ENVS, 4)).astype(np.float32)
    vector, env = GymnasiumVectorEnv(core), SB3VecEnv(core)
    vector.reset(seed=7)
    expected = [vector.step(action) for action in plan]
    env.seed(7)
    env.reset()
    limits = set()
    for action, (observation, reward, terminated, truncated, infos) in zip(plan, expected, strict=True):
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
            assert info["episode"]["r"] == infos["final_info"]["episode"]["r"][index]
            assert 1 <= info["episode"]["l"] <= MAX_STEPS
            limits.add(info["TimeLimit.truncated"])
    assert limits == {True, False}, "the drones should end both ways, or this test shows little"


def test_seed_holds_for_one_reset(core):
    env = SB3VecEnv(core)
    env.seed(3)
    first, second = env.reset(), env.reset()
    env.seed(3)
    np.testing.assert_array_equal(env.reset(), first)
    assert not np.allclose(first, second)


def test_episode_statistics_agree_with_stable_baselines_own(core):
    env = SB3VecEnv(core)
    assert env.env_is_wrapped(Monitor) == [True] * NUM_ENVS
    with pytest.warns(UserWarning, match="already wrapped"):
        monitor = VecMonitor(env)
    monitor.reset()
    ended = 0
    for action in np.random.default_rng(5).uniform(-1, 1, (2 * MAX_STEPS, NUM_ENVS, 4)).astype(np.float32):
        monitor.step_async(action)
        *_, infos = env.step_wait()
        env.step_wait, step_wait = lambda result=(*_, infos): result, env.step_wait
        *_, monitored = monitor.step_wait()
        env.step_wait = step_wait
        for ours, theirs in zip(infos, monitored, strict=True):
            if "episode" in ours:
                ended += 1
                assert ours["episode"]["l"] == theirs["episode"]["l"]
                assert ours["episode"]["r"] == pytest.approx(theirs["episode"]["r"], rel=1e-4, abs=1e-4)
    assert ended >= 2 * NUM_ENVS


def test_attributes_and_methods_are_shared_by_all_environments(core):
    env = SB3VecEnv(core)
    assert env.get_attr("engine_name") == ["rigid"] * NUM_ENVS
    assert env.get_attr("render_mode", indices=[0, 2]) == [None, None]
    assert not env.has_attr("colour")
    env.set_attr("dump_folder", core.dump_folder)
    assert env.env_method("world")[0].qpos.shape == (NUM_ENVS, 7)
    with pytest.raises(EmbodiedError, match=r"method 'world' was meant for environments \[1\]; all 4 share it"):
        env.env_method("world", indices=1)
    env.set_options({"wind": 3})
    with pytest.raises(EmbodiedError, match="unknown reset option 'wind'"):
        env.reset()


def test_ppo_trains_on_hover_and_flies_better():
    """Its losses stay finite and the returns it is told of rise; without training they stay near -26."""
    env = SB3VecEnv(embodied.make("swarm/hover", num_envs=64, engine="rigid", seed=1))
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=512, learning_rate=1e-3, seed=0, device="cpu")

    def train(updates: int) -> float:
        """Mean return of the last hundred episodes."""
        model.learn(updates * 64 * 32, reset_num_timesteps=False)
        assert model.ep_info_buffer is not None
        assert model.ep_success_buffer is not None
        assert len(model.ep_info_buffer) == len(model.ep_success_buffer) == 100
        return float(np.mean([episode["r"] for episode in model.ep_info_buffer]))

    early, late = train(6), train(16)
    losses = {name: value for name, value in model.logger.name_to_value.items() if "loss" in name}
    assert losses.keys() == {"train/loss", "train/policy_gradient_loss", "train/value_loss", "train/entropy_loss"}
    assert np.isfinite(list(losses.values())).all(), losses
    assert late > early + 5, (early, late)


def test_stable_baselines_evaluation_believes_our_episodes(core):
    env = SB3VecEnv(core)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=32, seed=0, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it would warn of an environment that does not report its episodes
        returns, lengths = evaluate_policy(model, env, n_eval_episodes=8, return_episode_rewards=True)
    assert isinstance(lengths, list)
    assert isinstance(returns, list)
    assert len(returns) == 8
    assert max(lengths) <= MAX_STEPS
    assert np.isfinite(returns).all()


def test_pictures_and_vectors_together() -> None:
    """SB3's own policy for dictionaries learns from a camera and a vector."""
    made = embodied.make("swarm/hover", 2, seed=0, cameras=("front",), resolution=36)
    env = SB3VecEnv(made, ("policy", "pixels/front"))
    PPO("MultiInputPolicy", env, n_steps=4, batch_size=8, n_epochs=1).learn(8)


def test_one_agent_learns() -> None:
    PPO("MlpPolicy", SB3VecEnv(embodied.make("swarm/landing", 2, seed=0)), n_steps=4, batch_size=8, n_epochs=1).learn(8)


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 4 minutes on two idle cores
def test_hover_is_learned_to_90_percent() -> None:
    from benchmarks.adapters.__main__ import Settings, measure

    assert float(measure(Settings("stable_baselines3"))["success"]) >= 0.9
