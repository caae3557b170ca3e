"""`RslRlVecEnv` with rsl_rl itself."""

import pytest
import torch

import embodied
from embodied.errors import EmbodiedError, UnknownNameError
from tests.kit.drones import MAX_STEPS, NUM_ENVS, brief_world, lived, plan, run_page, seeing_world
from tests.kit.worlds import world

pytest.importorskip("rsl_rl", reason='rsl_rl is not installed: pip install -e ".[adapters]"')
pytest.importorskip("tensordict")

from rsl_rl.runners import OnPolicyRunner  # pyright: ignore[reportMissingImports] - an extra

from embodied.adapters.rsl_rl import RslRlVecEnv

CONFIG = {
    "num_steps_per_env": 8,
    "save_interval": 100,
    "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
    "actor": {"class_name": "MLPModel", "hidden_dims": [8], "distribution_cfg": {"class_name": "GaussianDistribution"}},
    "critic": {"class_name": "MLPModel", "hidden_dims": [8]},
    "algorithm": {"class_name": "PPO"},
}


def test_it_tells_what_the_environment_tells() -> None:
    first, steps = lived(brief_world(), brief_world().seed, plan())
    theirs = RslRlVecEnv(brief_world())
    assert set(theirs.get_observations().keys()) == {"policy", "critic"}
    torch.testing.assert_close(theirs.get_observations()["policy"], first["policy"])
    ended = {"terminated": 0, "truncated": 0}
    for action, step in zip(plan(), steps, strict=True):
        observation, reward, done, extras = theirs.step(action)
        for group in step.obs:
            torch.testing.assert_close(observation[group], step.obs[group])
        torch.testing.assert_close(reward, step.reward)
        assert done.tolist() == (step.terminated | step.truncated).long().tolist()
        assert extras["time_outs"].tolist() == step.truncated.tolist()
        assert ("log" in extras) == bool(step.done.any())
        if step.done.any():
            torch.testing.assert_close(extras["log"]["Episode/success"], step.success[step.done].float())
        ended["terminated"] += int(step.terminated.sum())
        ended["truncated"] += int(step.truncated.sum())
    assert all(ended.values()), "the drones should end both ways, or this test shows little"


def test_episode_lengths_can_be_set() -> None:
    env = RslRlVecEnv(brief_world())
    env.episode_length_buf = torch.tensor([0, 5, MAX_STEPS - 1, 2])
    *_, extras = env.step(torch.zeros(NUM_ENVS, 4))
    assert extras["time_outs"].tolist() == [False, False, True, False]
    assert env.episode_length_buf.tolist()[1] == 6
    assert env.max_episode_length == MAX_STEPS


def test_its_ppo_learns_and_logs(tmp_path) -> None:
    """The value's loss is finite, and the episodes' success is in the events file."""
    env = RslRlVecEnv(brief_world())
    runner = OnPolicyRunner(env, CONFIG | {"logger": "tensorboard"}, log_dir=str(tmp_path))
    before = [parameter.detach().clone() for parameter in runner.alg.get_policy().parameters()]
    runner.learn(2, init_at_random_ep_len=True)
    after = list(runner.alg.get_policy().parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert not all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert b"Episode/success_any" in b"".join(path.read_bytes() for path in tmp_path.glob("events*"))


def test_cameras_are_images_and_one_agent_is_no_axis() -> None:
    env = RslRlVecEnv(seeing_world(), ("policy", "pixels/front"))
    assert env.get_observations()["pixels/front"].shape == (3, 3, 16, 24)
    assert env.get_observations()["pixels/front"].dtype == torch.uint8
    landing = RslRlVecEnv(world("swarm/landing", "mujoco"))
    assert landing.get_observations()["policy"].ndim == 2
    _, reward, *_ = landing.step(torch.zeros(landing.num_envs, landing.num_actions))
    assert reward.shape == (landing.num_envs,)


def test_what_it_does_not_take_it_says() -> None:
    with pytest.raises(EmbodiedError, match="agents, and rsl_rl takes one; use embodied"):
        RslRlVecEnv(embodied.make("swarm/formation", 2))
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        RslRlVecEnv(brief_world(), ("colour",))


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("adapters.rsl_rl", monkeypatch, {"learn(146": "learn(1"})
