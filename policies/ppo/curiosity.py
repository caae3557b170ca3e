"""Random network distillation (RND): a reward for observations that are unlike those seen before.

A network learns to predict the output of another, with fixed random weights, for an observation. Its error is large
for new observations (Burda et al. 2018, arXiv:1810.12894, section 2.2). As in rsl_rl, the reward is added to
the task's, and one critic predicts both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from policies.networks.config import Activation, NetworkConfig
from policies.networks.mlp import MLP
from policies.networks.normalizer import Normalizer
from policies.networks.optim import distributed
from policies.networks.optim.flat_parameters import FlatAdamW, join
from policies.ppo.addition import Addition
from policies.ppo.config import CuriosityConfig
from policies.ppo.rollout_buffer import Rollout

CLIP = 5.0  # deviations to which observations are clipped (Burda et al. 2018, section 2.4)
FEATURES = 16  # outputs of both networks
PREDICTOR = NetworkConfig((64, 64), Activation.RELU, output_gain=1.0)
TARGET = NetworkConfig((64,), Activation.RELU, output_gain=1.0)  # shallower than what predicts it


class Curiosity(Addition):
    """The network that is predicted, the one that predicts, and the running deviation of its errors."""

    def __init__(self, size: int, config: CuriosityConfig, minibatches: int, device: torch.device, seed: int) -> None:
        """Build both for observations of length `size`; `seed` fixes their weights."""
        self._minibatches = minibatches
        generator = Generator().manual_seed(seed)
        self._weight = config.weight
        self._target = MLP(size, FEATURES, TARGET, generator).to(device).requires_grad_(False)
        self._target_parameters = join(self._target.parameters())
        self._predictor = MLP(size, FEATURES, PREDICTOR, generator).to(device)
        self._optimizer = FlatAdamW(self._predictor.parameters(), config.learning_rate)
        self._errors = Normalizer(1, device)

    @torch.no_grad()
    def reward(self, rollout: Rollout, last_obs: Tensor, generator: Generator) -> dict[str, Tensor]:
        """Add rewards for what each step reached, then learn to predict it.

        Where an episode ended, that is the start of the next one, which is soon known and earns next to nothing.
        """
        reached = torch.cat([rollout.actor_obs[1:], last_obs[None]])
        reward = self.novelty(reached)
        rollout.reward.add_(reward)
        rows = reached.flatten(0, 1)
        order = torch.randperm(len(rows), generator=generator, device=rows.device)
        errors = [self.learn(rows[index]) for index in order.tensor_split(self._minibatches)]
        return {"curiosity_reward": reward.mean(), "curiosity_error": torch.stack(errors).mean()}

    @torch.no_grad()
    def novelty(self, reached: Tensor) -> Tensor:
        """(T, N) reward for having reached normalised observations (T, N, size).

        It is the error of each over the deviation of all errors so far, times the weight.
        """
        errors = self._error(reached.flatten(0, 1))
        self._errors.observe(errors[:, None])
        self._errors.commit()
        return (errors * self._errors.scale * self._weight).view(reached.shape[:2])

    def learn(self, reached: Tensor) -> Tensor:
        """Take one step towards predicting normalised observations (B, size); returns the mean error, ()."""
        with torch.enable_grad():
            loss = self._error(reached).mean()
            self._optimizer.step(distributed.mean_(self._optimizer.gradient(loss)))
        return loss.detach()

    def _error(self, obs: Tensor) -> Tensor:
        obs = obs.clamp(-CLIP, CLIP)
        return (self._predictor(obs) - self._target(obs)).square().mean(-1)

    def state(self) -> dict[str, Any]:
        return {
            "target": self._target_parameters.clone(),
            "optimizer": self._optimizer.state(),
            "errors": self._errors.state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self._target_parameters.copy_(tree["target"])
        self._optimizer.load_state(tree["optimizer"])
        self._errors.load_state(tree["errors"])
