"""The steps of the safety chain: small pure functions of the limits, of what the chain remembers, and of one cycle.

A step trips, returning why, or bounds the targets, returning the interval in which they may lie.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from embodied.errors import listing
from sim2real.deployment.predictions import (
    NOT_UNIT,
    PREDICTIONS,
    RESPONSE,
    Track,
    agreement_of_all,
    agreements,
    exchanged,
)
from sim2real.deployment.safety_limits import Limits
from sim2real.robots.attitude import UP, rotate_inverse
from sim2real.robots.base import PARTS, Measurement

XYZ = ("x", "y", "z")
JOINT_PARTS = frozenset({"joint_pos", "joint_vel", "joint_torque"})
"""Parts that may stand still in a healthy robot, as long as its joints are not commanded to move."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """The last value of a part of the measurement, and since when it has been that."""

    value: np.ndarray
    since: float
    """s."""
    travel: float
    """`State.travel` at that time; for an encoder, the way of its joint's target."""
    moved: bool = False
    """Of a thing: whether the change that led to the value was more than that of a body that comes to rest."""
    speed: float = 0.0
    """Of a thing: that change a second."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """By how much the gyro and the orientation disagree about the way from one measurement to the next."""

    time: float
    """s, of the later one."""
    away: np.ndarray
    """(3,) rad, body frame: the rotation by the orientations less the gyro's."""


@dataclasses.dataclass(frozen=True)
class State:
    """State of the safety chain from cycle to cycle."""

    reason: str = ""
    """Why it tripped; once set, it stays, and no target passes any more."""
    step: str = ""
    """Name of the step that tripped."""
    time: float = -math.inf
    """s, of the measurement of the cycle before."""
    target: np.ndarray | None = None
    """(A,) the last target that passed; None before the first and after a trip."""
    travel: float = 0.0
    """Way of the targets so far, of the one that moved most in each cycle."""
    travels: np.ndarray | None = None
    """(A,) way of each target so far."""
    readings: Mapping[str, Reading] = dataclasses.field(default_factory=dict)
    """Part of the measurement -> its last value."""
    encoders: tuple[Reading, ...] = ()
    """Each joint's last angle, with the way of its own target."""
    turns: tuple[Turn, ...] = ()
    """Of the last `SafetyConfig.turn_window` s."""
    tracks: Mapping[str, Track] = dataclasses.field(default_factory=dict)
    """Prediction -> its state."""
    attitude: Measurement | None = None
    """The last measurement that had an orientation and a gyro."""
    misses: float = 0.0
    """Missed deadlines, less those forgiven."""
    racing: int = 0
    """Cycles in a row in which a joint turned faster than its motor can."""
    clipped_since: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Step -> s since when it has clipped without a break."""
    clips: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Step -> cycles in which it clipped."""

    def trip(self, step: str, reason: str) -> State:
        """This state, latched. A second trip does not replace the first's reason."""
        return self if self.reason else dataclasses.replace(self, step=step, reason=reason, target=None)


@dataclasses.dataclass(frozen=True)
class Cycle:
    """Inputs of one control cycle: measurement, clock, operator."""

    now: float
    """s."""
    measured: Measurement
    late: float = 0.0
    """s between the deadline and when the cycle began."""
    missed: bool = False
    """Whether the cycle before ended after its deadline."""
    stop: str = ""
    """Why an operator stops the robot; empty: no stop."""


Check = Callable[[Limits, State, Cycle], str]
"""A step that trips: why it does, or an empty text."""
Bound = Callable[[Limits, State, Cycle], tuple[np.ndarray, np.ndarray]]
"""A step that clips: smallest and largest target (A,)."""


def operator(limits: Limits, state: State, cycle: Cycle) -> str:
    """An operator's stop."""
    del limits, state
    return cycle.stop


def finite(limits: Limits, state: State, cycle: Cycle) -> str:
    """All measured numbers are finite."""
    del limits, state
    bad = [part for part in PARTS if not np.isfinite(part_of(cycle.measured, part)).all()]
    bad += [] if math.isfinite(cycle.measured.time) else ["time"]
    return f"the measurement is not finite: {listing(bad)}" if bad else ""


