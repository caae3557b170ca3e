"""SAC, soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905): the policy maximises Q-values and entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Generator, Tensor, nn

from embodied.storage.bounds import NOT_NEGATIVE, POSITIVE
from policies.imitation.advice import Penalty, QFunction
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.squashed import SquashedActor
from policies.off_policy.actors import ActorUpdate, LearnedActorUpdate
from policies.off_policy.config import ActorCriticConfig, AdvisedConfig, Sizes
from policies.off_policy.critics import CriticUpdate


@dataclass(frozen=True)
class EntropyConfig(ActorCriticConfig):
    """Settings of actor-critics whose policies maximise entropy, too; of a team, each agent has a coefficient α."""

    initial_temperature: Annotated[float, POSITIVE] = 0.1
    """Entropy coefficient α at first."""
    target_entropy: float | None = None
    """Entropy at which the coefficient aims, in nats; None: minus the number of an agent's actions."""
    temperature_learning_rate: Annotated[float, NOT_NEGATIVE] = 3e-4
    """Adam's step size for log α; 0 holds it."""


@dataclass(frozen=True)
class SACConfig(EntropyConfig, AdvisedConfig):
    """Soft actor-critic (Haarnoja et al. 2018) with an adaptive entropy coefficient."""

    entropy_backup: bool = True
    """Whether targets hold the entropy of what follows (soft Q-values). With a sparse reward they should not: where
    success ends the episode, it would also end the entropy's bonus, which may be the larger."""

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        actor = SACActorUpdate(self.build_actor(sizes, generator, stochastic=True), self)
        return actor, self.build_critics(sizes, generator)


class Temperature:
    """An entropy coefficient α, which rises while the entropy is below its target."""

    def __init__(self, config: EntropyConfig, actions: int, device: torch.device) -> None:
        self._target = -float(actions) if config.target_entropy is None else config.target_entropy
        self._log = nn.Parameter(torch.full((1,), math.log(config.initial_temperature), device=device))
        self._adapts = config.temperature_learning_rate > 0
        self.optimizer = FlatAdamW([self._log], config.temperature_learning_rate)

    @property
    def value(self) -> Tensor:
        """(1,) the coefficient."""
        return self._log.detach().exp()

    def adapt(self, entropy: Tensor) -> Tensor:
        """Take one step down α (H - target) over log α (eq. 18), unless it is held; returns that loss."""
        loss = self._log.sum() * (entropy - self._target)
        if self._adapts:
            self.optimizer.descend(loss)
        return loss.detach()


class SACActorUpdate(LearnedActorUpdate):
    """SAC's actor loss and its entropy coefficient."""

    def __init__(self, actor: SquashedActor, config: SACConfig) -> None:
        """Take over a stochastic actor."""
        super().__init__(actor, config.actor_optimizer(actor))
        self._temperature = Temperature(config, actor.sizes[1], self.optimizer.vector.device)
        self._entropy_backup = config.entropy_backup

    @property
    def temperature(self) -> Tensor:
        """(1,) the entropy coefficient α."""
        return self._temperature.value

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | float]:
        """A sample of the policy, and -α log π of it (eq. 3)."""
        if not self._entropy_backup:
            return self.actor.sample(obs, noise), 0.0
        action, log_density = self.actor.sample_with_density(obs, noise)
        return action, -self.temperature * log_density

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Minimise α log π - Q (eq. 7), then let α adapt."""
        action, log_density = self.actor.sample_with_density(obs, noise)
        loss = (self.temperature * log_density - q_value(action)).mean()
        if penalty is not None:
            loss = loss + penalty(action)
        norm = self.optimizer.descend(loss)
        entropy = -log_density.detach().mean()
        temperature_loss = self._temperature.adapt(entropy)
        return {
            "policy_loss": loss.detach(),
            "policy_gradient_norm": norm,
            "entropy": entropy,
            "temperature": self.temperature[0],
            "temperature_loss": temperature_loss,
        }

    def state(self) -> dict[str, Any]:
        return super().state() | {"temperature": self._temperature.optimizer.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        super().load_state(tree)
        self._temperature.optimizer.load_state(tree["temperature"])
