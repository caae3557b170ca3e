"""`Addition`: rewards or changes of gradients that are added to proximal policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Generator, Tensor

from policies.ppo.rollout_buffer import Rollout


class Addition:
    """Does nothing; children override what they add."""

    def reward(self, rollout: Rollout, last_obs: Tensor, generator: Generator) -> dict[str, Tensor]:
        """Change a rollout's rewards before advantages are estimated; returns () measures by name.

        Args:
            rollout: Complete but for values and advantages.
            last_obs: (N, size) normalised observations of the actor after its last step.
            generator: Of the order of minibatches.
        """
        del rollout, last_obs, generator
        return {}

    def gradient(self, gradient: Tensor) -> None:
        """Change a minibatch's gradient (P,), in place."""
        del gradient

    def state(self) -> dict[str, Any]:
        """Everything that decides how it goes on."""
        return {}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        del tree
