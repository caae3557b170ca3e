"""The two losses of proximal policy optimisation.

Each takes a chunk of a minibatch and divides by the size of the whole minibatch, so that the losses and gradients of
the chunks add up to the minibatch's.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from policies.networks import gaussian
from policies.ppo.config import PPOConfig
from policies.ppo.rollout_buffer import ActorBatch, CriticBatch


class PolicyLoss(NamedTuple):
    """The actor's loss, and how far the actor has moved; () each, without gradients but for the first."""

    total: Tensor
    """Loss that is minimised: surrogate, entropy bonus and bound on mean actions."""
    surrogate: Tensor
    """Negated clipped objective."""
    kl: Tensor
    """Divergence of the present policy from the rollout's, in nats."""
    clipped: Tensor
    """Fraction of transitions that have moved far enough and no longer count."""


class ValueLoss(NamedTuple):
    """The critic's loss and its error, () each, the latter without gradients."""

    total: Tensor
    """Loss that is minimised."""
    error: Tensor
    """Squared error, before it is weighted."""


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
    ratio = (gaussian.log_density(z, log_std) - batch.log_prob).exp()
    gain = ratio * batch.advantage
    bound = ratio.clamp(1 - config.clip, 1 + config.clip) * batch.advantage
    surrogate = torch.minimum(gain, bound).sum() / -size
    total = surrogate
    if config.entropy_coef:
        total = total - config.entropy_coef * len(mean) / size * gaussian.entropy(log_std)
    if config.bound_coef:
        # c (|μ| - 1)² beyond [-1, 1]: there environments clip, noise changes nothing, and nothing would call μ back.
        total = total + (mean - mean.clamp(-1.0, 1.0)).square().sum() * (config.bound_coef / size)
    with torch.no_grad():
        kl = gaussian.kl(batch.mean, old_log_std, mean, log_std).sum() / size
        clipped = (gain > bound).sum() / size
    return PolicyLoss(total, surrogate.detach(), kl, clipped)


def value_loss(value: Tensor, batch: CriticBatch, size: int, config: PPOConfig) -> ValueLoss:
    """Squared error of the (B,) values, weighted by `value_coef`.

    With `value_clip` it is the larger of the errors of V and of clip(V, V_old ± ε), so that a value which has moved
    far towards its target no longer counts.
    """
    error = (value - batch.returns).square()
    if config.value_clip is not None:
        near = batch.value + (value - batch.value).clamp(-config.value_clip, config.value_clip)
        error = torch.maximum(error, (near - batch.returns).square())
    mean = error.sum() / size
    return ValueLoss(config.value_coef * mean, mean.detach())
