"""SAC: the entropy coefficient rises while the entropy is below its target."""

import pytest
import torch

from policies.off_policy.sac import SACActorUpdate, SACConfig
from tests.kit.learners import QUICK, learner_of, practise


@pytest.mark.parametrize(("target", "rises"), [(-50.0, False), (50.0, True)])
def test_the_temperature_rises_while_entropy_is_below_its_target(target, rises):
    learner = learner_of(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=1e-2))
    assert isinstance(learner.actor_update, SACActorUpdate)
    before = learner.actor_update.temperature.item()
    practise(learner, 5)
    assert (learner.actor_update.temperature.item() > before) == rises
    fixed = learner_of(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=0.0))
    practise(fixed, 5)
    assert isinstance(fixed.actor_update, SACActorUpdate)
    assert fixed.actor_update.temperature.item() == pytest.approx(0.1)


def test_targets_hold_no_entropy_where_it_is_not_backed_up():
    with_entropy, without = (learner_of(SACConfig(**QUICK, entropy_backup=backup)) for backup in (True, False))
    obs, noise = torch.zeros(5, with_entropy.actor_update.actor.sizes[0]), torch.zeros(5, 2)
    (action, bonus), (same, none) = (one.actor_update.next_action(obs, noise) for one in (with_entropy, without))
    assert torch.equal(action, same)
    assert none == 0.0
    assert torch.as_tensor(bonus).abs().min() > 0.0
