"""What a deployment writes to its log: every measurement, observation, action and target, and what safety did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim2real.contract.contract import Contract
from sim2real.deployment.loop_report import Phase
from sim2real.deployment.safety import BOUNDS, Cycle, State
from sim2real.deployment.safety_steps import JOINT_PARTS, part_of
from sim2real.logs.log import UNITS, WXYZ, XYZ
from sim2real.robots.base import PARTS

CLIPS = ("action", *BOUNDS)


class Sink(Protocol):
    """Where rows go, such as `sim2real.logs.mcap_log.Recorder`."""

    def add(self, channel: str, time: float, values: np.ndarray, names: Sequence[str], unit: str) -> None:
        """One row (k,) of a channel."""
        ...


class LoopLog:
    """Writes cycles to a sink as the channels of `sim2real.logs.log`, and three more.

    phase: a `Phase`; timing: s that the cycle began late; safety: 1 where a step has clipped in this cycle, 2 where the
    chain is latched.
    """

    def __init__(self, sink: Sink, contract: Contract) -> None:
        """Look up the names of all columns."""
        self._sink = sink
        joints = tuple(joint.name for joint in contract.joints)
        self._columns = {part: joints if part in JOINT_PARTS else XYZ for part in PARTS} | {"orientation": WXYZ}
        self._actuators = tuple(actuator.name for actuator in contract.actuators)
        self._unit = ", ".join(dict.fromkeys(actuator.unit for actuator in contract.actuators))
        self._observed = tuple(
            f"{term.name}[{index}]" for term in contract.terms for index in range(term.size * term.history)
        )
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
        """Write what one cycle saw and did; a measurement that is not new is not written again.

        Args:
            cycle: What it knew.
            phase: Where the deployment was after it.
            state: What the safety chain made of it.
            sent: (A,) the target that went to the robot; None of a robot that was damped.
            observation: What the policy saw, where it was asked.
            action: (A,) what it said.
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
