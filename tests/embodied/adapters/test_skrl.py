"""`SkrlEnv` with skrl itself."""

from typing import Any

import pytest
import torch

import embodied
from tests.kit.drones import NUM_ENVS, brief_world, lived, plan, run_page

pytest.importorskip("skrl", reason='skrl is not installed: pip install -e ".[adapters]"')

from skrl.agents.torch.ppo import PPO, PPO_CFG  # pyright: ignore[reportMissingImports] - an extra
from skrl.memories.torch import RandomMemory  # pyright: ignore[reportMissingImports]
from skrl.trainers.torch import SequentialTrainer  # pyright: ignore[reportMissingImports]
from skrl.utils.model_instantiators.torch import (  # pyright: ignore[reportMissingImports]
    deterministic_model,
    gaussian_model,
)

from embodied.adapters.skrl import SkrlEnv


def test_it_tells_what_the_environment_tells() -> None:
    core = brief_world()
    first, steps = lived(core, core.seed, plan())
    theirs = SkrlEnv(core)
    observation, info = theirs.reset()
    torch.testing.assert_close(observation, first["policy"])
    torch.testing.assert_close(theirs.state(), first["critic"])
    assert info == {}
    assert theirs.num_envs == NUM_ENVS
    assert theirs.observation_space.shape == observation.shape[1:]
    ended = 0
    for action, step in zip(plan(), steps, strict=True):
        observation, reward, terminated, truncated, info = theirs.step(action)
        torch.testing.assert_close(observation, step.obs["policy"])
        torch.testing.assert_close(theirs.state(), step.obs["critic"])
        torch.testing.assert_close(reward, step.reward.unsqueeze(1))
        assert terminated.tolist() == step.terminated.unsqueeze(1).tolist()
        assert truncated.tolist() == step.truncated.unsqueeze(1).tolist()
        assert bool(info) == bool(step.done.any())
        if info:
            ended += 1
            torch.testing.assert_close(info["final_observation"], step.final_obs["policy"])
            assert info["episode"]["Episode / success"] == step.success[step.done].float().mean()
    assert ended


def test_a_single_environment_is_reset_by_its_trainer() -> None:
    """Its last observation is the next one, and `reset` takes up the episode that follows."""
    core, actions = brief_world(1), plan(num_envs=1)
    _, steps = lived(core, core.seed, actions)
    theirs = SkrlEnv(core)
    theirs.reset()
    ended = 0
    for action, step in zip(actions, steps, strict=True):
        observation, _, terminated, truncated, _ = theirs.step(action)
        torch.testing.assert_close(observation, step.final_obs["policy"])
        torch.testing.assert_close(theirs.state(), step.final_obs["critic"])
        if terminated.any() or truncated.any():
            ended += 1
            torch.testing.assert_close(theirs.reset()[0], step.obs["policy"])
            torch.testing.assert_close(theirs.state(), step.obs["critic"])
    assert ended


@pytest.mark.parametrize("num_envs", [1, NUM_ENVS])
def test_its_trainer_and_ppo_run(num_envs: int) -> None:
    env = SkrlEnv(brief_world(num_envs))
    spaces: dict[str, Any] = {"observation_space": env.observation_space, "state_space": env.state_space}
    spaces |= {"action_space": env.action_space, "device": env.device}
    net = [{"name": "net", "input": "OBSERVATIONS", "layers": [8], "activations": "elu"}]
    models: dict[str, Any] = {
        "policy": gaussian_model(**spaces, network=net, output="ACTIONS"),
        "value": deterministic_model(**spaces, network=[net[0] | {"input": "STATES"}], output="ONE"),
    }
    config = PPO_CFG(rollouts=16, time_limit_bootstrap=True)
    config.experiment.write_interval = config.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=16, num_envs=num_envs, device=env.device)
    agent = PPO(models=models, memory=memory, cfg=config, **spaces)
    trainer = SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 64, "disable_progressbar": True})
    trainer.train()  # its networks have no parameters before the first step
    before = [parameter.detach().clone() for parameter in models["policy"].parameters()]
    trainer.train()
    after = list(models["policy"].parameters())
    assert all(torch.isfinite(parameter).all() for parameter in after)
    assert not all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_a_task_without_a_critics_group_has_no_state() -> None:
    env = SkrlEnv(embodied.make("manipulation/drawer-close", 1, "mujoco"))
    assert (env.state_space is None) == ("critic" not in env.observation_spec)


def test_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("adapters.skrl", monkeypatch)
