"""The two losses of proximal policy optimisation, as functions of what the networks return.

Each takes a chunk of a minibatch and divides by the size of the whole minibatch, so that chunks add up to its mean.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from policies import gaussian
from policies.ppo_config import PPOConfig
from policies.storage import ActorBatch, CriticBatch


class PolicyLoss(NamedTuple):
    """The actor's loss and how far it has moved."""

    total: Tensor
    """What is differentiated."""
    surrogate: Tensor
    """Negated clipped objective."""
    kl: Tensor
    """Divergence of the present policy from the rollout's, in nats."""
    clipped: Tensor
    """Fraction of transitions whose probability ratio left the trusted interval."""


def policy_loss(
    mean: Tensor, log_std: Tensor, old_log_std: Tensor, batch: ActorBatch, size: int, config: PPOConfig
) -> PolicyLoss:
    """Clipped surrogate objective (Schulman et al. 2017, eq. 7) and entropy bonus.

    Args:
        mean: (B, A) actions the actor prefers now.
        log_std: (A,) their log deviation now.
        old_log_std: (A,) their log deviation during the rollout.
        batch: The chunk.
        size: Transitions in the whole minibatch.
        config: Settings.
    """
    # L = -E min(ρ A, clip(ρ, 1-ε, 1+ε) A), with ρ = π(a|s) / π_old(a|s)
    ratio = (gaussian.log_prob(batch.action, mean, log_std) - batch.log_prob).exp()
    trusted = ratio.clamp(1 - config.clip, 1 + config.clip)
    surrogate = -torch.minimum(ratio * batch.advantage, trusted * batch.advantage).sum() / size
    entropy = gaussian.entropy(log_std) * (len(mean) / size)
    with torch.no_grad():
        kl = gaussian.kl(batch.mean, old_log_std, mean, log_std).sum() / size
        clipped = (ratio != trusted).sum() / size
    return PolicyLoss(surrogate - config.entropy_coef * entropy, surrogate, kl, clipped)


def value_loss(value: Tensor, batch: CriticBatch, size: int, config: PPOConfig) -> Tensor:
    """Squared error of the (B,) values; with `value_clip` the larger of two, as moving far then earns nothing."""
    error = (value - batch.returns).square()
    if config.value_clip is not None:
        near = batch.value + (value - batch.value).clamp(-config.value_clip, config.value_clip)
        error = torch.maximum(error, (near - batch.returns).square())
    return error.sum() / size