def fresh(limits: Limits, state: State, cycle: Cycle) -> str:
    """The watchdog of the connection: the newest measurement is new."""
    del state
    age = cycle.now - cycle.measured.time
    # So written that a NaN trips.
    return "" if abs(age) <= limits.max_age else f"the newest measurement is {age:.3f} s old ({limits.max_age:g} s)"


def onward(limits: Limits, state: State, cycle: Cycle) -> str:
    """The clock of the measurements does not jump back, not even by less than their largest age."""
    back = state.time - cycle.measured.time
    # Within a period it may: the offset between two computers' clocks is an estimate that improves in a run.
    return f"the measurements' clock jumped back by {back:.3f} s" if back > limits.period else ""


def moving(limits: Limits, state: State, cycle: Cycle) -> str:
    """No sensor repeats itself: real ones have noise in their last digits."""
    for part, reading in state.readings.items():
        if part in limits.things:
            continue
        commanded = state.travel - reading.travel > limits.config.frozen_motion
        if cycle.now - reading.since > limits.max_frozen and (part not in JOINT_PARTS or commanded):
            return f"'{part}' has been frozen for {cycle.now - reading.since:.3f} s ({limits.max_frozen:g} s)"
    return ""


def turning(limits: Limits, state: State, cycle: Cycle) -> str:
    """No single encoder repeats itself while its joint is commanded to move; a held object may block fingers."""
    for name, encoder, driver in zip(limits.joint_names, state.encoders, limits.driver, strict=False):
        still = cycle.now - encoder.since
        if driver < 0 or state.travels is None or still <= limits.max_frozen:
            continue
        way = float(state.travels[driver]) - encoder.travel
        if way > limits.config.frozen_motion:
            return f"the encoder of {name} has been frozen for {still:.3f} s while its target moved by {way:.2f} rad"
    return ""


def punctual(limits: Limits, state: State, cycle: Cycle) -> str:
    """The loop itself runs: no single long pause, and not many short ones."""
    if not cycle.late <= limits.max_late:
        return f"a cycle began {cycle.late:.3f} s late ({limits.max_late:g} s)"
    return "" if state.misses < limits.config.misses else f"{state.misses:.0f} deadlines missed in short succession"


def in_range(limits: Limits, state: State, cycle: Cycle) -> str:
    """Measured joint angles lie within the joints' limits."""
    del state
    q, (low, high), slack = cycle.measured.joint_pos, limits.joint_range, limits.config.overrun
    if not limits.joint_names:
        return ""
    if q is None:
        return "the robot does not measure its joints"
    return first(limits.joint_names, (q < low - slack) | (q > high + slack), q, "rad, outside its limits")


def racing(limits: Limits, measured: Measurement) -> np.ndarray:
    """(n,) bool, joints that turn faster than their motors can; none where speeds are not measured."""
    if measured.joint_vel is None or not limits.joint_names:
        return np.zeros(0, bool)
    return np.abs(measured.joint_vel) > limits.config.overspeed * limits.top_speed


def not_racing(limits: Limits, state: State, cycle: Cycle) -> str:
    """Joints turn no faster than their motors can, but for a moment."""
    if state.racing < limits.config.overspeed_cycles or cycle.measured.joint_vel is None:
        return ""
    return first(limits.joint_names, racing(limits, cycle.measured), np.abs(cycle.measured.joint_vel), "rad/s")


def agreeing(limits: Limits, state: State, cycle: Cycle) -> str:
    """Gyro and orientation show the same rotation: units, signs, axes and the order of quaternions are right."""
    del cycle
    if not state.turns:
        return ""
    away = float(np.linalg.norm(sum(turn.away for turn in state.turns)))
    most = limits.config.max_turn_error
    if away <= most:
        return ""
    return (
        f"orientation and gyro differ by {away:.2f} rad within {limits.config.turn_window:g} s ({most:g} rad): units, "
        "signs or axes of one, or the order of the quaternion"
    )


