"""The control loop, one for simulation and hardware: check -> soft start -> run -> rest -> damp.

Cycles have absolute deadlines on the robot's clock, so errors of waiting do not add up; a deadline that has passed is
skipped, never made up for. Nothing but `Loop._cycle` writes to a robot, and nothing but what the safety chain let pass.
Whatever happens, an exception included, the robot is damped at the end, again and again for a second.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np

from embodied.errors import reason as why
from sim2real.contract.contract import DeployablePolicy
from sim2real.deployment.controllers import controller_of
from sim2real.deployment.record import LoopLog, Report, Sink, Timing
from sim2real.deployment.safety import Cycle, Safety, State, soft_start
from sim2real.robots.base import Measurement, Phase, Robot, RobotError

PEAK = 1.875  # largest speed of `soft_start` as a multiple of its mean speed
BELOW = 0.8  # fraction of a target's largest rate that such a motion may use


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """Duration of each phase, s."""

    seconds: float = 10.0
    """The policy runs."""
    soft_start: float | None = None
    """From the measured pose to the stance, at least; None: 2 s, and none for a robot whose actuators have no pose."""
    connect: float = 3.0
    """Longest wait for a first measurement."""
    checks: int = 3
    """Cycles in which everything is tried and nothing is sent."""
    rest: float = 2.0
    """To the pose of rest, where there is one; at least."""
    damp: float = 1.0
    """Damping is sent again and again, so that no lost message leaves a robot stiff."""


Rule = Callable[[Measurement, float], tuple[np.ndarray | None, np.ndarray | None, np.ndarray]]
"""(measurement, s in this phase) -> observation and action, where there are any, and target (A,)."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """State of a deployment after a control cycle, for callbacks."""

    phase: Phase
    seconds: float
    """s in this phase."""
    state: State
    measured: Measurement


class Loop:
    """One deployment of a policy on a robot. Use it once."""

    def __init__(
        self,
        robot: Robot,
        policy: DeployablePolicy,
        command: np.ndarray,
        settings: LoopSettings | None = None,
        *,
        safety: Safety | None = None,
        sink: Sink | None = None,
        stop: Callable[[], str] = str,
        watch: Callable[[Progress], None] | None = None,
        instruction: str = "",
    ) -> None:
        """Prepare; nothing is sent before `run`.

        Args:
            robot: Connected, damped.
            policy: A bundle, or a robot's `setpoint_policy`.
            command: (k,) what the operator wants, in the contract's order.
            settings: Durations.
            safety: The chain; by default with the contract's limits.
            sink: Where each cycle is logged, such as `sim2real.logs.mcap_log.Recorder`.
            stop: Called in every cycle; why the operator stops the robot, or an empty text.
            watch: Called after every cycle.
            instruction: For a policy that follows one; empty: its first.
        """
        self.robot, self.policy, self.contract = robot, policy, policy.contract
        self.command = np.asarray(command, float)
        self.settings = settings or LoopSettings()
        self.safety = safety or Safety.of(self.contract)
        self.controller = controller_of(policy, instruction)
        self._log = LoopLog(sink, self.contract) if sink is not None else None
        self._stop, self._watch = stop, watch
        self._entered = Phase.CHECK
        self._state, self._phase, self._seconds = State(), Phase.CHECK, 0.0
        self._deadline, self._missed = 0.0, False
        self._newest = Measurement(-np.inf)
        self._late: list[float] = []
        self._compute: list[float] = []
        self._misses = self._skipped = 0

    def run(self) -> Report:
        """Deploy; returns when the robot is damped."""
        reached = Phase.CHECK
        try:
            self.robot.damp()
            if self._connected():
                for phase, seconds, rule in self._phases():
                    reached = phase
                    if not self._go(phase, seconds, rule):
                        break
        except Exception as error:
            # Whatever it is, the robot comes first; the report names it.
            self._state = self._state.trip("error", f"{type(error).__name__}: {why(error)}")
        finally:
            self._damp()
        timing = Timing(np.array(self._late), np.array(self._compute), self._misses, self._skipped)
        state = self._state
        return Report(reached, self._seconds, state.reason, state.step, state.clips, timing)

    def _connected(self) -> bool:
        """Wait for a measurement that is new; without one, latch."""
        begin = self._deadline = self.robot.now()
        while True:
            age = self.robot.now() - self.robot.read().time
            if abs(age) <= self.safety.limits.max_age:
                self._deadline = self.robot.now()
                return True
            if stopped := self._stop():
                self._state = self._state.trip("operator", stopped)
            elif self.robot.now() - begin > self.settings.connect:
                waited = f"no new measurement within {self.settings.connect:g} s"
                self._state = self._state.trip("stale", f"{waited}; the newest is {age:.3g} s old")
            if self._state.reason:
                return False
            self._deadline += self.contract.period
            self.robot.sleep_until(self._deadline)

    def _phases(self) -> Iterator[tuple[Phase, float, Rule]]:
        limits, settings = self.safety.limits, self.settings
        yield Phase.CHECK, settings.checks * self.contract.period, self._decide
        start = settings.soft_start
        if start is None:
            start = 2.0 if not self.robot.in_place and ((limits.driven >= 0).any() or (limits.axis >= 0).any()) else 0.0
        if start:
            yield Phase.SOFT_START, *self._interpolation(self.contract.row("offset"), start)
        yield Phase.RUN, settings.seconds, self._decide
        if (rest := self.robot.rest_pose) is not None:
            yield Phase.REST, *self._interpolation(rest, settings.rest)

    def _interpolation(self, goal: np.ndarray, seconds: float) -> tuple[float, Rule]:
        """The way to a pose, and how long it takes: longer than requested where that would be too fast."""
        limits = self.safety.limits
        begin = limits.pose(self._newest) if self._state.target is None else self._state.target
        # A robot may lie outside its soft limits; its targets do not.
        begin = np.clip(np.where(np.isnan(begin), goal, begin), limits.lower, limits.upper)
        goal = np.clip(np.where(np.isnan(goal), begin, goal), limits.lower, limits.upper)
        rate = limits.step / limits.period
        seconds = max(seconds, float((np.abs(goal - begin) * PEAK / (BELOW * rate)).max(initial=0.0)))

        def rule(measured: Measurement, now: float) -> tuple[None, None, np.ndarray]:
            del measured
            return None, None, soft_start(begin, goal, now / seconds)

        return seconds, rule

    def _decide(self, measured: Measurement, now: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        del now
        observation, action, target = self.controller.decide(measured, self.command)
        action, target = np.asarray(action, float), np.asarray(target, float)
        expected = (self.contract.action_size,), (len(self.contract.actuators),)
        if (action.shape, target.shape) != expected:
            raise RobotError(f"the policy gave {action.shape} actions and {target.shape} targets; expected {expected}")
        return observation, action, target

    def _go(self, phase: Phase, seconds: float, rule: Rule) -> bool:
        """All cycles of a phase; whether it came to its end."""
        self._phase = phase
        self.controller.reset()
        begin = self._deadline
        for count in range(round(seconds * self.contract.control_hz)):
            # After a pause the policy's time has passed, but a motion to a pose goes on from where it was.
            elapsed = self._deadline - begin if phase is Phase.RUN else count * self.contract.period
            if elapsed >= seconds - self.contract.period / 2:
                break
            self._cycle(rule, elapsed)
            if self._state.reason:
                return False
        return True

    def _cycle(self, rule: Rule, elapsed: float) -> None:
        self.robot.sleep_until(self._deadline)
        now, clock = self.robot.now(), time.perf_counter()
        late = now - self._deadline
        # A late cycle begins at once; deadlines that went by altogether are let go, or a burst would follow.
        skipped = max(0, int(late // self.contract.period))
        self._skipped += skipped
        self._deadline += skipped * self.contract.period
        missed = self._missed or skipped > 0
        self._misses += missed
        measured = self._newest = self.robot.read()
        cycle = Cycle(now, measured, late, missed, self._stop())
        observation = action = None
        state = self.safety.watch(self._state, cycle)
        if not state.reason:
            observation, action, target = rule(measured, elapsed)
            state = self.safety.limit(state, cycle, target, action, observation)
        if self._phase is Phase.CHECK and not state.reason:
            # Tried, not sent: the first target that is sent starts from the measured pose again.
            state = dataclasses.replace(state, target=None, clips={}, clipped_since={})
        self._state = state
        if state.target is not None:
            self.robot.write(state.target)
        elif state.reason:
            self.robot.damp()
        self._late.append(late)
        self._compute.append(time.perf_counter() - clock)
        self._deadline += self.contract.period
        self._missed = self.robot.now() > self._deadline
        if self._phase is Phase.RUN:
            self._seconds = elapsed + self.contract.period
        phase = Phase.LATCHED if state.reason else self._phase
        self._tell(cycle, phase, elapsed, state.target, observation, action)

    def _tell(
        self,
        cycle: Cycle,
        phase: Phase,
        elapsed: float,
        sent: np.ndarray | None = None,
        observation: np.ndarray | None = None,
        action: np.ndarray | None = None,
    ) -> None:
        if self._log is not None:
            self._log.cycle(cycle, phase, self._state, sent, observation, action)
        if phase is not self._entered:
            self._entered = phase
            self.robot.enter(phase)
        if self._watch is not None:
            self._watch(Progress(phase, elapsed, self._state, cycle.measured))

    def _damp(self) -> None:
        """Damp until it has surely arrived; nothing that fails on the way stops it."""
        phase = Phase.LATCHED if self._state.reason else Phase.DAMP
        if not self._state.reason:
            with contextlib.suppress(Exception):
                self.robot.sleep_until(self._deadline)  # the last target has its full period
        period = self.contract.period
        for count in range(max(1, round(self.settings.damp * self.contract.control_hz))):
            with contextlib.suppress(Exception):
                self.robot.damp()
            with contextlib.suppress(Exception):
                self._newest = self.robot.read()
            with contextlib.suppress(Exception):
                self._tell(Cycle(self.robot.now(), self._newest), phase, count * period)
            with contextlib.suppress(Exception):
                self.robot.sleep_until(self.robot.now() + period)
