"""The temporal ensemble: predictions that agree stay, others count by their age, none counts in another episode."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from policies.off_policy.cqn.temporal_ensemble import TemporalEnsemble

CPU = torch.device("cpu")
ENVS, SEQUENCE, ACTIONS = 3, 4, 2


def steady(steps: int) -> Tensor:
    """(T, N, K, A): predictions of one and the same course, each from its own step on."""
    course = torch.randn(steps + SEQUENCE, ENVS, ACTIONS, generator=torch.Generator().manual_seed(0))
    return torch.stack([course[t : t + SEQUENCE].transpose(0, 1) for t in range(steps)])


def nowhere() -> Tensor:
    return torch.zeros(ENVS, dtype=torch.bool)


@pytest.mark.parametrize("decay", [0.0, 0.01, 3.0])
def test_predictions_that_agree_are_executed_as_they_are(decay):
    ensemble, predictions = TemporalEnsemble(ENVS, SEQUENCE, ACTIONS, decay, CPU), steady(9)
    for predicted in predictions:
        assert torch.allclose(ensemble(predicted, nowhere()), predicted[:, 0], atol=1e-6)


def test_each_action_is_the_mean_of_what_covers_it_weighted_by_age():
    decay = 0.5
    ensemble = TemporalEnsemble(ENVS, SEQUENCE, ACTIONS, decay, CPU)
    predictions = torch.randn(7, ENVS, SEQUENCE, ACTIONS, generator=torch.Generator().manual_seed(1))
    for t, predicted in enumerate(predictions):
        found = ensemble(predicted, nowhere())
        ages = range(min(t + 1, SEQUENCE))
        weights = torch.tensor([math.exp(-decay * age) for age in ages])
        covering = torch.stack([predictions[t - age, :, age] for age in ages], -1)
        assert torch.allclose(found, covering @ weights / weights.sum(), atol=1e-6)


def test_an_episode_that_begins_knows_nothing_of_the_one_before():
    ensemble, fresh = (TemporalEnsemble(ENVS, SEQUENCE, ACTIONS, 0.01, CPU) for _ in range(2))
    predictions = torch.randn(8, ENVS, SEQUENCE, ACTIONS, generator=torch.Generator().manual_seed(2))
    for predicted in predictions[:5]:
        ensemble(predicted, nowhere())
    begun = torch.tensor([False, True, False])
    for t, predicted in enumerate(predictions[5:]):
        found, alone = ensemble(predicted, begun if t == 0 else nowhere()), fresh(predicted, nowhere())
        assert torch.equal(found[1], alone[1])
        assert not torch.equal(found[0], alone[0])


def test_large_decay_leaves_the_newest_prediction():
    ensemble = TemporalEnsemble(ENVS, SEQUENCE, ACTIONS, 50.0, CPU)
    for predicted in torch.randn(5, ENVS, SEQUENCE, ACTIONS, generator=torch.Generator().manual_seed(3)):
        assert torch.allclose(ensemble(predicted, nowhere()), predicted[:, 0], atol=1e-6)


def test_its_state_lets_another_go_on_alike():
    ensemble, other = (TemporalEnsemble(ENVS, SEQUENCE, ACTIONS, 0.01, CPU) for _ in range(2))
    predictions = torch.randn(6, ENVS, SEQUENCE, ACTIONS, generator=torch.Generator().manual_seed(4))
    for predicted in predictions[:3]:
        ensemble(predicted, nowhere())
    other.load_state(ensemble.state())
    for predicted in predictions[3:]:
        assert torch.equal(ensemble(predicted, nowhere()), other(predicted, nowhere()))
