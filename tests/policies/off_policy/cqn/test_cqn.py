"""Coarse-to-fine Q-values: bins resolve the range, the search finds the best one, few demonstrations train it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.cqn.cqn import CQNConfig, CQNUpdate, preference
from policies.off_policy.cqn.network import bin_indices, coarse_to_fine_search, interval_centres
from policies.off_policy.learner import OffPolicyLearner
from policies.off_policy.replay_buffer import Transitions
from policies.training.loop import train
from tests.policies.toys import PointMass, vectors

CPU = torch.device("cpu")
TINY = NetworkConfig((32, 32), Activation.RELU)
QUICK: dict[str, Any] = {"critic": TINY, "batch_size": 32, "warm_up": 64,  "buffer_size": 20_000, "unroll": 4,
        "critic_learning_rate": 3e-3, "weight_decay": 0.0, "tau": 0.05, "gamma": 0.9}  # fmt: skip


def uniform(*shape: int) -> Tensor:
    return 2 * torch.rand(*shape, generator=torch.Generator().manual_seed(0)) - 1


def test_three_levels_of_five_bins_resolve_an_action_to_a_125th_of_the_range():
    action = uniform(4000, 2)
    found = interval_centres(bin_indices(action, 3, 5), 5)
    for level, width in enumerate((2.0, 2 / 5, 2 / 25, 2 / 125)):
        assert (found[:, level] - action).abs().max() <= width / 2 + 1e-6
    assert len(found[:, -1, 0].unique()) == 125
    assert torch.equal(bin_indices(found[:, -1], 3, 5), bin_indices(action, 3, 5))
    ends = torch.tensor([[-1.0, 1.0]])
    assert bin_indices(ends, 3, 5)[0].T.tolist() == [[0, 0, 0], [4, 4, 4]]


def test_the_greedy_coarse_to_fine_search_finds_the_optimum_of_a_smooth_value():
    best, (levels, bins) = uniform(64, 3), (3, 5)

    def values_of(level: int, centre: Tensor) -> Tensor:
        width = 2.0 / bins ** (level + 1)
        parts = centre[..., None] + width * (torch.arange(bins) - (bins - 1) / 2)
        return -(parts - best[..., None]).square()

    found = interval_centres(coarse_to_fine_search(values_of, 64, 3, levels, bins, best.device), bins)[:, -1]
    assert (found - best).abs().max() <= 1 / 125 + 1e-6


def test_the_imitation_loss_is_zero_once_the_demonstrated_bin_dominates_by_the_margin():
    support, taken = torch.linspace(-1, 1, 11), torch.tensor([[[2]]])
    logits = torch.full((1, 1, 1, 5, 11), -20.0)
    logits[..., 3] = 0.0
    assert preference(logits, taken, support, 0.1).item() == pytest.approx(0.1, abs=1e-5)  # all alike
    logits[..., 2, :] = torch.where(torch.arange(11) == 4, 0.0, -20.0)  # one atom, 0.2, better
    assert preference(logits, taken, support, 0.1).item() == pytest.approx(0.0, abs=1e-5)
    logits[..., 2, :] = torch.where(torch.arange(11) == 2, 0.0, -20.0)  # one atom worse
    assert preference(logits, taken, support, 0.1).item() == pytest.approx(0.3 + 1.0, abs=1e-4)


def one_step(count: int, seed: int) -> Transitions:
    """Episodes of a step, whose action should be a smooth function of the observation."""
    obs = 2 * torch.rand(count, 1, 2, generator=torch.Generator().manual_seed(seed)) - 1
    over = torch.ones(count, 1, dtype=torch.bool)
    groups = {"policy": obs}
    return Transitions(groups, wanted(obs), torch.ones(count, 1), over, ~over, groups)


def wanted(obs: Tensor) -> Tensor:
    return (1.5 * obs).sin() * 0.9


@pytest.mark.parametrize(("levels", "precise"), [(1, False), (3, True)])
def test_few_demonstrations_teach_what_one_level_of_five_bins_cannot_express(levels, precise):
    config = CQNConfig(**QUICK, levels=levels, action_sequence=1, offline_updates=250, demonstration_share=1.0)
    learner = OffPolicyLearner(vectors(policy=2), 2, 1, config)
    learner.add_demonstrations(one_step(64, 0))
    obs = one_step(500, 1).obs["policy"][:, 0]
    learner.act({"policy": obs[:1]})
    error = (learner.policy(obs) - wanted(obs)).abs().mean()
    assert (error < 0.07) == precise  # parts of 2/5 cannot be nearer than 0.1 on average


def test_without_imitation_values_are_what_actions_earned():
    config = CQNConfig(**QUICK, action_sequence=2, offline_updates=150, imitation_weight=0.0, critic_weight=1.0)
    learner = OffPolicyLearner(vectors(policy=2), 2, 1, config)
    steps = one_step(64, 0)
    learner.add_demonstrations(dataclasses.replace(steps, reward=steps.obs["policy"][..., 0]))
    learner.act({"policy": steps.obs["policy"][0]})
    critics, obs = learner.critic_update, learner.normalizers["policy"](steps.obs["policy"][:, 0])
    assert isinstance(critics, CQNUpdate)
    action = steps.action[:, 0].repeat(1, 2)
    found = critics.q_value(obs, action)
    reward = steps.obs["policy"][:, 0, 0]
    assert torch.corrcoef(torch.stack([found.detach(), reward]))[0, 1] > 0.7


def few_steps(**changes: Any) -> tuple[OffPolicyLearner, dict[str, Tensor]]:
    """A learner after some updates, and an observation of its four environments."""
    config = CQNConfig(**QUICK | {"warm_up": 8}, action_sequence=3, **changes)
    trainer = train(PointMass(4), config, total_steps=4 * 4 * 4)
    assert isinstance(trainer.algorithm, OffPolicyLearner)
    return trainer.algorithm, dict(PointMass(4, seed=3).reset())


@pytest.mark.parametrize("by_target", [False, True])
def test_the_target_network_acts_where_asked_to_and_is_what_is_stored(by_target):
    learner, obs = few_steps(act_by_target=by_target, noise=0.0, ensemble_decay=None)
    critics = learner.critic_update
    assert isinstance(critics, CQNUpdate)
    acts = critics.target_critic if by_target else critics.critic
    other = critics.critic if by_target else critics.target_critic
    stored = learner.policy.to_tensors()[1]
    for name, tensor in acts.state_dict().items():
        assert torch.equal(stored[f"actor.critic.{name}"], tensor)
    with torch.no_grad():
        before = learner.policy(obs)
        for parameter in other.parameters():
            parameter.add_(1.0)
        assert torch.equal(learner.policy(obs), before)


@pytest.mark.parametrize("by_target", [False, True])
def test_a_learner_that_starts_from_a_policy_has_it_in_both_networks(by_target):
    learner, _ = few_steps(act_by_target=by_target)
    new = OffPolicyLearner(vectors(policy=2, critic=3), 2, 4, learner.config, seed=5)
    new.start_from(learner.policy)
    for network in (new.critic_update.critic, new.critic_update.target_critic):
        for name, tensor in network.state_dict().items():
            assert torch.equal(tensor, learner.policy.to_tensors()[1][f"actor.critic.{name}"])


def test_bins_that_are_equally_good_are_chosen_at_random_and_only_they():
    values = torch.tensor([0.0, 1.0, 1.0 - 1e-5, 0.5, 1.0])

    def search(generator: torch.Generator | None) -> Tensor:
        return coarse_to_fine_search(lambda level, centre: values.expand(200, 3, 5), 200, 3, 2, 5, CPU, generator)

    found = search(torch.Generator().manual_seed(0))
    assert found.unique().tolist() == [1, 2, 4]
    assert search(None).unique().tolist() == [1]


def test_an_untrained_critic_explores_all_of_the_range():
    zero = NetworkConfig((8, 8), Activation.RELU, output_gain=1e-9)
    learner = OffPolicyLearner(vectors(policy=2), 2, 500, CQNConfig(critic=zero, buffer_size=500))
    action = learner.act({"policy": torch.zeros(500, 2)})
    assert action.amin() < -0.5
    assert action.amax() > 0.5
    assert action.mean().abs() < 0.1


def test_the_ensemble_acts_in_training_and_in_a_bound_policy_and_a_single_action_has_none():
    varied = NetworkConfig((32, 32), Activation.RELU, output_gain=5.0)
    learner = OffPolicyLearner(vectors(policy=2), 2, 4, CQNConfig(critic=varied, buffer_size=400))
    obs, env = dict(PointMass(4, seed=3).reset()), Clock(4)
    bound = learner.policy.acting_in(env)
    first = bound(obs)
    assert torch.equal(first, learner.policy(obs))  # at first there is one prediction
    env.episode_length += 1
    later = {"policy": obs["policy"] + 0.5}
    mixed, newest = bound(later), learner.policy(later)
    assert not torch.allclose(mixed, newest)
    env.episode_length.zero_()
    assert torch.equal(bound(later), newest)  # another episode
    for config in (CQNConfig(buffer_size=400, ensemble_decay=None), CQNConfig(buffer_size=400, action_sequence=1)):
        plain = OffPolicyLearner(vectors(policy=2), 2, 4, config).policy
        assert plain.acting_in(env) is plain


class Clock:
    """What a bound policy reads of its environments."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.episode_length = num_envs, torch.zeros(num_envs, dtype=torch.int32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": 0}, "levels=0 must be at least 1"),
        ({"bins": 1}, "bins=1 must be at least 2"),
        ({"margin": -0.1}, "margin=-0.1 must be 0 or more"),
        ({"ensemble_decay": -0.1}, "ensemble_decay=-0.1 must be 0 or more, or None"),
        ({"value_low": 3.0}, "value_low=3.0 must be below value_high=2.0"),
    ],
)
def test_settings_under_which_nothing_is_learned_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        CQNConfig(**changes)
