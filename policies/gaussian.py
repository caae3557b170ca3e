"""Diagonal Gaussians over actions, with one standard deviation for all states.

`torch.distributions` checks and broadcasts at every call; these formulas cost a few kernels each. Means have shape
(..., A), `log_std` has shape (A,).
"""

import math

from torch import Tensor

LOG_TWO_PI = math.log(2 * math.pi)


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log density of `action`, shape (...)."""
    # log p(a) = -1/2 Σ ((a - μ) / σ)² - Σ log σ - A/2 log 2π
    z = (action - mean) * (-log_std).exp()
    return -0.5 * z.square().sum(-1) - (log_std.sum() + 0.5 * LOG_TWO_PI * action.shape[-1])


def entropy(log_std: Tensor) -> Tensor:
    """Differential entropy in nats, shape ()."""
    # H = Σ log σ + A/2 (1 + log 2π)
    return log_std.sum() + 0.5 * (1 + LOG_TWO_PI) * log_std.shape[-1]


def kl(old_mean: Tensor, old_log_std: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Kullback-Leibler divergence of the new Gaussian from the old one in nats, shape (...)."""
    # KL(old ‖ new) = Σ log(σ / σ_old) + 1/2 Σ (σ_old² + (μ_old - μ)²) / σ² - A/2
    precision = (-2 * log_std).exp()
    spread = (log_std - old_log_std).sum() + 0.5 * (precision * (2 * old_log_std).exp() - 1).sum()
    return spread + 0.5 * ((old_mean - mean).square() * precision).sum(-1)
