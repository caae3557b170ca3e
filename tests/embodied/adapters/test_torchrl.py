"""`TorchRLEnv` with TorchRL itself."""

from typing import Any

import pytest
import torch

from embodied.errors import EmbodiedError
from tests.kit.drones import MAX_STEPS, NUM_ENVS, brief_world, run_page, seeing_world
from tests.kit.worlds import world

pytest.importorskip("torchrl", reason='torchrl is not installed: pip install -e ".[adapters]"')

from torchrl.collectors import Collector  # pyright: ignore[reportMissingImports] - an extra
from torchrl.envs import StepCounter, TransformedEnv  # pyright: ignore[reportMissingImports]
from torchrl.envs.utils import check_env_specs  # pyright: ignore[reportMissingImports]

from embodied.adapters.torchrl import TorchRLEnv

STEPS = 3 * MAX_STEPS


def test_torchrl_checks_its_specs() -> None:
    check_env_specs(TorchRLEnv(brief_world()))
    check_env_specs(TorchRLEnv(seeing_world()))
    check_env_specs(TorchRLEnv(world("swarm/landing", "mujoco"), ("policy",)))


def test_a_rollout_is_what_the_environment_lives_through() -> None:
    """`next` is what a step led to, before any restart; the row that follows begins the next episode."""
    ours, theirs = brief_world(), TorchRLEnv(brief_world())
    theirs.set_seed(7)
    data = theirs.rollout(STEPS, break_when_any_done=False)
    observation = ours.reset(7)
    for time in range(STEPS):
        row = data[:, time]
        torch.testing.assert_close(row["policy"], observation["policy"])
        step = ours.step(row["action"])
        following = row["next"]
        torch.testing.assert_close(following["policy"], step.final_obs["policy"])
        torch.testing.assert_close(following["critic"], step.final_obs["critic"])
        torch.testing.assert_close(following["reward"][:, 0], step.reward)
        for name in ("terminated", "truncated", "done", "success"):
            assert following[name][:, 0].tolist() == getattr(step, name).tolist(), name
        observation = step.obs
    assert data["next", "terminated"].any()
    assert data["next", "truncated"].any()


def test_its_collector_goes_on_over_episodes() -> None:
    env = TorchRLEnv(brief_world())
    batches = list(Collector(env, frames_per_batch=NUM_ENVS * STEPS, total_frames=2 * NUM_ENVS * STEPS))
    assert [batch.shape for batch in batches] == [(NUM_ENVS, STEPS)] * 2
    ended = batches[0]["next", "done"][:, :-1, 0]
    assert ended.any()
    begun, left = batches[0]["critic"][:, 1:][ended], batches[0]["next", "critic"][:, :-1][ended]
    assert not torch.allclose(begun, left)
    going = batches[0]["critic"][:, 1:][~ended], batches[0]["next", "critic"][:, :-1][~ended]
    torch.testing.assert_close(*going)


def test_the_same_seed_gives_the_same_episodes() -> None:
    env = TorchRLEnv(brief_world())
    env.set_seed(3)
    first, second = env.reset()["policy"].clone(), env.reset()["policy"].clone()
    env.set_seed(3)
    torch.testing.assert_close(env.reset()["policy"], first)
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("seed", [-1, "x", 0.5])
def test_what_is_no_seed_is_refused_in_a_line(seed: Any) -> None:
    with pytest.raises(EmbodiedError, match=r"seed=.*; expected a whole number, at least 0"):
        TorchRLEnv(brief_world())._set_seed(seed)


def test_a_reset_within_an_episode_is_refused() -> None:
    env = TransformedEnv(TorchRLEnv(brief_world()), StepCounter(max_steps=2))
    following = env.rand_step(env.reset()).get("next")
    following["_reset"] = torch.tensor([True, False, False, False]).unsqueeze(1)
    with pytest.raises(EmbodiedError, match="environment 0 is to be reset in the middle of its episode"):
        env.reset(following)


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("adapters.torchrl", monkeypatch)
