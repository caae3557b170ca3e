"""SAC: the entropy coefficient rises while the entropy is below its target."""

import pytest

from policies.off_policy.sac import SACActorUpdate, SACConfig
from tests.policies.off_policy.test_learner import QUICK, make, practise


@pytest.mark.parametrize(("target", "rises"), [(-50.0, False), (50.0, True)])
def test_the_temperature_rises_while_entropy_is_below_its_target(target, rises):
    learner = make(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=1e-2))
    assert isinstance(learner.actor_update, SACActorUpdate)
    before = learner.actor_update.temperature.item()
    practise(learner, 5)
    assert (learner.actor_update.temperature.item() > before) == rises
    fixed = make(SACConfig(**{**QUICK, "warm_up": 0}, target_entropy=target, temperature_learning_rate=0.0))
    practise(fixed, 5)
    assert isinstance(fixed.actor_update, SACActorUpdate)
    assert fixed.actor_update.temperature.item() == pytest.approx(0.1)
