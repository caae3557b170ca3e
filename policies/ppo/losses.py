"""The two losses of proximal policy optimisation with their derivatives, written out.

Each function takes a chunk of a minibatch and divides by the size of the whole minibatch, so that the results of the
chunks add up to the minibatch's means. The derivatives are by what the networks return; a test holds them equal to
autograd's, which needs four times as many operations.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from policies.networks import gaussian
from policies.ppo.config import PPOConfig
from policies.ppo.rollout_buffer import ActorBatch, CriticBatch


class PolicyLoss(NamedTuple):
    """Derivatives of the actor's loss, and how far the actor has moved."""

    by_mean: Tensor
    """(B, A) derivative by the mean actions."""
    by_log_std: Tensor
    """(A,) derivative by the log standard deviation."""
    surrogate: Tensor
    """() negated clipped objective."""
    kl: Tensor
    """() divergence of the present policy from the rollout's, in nats."""
    clipped: Tensor
    """() fraction of transitions that have moved far enough and no longer count."""


class ValueLoss(NamedTuple):
    """Derivative of the critic's loss, and its error."""

    by_value: Tensor
    """(B,) derivative by the values."""
    error: Tensor
    """() squared error, before it is weighted."""


def policy_loss(
    mean: Tensor, log_std: Tensor, old_log_std: Tensor, batch: ActorBatch, size: int, config: PPOConfig
) -> PolicyLoss:
    """Clipped surrogate objective (Schulman et al. 2017, eq. 7), entropy bonus, and a bound on mean actions.

    Args:
        mean: (B, A) actions the actor prefers now.
        log_std: (A,) their log deviation now.
        old_log_std: (A,) their log deviation during the rollout.
        batch: The chunk.
        size: Transitions in the whole minibatch.
        config: Settings.
    """
    # L = -E min(ρ A, clip(ρ, 1-ε, 1+ε) A) - c H, with ρ = π(a|s) / π_old(a|s)
    z = gaussian.standardize(batch.action, mean, log_std)
    ratio = (gaussian.log_density(z, log_std) - batch.log_prob).exp_()
    gain = ratio * batch.advantage
    bound = ratio.clamp_(1 - config.clip, 1 + config.clip).mul_(batch.advantage)
    clipped = gain > bound
    surrogate = torch.minimum(gain, bound).sum() / -size
    # ∂L/∂log π = -ρ A where the minimum is ρ A, and 0 where it is the bound.
    weight = gain.masked_fill_(clipped, 0.0).div_(-size)
    # ∂log π/∂μ = z / σ,  ∂log π/∂log σ = z² - 1,  ∂H/∂log σ = 1
    weighted = z * weight[:, None]
    by_log_std = (weighted * z).sum(0) - weight.sum() - config.entropy_coef * len(mean) / size
    by_mean = weighted.mul_((-log_std).exp())
    if config.bound_coef:
        # c (|μ| - 1)² beyond [-1, 1]: there environments clip, noise changes nothing, and nothing would call μ back.
        by_mean = by_mean + (mean - mean.clamp(-1.0, 1.0)).mul_(2 * config.bound_coef / size)
    kl = gaussian.kl(batch.mean, old_log_std, mean, log_std).sum() / size
    return PolicyLoss(by_mean, by_log_std, surrogate, kl, clipped.sum() / size)


def value_loss(value: Tensor, batch: CriticBatch, size: int, config: PPOConfig) -> ValueLoss:
    """Squared error of the (B,) values, weighted by `value_coef`.

    With `value_clip` it is the larger of the errors of V and of clip(V, V_old ± ε), so that a value which has moved
    far towards its target no longer counts.
    """
    difference = value - batch.returns
    error = difference.square()
    if config.value_clip is not None:
        step = value - batch.value
        bound = batch.value + step.clamp(-config.value_clip, config.value_clip) - batch.returns
        error, farther = torch.maximum(error, bound.square()), bound.square() > error
        # Where the bound is farther, V lies beyond it, and the bound does not move with V.
        difference = difference.masked_fill(farther, 0.0)
    # ∂ c (V - R)² / ∂V = 2 c (V - R)
    return ValueLoss(difference * (2 * config.value_coef / size), error.sum() / size)
