"""What a deployment came to: phases, clips, the trip, and how punctual its cycles were."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

EDGES = np.array([0.0, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, np.inf])
"""s, edges of the histogram of lateness."""


class Phase(enum.IntEnum):
    """Where a deployment is; the numbers are what a log holds."""

    CHECK = 0
    """Read, try the policy, send nothing."""
    SOFT_START = 1
    """From the measured pose to the stance."""
    RUN = 2
    """The policy acts."""
    REST = 3
    """From the last target to a pose of rest, where the robot has one."""
    DAMP = 4
    """Limp, after a whole run."""
    LATCHED = 5
    """Limp, after a trip."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """How punctual the cycles were. s, on the robot's clock; zeros on a simulated clock that waits for the policy."""

    late: np.ndarray
    """(n,) how long after its deadline each cycle began."""
    compute: np.ndarray
    """(n,) from there to the robot having its target, on the computer's clock."""
    missed: int
    """Cycles that ended after the next deadline."""
    skipped: int
    """Deadlines that had passed by then; the loop does not make up for them."""

    def summary(self) -> dict[str, Any]:
        """p50, p99 and maximum in s, and counts: values for JSON."""
        result: dict[str, Any] = {"cycles": len(self.late), "missed": self.missed, "skipped": self.skipped}
        for name in ("late", "compute"):
            values = getattr(self, name)
            p50, p99 = np.quantile(values, [0.5, 0.99]) if len(values) else (0.0, 0.0)
            result[name] = {"p50": float(p50), "p99": float(p99), "max": float(values.max(initial=0.0))}
        counts = np.histogram(np.maximum(self.late, 0.0), EDGES)[0]
        result["histogram"] = {"from_s": EDGES[:-1].tolist(), "cycles": counts.tolist()}
        return result

    def bars(self) -> str:
        """The histogram in a line of text, from prompt to late."""
        counts = np.histogram(np.maximum(self.late, 0.0), EDGES)[0]
        most = max(int(counts.max()), 1)
        return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / most))] for count in counts)


@dataclasses.dataclass(frozen=True)
class Report:
    """How a deployment went."""

    phase: Phase
    """The last one before the robot was damped."""
    seconds: float
    """s that the policy ran."""
    reason: str
    """Why it was latched; empty after a whole run."""
    step: str
    """Name of the step of the safety chain that tripped; `operator` for a stop, `error` for an exception."""
    clips: Mapping[str, int]
    """Step -> cycles in which it clipped a target."""
    timing: Timing

    @property
    def whole(self) -> bool:
        """Whether it ran to its end."""
        return not self.reason

    def summary(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "phase": self.phase.name.lower(),
            "seconds": self.seconds,
            "latched": bool(self.reason),
            "step": self.step,
            "reason": self.reason,
            "clips": dict(self.clips),
            "timing": self.timing.summary(),
        }
