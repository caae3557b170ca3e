"""Training defaults of a task."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainConfig:
    """Training defaults of one task."""

    num_envs: int = 1024
    """Environments that step together."""
    steps: int = 10_000_000
    """Environment steps in all."""
    _: KW_ONLY
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the task's config that it sets in training only, such as a curriculum; evaluations do without them."""
    algorithms: tuple[Any, ...] = ()
    """Settings of algorithms, such as a `PPOConfig`, where their own defaults do not suit the task; at most one of each
    type."""

    def __post_init__(self) -> None:
        if self.num_envs < 1 or self.steps < 1:
            raise ValueError(f"num_envs={self.num_envs} and steps={self.steps} must be at least 1")
