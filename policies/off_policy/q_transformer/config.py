"""Settings of Q-Transformer."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.config import MemoryConfig, require


@dataclass(frozen=True)
class QTransformerConfig(MemoryConfig):
    """Autoregressive Q-learning from demonstrations and failures (Chebotar et al. 2023, arXiv:2309.10150).

    Expects rewards of 0 or more, as for success alone: what was never done is taken to be worth `unseen_value`, and
    what an episode did bring bounds values from below. The last layer of `critic` is the transformer's width.
    """

    bins: int = 256
    """Into how many parts the range of each component of an action is divided."""
    layers: int = 2
    """Of the transformer."""
    heads: int = 4
    """Of its attention."""
    conservative_weight: float = 1.0
    """Of the squared distance of unseen bins from unseen_value, beside the Bellman error."""
    unseen_value: float = 0.0
    """The least return there is, in scaled rewards."""
    monte_carlo_steps: int = 500
    """Steps within which an episode must end for its return to bound values from below; 0: never."""
    noise: float = 0.01
    """Standard deviation of exploring actions."""
    demonstrations_in_buffer: bool = True
    offline_updates: int = 25_000
    random_warm_up: bool = False

    @property
    def return_horizon(self) -> int:
        """Steps within which an episode must end for its return to be known."""
        return self.monte_carlo_steps

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        require(self.bins >= 2, "bins", self.bins, "at least 2")
        for name in ("layers", "heads"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("noise", "conservative_weight", "monte_carlo_steps"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        divisible = self.critic.hidden[-1] % self.heads == 0
        require(divisible, "heads", self.heads, f"a divisor of the last layer's width, {self.critic.hidden[-1]}")
