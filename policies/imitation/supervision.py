"""A robot under supervision: somebody watches what it does and takes over while it goes wrong.

What `policies.imitation.interventions` learns from. When to take over is LazyDAgger's rule (Hoque et al. 2021, arXiv:2104.00053,
algorithm 1): the supervisor begins where its action is far from the robot's, and hands back where it is near again, by
a smaller distance, so that control does not flutter. In simulation the supervisor can be asked at every step; theirs is
asked seldom, and a classifier guesses the distance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from embodied.env.vec_env import PolicyFunction
from policies.imitation.interventions import Source


@dataclasses.dataclass(frozen=True)
class SupervisionConfig:
    """When a supervisor takes over, and when it hands back. Distances are root mean squares over an action's numbers,
    which are in [-1, 1]."""

    begin: float = 0.5
    """Distance from the supervisor's action above which the robot goes wrong."""
    end: float = 0.25
    """Distance below which it can be trusted again."""
    patience: int = 5
    """Control steps for which it is so before control changes hands; people do not notice at once, either."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: One makes no sense.
        """
        if not 0.0 <= self.end <= self.begin or self.patience < 1:
            raise ValueError(
                f"begin={self.begin} end={self.end} patience={self.patience}: expected 0 <= end <= begin, and at "
                "least 1 step"
            )


class Supervised:
    """A robot and its supervisor in N environments; the robot begins every episode. A `recording.Driver`."""

    def __init__(
        self, robot: PolicyFunction, supervisor: PolicyFunction, num_envs: int, config: SupervisionConfig | None = None
    ) -> None:
        """Begin with episodes in which nobody has acted yet."""
        self.robot, self.supervisor, self.config = robot, supervisor, config or SupervisionConfig()
        self._helped = torch.zeros(num_envs, dtype=torch.bool)
        self._since = torch.zeros(num_envs, dtype=torch.int64)

    def __call__(self, obs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Actions (N, A) of whoever acts, in [-1, 1], and who that is: (N,) of `Source`, ROBOT or INTERVENTION."""
        robot, supervisor = self.robot(obs).clamp(-1.0, 1.0), self.supervisor(obs).clamp(-1.0, 1.0)
        distance = (robot - supervisor).square().mean(-1).sqrt().cpu()
        due = torch.where(self._helped, distance < self.config.end, distance > self.config.begin)
        self._since = torch.where(due, self._since + 1, 0)
        changes = self._since >= self.config.patience
        self._helped ^= changes
        self._since[changes] = 0
        helped = self._helped.to(robot.device)
        source = torch.where(helped, int(Source.INTERVENTION), int(Source.ROBOT))
        return torch.where(helped[:, None], supervisor, robot), source

    def restart(self, ended: Tensor) -> None:
        """The robot has control again where episodes are over, (N,) bool."""
        ended = ended.cpu()
        self._helped &= ~ended
        self._since[ended] = 0
