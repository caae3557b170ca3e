"""The learning rate of proximal policy optimisation: fixed, linear, or adapted to how far the policy moves."""

from __future__ import annotations

import torch
from torch import Tensor

from policies.ppo.config import PPOConfig, Schedule

SLOWER, FASTER = 1 / 3, 1.25
"""Bounds of the factor by which an adaptive rate changes from update to update; our choice."""


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
        """Aim the rate of the next update at the divergence that is desired, if the schedule is adaptive.

        A divergence grows with the square of the steps that lead to it. The rate stays what it is during an update:
        adapted from one minibatch to the next (as rsl_rl does it), it would grow while a fresh rollout shows no
        divergence yet, and fall when it does, whatever rate would suit the update.

        Args:
            kl: () divergence from the rollout's policy in nats, mean over an update's minibatches.
        """
        config = self._config
        if config.schedule is Schedule.ADAPTIVE:
            factor = (config.desired_kl / kl.clamp(min=1e-8)).sqrt().clamp(SLOWER, FASTER)
            self.value.mul_(factor).clamp_(config.learning_rate_min, config.learning_rate_max)
