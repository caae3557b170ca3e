"""The safety chain: small pure steps between a policy and a robot, and a latch that only ever closes.

A step either *trips* or *clips*. Trips look at the measurement, the clock and the policy's output; the first that finds
fault latches the state with its reason, and from then on the robot is damped. Clips narrow the interval in which each
target may lie; a target outside is moved to its end and counted. Where no target is left, that is a trip as well, so
whatever leaves the chain meets all limits at once.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from sim2real.contract.contract import Contract
from sim2real.deployment.predictions import advanced, turned
from sim2real.deployment.safety_limits import Limits, SafetyConfig
from sim2real.deployment.safety_steps import (
    BOUNDS,
    CHECKS,
    Cycle,
    Reading,
    State,
    Turn,
    first,
    part_of,
    racing,
)  # fmt: skip
from sim2real.robots.base import PARTS

PERSISTENT = ("action", "rate")
"""Steps whose clipping without a break trips: no policy that was trained within these limits does that."""
HUGE = 1e6  # of any unit: a number that trips by itself, or is not a motion
AT_REST = 1e-6  # m, of a thing in a control period: a body comes to rest slower than that, an estimate has more noise

__all__ = ["BOUNDS", "CHECKS", "Cycle", "Safety", "SafetyConfig", "State", "soft_start"]


@dataclasses.dataclass(frozen=True)
class Safety:
    """The chain for one contract."""

    limits: Limits

    @classmethod
    def of(cls, contract: Contract, config: SafetyConfig | None = None) -> Safety:
        """The chain with the thresholds of `config`, by default those documented there."""
        return cls(Limits.of(contract, config or SafetyConfig()))

    def watch(self, state: State, cycle: Cycle) -> State:
        """Check a measurement and the clock: the state, latched where a check trips."""
        if state.reason:
            return state
        misses = state.misses + 1 if cycle.missed else max(0.0, state.misses - self.limits.config.forgive)
        races = state.racing + 1 if racing(self.limits, cycle.measured).any() else 0
        readings, encoders = _reread(self.limits, state, cycle), _turned(self.limits, state, cycle)
        state = _rotated(self.limits, _predicted(self.limits, state, cycle), cycle)
        state = dataclasses.replace(state, misses=misses, racing=races, readings=readings, encoders=encoders)
        for name, check in CHECKS.items():
            if reason := check(self.limits, state, cycle):
                return state.trip(name, reason)
        return dataclasses.replace(state, time=cycle.measured.time)

    def limit(
        self,
        state: State,
        cycle: Cycle,
        target: np.ndarray,
        action: np.ndarray | None = None,
        observation: np.ndarray | None = None,
    ) -> State:
        """Check and clip a target.

        Args:
            state: As `watch` left it in this cycle.
            cycle: The same as `watch` was given.
            target: (A,) in the actuators' units.
            action: (A,), where the target comes from a policy.
            observation: Input of the policy.

        Returns:
            The state with the target that may be sent in `target`; None there, and a reason, after a trip.
        """
        if state.reason:
            return state
        for name, values in (("observation", observation), ("action", action), ("target", target)):
            if values is not None and not np.isfinite(values).all():
                return state.trip(f"finite {name}", f"the {name} is not finite")
        low, high = self.limits.stated
        slack = self.limits.config.tolerance * (high - low)
        if far := first(self.limits.names, (target < low - slack) | (target > high + slack), target, "demanded"):
            return state.trip("target", f"the policy's target is outside the actuator's limits: {far}")
        return self._clip(state, cycle, np.asarray(target, float), action)

    def _clip(self, state: State, cycle: Cycle, target: np.ndarray, action: np.ndarray | None) -> State:
        limits, clipped = self.limits, set()
        if action is not None and (np.abs(action) > 1 + limits.config.tolerance).any():
            clipped.add("action")
        low, high = np.full(len(target), -np.inf), np.full(len(target), np.inf)
        for name, bound in BOUNDS.items():
            lowest, highest = bound(limits, state, cycle)
            if ((target < lowest) | (target > highest)).any():
                clipped.add(name)
            low, high = np.maximum(low, lowest), np.minimum(high, highest)
        if empty := first(limits.names, ~(low <= high), low - high, "past each other"):
            return state.trip("limits", f"no target meets all limits: {empty}")
        sent = np.clip(target, low, high)
        state = _count(state, clipped, cycle.now)
        for name in PERSISTENT:
            since = state.clipped_since.get(name, cycle.now)
            if cycle.now - since > limits.config.max_clipped:
                return state.trip(name, f"the policy's {name} was beyond its limits for {cycle.now - since:.2f} s")
        # Once more, and independently of all above: what is sent is a number within the limits.
        if not ((limits.lower <= sent) & (sent <= limits.upper)).all():
            return state.trip("gate", "the chain itself let a target outside the limits pass")
        moved = np.zeros(len(sent)) if state.target is None else np.abs(sent - state.target)
        travels = moved if state.travels is None else state.travels + moved
        return dataclasses.replace(state, target=sent, travel=state.travel + moved.max(initial=0.0), travels=travels)


def soft_start(begin: np.ndarray, stance: np.ndarray, fraction: float) -> np.ndarray:
    """(A,) a pose on the way from `begin` to `stance`, at rest at both ends.

    Source: the polynomial of least jerk between two poses, Flash and Hogan (1985), "The coordination of arm movements".
    """
    f = min(max(fraction, 0.0), 1.0)
    return begin + (stance - begin) * f**3 * (10 - 15 * f + 6 * f**2)


def _reread(limits: Limits, state: State, cycle: Cycle) -> dict[str, Reading]:
    """The last readings, and since when each has been the same to the last bit."""
    readings = {}
    things = {name: cycle.measured.readings.get(name, ()) for name in limits.things}
    for name, value in {**{part: part_of(cycle.measured, part) for part in PARTS}, **things}.items():
        value, known = np.asarray(value, float), state.readings.get(name)
        if value.size:
            same = known is not None and np.array_equal(known.value, value)
            readings[name] = known if known is not None and same else _read(limits, state, cycle, known, value)
    return readings


def _read(limits: Limits, state: State, cycle: Cycle, known: Reading | None, value: np.ndarray) -> Reading:
    if known is None:
        return Reading(value, cycle.now, state.travel)
    change = float(np.linalg.norm(value - known.value))
    speed = change / max(cycle.now - known.since, limits.period)
    return Reading(value, cycle.now, state.travel, change > AT_REST, speed)


def _predicted(limits: Limits, state: State, cycle: Cycle) -> State:
    """The state with both views of each motion until this measurement."""
    measured = cycle.measured
    sane = all((np.abs(part_of(measured, part)) < HUGE).all() for part in PARTS) and math.isfinite(measured.time)
    if not limits.config.predictions or not sane:
        return state
    return dataclasses.replace(state, tracks=advanced(limits, state.tracks, state.target, measured))


def _rotated(limits: Limits, state: State, cycle: Cycle) -> State:
    """The state with the last rotation by gyro and orientation; after a gap they begin anew."""
    now, before = cycle.measured, state.attitude
    if now.orientation is None or now.gyro is None or not np.isfinite([*now.orientation, *now.gyro, now.time]).all():
        return state
    if before is not None and now.time - before.time > limits.max_age:
        return dataclasses.replace(state, attitude=now, turns=())
    if before is not None and now.time <= before.time:
        return state
    if before is None or (view := turned(limits, before, now)) is None:
        return dataclasses.replace(state, attitude=now)
    kept = (turn for turn in state.turns if turn.time > now.time - limits.config.turn_window)
    return dataclasses.replace(state, attitude=now, turns=(*kept, Turn(now.time, view.shown - view.told)))


def _turned(limits: Limits, state: State, cycle: Cycle) -> tuple[Reading, ...]:
    """Each joint's last angle, and since when it has been the same to the last bit."""
    angles = part_of(cycle.measured, "joint_pos")
    found = []
    for joint, angle in enumerate(angles):
        known = state.encoders[joint] if joint < len(state.encoders) else None
        driver = int(limits.driver[joint]) if joint < len(limits.driver) else -1
        travel = 0.0 if state.travels is None or driver < 0 else float(state.travels[driver])
        same = known is not None and known.value == angle
        found.append(known if known is not None and same else Reading(angle, cycle.now, travel))
    return tuple(found)


def _count(state: State, clipped: set[str], now: float) -> State:
    since = {name: state.clipped_since.get(name, now) for name in clipped}
    clips = {**state.clips, **{name: state.clips.get(name, 0) + 1 for name in clipped}}
    return dataclasses.replace(state, clipped_since=since, clips=clips)
