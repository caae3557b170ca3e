"""What a task's training defaults hold."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scale:
    """How much experience, and how much of it at once."""

    num_envs: int
    """Environments that step together."""
    steps: int
    """Environment steps in all."""

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.steps < 1:
            raise ValueError(f"num_envs={self.num_envs} and steps={self.steps} must be at least 1")


@dataclass(frozen=True)
class TrainConfig(Scale):
    """How to train on one task by default."""

    num_envs: int = 1024
    steps: int = 10_000_000
    _: KW_ONLY
    on_gpu: Scale | None = None
    """Instead, where JAX sees an NVIDIA GPU, which steps many environments as fast as few; None: the same."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the task's config that it sets in training only, such as a curriculum; evaluations do without them."""
    algorithms: tuple[Any, ...] = ()
    """Settings of algorithms, such as a `PPOConfig`, where their own defaults do not suit the task; at most one of each
    type."""
