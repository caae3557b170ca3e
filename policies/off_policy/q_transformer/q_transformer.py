"""Q-Transformer: settings, and the Bellman update of autoregressive Q-values.

The Q-value of a component is the maximum over the next component's bins; the last component's is a Bellman target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import OffPolicyConfig, Sizes, require
from policies.off_policy.critics import CriticUpdate
from policies.off_policy.q_transformer.network import (
    QTransformerActor,
    QTransformerNetwork,
    QTransformerStructure,
    to_bins,
)
from policies.off_policy.replay_buffer import Batch


@dataclass(frozen=True)
class QTransformerConfig(OffPolicyConfig):
    """Autoregressive Q-learning from demonstrations and failures (Chebotar et al. 2023, arXiv:2309.10150).

    Expects rewards of 0 or more, such as a sparse reward of success: Q-values of actions outside the data are pulled to
    `unseen_value`, and Monte Carlo returns bound targets from below. The last layer of `critic` is the transformer's
    width.
    """

    bins: int = 256
    """Bins of each component of an action."""
    layers: int = 2
    """Layers of the transformer."""
    heads: int = 4
    """Heads of its attention."""
    conservative_weight: float = 1.0
    """Weight of the conservative loss: the squared distance of unseen bins from unseen_value."""
    unseen_value: float = 0.0
    """Least possible return, in scaled rewards."""
    monte_carlo_steps: int = 500
    """Steps within which an episode must end for its return to bound targets from below; 0: never."""
    noise: float = 0.01
    """Standard deviation of the exploration noise."""
    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    random_warm_up: bool = False

    @property
    def return_horizon(self) -> int:
        """Steps within which an episode must end for its return to go to be known."""
        return self.monte_carlo_steps

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.bins >= 2, "bins", self.bins, "at least 2")
        for name in ("layers", "heads"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("noise", "conservative_weight", "monte_carlo_steps"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        divisible = self.critic.hidden[-1] % self.heads == 0
        require(divisible, "heads", self.heads, f"a divisor of the last layer's width, {self.critic.hidden[-1]}")

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        """The critic, and the actor that maximises it."""
        structure = QTransformerStructure(self.bins, self.layers, self.heads, self.noise)
        actor = QTransformerActor(sizes.policy, sizes.action, self.critic, structure, generator).to(sizes.device)
        return ActorUpdate(actor), QTransformerUpdate(actor, self)


def backup(later: Tensor, first: Tensor, reward: Tensor, discount: Tensor, return_to_go: Tensor | None) -> Tensor:
    """Targets of the Q-values of an action's components (Chebotar et al. 2023, eq. 1 and section 4.3).

    Args:
        later: (B, A - 1) maximal Q-values of components 2 to A, each given the components before it.
        first: (B,) maximal Q-value of the first component in the next state.
        reward: (B,).
        discount: (B,), which applies between states, not between components.
        return_to_go: (B,) Monte Carlo returns, lower bounds of targets; -inf where unknown.

    Returns:
        (B, A).
    """
    target = torch.cat([later, (reward + discount * first)[:, None]], 1)
    return target if return_to_go is None else torch.maximum(target, return_to_go[:, None])


class QTransformerUpdate(CriticUpdate[QTransformerNetwork]):
    """The Bellman error of every component of an action, and the conservative loss of unseen bins."""

    def __init__(self, actor: QTransformerActor, config: QTransformerConfig) -> None:
        super().__init__(actor.critic, config.critic_optimizer(actor.critic))
        self.config = config

    def update(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """Take one gradient step."""
        del next_action, bonus, generator
        taken = to_bins(batch.action, self.config.bins)
        with torch.no_grad():
            later = self.target_critic(obs, taken[:, :-1]).amax(-1)[:, 1:]
            first = self.target_critic(next_obs, taken[:, :0]).amax(-1)[:, 0]
            target = backup(later, first, batch.reward, batch.discount, batch.return_to_go)
        values = self.critic(obs, taken[:, :-1])
        seen = values.gather(-1, taken[..., None])
        bellman = 0.5 * (seen[..., 0] - target).square().mean()
        unseen = (values - self.config.unseen_value).square().scatter(-1, taken[..., None], 0.0)
        conservative = 0.5 * unseen.sum(-1).mean() / (self.config.bins - 1)
        loss = bellman + self.config.conservative_weight * conservative
        return {
            "critic_loss": bellman.detach(),
            "conservative_loss": conservative.detach(),
            "critic_gradient_norm": self.optimizer.descend(loss),
            "value": seen.detach().mean(),
        }

    def q_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) Q-values of (B, A) actions: those of their last components."""
        taken = to_bins(action, self.config.bins)
        return self.critic(obs, taken[:, :-1])[:, -1].gather(-1, taken[:, -1:])[:, 0]
