"""How likely a policy is to succeed from here, told by what only the simulation knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from policies.networks.mlp import MLP, NetworkConfig
from policies.networks.normalizer import Normalizer
from policies.optim.flat_parameters import VectorizedSimulator
from policies.vla.reinforcement.config import ImprovementConfig
from policies.vla.reinforcement.experience import Experience

HIDDEN = (256, 256)
MINIBATCH = 256  # decisions


class OutcomeCritic:
    """A small perceptron of the simulation's state, the task and the time.

    It reads the observation group `critic`, as Pinto et al. (2018) do, and not the policy's features: it is there in
    training only, and the state costs nothing, hides nothing, and keeps its meaning while the policy learns.
    """

    def __init__(self, tasks: int, knowledge: int, config: ImprovementConfig, device: torch.device, seed: int) -> None:
        """Untaught.

        Args:
            tasks: How many.
            knowledge: Length of what it is told, the longest of all tasks.
            config: Step size and epochs.
            device: Where the experience is.
            seed: Of weights and minibatches.
        """
        self._tasks, self._config = tasks, config
        shape, weights = NetworkConfig(hidden=HIDDEN), torch.Generator().manual_seed(seed)
        self.network = MLP(knowledge + tasks + 1, 1, shape, weights).to(device)
        self.normalizer = Normalizer(knowledge, device)
        self._simulator = VectorizedSimulator(self.network.parameters(), config.critic_learning_rate, max_grad_norm=1.0)
        self._order = torch.Generator(device).manual_seed(seed)

    @torch.no_grad()
    def __call__(self, experience: Experience) -> Tensor:
        """(M,) expected discounted outcomes, in [0, 1]."""
        if self.normalizer.empty:  # the first decisions are normalised by themselves
            self._observe(experience)
        return self.network(self._inputs(experience))[:, 0].sigmoid()

    def learn(self, experience: Experience, returns: Tensor) -> float:
        """Fit (M,) returns, with which the outcomes' cross entropy is smallest where the value is their mean.

        Returns:
            The mean cross entropy, nats.
        """
        inputs, count, losses = self._inputs(experience), len(returns), []
        targets = returns.clamp(0.0, 1.0)
        for _ in range(self._config.critic_epochs):
            order = torch.randperm(count, generator=self._order, device=returns.device)
            for rows in order.chunk(max(1, count // MINIBATCH)):
                loss = F.binary_cross_entropy_with_logits(self.network(inputs[rows])[:, 0], targets[rows])
                self._simulator.descend(loss)
                losses.append(loss.detach())
        self._observe(experience)
        return torch.stack(losses).mean().item()

    def state(self) -> dict[str, Any]:
        """Everything that decides what it says and learns."""
        return {
            "simulator": self._simulator.state(),
            "normalizer": self.normalizer.state(),
            "order": self._order.get_state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._simulator.load_state(tree["simulator"])
        self.normalizer.load_state(tree["normalizer"])
        self._order.set_state(tree["order"].cpu())

    def _inputs(self, experience: Experience) -> Tensor:
        task = F.one_hot(experience.task[experience.episode], self._tasks)
        known = self.normalizer(experience.knowledge)
        return torch.cat([known, task.to(known.dtype), experience.elapsed[:, None]], -1)

    def _observe(self, experience: Experience) -> None:
        self.normalizer.observe(experience.knowledge)
        self.normalizer.commit()
