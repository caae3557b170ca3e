import functools

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from policies import PPOConfig
from policies.ppo.losses import policy_loss, value_loss
from policies.ppo.rollout_buffer import ActorBatch, CriticBatch
from tests.kit.arrays import drawn

N, A, SIZE = 200, 3, 500
draw = functools.partial(drawn, dtype=torch.float64)


def normal(mean: Tensor, log_std: Tensor) -> Independent:
    return Independent(Normal(mean, log_std.exp().expand_as(mean)), 1)


@pytest.mark.parametrize(("entropy_coef", "bound_coef"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.7)])
def test_policy_loss_equals_the_paper_s_formula(entropy_coef: float, bound_coef: float):
    config = PPOConfig(clip=0.2, entropy_coef=entropy_coef, bound_coef=bound_coef)
    old_mean, old_log_std = draw(N, A, seed=0), 0.1 * draw(A, seed=1)
    action, advantage = old_mean + draw(N, A, seed=2), draw(N, seed=3)
    mean = (old_mean + 0.1 * draw(N, A, seed=4)).requires_grad_()
    log_std = (old_log_std + 0.1 * draw(A, seed=5)).requires_grad_()
    old, new = normal(old_mean, old_log_std), normal(mean, log_std)

    ratio = (new.log_prob(action) - old.log_prob(action)).exp()
    objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum() / SIZE
    excess = (mean.abs() - 1).clamp(min=0).square().sum()
    (-objective + (bound_coef * excess - entropy_coef * new.entropy().sum()) / SIZE).backward()
    outside = ((ratio > 1.2) & (advantage > 0)) | ((ratio < 0.8) & (advantage < 0))
    assert 0.1 < outside.double().mean() < 0.5  # both branches of the minimum are at work

    batch = ActorBatch(action, action, old_mean, old.log_prob(action), advantage)
    loss = policy_loss(mean, log_std, old_log_std, batch, SIZE, config)
    by_mean, by_log_std = torch.autograd.grad(loss.total, [mean, log_std])
    torch.testing.assert_close(by_mean, mean.grad)
    torch.testing.assert_close(by_log_std, log_std.grad)
    torch.testing.assert_close(loss.surrogate, -objective.detach())
    torch.testing.assert_close(loss.kl, kl_divergence(old, new).sum().detach() / SIZE)
    torch.testing.assert_close(loss.clipped.double(), outside.sum().double() / SIZE, rtol=1e-6, atol=0)


@pytest.mark.parametrize("value_clip", [None, 0.5])
def test_value_loss_is_the_larger_of_both_errors(value_clip: float | None):
    config = PPOConfig(value_coef=0.7, value_clip=value_clip)
    value, old, returns = draw(N, seed=0).requires_grad_(), draw(N, seed=1), draw(N, seed=2)
    error = (value - returns).square()
    if value_clip is not None:
        near = old + (value - old).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (near - returns).square())
    (0.7 * error.sum() / SIZE).backward()

    loss = value_loss(value, CriticBatch(old, old, returns), SIZE, config)
    torch.testing.assert_close(loss.error, error.detach().sum() / SIZE)
    torch.testing.assert_close(torch.autograd.grad(loss.total, value)[0], value.grad)
