"""How a policy is improved by reinforcement learning."""

from __future__ import annotations

import dataclasses
import math
from enum import StrEnum


class Algorithm(StrEnum):
    """Which decisions get the credit for a success."""

    GRPO = "grpo"
    """All of an episode that did better than others from the same start (SimpleVLA-RL, Li et al. 2025)."""
    PPO = "ppo"
    """Those after which success was likelier than a critic had thought before."""


@dataclasses.dataclass(frozen=True)
class ImprovementConfig:
    """Episodes, and gradient steps on them. The defaults are those with which a policy of 3.2 M parameters, from one
    demonstration of each task, improved the most (docs/vla.md); where they leave SimpleVLA-RL's, it is said."""

    groups: int = 4
    """Start states of each task in a round of episodes."""
    group_size: int = 8
    """Episodes from each start; with PPO every episode has a start of its own, and there are as many."""
    rounds: int = 1
    """Most rounds of an iteration: GRPO drops groups whose episodes all end alike, and draws others until as many are
    kept as one round holds. SimpleVLA-RL draws until there are enough; with partial credit few groups end alike at
    first."""
    horizon: int = 150
    """Control steps within which a task is to be solved; 0: as long as its episodes are. Failures last that long."""
    partial_credit: float = 0.5
    """What an episode that fails is worth for the farthest it came, as a share of a success; 0: nothing, as
    SimpleVLA-RL has it. For tasks whose reward tells how far they are done, as those of manipulation do."""
    temperature: float = 1.2
    """By which logits are divided, in episodes and in updates. SimpleVLA-RL's is 1.6. Less for a policy whose
    fine-tuning was cut short: it is unsure of its tokens, and every number of eight actions drawn by itself shakes the
    hand. More for one that is sure: episodes that all end alike teach nothing."""
    learning_rate: float = 2e-4
    """Largest step size of Adam. SimpleVLA-RL's is 5e-6, for a network of 7 billion parameters."""
    rise: int = 20
    """Gradient steps over which it rises from nothing: Adam's first step is a full one, whatever the gradient."""
    epochs: int = 2
    """How often each decision is learned from."""
    minibatch: int = 512
    """Decisions per gradient step."""
    max_grad_norm: float = 1.0
    """Norm to which longer gradients are shortened."""
    clip_low: float = 0.2
    """How far a token's probability may fall within an update, as a share."""
    clip_high: float = 0.28
    """How far it may rise."""
    bfloat16: bool | None = None
    """Compute in bfloat16 while the weights stay float32; by default where the processor has instructions for it."""
    gamma: float = 0.99
    """PPO: discount per decision, so that sooner is better."""
    lam: float = 0.95
    """PPO: weight of longer over shorter estimates."""
    critic_learning_rate: float = 1e-3
    """PPO: step size of the critic's Adam."""
    critic_epochs: int = 4
    """PPO: how often the critic learns from each decision."""
    warmup: int = 3
    """PPO: iterations in which only the critic learns."""

    def __post_init__(self) -> None:
        """Check ranges."""
        least = {"groups": 1, "group_size": 2, "rounds": 1, "horizon": 0, "epochs": 1, "minibatch": 1}
        least |= {"critic_epochs": 1, "warmup": 0, "rise": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {bound}")
        for name in ("temperature", "learning_rate", "max_grad_norm", "critic_learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be finite and more than 0")
        for name in ("gamma", "lam", "partial_credit"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be 0 to 1")
        if not (0 < self.clip_low < 1 and 0 < self.clip_high < math.inf):
            raise ValueError(f"clip_low={self.clip_low} clip_high={self.clip_high}: expected 0 < low < 1 and 0 < high")

    @property
    def episodes(self) -> int:
        """Of each task in a round."""
        return self.groups * self.group_size