def views(limits: Limits, name: str, state: State) -> str:
    """Two views of a motion agree, such as a joint's angle and its speed: neither stands still or is another's."""
    if (track := state.tracks.get(name)) is None:
        return ""
    prediction, found = PREDICTIONS[name], agreements(limits, PREDICTIONS[name], track)
    names = limits.joint_names if len(found) == len(limits.joint_names) else XYZ
    shown, told = prediction.sensors
    if unlike := first(names, found < prediction.least, found, f"of agreement ({prediction.least:g})"):
        return f"'{shown}' and '{told}' do not show the same motion: {unlike}"
    if apart := first(names, np.abs(track.drift) > prediction.drift, track.drift, f"({prediction.drift:g})"):
        return f"'{shown}' and '{told}' drift apart: {apart}"
    return ""


def joint_velocity(limits: Limits, state: State, cycle: Cycle) -> str:
    """Each joint's angle changes as its speed says."""
    del cycle
    return views(limits, "joint velocity", state)


def angular_velocity(limits: Limits, state: State, cycle: Cycle) -> str:
    """The orientation changes as the gyro says, also in small motions."""
    del cycle
    return views(limits, "angular velocity", state)


def linear_velocity(limits: Limits, state: State, cycle: Cycle) -> str:
    """The position changes as the velocity says, in the same frame."""
    del cycle
    return views(limits, "linear velocity", state)


def responding(limits: Limits, state: State, cycle: Cycle) -> str:
    """Joints follow their targets: each one of a firm servo, those that loads bend all together."""
    del cycle
    if (track := state.tracks.get(RESPONSE)) is None:
        return ""
    prediction = PREDICTIONS[RESPONSE]
    names = tuple(limits.joint_names[joint] for joint in limits.driven[limits.servos])
    found = agreements(limits, prediction, track)
    if ignored := first(names, limits.firm & (found < prediction.least), found, "agreement with its target"):
        return ignored
    together = agreement_of_all(limits, prediction, track, ~limits.firm)
    return (
        f"the joints do not follow their targets: an agreement of {together:.2f}" if together < prediction.least else ""
    )


def own_limbs(limits: Limits, state: State, cycle: Cycle) -> str:
    """No limb follows another limb's targets better than its own."""
    del cycle
    track = state.tracks.get(RESPONSE)
    if track is None or (pair := exchanged(limits, PREDICTIONS[RESPONSE], track)) is None:
        return ""
    one, other = (limits.joint_names[limits.driven[limits.servos[row]]] for row in pair)
    return f"the limbs of {one} and {other} follow each other's targets: they are exchanged"


def steady(limits: Limits, state: State, cycle: Cycle) -> str:
    """A thing's place does not jump, nor repeat itself once it has moved."""
    for name in limits.things:
        if (reading := state.readings.get(name)) is None:
            continue
        still = cycle.now - reading.since
        if reading.moved and still > limits.config.max_still:
            return f"'{name}' has been frozen for {still:.2f} s ({limits.config.max_still:g} s)"
        if reading.value.size == len(XYZ) and reading.speed > limits.config.max_speed:
            return f"'{name}' jumped: {reading.speed:.3g} m/s ({limits.config.max_speed:g} m/s)"
    return ""


def upright(limits: Limits, state: State, cycle: Cycle) -> str:
    """The orientation is a rotation, and the body leans no more than a robot on its feet."""
    del state
    quat = cycle.measured.orientation
    if quat is None:
        return ""
    with np.errstate(over="ignore"):
        length = float(np.sqrt(quat @ quat))
    if not abs(length - 1) <= NOT_UNIT:
        return f"the orientation is no rotation: a quaternion of length {length:.3g}"
    tilt = math.acos(min(max(float(rotate_inverse(quat / length, UP)[2]), -1.0), 1.0))
    # For drones that may fly on their back the limit is pi, which rounding must not exceed.
    return "" if tilt <= limits.max_tilt + 1e-6 else f"tilted by {math.degrees(tilt):.0f} degrees"


def inside(limits: Limits, state: State, cycle: Cycle) -> str:
    """The body is within the workspace."""
    del state
    place = cycle.measured.position
    if not len(limits.workspace):
        return ""
    if place is None:
        return "there is a workspace, but the robot does not measure its position"
    outside = (place < limits.workspace[:, 0]) | (place > limits.workspace[:, 1])
    return first(XYZ, outside, place, "m, outside the workspace")


def position(limits: Limits, state: State, cycle: Cycle) -> tuple[np.ndarray, np.ndarray]:
    """Targets lie within the limits, less the margin."""
    del state, cycle
    return limits.lower, limits.upper


