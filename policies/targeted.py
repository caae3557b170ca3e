"""A critic, and the target network that slowly follows it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from torch import nn

from policies.flat import Stepper, join
from policies.memory_config import MemoryConfig

C = TypeVar("C", bound=nn.Module)


class TargetedCritic(Generic[C]):
    """What all learners of values keep, whatever their critic is."""

    def __init__(self, critic: C, config: MemoryConfig) -> None:
        """Take over a critic that is on its device by now."""
        self.critic = critic
        self.stepper = Stepper(
            critic.parameters(),
            config.critic_learning_rate,
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
        )
        self.target_critic = copy.deepcopy(critic)
        self.target_vector = join(self.target_critic.parameters())

    def track(self, tau: float) -> None:
        """Mix that share of the critic into its target network."""
        self.target_vector.lerp_(self.stepper.vector, tau)

    def state(self) -> dict[str, Any]:
        """Critic with its moments, and target network."""
        return {"critic": self.stepper.state(), "target": self.target_vector.clone()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.stepper.load_state(tree["critic"])
        self.target_vector.copy_(tree["target"])
