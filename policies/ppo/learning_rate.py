"""The learning rate of proximal policy optimisation: fixed, linear, or adapted to how far the policy moves."""

from __future__ import annotations

import torch
from torch import Tensor

from policies.ppo.config import PPOConfig, Schedule

FACTOR = 1.5  # by which one minibatch may change an adaptive rate (rsl_rl)


class LearningRate:
    """Step size on the device, so that adapting it never waits."""

    value: Tensor
    """() float32, changed in place."""

    def __init__(self, config: PPOConfig, device: torch.device) -> None:
        self._config, self.value = config, torch.tensor(config.learning_rate, device=device)

    def start(self, progress: float) -> None:
        """Set the rate of the coming update, a `progress` (0 to 1) of the way through training."""
        if self._config.schedule is Schedule.LINEAR:
            self.value.fill_(self._config.learning_rate * (1.0 - min(max(progress, 0.0), 1.0)))

    @torch.no_grad()
    def adapt(self, kl: Tensor) -> None:
        """Slow down where the policy moved too far, speed up where it barely moved, if the schedule is adaptive.

        Args:
            kl: () divergence of the present policy from the rollout's, in nats.
        """
        config = self._config
        if config.schedule is Schedule.ADAPTIVE:
            slower = torch.where(kl > 2 * config.desired_kl, 1 / FACTOR, 1.0)
            faster = torch.where(kl < config.desired_kl / 2, FACTOR, 1.0)
            self.value.mul_(slower * faster).clamp_(config.learning_rate_min, config.learning_rate_max)
