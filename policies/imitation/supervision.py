"""Supervised rollouts: a supervisor takes over while the robot's policy goes wrong, and hands back afterwards.

They yield the data of `policies.data.interventions`. The rule is LazyDAgger's, with hysteresis (Hoque et al. 2021,
arXiv:2104.00053, algorithm 1): the supervisor takes over where its action is far from the robot's, and hands back where
it is near again, by a smaller distance. In simulation the supervisor can be queried at every step; theirs is queried
seldom, and a classifier predicts the distance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from embodied.env.vec_env import PolicyFunction
from policies.data.interventions import Source


@dataclasses.dataclass(frozen=True)
class SupervisionConfig:
    """When a supervisor takes over, and when it hands back. Distances are root mean squares over an action's
    components, which are in [-1, 1]."""

    begin: float = 0.5
    """Distance from the supervisor's action above which the supervisor takes over."""
    end: float = 0.25
    """Distance below which it hands back."""
    patience: int = 5
    """Consecutive control steps beyond a threshold before control changes hands: people react late, too."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.end <= self.begin or self.patience < 1:
            raise ValueError(
                f"begin={self.begin} end={self.end} patience={self.patience}: expected 0 <= end <= begin, and at "
                "least 1 step"
            )


class SupervisedActor:
    """A robot's policy and its supervisor in N environments; the robot begins every episode. A `RecordedActor`."""

    def __init__(
        self, robot: PolicyFunction, supervisor: PolicyFunction, num_envs: int, config: SupervisionConfig | None = None
    ) -> None:
        self.robot, self.supervisor, self.config = robot, supervisor, config or SupervisionConfig()
        self._intervening = torch.zeros(num_envs, dtype=torch.bool)
        self._since = torch.zeros(num_envs, dtype=torch.int64)

    def __call__(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Actions (N, A) in [-1, 1], of robot or supervisor, and their (N,) `Source`: ROBOT or INTERVENTION."""
        robot, supervisor = self.robot(obs).clamp(-1.0, 1.0), self.supervisor(obs).clamp(-1.0, 1.0)
        distance = (robot - supervisor).square().mean(-1).sqrt().cpu()
        due = torch.where(self._intervening, distance < self.config.end, distance > self.config.begin)
        self._since = torch.where(due, self._since + 1, 0)
        changes = self._since >= self.config.patience
        self._intervening ^= changes
        self._since[changes] = 0
        intervening = self._intervening.to(robot.device)
        source = torch.where(intervening, int(Source.INTERVENTION), int(Source.ROBOT))
        return torch.where(intervening[:, None], supervisor, robot), source

    def reset(self, ended: Tensor) -> None:
        """Give control to the robot where episodes ended, (N,) bool."""
        ended = ended.cpu()
        self._intervening &= ~ended
        self._since[ended] = 0