def rate(limits: Limits, state: State, cycle: Cycle) -> tuple[np.ndarray, np.ndarray]:
    """Targets move no further than allowed from the last; the first from the measured pose."""
    last = limits.pose(cycle.measured) if state.target is None else state.target
    # Where nothing is measured, any first target goes: a rotor has no pose to jump from.
    step = np.where(np.isnan(last), np.inf, limits.step)
    last = np.clip(np.nan_to_num(last), limits.lower, limits.upper)
    return last - step, last + step


def effort(limits: Limits, state: State, cycle: Cycle) -> tuple[np.ndarray, np.ndarray]:
    """kp (target - q) - kd qd stays within the largest effort, which fades out along a motion near top speed."""
    del state
    low, high = np.full(len(limits.names), -np.inf), np.full(len(limits.names), np.inf)
    servo = (limits.stiffness > 0) & np.isfinite(limits.effort)
    if not servo.any() or cycle.measured.joint_pos is None:
        return low, high
    rows = (limits.driven, limits.stiffness, limits.damping, limits.effort)
    joint, kp, kd, most = (row[servo] for row in rows)
    q = cycle.measured.joint_pos[joint]
    qd = np.zeros(len(q)) if cycle.measured.joint_vel is None else cycle.measured.joint_vel[joint]
    left = below_top_speed(limits, joint, qd)
    held = q + kd * qd / kp
    low[servo] = held - most * np.where(qd < 0, left, 1.0) / kp
    high[servo] = held + most * np.where(qd > 0, left, 1.0) / kp
    return low, high


def braking(limits: Limits, state: State, cycle: Cycle) -> tuple[np.ndarray, np.ndarray]:
    """Near top speed a stiff servo's target is ahead of its joint by less and less, until it drives it no further."""
    del state
    low, high = np.full(len(limits.names), -np.inf), np.full(len(limits.names), np.inf)
    servo = np.isfinite(limits.lead)
    if not servo.any() or cycle.measured.joint_pos is None or cycle.measured.joint_vel is None:
        return low, high
    joint = limits.driven[servo]
    qd, left = cycle.measured.joint_vel[joint], below_top_speed(limits, joint, cycle.measured.joint_vel[joint])
    held = cycle.measured.joint_pos[joint] + limits.damping[servo] * qd / limits.stiffness[servo]
    low[servo] = np.where((left < 1) & (qd < 0), held - left * limits.lead[servo], -np.inf)
    high[servo] = np.where((left < 1) & (qd > 0), held + left * limits.lead[servo], np.inf)
    return low, high


def below_top_speed(limits: Limits, joint: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Fraction of its effort that a joint (of these, at these speeds) may be driven on with: 1, near top speed less."""
    top, fade = limits.top_speed[joint], 1 - limits.config.brake_from
    return np.where(np.isfinite(top), np.clip((1 - np.abs(qd) / top) / fade, 0.0, 1.0), 1.0)


CHECKS: Mapping[str, Check] = {
    "operator": operator,
    "finite measurement": finite,
    "stale": fresh,
    "clock": onward,
    "frozen": moving,
    "frozen encoder": turning,
    "deadline": punctual,
    "joint range": in_range,
    "joint speed": not_racing,
    "tilt": upright,
    "rotation": agreeing,
    "workspace": inside,
    "thing": steady,
    "joint velocity": joint_velocity,
    "angular velocity": angular_velocity,
    "linear velocity": linear_velocity,
    "response": responding,
    "limbs": own_limbs,
}
"""Steps that trip on a measurement, in their order."""
BOUNDS: Mapping[str, Bound] = {"position": position, "rate": rate, "effort": effort, "braking": braking}
"""Steps that clip a target."""


def part_of(measured: Measurement, part: str) -> np.ndarray:
    """The numbers of a part of a measurement, flat; none where the robot lacks it."""
    value = getattr(measured, part)
    return np.zeros(0) if value is None else np.asarray(value, float)


def first(names: tuple[str, ...], wrong: np.ndarray, values: np.ndarray, what: str) -> str:
    """The first that is wrong, with its value; an empty text where none is."""
    if not wrong.any():
        return ""
    index = int(np.argmax(wrong))
    return f"{names[index]} at {values[index]:.4g} {what}"
