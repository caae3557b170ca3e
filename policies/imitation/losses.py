"""Imitation losses of a squashed actor: squared error, and likelihood of demonstrated actions."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from policies.networks.gaussian import LOG_TWO_PI
from policies.networks.squashed import SquashedActor

ACTION_BOUND = 0.99  # of demonstrated actions: artanh of -1 and 1 is infinite
CLONED_LOG_STD = -1.5  # in the middle of a squashed actor's bounds, a deviation of 0.22, as of untrained actors
LOG_STD_WEIGHT = 0.01  # beside squared errors of actions, which matter more


def imitation_error(actor: SquashedActor, obs: Tensor, action: Tensor, weight: Tensor | None = None) -> Tensor:
    """Squared error of tanh(μ), mean over (N, A) actions, of `weight` (N,), and their components, shape ()."""
    return _weighted_error(actor(obs), action, weight)


def imitation_loss(actor: SquashedActor, obs: Tensor, action: Tensor, weight: Tensor | None = None) -> Tensor:
    """Loss of behaviour cloning, shape (): `imitation_error`, and the distance of log σ from CLONED_LOG_STD.

    Not a likelihood: a script's actions have no deviation, and often lie at ±1, where the density of a squashed
    Gaussian is infinite. A policy that fitted both would no longer explore.
    """
    if actor.log_std is None:
        return imitation_error(actor, obs, action, weight)
    mean, log_std = actor.distribution(obs)
    distance = (log_std - CLONED_LOG_STD).square().mean()
    return _weighted_error(mean.tanh(), action, weight) + LOG_STD_WEIGHT * distance


def log_likelihood(actor: SquashedActor, obs: Tensor, action: Tensor, blur: float = 0.0) -> Tensor:
    """Log density of actions before the tanh, expected if each is blurred there by a Gaussian, shape (N,).

    E log N(u + b ε; μ, σ) = log N(u; μ, σ) - Σ b² / 2σ², with u = artanh a. It lacks log(1 - a²), on which no policy
    has an influence. The maximum likelihood deviation is never smaller than `blur`, even of a script's actions.

    Args:
        actor: With deviation.
        obs: (N, inputs).
        action: (N, A), of which components beyond ±0.99 count as that.
        blur: b, before the tanh.
    """
    mean, log_std = actor.distribution(obs)
    precision = (-2 * log_std).exp()
    error = (action.clamp(-ACTION_BOUND, ACTION_BOUND).atanh() - mean).square() + blur**2
    return (-0.5 * error * precision - log_std - 0.5 * LOG_TWO_PI).sum(-1)


def _weighted_error(predicted: Tensor, action: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return functional.mse_loss(predicted, action)
    return (weight[:, None] * (predicted - action).square()).mean()
