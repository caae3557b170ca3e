"""Record of a deployment: its log, cycle by cycle, and the report of phases, clips, trip and timing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sim2real.contract.contract import Contract
from sim2real.deployment.safety import BOUNDS, Cycle, State
from sim2real.deployment.safety_steps import JOINT_PARTS, part_of
from sim2real.logs.log import UNITS, WXYZ, XYZ
from sim2real.robots.base import PARTS, Phase

EDGES = np.array([0.0, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, np.inf])
"""s, edges of the histogram of lateness."""
CLIPS = ("action", *BOUNDS)


class Sink(Protocol):
    """Destination of rows, such as `sim2real.logs.mcap_log.Recorder`."""

    def add(self, channel: str, time: float, values: np.ndarray, names: Sequence[str], unit: str) -> None:
        """One row (k,) of a channel."""
        ...


class LoopLog:
    """Writes cycles to a sink as the channels of `sim2real.logs.log`, and three more.

    phase: a `Phase`; timing: s that the cycle began late; safety: 1 where a step has clipped in this cycle, 2 where the
    chain is latched.
    """

    def __init__(self, sink: Sink, contract: Contract) -> None:
        self._sink = sink
        joints = tuple(joint.name for joint in contract.joints)
        self._columns = {part: joints if part in JOINT_PARTS else XYZ for part in PARTS} | {"orientation": WXYZ}
        self._actuators = tuple(actuator.name for actuator in contract.actuators)
        self._unit = ", ".join(dict.fromkeys(actuator.unit for actuator in contract.actuators))
        self._observed = tuple(f"{term.name}[{index}]" for term in contract.terms for index in range(term.size))
        self._measured = -np.inf
        self._clips: dict[str, int] = {}

    def cycle(
        self,
        cycle: Cycle,
        phase: Phase,
        state: State,
        sent: np.ndarray | None,
        observation: np.ndarray | None,
        action: np.ndarray | None,
    ) -> None:
        """Write inputs and outputs of one cycle; a measurement that is not new is not written again.

        Args:
            cycle: Its inputs.
            phase: Where the deployment was after it.
            state: State of the safety chain after it.
            sent: (A,) the target that went to the robot; None for a robot that was damped.
            observation: Input of the policy, where it ran.
            action: (A,) output of the policy.
        """
        add, now = self._sink.add, cycle.now
        if cycle.measured.time > self._measured:
            self._measured = cycle.measured.time
            for part, names in self._columns.items():
                if (values := part_of(cycle.measured, part)).size:
                    add(part, self._measured, values, names, UNITS[part])
        if observation is not None and action is not None:
            add("observation", now, np.asarray(observation, float), self._observed, "")
            add("action", now, action, self._actuators, UNITS["action"])
        if sent is not None:
            add("command", now, sent, self._actuators, self._unit)
        add("phase", now, np.array([float(phase)]), ("phase",), "")
        add("timing", now, np.array([cycle.late]), ("late",), "s")
        clipped = [float(state.clips.get(name, 0) > self._clips.get(name, 0)) for name in CLIPS]
        self._clips = dict(state.clips)
        add("safety", now, np.array([*clipped, 2.0 * bool(state.reason)]), (*CLIPS, "latched"), "")


@dataclasses.dataclass(frozen=True)
class Timing:
    """Punctuality of the cycles. s, on the robot's clock; zeros on a simulated clock that waits for the policy."""

    late: np.ndarray
    """(n,) how long after its deadline each cycle began."""
    compute: np.ndarray
    """(n,) from there to the robot having its target, on the computer's clock."""
    missed: int
    """Cycles that ended after the next deadline."""
    skipped: int
    """Deadlines that had passed by then; the loop does not make up for them."""

    def summary(self) -> dict[str, Any]:
        result: dict[str, Any] = {"cycles": len(self.late), "missed": self.missed, "skipped": self.skipped}
        for name in ("late", "compute"):
            values = getattr(self, name)
            p50, p99 = np.quantile(values, [0.5, 0.99]) if len(values) else (0.0, 0.0)
            result[name] = {"p50": float(p50), "p99": float(p99), "max": float(values.max(initial=0.0))}
        counts = np.histogram(np.maximum(self.late, 0.0), EDGES)[0]
        result["histogram"] = {"from_s": EDGES[:-1].tolist(), "cycles": counts.tolist()}
        return result

    def bars(self) -> str:
        counts = np.histogram(np.maximum(self.late, 0.0), EDGES)[0]
        most = max(int(counts.max()), 1)
        return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / most))] for count in counts)


@dataclasses.dataclass(frozen=True)
class Report:
    """Result of a deployment."""

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
        return not self.reason

    def summary(self) -> dict[str, Any]:
        return {
            "phase": self.phase.name.lower(),
            "seconds": self.seconds,
            "latched": bool(self.reason),
            "step": self.step,
            "reason": self.reason,
            "clips": dict(self.clips),
            "timing": self.timing.summary(),
        }
