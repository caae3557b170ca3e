"""Advice: followed where critics prefer it, without influence elsewhere, asked for as often as configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from embodied.errors import EmbodiedError
from embodied.storage import trees
from policies.imitation.advice import ADVICE, advice_loss
from policies.networks.squashed import SquashedActor
from policies.off_policy.awac import AWACConfig
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3ActorUpdate, TD3Config
from policies.training.loop import Trainer, train
from tests.kit.imitation import homewards
from tests.kit.learners import QUICK, SMALL
from tests.kit.learning import PointMass, vectors

OBS = torch.ones(16, 2)


def given(action: float, rows: int = 16) -> Tensor:
    """The same advice everywhere, (rows, 3)."""
    return torch.tensor([action, action, 1.0]).expand(rows, 3)


def climb(values: Any, advice: Tensor | None, steps: int = 120) -> Tensor:
    """Where a policy of two actions gets to."""
    actor = SquashedActor(2, 2, SMALL, stochastic=False, generator=torch.Generator().manual_seed(0))
    rule = TD3ActorUpdate(actor, TD3Config(**QUICK))

    def penalty(action: Tensor) -> Tensor:
        assert advice is not None
        return advice_loss(action, advice, values)

    for _ in range(steps):
        rule.update(OBS, OBS, OBS, values, None if advice is None else penalty)
    return actor(OBS[:1])[0].detach()


def smooth(action: Tensor) -> Tensor:
    return -(action - 0.3).square().sum(-1)


def needle(action: Tensor) -> Tensor:
    """Nearly flat but for a peak at 0.7."""
    return (-(action - 0.7).square().sum(-1) / 0.02).exp()


def test_a_bad_adviser_does_not_change_where_the_policy_ends():
    alone = climb(smooth, None)
    assert (alone - 0.3).abs().max() < 0.03
    for advice in (-0.9, 0.9):
        assert (climb(smooth, given(advice)) - 0.3).abs().max() < 0.03


def test_a_good_adviser_leads_where_values_alone_give_no_direction():
    assert (climb(needle, None) - 0.7).abs().max() > 0.5
    assert (climb(needle, given(0.7)) - 0.7).abs().max() < 0.1


def test_the_gate_asks_critics_and_whether_there_is_advice():
    own = torch.zeros(4, 2)
    advice = torch.tensor([[0.3, 0.3, 1.0], [0.3, 0.3, 0.0], [-0.5, -0.5, 1.0], [0.0, 0.0, 0.0]])
    assert advice_loss(own, advice, smooth).item() == pytest.approx(0.3**2 / 4)


def test_it_asks_at_every_interval_until_enough_is_given_and_remembers_it():
    asked = []

    def rule(obs: Mapping[str, Tensor]) -> Tensor:
        asked.append(len(obs["policy"]))
        return homewards(obs)

    config = SACConfig(**QUICK, adviser="homewards", advice_interval=3, advice_until=16)
    trainer = Trainer(PointMass(8), config, total_steps=1_000)
    assert isinstance(trainer.algorithm, OffPolicyLearner)
    trainer.algorithm.advise(rule)
    for _ in range(3):
        trainer.iterate()
    assert asked == [8, 8]  # at control steps 0 and 3; 16 actions in all
    batch = trainer.algorithm.replay.buffer.gather(torch.arange(12 * 8))
    noted = batch.obs[ADVICE].view(12, 8, 3)
    assert noted[..., -1].amax(1).tolist() == [1, 0, 0, 1] + [0] * 8
    torch.testing.assert_close(noted[0, :, :2], homewards({"policy": batch.obs["policy"].view(12, 8, 2)[0]}))


def test_weight_0_is_no_advice():
    def learned(**changes: Any) -> Tensor:
        adviser = homewards if changes else None
        trainer = train(PointMass(8), TD3Config(**QUICK, **changes), total_steps=128, adviser=adviser)
        return trees.flatten(trainer.state())["algorithm/actor/actor/parameters"]

    advised: dict[str, Any] = {"adviser": "homewards", "advice_until": 40}
    assert torch.equal(learned(**advised, advice_weight=0.0), learned())
    assert not torch.equal(learned(**advised), learned())


def test_messages():
    learner = OffPolicyLearner(vectors(policy=2), 2, 4, SACConfig(**QUICK, adviser="expert"))
    with pytest.raises(
        EmbodiedError, match=r"adviser='expert' is announced; give its policy to OffPolicyLearner.advise"
    ):
        learner.act({"policy": torch.zeros(4, 2)})
    plain = OffPolicyLearner(vectors(policy=2), 2, 4, AWACConfig(**QUICK))
    with pytest.raises(EmbodiedError, match="advice was offered to a learner without adviser"):
        plain.advise(homewards)
