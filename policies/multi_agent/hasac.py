"""HASAC, heterogeneous-agent soft actor-critic (Liu et al. 2024, arXiv:2306.10715): agents learn one after the other.

Critics value what the whole team sees and does. In random order, each agent ascends their Q-value while those before it
already act by their new policies, and those after it by their old ones. With one agent it is SAC, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from embodied.errors import EmbodiedError
from policies.imitation.advice import Penalty, QFunction
from policies.networks.structured.team import TeamActor, TeamStructure
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.config import Sizes
from policies.off_policy.critics import CriticUpdate
from policies.off_policy.sac import EntropyConfig, Temperature


@dataclass(frozen=True)
class HASACConfig(EntropyConfig):
    """Heterogeneous-agent soft actor-critic (Liu et al. 2024), with an entropy coefficient of each agent."""

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        structure = TeamStructure(sizes.team, stochastic=True)
        own = sizes.policy // sizes.team, sizes.action // sizes.team
        actor = TeamActor(*own, self.actor, structure, generator).to(sizes.device)
        order = Generator().manual_seed(generator.initial_seed())
        return HASACActorUpdate(actor, self, order), self.build_critics(sizes, generator)


class HASACActorUpdate(ActorUpdate):
    """The agents' losses in random order, and their entropy coefficients."""

    actor: TeamActor

    def __init__(self, actor: TeamActor, config: HASACConfig, order: Generator) -> None:
        """Take over stochastic actors; `order` (CPU) draws who learns first."""
        super().__init__(actor)
        self._optimizers = [config.optimizer(own.parameters(), config.actor_learning_rate) for own in actor.members()]
        self._temperatures = [Temperature(config, actor.sizes[1], own.vector.device) for own in self._optimizers]
        self._order = order

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A sample of all agents' policies, and -Σ α_i log π_i of it."""
        action, log_density = self.actor.sample_with_density(obs, noise)
        return action, -(self._coefficients() * log_density).sum(-1)

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """For each agent minimise α log π - Q(s, a) over its own action, the others' being what they are by now."""
        del action, penalty
        with torch.no_grad():
            actions = list(self.actor.split(self.actor.sample(obs, noise)))
        noises, seen = self.actor.split(noise), self.actor.split(obs)
        found: list[dict[str, Tensor]] = []
        for agent in torch.randperm(self.actor.team_size, generator=self._order).tolist():
            actor, own = self.actor.members()[agent], actions.copy()
            own[agent], log_density = actor.sample_with_density(seen[agent], noises[agent])
            loss = (self._temperatures[agent].value * log_density - q_value(torch.cat(own, -1))).mean()
            norm = self._optimizers[agent].descend(loss)
            entropy = -log_density.detach().mean()
            self._temperatures[agent].adapt(entropy)
            with torch.no_grad():
                actions[agent] = actor.sample(seen[agent], noises[agent])
            found.append({"policy_loss": loss.detach(), "policy_gradient_norm": norm, "entropy": entropy})
        means = {name: torch.stack([one[name] for one in found]).mean() for name in found[0]}
        return means | {"temperature": self._coefficients().mean()}

    def update_offline(self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction) -> dict[str, Tensor]:
        """None.

        Raises:
            EmbodiedError: always.
        """
        raise EmbodiedError("hasac learns nothing from demonstrations alone; expected offline_updates=0")

    def _coefficients(self) -> Tensor:
        """(M,) of all agents."""
        return torch.cat([one.value for one in self._temperatures])

    def state(self) -> dict[str, Any]:
        return {
            "order": self._order.get_state(),
            "actors": {str(i): one.state() for i, one in enumerate(self._optimizers)},
            "temperatures": {str(i): one.optimizer.state() for i, one in enumerate(self._temperatures)},
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self._order.set_state(tree["order"].cpu())
        for i, one in enumerate(self._optimizers):
            one.load_state(tree["actors"][str(i)])
        for i, one in enumerate(self._temperatures):
            one.optimizer.load_state(tree["temperatures"][str(i)])
