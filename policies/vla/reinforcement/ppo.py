"""PPO's advantages: GAE with a critic of the simulation's privileged observation (Schulman et al. 2016, 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from policies.networks.mlp import MLP, NetworkConfig
from policies.networks.normalizer import Normalizer
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.ppo.gae import gae
from policies.vla.reinforcement.advantages import EPSILON, AdvantageEstimator, Advantages
from policies.vla.reinforcement.rollouts import RolloutBatch
from policies.vla.reinforcement.settings import RLConfig

HIDDEN = (256, 256)
MINIBATCH = 256  # decisions


class PrivilegedCritic:
    """An MLP from privileged observation, task and time to the expected discounted return.

    An asymmetric critic (Pinto et al. 2018): it reads the observation group `critic` and not the policy's features. It
    is needed in training only, and its input is complete, costs nothing, and does not drift while the policy learns.
    """

    def __init__(self, tasks: int, privileged: int, config: RLConfig, device: torch.device, seed: int) -> None:
        """Make it with random weights; `privileged` is the length of the longest privileged observation."""
        self._tasks, self._config = tasks, config
        shape, weights = NetworkConfig(hidden=HIDDEN), Generator().manual_seed(seed)
        self.network = MLP(privileged + tasks + 1, 1, shape, weights).to(device)
        self.normalizer = Normalizer(privileged, device)
        self.optimizer = FlatAdamW(self.network.parameters(), config.critic_learning_rate, max_grad_norm=1.0)
        self._order = Generator(device).manual_seed(seed)

    @torch.no_grad()
    def __call__(self, batch: RolloutBatch) -> Tensor:
        """(M,) values, in [0, 1]."""
        if self.normalizer.empty:  # the first decisions are normalised by themselves
            self._update_normalizer(batch)
        return self.network(self._inputs(batch))[:, 0].sigmoid()

    def learn(self, batch: RolloutBatch, returns: Tensor) -> float:
        """Fit (M,) returns by cross-entropy, whose minimum is their mean.

        Returns:
            The mean cross-entropy, nats.
        """
        inputs, count, losses = self._inputs(batch), len(returns), []
        targets = returns.clamp(0.0, 1.0)
        for _ in range(self._config.critic_epochs):
            order = torch.randperm(count, generator=self._order, device=returns.device)
            for rows in order.chunk(max(1, count // MINIBATCH)):
                loss = F.binary_cross_entropy_with_logits(self.network(inputs[rows])[:, 0], targets[rows])
                self.optimizer.descend(loss)
                losses.append(loss.detach())
        self._update_normalizer(batch)
        return torch.stack(losses).mean().item()

    def state(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state(),
            "normalizer": self.normalizer.state(),
            "order": self._order.get_state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["optimizer"])
        self.normalizer.load_state(tree["normalizer"])
        self._order.set_state(tree["order"].cpu())

    def _inputs(self, batch: RolloutBatch) -> Tensor:
        task = F.one_hot(batch.task[batch.episode], self._tasks)
        privileged = self.normalizer(batch.privileged)
        return torch.cat([privileged, task.to(privileged.dtype), batch.elapsed[:, None]], -1)

    def _update_normalizer(self, batch: RolloutBatch) -> None:
        self.normalizer.observe(batch.privileged)
        self.normalizer.commit()


class PPOEstimator(AdvantageEstimator):
    """Generalised advantage estimates over an episode's decisions; every episode has an initial state of its own."""

    group_size = 1

    def __init__(self, config: RLConfig, tasks: int, privileged: int, device: torch.device, seed: int) -> None:
        """Make the critic; arguments as of `PrivilegedCritic`."""
        self._config, self._estimates = config, 0
        self.critic = PrivilegedCritic(tasks, privileged, config, device, seed)

    def keep_mask(self, batch: RolloutBatch) -> Tensor:
        return torch.ones_like(batch.success)

    def estimate(self, batch: RolloutBatch) -> Advantages:
        """Advantages standardised over all decisions, which have the same weight; the critic learns the returns."""
        value = self.critic(batch)
        score = batch.score(self._config.partial_credit)
        advantage, returns = outcome_gae(batch, score, value, self._config.gamma, self._config.lam)
        unexplained = (returns - value).var() / returns.var().clamp(min=1e-12)
        loss = self.critic.learn(batch, returns)
        self._estimates += 1
        metrics = {"critic_loss": loss, "explained_variance": 1 - unexplained.item(), "value": value.mean().item()}
        advantage = (advantage - advantage.mean()) / (advantage.std() + EPSILON)
        total = batch.executed.sum() * batch.tokens.shape[-1]
        ready = self._estimates > self._config.critic_warmup
        return Advantages(advantage, torch.ones_like(advantage) / total, metrics, ready)

    def state(self) -> dict[str, Any]:
        return {"critic": self.critic.state(), "estimates": self._estimates}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.critic.load_state(tree["critic"])
        self._estimates = int(tree["estimates"])


def outcome_gae(batch: RolloutBatch, score: Tensor, value: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Advantages and returns (M,) of decisions of `value` (M,), of which the last earns the episode's `score` (E,).

    The horizon terminates episodes: the critic knows the time, so there is nothing to bootstrap from.
    """
    place, episode = batch.decision_index, batch.episode
    steps = torch.bincount(episode, minlength=len(batch))
    shape = (int(steps.max()), len(batch))
    values = value.new_zeros(shape)
    values[place, episode] = value
    reward, last = torch.zeros_like(values), torch.zeros(shape, dtype=torch.bool, device=value.device)
    ends = (steps - 1, torch.arange(len(batch), device=value.device))
    last[ends], reward[ends] = True, score.to(value.dtype)
    nothing, never = torch.zeros_like(values), torch.zeros_like(last)
    advantage, returns = gae(reward, values, nothing[0], nothing, last, never, gamma=gamma, lam=lam)
    return advantage[place, episode], returns[place, episode]
