"""How autoregressive values learn: a component's value is the best of the next one's, the last one's Bellman's."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from policies.off_policy.critics import TargetedCritic
from policies.off_policy.greedy import GreedyRule
from policies.off_policy.q_transformer.config import QTransformerConfig
from policies.off_policy.q_transformer.network import (
    AutoregressiveActor,
    AutoregressiveForm,
    AutoregressiveNetwork,
    bins_of,
)
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.sizes import Extent


def backup(later: Tensor, first: Tensor, reward: Tensor, discount: Tensor, to_go: Tensor | None) -> Tensor:
    """What values of an action's components should have been (Chebotar et al. 2023, eq. 1 and section 4.3).

    Args:
        later: (B, A - 1) the best value of components 2 to A, each after those that were chosen before it.
        first: (B,) the best value of the first component in the next state.
        reward: (B,) earned on the way there.
        discount: (B,) factor on what follows, which passes between states only.
        to_go: (B,) returns that the episodes did bring, from which no best value is below; -inf where unknown.

    Returns:
        (B, A).
    """
    target = torch.cat([later, (reward + discount * first)[:, None]], 1)
    return target if to_go is None else torch.maximum(target, to_go[:, None])


class AutoregressiveValues(TargetedCritic[AutoregressiveNetwork]):
    """Teaches the critic of an actor."""

    def __init__(self, actor: AutoregressiveActor, config: QTransformerConfig) -> None:
        super().__init__(actor.critic, config)
        self.config = config

    def learn(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """One step; arguments as of `ValueLearner.learn`."""
        del next_action, bonus, generator
        taken = bins_of(batch.action, self.config.bins)
        with torch.no_grad():
            later = self.target_critic(obs, taken[:, :-1]).amax(-1)[:, 1:]
            first = self.target_critic(next_obs, taken[:, :0]).amax(-1)[:, 0]
            target = backup(later, first, batch.reward, batch.discount, batch.to_go)
        values = self.critic(obs, taken[:, :-1])
        seen = values.gather(-1, taken[..., None])
        bellman = 0.5 * (seen[..., 0] - target).square().mean()
        unseen = (values - self.config.unseen_value).square().scatter(-1, taken[..., None], 0.0)
        conservative = 0.5 * unseen.sum(-1).mean() / (self.config.bins - 1)
        loss = bellman + self.config.conservative_weight * conservative
        return {
            "critic_loss": bellman.detach(),
            "conservative_loss": conservative.detach(),
            "critic_gradient_norm": self.simulator.descend(loss),
            "value": seen.detach().mean(),
        }

    def climbed(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) values of (B, A) actions: their last components'."""
        taken = bins_of(action, self.config.bins)
        return self.critic(obs, taken[:, :-1])[:, -1].gather(-1, taken[:, -1:])[:, 0]


def make_q_transformer(
    config: QTransformerConfig, extent: Extent, weights: Generator
) -> tuple[GreedyRule, AutoregressiveValues]:
    """A critic, and the policy that reads off it."""
    form = AutoregressiveForm(config.bins, config.layers, config.heads, config.noise)
    actor = AutoregressiveActor(extent.policy, extent.action, config.critic, form, weights).to(extent.device)
    return GreedyRule(actor), AutoregressiveValues(actor, config)
