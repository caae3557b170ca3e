"""TD3, twin delayed deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from policies.imitation.advice import Penalty, QFunction
from policies.networks.squashed import SquashedActor
from policies.off_policy.actors import ActorUpdate, LearnedActorUpdate
from policies.off_policy.config import AdvisedConfig, Sizes, require
from policies.off_policy.critics import CriticUpdate, PolicyValue
from policies.optim.flat_parameters import join


@dataclass(frozen=True)
class TD3Config(AdvisedConfig):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018)."""

    policy_delay: int = 2
    target_delay: int = 2
    policy_value: PolicyValue = PolicyValue.FIRST
    noise_min: float = 0.1
    """Standard deviation of the exploration noise of the first environment."""
    noise_max: float = 0.1
    """That of the last environment; those between are spaced evenly (mixed exploration, Li et al. 2023)."""
    target_noise: float = 0.2
    """Standard deviation of the noise on target actions (target policy smoothing)."""
    target_noise_clip: float = 0.5
    """Bound on that noise."""
    target_actor: bool = True
    """Whether target actions are a target network's; otherwise the actor's own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("noise_min", "target_noise", "target_noise_clip"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        require(self.noise_max >= self.noise_min, "noise_max", self.noise_max, f"noise_min={self.noise_min} or more")

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        actor = TD3ActorUpdate(self.build_actor(sizes, generator, stochastic=False), self, sizes.num_envs)
        return actor, self.build_critics(sizes, generator)


class TD3ActorUpdate(LearnedActorUpdate):
    """The deterministic policy gradient, and TD3's smoothed target actions, of which DDPG has none."""

    def __init__(self, actor: SquashedActor, config: TD3Config, num_envs: int) -> None:
        """Take over a deterministic actor."""
        super().__init__(actor, config.actor_optimizer(actor))
        self._smoothing, self._clip = config.target_noise, config.target_noise_clip
        device = self.optimizer.vector.device
        self._noise = torch.linspace(config.noise_min, config.noise_max, num_envs, device=device)[:, None]
        self._target = copy.deepcopy(actor) if config.target_actor else actor
        self._target_parameters = join(self._target.parameters()) if config.target_actor else None

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The actor's action with each environment's own noise."""
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
        if self._target_parameters is not None:
            self._target_parameters.lerp_(self.optimizer.vector, tau)

    def state(self) -> dict[str, Any]:
        target = {} if self._target_parameters is None else {"target": self._target_parameters.clone()}
        return super().state() | target

    def load_state(self, tree: Mapping[str, Any]) -> None:
        super().load_state(tree)
        if self._target_parameters is not None:
            self._target_parameters.copy_(tree["target"])
