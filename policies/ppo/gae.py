"""Generalised advantage estimation (Schulman et al. 2016, eq. 16) with both ways an episode can end."""

import torch
from torch import Tensor

from policies.networks.optim import distributed


def gae(
    reward: Tensor,
    value: Tensor,
    last_value: Tensor,
    final_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns of T steps in N environments.

    Args:
        reward: (T, N) rewards r_t.
        value: (T, N) V(s_t).
        last_value: (N,) V(s_T), of the observation after the last step.
        final_value: (T, N) V of the terminal observation, read only where `truncated`.
        terminated: (T, N) bool, step t ended in failure; what follows is worth nothing.
        truncated: (T, N) bool, step t reached the time limit; the terminal observation keeps its value.
        gamma: Discount per step.
        lam: Weight of longer over shorter estimates.

    Returns:
        Advantages and returns, (T, N) each.
    """
    # V' = 0 after a failure, V(final observation) at a time limit, V(s_{t+1}) otherwise.
    following = torch.cat([value[1:], last_value[None]])
    following = torch.where(truncated, final_value, following).masked_fill(terminated, 0.0)
    # δ_t = r_t + γ V' - V(s_t)
    advantage = torch.add(reward, following, alpha=gamma).sub_(value)
    # A_t = δ_t + γλ A_{t+1}, where A_{t+1} belongs to the same episode.
    decay = (~(terminated | truncated)).to(reward.dtype).mul_(gamma * lam)
    for t in range(len(reward) - 2, -1, -1):
        advantage[t].addcmul_(decay[t], advantage[t + 1])
    return advantage, advantage + value


def standardize_(advantage: Tensor) -> None:
    """Shift and scale to mean 0 and deviation 1 over all ranks, in place."""
    mean = distributed.mean_(advantage.mean())
    advantage.sub_(mean)
    advantage.div_(distributed.mean_(advantage.square().mean()).sqrt() + 1e-8)
