"""Adversaries that are paid for influence: what they earn, what model and oracle learn, and that a resume is exact."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from embodied.env.vec_env import POLICY
from policies.multi_agent.adversary import AdversaryEnv
from policies.multi_agent.influence import WIDTH, InfluenceEnv, NextActions, closeness
from policies.policy import zero_policy
from policies.registry import default_config
from policies.training.loop import Trainer
from tasks.swarm.team.training import WAYPOINTS
from tests.policies.multi_agent.test_adversary import constant, swap

LEARNER = dataclasses.replace(default_config("ppo", WAYPOINTS), unroll=8, epochs=1, minibatches=2)


def test_an_action_is_worth_most_where_it_is_the_target() -> None:
    target = torch.zeros(3, 4)
    action = torch.zeros(3, 4)
    action[1, 0], action[2] = WIDTH, 2.0
    worth = closeness(action, target)
    assert worth[0] == 1.0
    assert worth[1].item() == pytest.approx(0.6065, abs=1e-4)  # exp(-1/2)
    assert 0.0 < worth[2] < 1e-6


def test_influence_is_paid_beside_what_the_team_loses() -> None:
    team = constant(0.3)
    attack, plain = InfluenceEnv(swap(), team, 2, 0.5, LEARNER), AdversaryEnv(swap(), team, 2)
    assert torch.equal(attack.reset()[POLICY], plain.reset()[POLICY])
    for _ in range(3):
        action = torch.full((8, 4), -0.5)
        step, expected = attack.step(action), plain.step(action)
        assert torch.equal(step.obs[POLICY], expected.obs[POLICY])
        more = (step.reward - expected.reward) / 0.5
        assert (more > 0).all()
        assert (more <= 1.0).all()  # of the only other
        assert torch.equal(more[::2].repeat_interleave(2), more)


def test_the_model_learns_what_comes_next_and_the_oracle_to_pick_what_will(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.multi_agent.influence.BATCH", 32)  # many steps for few worlds
    attack = InfluenceEnv(swap(16), constant(0.4), 1, 1.0, LEARNER)
    attack.reset()
    measures = []
    for _ in range(60):
        for _ in range(LEARNER.unroll):
            attack.step(torch.zeros(16, 4))
        measures.append(attack.statistics())
    assert measures[-1]["influence_error"] < measures[0]["influence_error"] / 10
    assert measures[-1]["influence"] > measures[10]["influence"] + 0.1  # by then the model has learned


def test_a_model_without_the_adversary_predicts_the_mean_over_what_it_may_do() -> None:
    generator = torch.Generator().manual_seed(0)
    model = NextActions(2, 1, torch.device("cpu"), seed=0)
    for _ in range(200):
        context = torch.rand(2048, 2, generator=generator)
        unseen = torch.randn(2048, 1, generator=generator)
        model.keep(context, context[:, :1] + 0.2 * unseen)
        model.learn()
    context = torch.rand(64, 2, generator=generator)
    torch.testing.assert_close(model(context), context[:, :1], atol=0.1, rtol=0.0)


@pytest.mark.timeout(200)
def test_a_resume_is_exact() -> None:
    def begun() -> Trainer:
        return Trainer(InfluenceEnv(swap(), zero_policy(4), 1, 0.1, LEARNER), LEARNER, total_steps=128, seed=0)

    trainer, again = begun(), begun()
    trainer.iterate()
    again.load_state(trainer.state())
    for _ in range(2):
        first, second = trainer.iterate(), again.iterate()
        same = [name for name in first if not name.endswith("seconds") and name != "env_steps_per_second"]
        assert {name: first[name] for name in same} == {name: second[name] for name in same}
    for name, tensor in trainer.env.state()["oracle"]["optimizer"].items():
        assert torch.equal(tensor, again.env.state()["oracle"]["optimizer"][name])
