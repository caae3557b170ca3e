"""Settings of implicit diffusion Q-learning."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.config import MemoryConfig, require


@dataclass(frozen=True)
class IDQLConfig(MemoryConfig):
    """Implicit Q-learning with a diffusion model as policy (IDQL, Hansen-Estruch et al. 2023, arXiv:2304.10573).

    Values are learned without ever asking for an action that was not taken; the policy draws some of those that might
    have been, and does the best. `critic` also gives the diffusion model's width, and a block for each of its layers.
    """

    expectile: float = 0.7
    """Which expectile of the values of what was done a state is worth; .5 is their mean, near 1 their largest."""
    critics: int = 2
    """How many critics; the lowest counts."""
    diffusion_steps: int = 5
    """Steps from noise to an action."""
    samples: int = 64
    """Actions that are drawn, of which the best is done."""
    exploration: float = 0.5
    """Share of the noise that is drawn anew at every step while exploring; the rest is always the same."""
    actor_learning_rate: float = 3e-4
    """Adam's step size for the diffusion model."""
    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    random_warm_up: bool = False

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        for name in ("critics", "diffusion_steps", "samples"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(0 < self.expectile < 1, "expectile", self.expectile, "above 0 and below 1")
        require(0 <= self.exploration <= 1, "exploration", self.exploration, "between 0 and 1")
        require(self.actor_learning_rate > 0, "actor_learning_rate", self.actor_learning_rate, "positive")
