"""Interface of advantage estimators for policy-gradient updates; `grpo.py` and `ppo.py` are the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from policies.vla.reinforcement.rollouts import RolloutBatch

EPSILON = 1e-6  # added to standard deviations, SimpleVLA-RL


class Advantages(NamedTuple):
    """Advantages of M decisions, and their weights in the loss."""

    advantage: Tensor
    """(M,)."""
    weight: Tensor
    """(M,) of each number of each action."""
    metrics: dict[str, float]
    """For the log."""
    ready: bool = True
    """Whether the policy is to be updated; not while a critic warms up."""


class AdvantageEstimator:
    """Estimates how much better decisions were than expected, from the outcomes of episodes."""

    group_size: int
    """Episodes that it wants from each initial state."""

    def keep_mask(self, batch: RolloutBatch) -> Tensor:
        """(E,) bool, from which episodes there is something to learn."""
        raise NotImplementedError

    def estimate(self, batch: RolloutBatch) -> Advantages:
        """The advantages of every decision; may update the estimator's own networks."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Everything that decides later estimates."""
        return {}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
