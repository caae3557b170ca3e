"""CQN, coarse-to-fine Q-network: settings, the distributional Bellman error of each level, and an imitation loss."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from policies.networks.value_heads import CategoricalHead
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import OffPolicyConfig, Sizes, require
from policies.off_policy.cqn.network import CQNActor, CQNNetwork, CQNStructure, bin_indices, interval_centres
from policies.off_policy.critics import CriticUpdate
from policies.off_policy.replay_buffer import Batch


@dataclass(frozen=True)
class CQNConfig(OffPolicyConfig):
    """Coarse-to-fine Q-network (Seo et al. 2024, arXiv:2407.07787) of action sequences (CQN-AS, arXiv:2411.12155).

    There is no actor network: at each level the critic says in which bin of the range to search on. Demonstrations
    beside the buffer are also imitated. Rewards are expected to be sparse: widen the support where they are not.
    """

    levels: int = 3
    """Levels of the discretisation of each action component."""
    bins: int = 5
    """Bins that each level divides its range into."""
    action_sequence: int = 4
    """Consecutive actions of which the critic gives one Q-value. Only n_step equal to it makes the target's rewards
    those of the whole sequence."""
    ensemble_decay: float | None = 0.01
    """Temporal ensemble: every action is the mean of what the last sequences say of it, those of i steps ago weighted
    by exp(-m i) with this m; None: the first action of the newest sequence is executed."""
    act_by_target: bool = True
    """Whether the target network acts, which changes slowly, and not the critic."""
    atoms: int = 51
    """Values of the distribution of returns (C51)."""
    value_low: float = -2.0
    """Least discounted, scaled return that it can hold."""
    value_high: float = 2.0
    """Largest of them. The metric support_edge is the probability at both ends: if it grows, widen them."""
    noise: float = 0.01
    """Standard deviation of the exploration noise."""
    critic_weight: float = 0.1
    """Weight of the distributional Bellman error."""
    imitation_weight: float = 1.0
    """Weight of both terms by which demonstrated bins are to be better than others."""
    margin: float = 0.01
    """By how much their Q-values are to be higher, in scaled rewards."""
    batch_size: int = 512
    critic_learning_rate: float = 5e-5
    weight_decay: float = 0.1
    tau: float = 0.02
    relabel_successes: bool = True
    random_warm_up: bool = False

    @property
    def sequence_length(self) -> int:
        """Consecutive actions of which the critic gives one Q-value."""
        return self.action_sequence

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("levels", "action_sequence"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("bins", "atoms"):
            require(getattr(self, name) >= 2, name, getattr(self, name), "at least 2")
        for name in ("noise", "critic_weight", "imitation_weight", "margin"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        decay = self.ensemble_decay
        require(decay is None or decay >= 0, "ensemble_decay", decay, "0 or more, or None")
        ordered = self.value_low < self.value_high
        require(ordered, "value_low", self.value_low, f"below value_high={self.value_high}")

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        """The critic, and the actor that searches its bins."""
        structure = CQNStructure(
            self.levels, self.bins, self.sequence_length, self.atoms, self.value_low, self.value_high, self.noise,
            self.ensemble_decay,
        )  # fmt: skip
        actor = CQNActor(sizes.policy, sizes.action, self.critic, structure, generator).to(sizes.device)
        update = CQNUpdate(actor, self, sizes.device)
        acting = actor
        if self.act_by_target:
            acting = copy.deepcopy(actor)
            acting.critic = update.target_critic
        return CQNActorUpdate(acting, sizes.num_envs, int(torch.randint(2**62, (), generator=generator))), update


class CQNActorUpdate(ActorUpdate):
    """Explores by the temporal ensemble, with ties broken at random; there is nothing to update."""

    actor: CQNActor

    def __init__(self, actor: CQNActor, num_envs: int, seed: int) -> None:
        """Act by a critic in N = `num_envs` environments; `seed` breaks ties."""
        super().__init__(actor)
        device = actor.support.device
        self._ensemble = actor.ensemble(num_envs)
        self._begun = torch.ones(num_envs, dtype=torch.bool, device=device)
        self._generator = torch.Generator(device).manual_seed(seed)

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        structure = self.actor.structure
        sequence = self.actor.best(obs, self._generator).unflatten(-1, (structure.sequence, -1))
        action = sequence[:, 0] if self._ensemble is None else self._ensemble(sequence, self._begun)
        self._begun = torch.zeros_like(self._begun)
        return (action + structure.noise * noise).clamp(-1.0, 1.0)

    def end_episodes(self, ended: Tensor) -> None:
        self._begun = ended.clone()

    def state(self) -> dict[str, Any]:
        ensemble = {} if self._ensemble is None else {"ensemble": self._ensemble.state()}
        return {"begun": self._begun.clone(), "ties": self._generator.get_state(), **ensemble}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self._begun = tree["begun"].to(self._begun.device).clone()
        self._generator.set_state(tree["ties"].cpu())
        if self._ensemble is not None:
            self._ensemble.load_state(tree["ensemble"])


class CQNUpdate(CriticUpdate[CQNNetwork]):
    """The Bellman error of every level and every component of an action (Seo et al. 2024, eq. 3)."""

    def __init__(self, actor: CQNActor, config: CQNConfig, device: torch.device) -> None:
        """Train the critic of an actor."""
        super().__init__(actor.critic, config.critic_optimizer(actor.critic))
        self.actor, self.config = actor, config
        self.head = CategoricalHead(config.atoms, config.value_low, config.value_high, device)

    def update(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: Generator,
    ) -> dict[str, Tensor]:
        """Take one gradient step of double Q-learning: the critic chooses the next action, its target rates it."""
        del next_action
        config = self.config
        with torch.no_grad():
            bins = bin_indices(self.actor.best(next_obs, generator), config.levels, config.bins)
            following = _chosen(self._logits(self.target_critic, next_obs, bins), bins)
            target = self.head.target(_rows(following), batch.reward, batch.discount, bonus)
        taken = bin_indices(batch.action, config.levels, config.bins)
        logits = self._logits(self.critic, obs, taken)
        outputs = _rows(_chosen(logits, taken))
        bellman = self.head.loss(outputs, target) / len(outputs)
        loss = config.critic_weight * bellman
        metrics = {"critic_loss": bellman.detach()}
        if batch.is_demo is not None:
            shown = preference(logits[batch.is_demo], taken[batch.is_demo], self.head.support, config.margin)
            imitated = shown.sum() / max(len(shown), 1)
            loss = loss + config.imitation_weight * imitated
            metrics["imitation_loss"] = imitated.detach()
        return metrics | {
            "critic_gradient_norm": self.optimizer.descend(loss),
            "value": self.head.value(outputs.detach()).mean(),
            "support_edge": target[..., (0, -1)].sum(-1).mean(),
        }

    def start_from_policy(self) -> None:
        if self.config.act_by_target:
            self.optimizer.vector.copy_(self.target_parameters)  # the policy's weights are the target network's
        else:
            super().start_from_policy()

    def q_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) mean over levels and components of the Q-values of (B, K A) actions."""
        bins = bin_indices(action, self.config.levels, self.config.bins)
        return self.head.value(_rows(_chosen(self._logits(self.critic, obs, bins), bins))).mean(0)

    def _logits(self, critic: CQNNetwork, obs: Tensor, bins: Tensor) -> Tensor:
        """(B, levels, D, bins, atoms), each level given the centre of the interval that the levels before it chose."""
        return critic(critic.features(obs), interval_centres(bins, self.config.bins)[:, :-1])


def preference(logits: Tensor, taken: Tensor, support: Tensor, margin: float) -> Tensor:
    """Imitation loss: how far demonstrated bins are from dominating the others (Seo et al. 2024, section 3.3).

    First-order stochastic dominance: the cumulative distribution of a demonstrated bin's returns should lie below that
    of any other bin, and its mean above by a margin.

    Args:
        logits: (B, levels, D, bins, atoms).
        taken: (B, levels, D) the demonstrated bins.
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


def _chosen(of_bins: Tensor, bins: Tensor) -> Tensor:
    """(B, levels, D, bins, K) to (B, levels, D, K)."""
    index = bins[..., None, None].expand(*bins.shape, 1, of_bins.shape[-1])
    return of_bins.gather(-2, index).squeeze(-2)


def _rows(of_components: Tensor) -> Tensor:
    """(B, levels, D, K) as the outputs of levels times D critics, (E, B, K)."""
    return of_components.flatten(1, 2).transpose(0, 1)
