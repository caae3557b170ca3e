"""Adversaries among a team: who acts, who is paid, who is scored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from embodied import train
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.multi_agent import AgentsEnv
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError
from embodied.evaluation.rollouts import evaluate
from embodied.storage.runs import Run
from policies.multi_agent.adversary import AdversaryEnv, AttackedEnv, check_minority
from policies.policy import zero_policy
from policies.ppo.config import PPOConfig
from policies.training.loop import Trainer
from policies.training.mixed_team import infiltrated
from policies.training.settings import Settings
from tests.kit.pushers import TEAM


def team() -> Env:
    """Four worlds of three agents."""
    return make(TEAM, 4, "mujoco", device="cpu")


def constant(value: float):
    return lambda obs: torch.full((*obs[POLICY].shape[:-1], 4), value)


def test_the_last_agents_follow_the_adversary() -> None:
    mixed = infiltrated(constant(0.1), constant(-0.2), 3, 2)
    action = mixed({POLICY: torch.zeros(5, 3, 7)})
    assert action.shape == (5, 3, 4)
    assert (action[:, :1] == 0.1).all()
    assert (action[:, 1:] == -0.2).all()


def test_adversaries_are_paid_what_the_team_loses() -> None:
    env, twin = team(), team()
    attack = AdversaryEnv(env, constant(0.3), 1)
    rows = attack.reset()
    obs = twin.reset()
    assert rows[POLICY].shape == (4, *env.observation_spec[POLICY].shape[1:])
    assert torch.equal(rows[POLICY], obs[POLICY][:, 2])
    for _ in range(3):
        step = attack.step(torch.full((4, 4), -0.5))
        own = torch.cat([torch.full((4, 2, 4), 0.3), torch.full((4, 1, 4), -0.5)], 1)
        expected = twin.step(own)
        torch.testing.assert_close(step.reward, -expected.reward[:, :2].mean(1))
        assert torch.equal(step.obs[POLICY], expected.obs[POLICY][:, 2])


def test_a_team_learns_beside_adversaries_in_a_share_of_its_worlds() -> None:
    env, twin = team(), team()
    attacked = AttackedEnv(env, constant(-0.2), 1, 0.5)
    rows, obs = attacked.reset(), twin.reset()[POLICY]
    own = torch.cat([obs[:2, :2].flatten(0, 1), obs[2:].flatten(0, 1)])  # the last agents of two worlds are no rows
    assert attacked.num_envs == 10
    assert torch.equal(rows[POLICY], own)
    step = attacked.step(torch.linspace(-0.5, 0.5, 40).reshape(10, 4))
    told = torch.full((4, 3, 4), -0.2)
    told[:2, :2], told[2:] = (
        part.unflatten(0, (2, -1)) for part in torch.linspace(-0.5, 0.5, 40).reshape(10, 4).split([4, 6])
    )
    expected = twin.step(told)
    assert torch.equal(step.reward, torch.cat([expected.reward[:2, :2].flatten(), expected.reward[2:].flatten()]))
    assert step.terminated.shape == step.final_obs[POLICY].shape[:1] == (10,)


@pytest.mark.parametrize(
    "beside", [lambda env: AttackedEnv(env, constant(-0.2), 1, 0.5), lambda env: AdversaryEnv(env, zero_policy(4), 2)]
)
def test_a_team_among_adversaries_and_these_themselves_learn_and_resume_exactly(beside: Callable[[Env], Any]) -> None:
    config = PPOConfig(unroll=8, epochs=1, minibatches=2)
    first, again = (Trainer(beside(team()), config, total_steps=160, seed=0) for _ in range(2))
    assert first.iterate()["kl"] >= 0
    again.load_state(first.state())
    assert again.iterate()["kl"] == first.iterate()["kl"]


def test_every_agent_is_a_row_of_the_learner() -> None:
    env, twin = team(), team()
    rows = AgentsEnv(env)
    assert rows.num_envs == 12
    assert torch.equal(rows.reset()[POLICY], twin.reset()[POLICY].flatten(0, 1))
    action = torch.linspace(-0.5, 0.5, 48).reshape(12, 4)
    step, expected = rows.step(action), twin.step(action.reshape(4, 3, 4))
    assert torch.equal(step.reward, expected.reward.flatten())
    assert torch.equal(step.obs[POLICY], expected.obs[POLICY].flatten(0, 1))
    assert step.terminated.shape == (12,)
    rows.load_state(rows.state())
    assert torch.equal(rows.step(action).reward, twin.step(action.reshape(4, 3, 4)).reward.flatten())


def test_the_teams_return_leaves_adversaries_out() -> None:
    env = team()
    everyone = evaluate(env, constant(-1.0), 4, scored=3).summary()
    assert everyone["team_return"] == pytest.approx(everyone["return"], rel=1e-4)
    some = evaluate(env, infiltrated(constant(-1.0), constant(0.3), 3, 1), 4, scored=2).summary()
    assert some["team_return"] != pytest.approx(some["return"], rel=1e-3)


def test_minorities_only() -> None:
    with pytest.raises(EmbodiedError, match="--adversaries 3: expected 1 to 2 of the task's 3 agents"):
        AdversaryEnv(team(), zero_policy(4), 3)
    with pytest.raises(EmbodiedError, match="--adversaries 1: this task has one robot"):
        check_minority(1, None)
    with pytest.raises(ValueError, match="this task has one robot and no axis of agents"):
        AgentsEnv(make("swarm/hover", 2, "rigid"))


def test_who_attacks_and_who_learns_to_bear_it_is_said_on_the_command_line(tmp_path: Path) -> None:
    words = [TEAM, "--num-envs", "4", "--adversaries", "1", "--evaluate-episodes", "0"]
    words += ["--ppo.unroll", "4", "--ppo.epochs", "1", "--ppo.minibatches", "1"]
    attack, team = tmp_path / "attack", tmp_path / "team"
    paid = ["--against", "zero", "--steps", "16", "--out", str(attack)]
    assert train.main([*words, *paid]) == 0
    among = ["--adversary", str(attack), "--adversary-share", "0.5", "--steps", "40", "--out", str(team)]
    assert train.main([*words, *among]) == 0
    assert Run.open(team).load().step == 40  # four steps of the ten agents that learn


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adversary": "random"}, "--adversary random: expected --adversaries, too"),
        ({"adversaries": 1, "adversary": "random", "adversary_share": 0.0}, "expected a fraction above 0"),
    ],
)
def test_settings_of_adversaries_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        Settings(task="swarm/swap", num_envs=4, steps=16, **given)
