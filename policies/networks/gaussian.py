"""Diagonal Gaussians over actions, with one standard deviation for all states.

`torch.distributions` checks and broadcasts at every call; these formulas cost a few kernels each. Means have shape
(..., A), `log_std` has shape (A,).
"""

import math

from torch import Tensor

LOG_TWO_PI = math.log(2 * math.pi)


def standardize(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Distance from the mean in standard deviations, z = (a - μ) / σ, shape (..., A)."""
    return (action - mean) * (-log_std).exp()


def log_density(z: Tensor, log_std: Tensor) -> Tensor:
    """Log density of an action `z` standard deviations from the mean, shape (...)."""
    # log p = -1/2 Σ z² - Σ log σ - A/2 log 2π
    return z.square().sum(-1).mul_(-0.5).sub_(log_std.sum() + 0.5 * LOG_TWO_PI * len(log_std))


def entropy(log_std: Tensor) -> Tensor:
    """Differential entropy in nats, shape ()."""
    # H = Σ log σ + A/2 (1 + log 2π)
    return log_std.sum() + 0.5 * (1 + LOG_TWO_PI) * len(log_std)


def kl(old_mean: Tensor, old_log_std: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the new Gaussian from the old one in nats, shape (...)."""
    # KL(old ‖ new) = Σ log(σ / σ_old) + 1/2 Σ (σ_old² / σ² - 1) + 1/2 Σ (μ_old - μ)² / σ²
    change = log_std - old_log_std
    spread = (change + 0.5 * (-2 * change).expm1()).sum()
    return standardize(old_mean, mean, log_std).square().sum(-1).mul_(0.5).add_(spread)
