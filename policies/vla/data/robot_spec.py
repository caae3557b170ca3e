"""Training data of a policy: the robot's observations and actions, and the tasks and their instructions."""

from __future__ import annotations

import dataclasses

from embodied.errors import listing


@dataclasses.dataclass(frozen=True)
class RobotSpec:
    """Observations, actions and control rate of a robot; a policy fits where they equal its own.

    Commands read it from a checkpoint before they make an environment.
    """

    cameras: tuple[str, ...]
    """Names, in the order of the policy's images."""
    resolution: tuple[int, int]
    """Width and height of an image in pixels."""
    state_size: int
    """Length of the observation group `proprio`."""
    action_size: int
    """Length of an action."""
    control_dt: float
    """s per action."""

    def difference(self, expected: RobotSpec) -> str:
        """Differences from another, in words that follow a noun: "has cameras front, expected front, wrist"."""
        names = [field.name for field in dataclasses.fields(self)]
        pairs = [(name, getattr(self, name), getattr(expected, name)) for name in names]
        return "has " + "; ".join(f"{name} {_text(a)}, expected {_text(b)}" for name, a, b in pairs if a != b)


@dataclasses.dataclass(frozen=True)
class TrainingTask:
    """A task that was demonstrated."""

    task: str
    """Its registered name."""
    instructions: tuple[str, ...]
    """Those of its demonstrations."""


def _text(value: object) -> str:
    return listing(value) if isinstance(value, tuple) else f"{value}"
