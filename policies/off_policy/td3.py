"""TD3, twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from torch import Generator, Tensor

from embodied.storage.bounds import NOT_NEGATIVE
from policies.imitation.advice import Penalty, QFunction
from policies.networks.optim.flat_parameters import join
from policies.off_policy.actors import ActorUpdate, LearnedActorUpdate
from policies.off_policy.config import ActorCriticConfig, AdvisedConfig, Sizes
from policies.off_policy.critics import CriticUpdate, PolicyValue


@dataclass(frozen=True)
class DeterministicConfig(ActorCriticConfig):
    """Settings of actor-critics whose actors are deterministic."""

    policy_delay: int = 2
    target_delay: int = 2
    policy_value: PolicyValue = PolicyValue.FIRST
    noise: Annotated[float, NOT_NEGATIVE] = 0.1
    """Standard deviation of the exploration noise."""
    target_noise: Annotated[float, NOT_NEGATIVE] = 0.2
    """Standard deviation of the noise on target actions (target policy smoothing)."""
    target_noise_clip: Annotated[float, NOT_NEGATIVE] = 0.5
    """Bound on that noise."""


@dataclass(frozen=True)
class TD3Config(DeterministicConfig, AdvisedConfig):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018)."""

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        actor = TD3ActorUpdate(self.build_actor(sizes, generator, stochastic=False), self)
        return actor, self.build_critics(sizes, generator)


class TD3ActorUpdate(LearnedActorUpdate):
    """The deterministic policy gradient, and smoothed target actions."""

    actor: Any
    """`SquashedActor`, or `TeamActor` of several agents."""

    def __init__(self, actor: Any, config: DeterministicConfig) -> None:
        """Take over a deterministic actor."""
        super().__init__(actor, config.actor_optimizer(actor))
        self._noise, self._smoothing, self._clip = config.noise, config.target_noise, config.target_noise_clip
        self._target = copy.deepcopy(actor)
        self._target_parameters = join(self._target.parameters())

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The actor's action with noise."""
        return (self.actor(obs) + self._noise * noise).clamp(-1.0, 1.0)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """The target network's action with clipped noise (eq. 14)."""
        smoothing = (self._smoothing * noise).clamp(-self._clip, self._clip)
        return (self._target(obs) + smoothing).clamp(-1.0, 1.0), 0.0

    def update(
        self, obs: Tensor, action: Tensor, noise: Tensor, q_value: QFunction, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Minimise -Q."""
        action = self.actor(obs)
        loss = -q_value(action).mean()
        if penalty is not None:
            loss = loss + penalty(action)
        return {"policy_loss": loss.detach(), "policy_gradient_norm": self.optimizer.descend(loss)}

    def update_target(self, tau: float) -> None:
        """Polyak-average the actor into its target network."""
        self._target_parameters.lerp_(self.optimizer.vector, tau)

    def state(self) -> dict[str, Any]:
        return super().state() | {"target": self._target_parameters.clone()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        super().load_state(tree)
        self._target_parameters.copy_(tree["target"])
