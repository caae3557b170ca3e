"""How a coarse-to-fine critic learns: by the distributional Bellman equation of every level, and from what is shown."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from policies.networks.value_heads import CategoricalHead
from policies.off_policy.cqn.config import CQNConfig
from policies.off_policy.cqn.network import (
    CoarseToFineActor,
    CoarseToFineForm,
    CoarseToFineNetwork,
    centres_of,
    digits_of,
)
from policies.off_policy.critics import TargetedCritic
from policies.off_policy.greedy import GreedyRule
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.sizes import Extent


class CoarseToFineValues(TargetedCritic[CoarseToFineNetwork]):
    """Every level and every component of an action has a Bellman error of its own (Seo et al. 2024, eq. 3)."""

    def __init__(self, actor: CoarseToFineActor, config: CQNConfig, device: torch.device) -> None:
        """Teach the critic of an actor."""
        super().__init__(actor.critic, config)
        self.actor, self.config = actor, config
        self.head = CategoricalHead(config.atoms, config.value_low, config.value_high, device)

    def learn(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """One step; arguments as of `ValueLearner.learn`. The critic chooses what follows, its slow copy judges it."""
        del next_action, generator
        config = self.config
        with torch.no_grad():
            digits = digits_of(self.actor.best(next_obs), config.levels, config.bins)
            following = _chosen(self._logits(self.target_critic, next_obs, digits), digits)
            target = self.head.target(_rows(following), batch.reward, batch.discount, bonus)
        taken = digits_of(batch.action, config.levels, config.bins)
        logits = self._logits(self.critic, obs, taken)
        outputs = _rows(_chosen(logits, taken))
        bellman = self.head.loss(outputs, target) / len(outputs)
        loss = config.critic_weight * bellman
        measures = {"critic_loss": bellman.detach()}
        if batch.shown is not None:
            imitation = preference(logits, taken, self.head.support, config.margin)
            share = batch.shown.float()
            imitated = (imitation * share).sum() / share.sum().clamp(min=1.0)
            loss = loss + config.imitation_weight * imitated
            measures["imitation_loss"] = imitated.detach()
        return measures | {
            "critic_gradient_norm": self.simulator.descend(loss),
            "value": self.head.value(outputs.detach()).mean(),
            "support_edge": target[..., (0, -1)].sum(-1).mean(),
        }

    def climbed(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) mean over levels and components of the values of (B, K A) actions."""
        digits = digits_of(action, self.config.levels, self.config.bins)
        return self.head.value(_rows(_chosen(self._logits(self.critic, obs, digits), digits))).mean(0)

    def _logits(self, critic: CoarseToFineNetwork, obs: Tensor, digits: Tensor) -> Tensor:
        """(B, levels, D, bins, atoms), each level told what the digits before it leave of the range."""
        return critic(critic.features(obs), centres_of(digits, self.config.bins)[:, :-1])


def preference(logits: Tensor, taken: Tensor, support: Tensor, margin: float) -> Tensor:
    """How far the bins that were shown are from dominating the others (Seo et al. 2024, section 3.3).

    Returns of the shown bin should exceed those of any other stochastically: its cumulative distribution lies below.
    And its mean should by a margin.

    Args:
        logits: (B, levels, D, bins, atoms).
        taken: (B, levels, D) the shown bins.
        support: (atoms,) returns.
        margin: In units of them.

    Returns:
        (B,), 0 where both hold.
    """
    probability = logits.softmax(-1)
    below, value = probability.cumsum(-1), probability @ support
    others = torch.ones_like(value).scatter_(-1, taken[..., None], 0.0)
    dominated = (_chosen(below, taken)[..., None, :] - below).clamp(min=0.0).sum(-1)
    ahead = value.gather(-1, taken[..., None]) - value
    short = (margin - ahead).clamp(min=0.0)
    return ((dominated + short) * others).sum(-1).mean((1, 2)) / (value.shape[-1] - 1)


def make_coarse_to_fine(config: CQNConfig, extent: Extent, weights: Generator) -> tuple[GreedyRule, CoarseToFineValues]:
    """A critic, and the policy that zooms into it."""
    form = CoarseToFineForm(
        config.levels, config.bins, config.sequence, config.atoms, config.value_low, config.value_high, config.noise
    )
    actor = CoarseToFineActor(extent.policy, extent.action, config.critic, form, weights).to(extent.device)
    return GreedyRule(actor), CoarseToFineValues(actor, config, extent.device)


def _chosen(of_bins: Tensor, digits: Tensor) -> Tensor:
    """(B, levels, D, bins, K) to (B, levels, D, K)."""
    index = digits[..., None, None].expand(*digits.shape, 1, of_bins.shape[-1])
    return of_bins.gather(-2, index).squeeze(-2)


def _rows(of_components: Tensor) -> Tensor:
    """(B, levels, D, K) as the outputs of levels times D critics, (E, B, K)."""
    return of_components.flatten(1, 2).transpose(0, 1)
