"""Settings of coarse-to-fine Q-networks."""

from __future__ import annotations

from dataclasses import dataclass

from policies.off_policy.config import MemoryConfig, require


@dataclass(frozen=True)
class CQNConfig(MemoryConfig):
    """Coarse-to-fine Q-network (Seo et al. 2024, arXiv:2407.07787) of action sequences (CQN-AS, arXiv:2411.12155).

    There is no policy network: each level asks the critic in which part of the range to look closer. Demonstrations
    beside the buffer are also imitated. Rewards are expected to be sparse: widen the support where they are not.
    """

    levels: int = 3
    """How often the range of an action is divided."""
    bins: int = 5
    """Into how many parts."""
    action_sequence: int = 4
    """Consecutive actions that the critic judges together, of which the first is executed. As with any n_step above 1,
    only n_step equal to it makes the target's rewards those of the whole sequence."""
    atoms: int = 51
    """Values of the distribution of returns (C51)."""
    value_low: float = -2.0
    """Least discounted, scaled return that it can hold."""
    value_high: float = 2.0
    """Largest of them. The metric support_edge is the probability at both ends: if it grows, widen them."""
    noise: float = 0.01
    """Standard deviation of exploring actions."""
    critic_weight: float = 0.1
    """Of the distributional Bellman error."""
    imitation_weight: float = 1.0
    """Of both terms by which demonstrated bins are to be better than others."""
    margin: float = 0.1
    """By how much their values should be, in scaled rewards."""
    batch_size: int = 512
    critic_learning_rate: float = 5e-5
    weight_decay: float = 0.1
    tau: float = 0.02
    random_warm_up: bool = False

    @property
    def sequence(self) -> int:
        """Consecutive actions that the critic judges together."""
        return self.action_sequence

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        for name in ("levels", "action_sequence"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("bins", "atoms"):
            require(getattr(self, name) >= 2, name, getattr(self, name), "at least 2")
        for name in ("noise", "critic_weight", "imitation_weight", "margin"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        ordered = self.value_low < self.value_high
        require(ordered, "value_low", self.value_low, f"below value_high={self.value_high}")
