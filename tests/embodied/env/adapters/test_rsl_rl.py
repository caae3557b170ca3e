"""`RslRlVecEnv` with rsl_rl itself."""

import pytest
import torch

import embodied
from embodied.errors import EmbodiedError, UnknownNameError
from tests.documents.snippets import ROOT, blocks_of
from tests.embodied.env.adapters.drones import MAX_STEPS, brief_env

pytest.importorskip("rsl_rl", reason='rsl_rl is not installed: pip install -e ".[adapters]"')
pytest.importorskip("tensordict")

from rsl_rl.runners import OnPolicyRunner  # pyright: ignore[reportMissingImports] - an extra

from embodied.env.adapters.rsl_rl import RslRlVecEnv

NUM_ENVS = 4
CONFIG = {
    "num_steps_per_env": 8,
    "save_interval": 100,
    "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
    "actor": {"class_name": "MLPModel", "hidden_dims": [8], "distribution_cfg": {"class_name": "GaussianDistribution"}},
    "critic": {"class_name": "MLPModel", "hidden_dims": [8]},
    "algorithm": {"class_name": "PPO"},
}


def plan(steps: int, num_envs: int = NUM_ENVS) -> torch.Tensor:
    return 2 * torch.rand(steps, num_envs, 4, generator=torch.Generator().manual_seed(5)) - 1


def test_it_tells_what_the_environment_tells() -> None:
    ours, theirs = brief_env(NUM_ENVS, seed=7), RslRlVecEnv(brief_env(NUM_ENVS, seed=7))
    first = ours.reset()
    assert set(theirs.get_observations().keys()) == {"policy", "critic"}
    torch.testing.assert_close(theirs.get_observations()["policy"], first["policy"])
    ended = {"terminated": 0, "truncated": 0}
    for action in plan(3 * MAX_STEPS):
        step, (observation, reward, done, extras) = ours.step(action), theirs.step(action)
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
    env = RslRlVecEnv(brief_env(NUM_ENVS))
    env.episode_length_buf = torch.tensor([0, 5, MAX_STEPS - 1, 2])
    *_, extras = env.step(torch.zeros(NUM_ENVS, 4))
    assert extras["time_outs"].tolist() == [False, False, True, False]
    assert env.episode_length_buf.tolist()[1] == 6
    assert env.max_episode_length == MAX_STEPS


def test_its_ppo_learns_and_logs(tmp_path) -> None:
    """The value's loss is finite, and the episodes' success is in the events file."""
    env = RslRlVecEnv(brief_env(16))
    runner = OnPolicyRunner(env, CONFIG | {"logger": "tensorboard"}, log_dir=str(tmp_path))
    before = [parameter.detach().clone() for parameter in runner.alg.get_policy().parameters()]
    runner.learn(4, init_at_random_ep_len=True)
    after = list(runner.alg.get_policy().parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert not all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert b"Episode/success_any" in b"".join(path.read_bytes() for path in tmp_path.glob("events*"))


def test_cameras_are_images_and_one_agent_is_no_axis() -> None:
    env = RslRlVecEnv(embodied.make("swarm/hover", 2, cameras=("front",), resolution=16), ("policy", "pixels/front"))
    assert env.get_observations()["pixels/front"].shape == (2, 3, 16, 16)
    assert env.get_observations()["pixels/front"].dtype == torch.uint8
    landing = RslRlVecEnv(embodied.make("swarm/landing", 2))
    assert landing.get_observations()["policy"].ndim == 2
    _, reward, *_ = landing.step(torch.zeros(2, landing.num_actions))
    assert reward.shape == (2,)


def test_what_it_does_not_take_it_says() -> None:
    with pytest.raises(EmbodiedError, match="agents, and rsl_rl takes one; use embodied"):
        RslRlVecEnv(embodied.make("swarm/formation", 2))
    with pytest.raises(UnknownNameError, match="unknown observation group 'colour'"):
        RslRlVecEnv(brief_env(2), ("colour",))


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 4 minutes on two idle cores
def test_hover_is_learned_to_90_percent() -> None:
    from benchmarks.adapters.__main__ import Settings, measure

    assert float(measure(Settings("rsl_rl"))["success"]) >= 0.9


def test_the_page_runs() -> None:
    """docs/adapters.md, with fewer environments."""
    (block,) = (block for block in blocks_of(ROOT / "docs" / "adapters.md") if "adapters.rsl_rl import" in block.text)
    code = block.text.replace("num_envs=1024", "num_envs=16").replace("learn(146", "learn(2")
    exec(compile(code, block.place, "exec"), {})
