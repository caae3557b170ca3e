"""Predictions: two views of one motion, such as an encoder's and that of its joint's speed, and whether they agree.

A motion is *shown* by one sensor and *told* by another source: the integral of a velocity, or what servos make of
their targets. Both pass the same high-pass filter (`WASHOUT`), so that offsets and drift do not count. Leaky averages
of their products over a `window` are energies, of which noise is known: the sensors' from the contract, and what an
integral over control periods misses, from how much the velocity changes. Then

    agreement = 2 <shown told> / (<shown^2> + <told^2> - noise)

is 1 for two views of one motion, 0 where one of them stands still, noise added or not, or shows another motion, and -1
for the opposite one. It is judged where the energy is well above the noise (`LOUD`), and never at rest (`FAINT`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from sim2real.deployment.safety_limits import Limits
from sim2real.robots.attitude import rotation_between
from sim2real.robots.base import Measurement

WASHOUT = 0.15  # s, time constant of the high-pass filter: a motion slower than this is not compared
DRIFT = 5.0  # s, time constant of the sum of what both views differ by: a slow error becomes this many times its rate
LOUD = 4.0  # energy as a multiple of that of the noise, from which on two views are compared
FAINT = 0.02  # rad or m, root mean square of a motion that is too small to be compared
STILL = 0.05
"""rad or m, of joints that loads bend and their targets: a policy that stands still trembles by less, which friction
and loads keep such joints from following."""
NOT_UNIT = 0.1  # by which a quaternion's length may differ from 1: more than rounding to 9 bits, less than garbage
MISSED = 1 / 8  # of a velocity's second difference, what a trapezoid misses; 1/12 for a constant jerk
GAP = 5  # control periods without a measurement, after which a comparison begins anew
BRIEF = 0.25  # of the window, before which single rows are not judged; several rows together wait for all of it
EXCHANGED = 1.25  # limbs count as exchanged where their joints follow each other's targets better by this factor


@dataclasses.dataclass(frozen=True)
class View:
    """A motion from one measurement to the next, by both views: arrays (k,)."""

    shown: np.ndarray
    told: np.ndarray
    rate: np.ndarray
    """The velocity now, whose integral `told` is; zeros where it is not an integral."""


@dataclasses.dataclass(frozen=True)
class Track:
    """State of a prediction: both views of the motion up to a measurement, and their energies."""

    since: float
    """s, when the comparison began."""
    last: Measurement
    expected: np.ndarray
    """(k,) where servos should be by their targets; empty for other predictions."""
    shown: np.ndarray
    """(k,) after the high-pass filter."""
    told: np.ndarray
    rate: np.ndarray
    """(k,) the last velocity."""
    change: np.ndarray
    """(k,) its last change."""
    shown_energy: np.ndarray
    """(k,)."""
    told_energy: np.ndarray
    common: np.ndarray
    """(k, k) energy of what is shown of the one, and told of the other."""
    missed: np.ndarray
    """(k,) energy that the integral misses."""
    drift: np.ndarray
    """(k,) what is shown less what is told, over the last `DRIFT` s."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One row of the table."""

    look: Callable[[Limits, Measurement, Measurement], View | None]
    """The motion from the one measurement to the other; None where the robot does not measure both views."""
    sensors: tuple[str, str]
    """Sources of both views, whose noise the contract states; an empty one has none."""
    least: float
    """Agreement below which a view is wrong."""
    drift: float = math.inf
    """rad or m by which the views may part within about `DRIFT` s."""
    window: float = 2.0
    """s, time constant of the averages."""


def turned(limits: Limits, before: Measurement, now: Measurement) -> View | None:
    """Orientation against gyro, about the body's axes."""
    del limits
    if now.gyro is None or before.gyro is None or (shown := rotation_of(before, now)) is None:
        return None
    return View(shown, _integral(before.gyro, now.gyro, before, now), now.gyro)


def rotation_of(before: Measurement, now: Measurement) -> np.ndarray | None:
    """(3,) rad, body frame, from one orientation to the other; None where one of them is no rotation."""
    if before.orientation is None or now.orientation is None:
        return None
    lengths = [float(np.linalg.norm(quat)) for quat in (before.orientation, now.orientation)]
    if not all(abs(length - 1) <= NOT_UNIT for length in lengths):
        return None
    return rotation_between(before.orientation / lengths[0], now.orientation / lengths[1])


def travelled(limits: Limits, before: Measurement, now: Measurement) -> View | None:
    """Position against velocity, in the world."""
    del limits
    if now.position is None or before.position is None or now.linvel is None or before.linvel is None:
        return None
    return View(now.position - before.position, _integral(before.linvel, now.linvel, before, now), now.linvel)


def swung(limits: Limits, before: Measurement, now: Measurement) -> View | None:
    """Angle against speed of each joint."""
    if not limits.joint_names or now.joint_pos is None or before.joint_pos is None:
        return None
    if now.joint_vel is None or before.joint_vel is None:
        return None
    return View(
        now.joint_pos - before.joint_pos, _integral(before.joint_vel, now.joint_vel, before, now), now.joint_vel
    )


def followed(limits: Limits, before: Measurement, now: Measurement) -> View | None:
    """Angle of each servo's joint; what is told comes from its targets, see `advance`."""
    if not limits.servos.size or now.joint_pos is None or before.joint_pos is None:
        return None
    joint = limits.driven[limits.servos]
    nothing = np.zeros(len(joint))
    return View((now.joint_pos - before.joint_pos)[joint], nothing, nothing)


def _integral(first: np.ndarray, second: np.ndarray, before: Measurement, now: Measurement) -> np.ndarray:
    return (first + second) / 2 * (now.time - before.time)


RESPONSE = "response"
PREDICTIONS: Mapping[str, Prediction] = {
    "joint velocity": Prediction(swung, ("joint_pos", "joint_vel"), 0.25),
    "angular velocity": Prediction(turned, ("orientation", "gyro"), 0.5, 0.45),
    "linear velocity": Prediction(travelled, ("position", "linvel"), 0.5, 0.4),
    RESPONSE: Prediction(followed, ("joint_pos", ""), 0.25, window=3.0),
}
"""Name of a step of the safety chain -> what it compares."""


def advanced(
    limits: Limits, tracks: Mapping[str, Track], target: np.ndarray | None, now: Measurement
) -> dict[str, Track]:
    """All predictions with one more measurement.

    Args:
        limits: Of the contract.
        tracks: As they were.
        target: (A,) that was sent before this measurement; None: none.
        now: The measurement; one that is not new changes nothing.
    """
    found = {}
    for name, prediction in PREDICTIONS.items():
        track = tracks.get(name)
        if track is not None and now.time <= track.last.time:
            found[name] = track
        elif track is None or now.time - track.last.time > GAP * limits.period:
            if (start := _begun(limits, prediction, now)) is not None:
                found[name] = start
        elif (view := prediction.look(limits, track.last, now)) is not None:
            found[name] = advance(limits, prediction, track, view, target, now)
    return found


def _begun(limits: Limits, prediction: Prediction, now: Measurement) -> Track | None:
    if (view := prediction.look(limits, now, now)) is None:
        return None
    zero = np.zeros(len(view.shown))
    expected = zero if now.joint_pos is None or prediction.look is not followed else _angles(limits, now)
    return Track(
        now.time, now, expected, zero, zero, view.rate, zero, zero, zero, np.zeros((len(zero), len(zero))), zero, zero
    )


def _angles(limits: Limits, now: Measurement) -> np.ndarray:
    assert now.joint_pos is not None
    return now.joint_pos[limits.driven[limits.servos]]


def advance(
    limits: Limits, prediction: Prediction, track: Track, view: View, target: np.ndarray | None, now: Measurement
) -> Track:
    """A prediction with one more motion."""
    elapsed, told, expected = now.time - track.last.time, view.told, track.expected
    if prediction.look is followed:
        # A servo without load: its joint follows the target with a lag of damping / stiffness.
        goal = _angles(limits, now) if target is None else target[limits.servos]
        expected = goal + (track.expected - goal) * np.exp(-elapsed * limits.servo_rate)
        told = expected - track.expected
    wash, keep = math.exp(-elapsed / WASHOUT), math.exp(-elapsed / prediction.window)
    drift = math.exp(-elapsed / DRIFT) * (track.drift + view.shown - told)
    shown, told = wash * (track.shown + view.shown), wash * (track.told + told)
    change = view.rate - track.rate
    missed = (MISSED * (change - track.change) * elapsed) ** 2 * WASHOUT / (2 * limits.period)

    def mean(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return keep * old + (1 - keep) * new

    return Track(
        since=track.since,
        last=now,
        expected=expected,
        shown=shown,
        told=told,
        rate=view.rate,
        change=change,
        shown_energy=mean(track.shown_energy, shown**2),
        told_energy=mean(track.told_energy, told**2),
        common=mean(track.common, np.outer(shown, told)),
        missed=mean(track.missed, missed),
        drift=drift,
    )


def noise_of(limits: Limits, prediction: Prediction, track: Track) -> np.ndarray:
    """(k,) energy of the noise in both views together, after the filter."""
    angle, rate = (limits.noise.get(name, 0.0) for name in prediction.sensors)
    return angle**2 + np.maximum(rate**2 * limits.period * WASHOUT / 2, track.missed)


def agreements(limits: Limits, prediction: Prediction, track: Track) -> np.ndarray:
    """(k,) agreement of both views; NaN where it is not judged."""
    noise = noise_of(limits, prediction, track)
    energy = track.shown_energy + track.told_energy - noise
    judged = (energy > np.maximum(LOUD * noise, FAINT**2)) & (track.last.time - track.since > BRIEF * prediction.window)
    return np.where(judged, 2 * np.diag(track.common) / np.where(judged, energy, 1.0), np.nan)


def agreement_of_all(limits: Limits, prediction: Prediction, track: Track, rows: np.ndarray) -> float:
    """Agreement of some rows together, which single ones that loads bend may lack; NaN: not judged."""
    noise = float(noise_of(limits, prediction, track)[rows].sum())
    energy = float((track.shown_energy + track.told_energy)[rows].sum()) - noise
    if energy <= _least_energy(noise, int(rows.sum())) or track.last.time - track.since <= prediction.window:
        return math.nan
    return 2 * float(np.diag(track.common)[rows].sum()) / energy


def _least_energy(noise: float, count: int) -> float:
    """Energy of so many joints together above which they are compared with their targets."""
    return max(LOUD * noise, count * STILL**2)


def exchanged(limits: Limits, prediction: Prediction, track: Track) -> tuple[int, int] | None:
    """Rows of two limbs whose joints follow each other's targets better than their own; None: there are none."""
    if track.last.time - track.since <= prediction.window:
        return None
    noise = noise_of(limits, prediction, track)
    energy = track.shown_energy[:, None] + track.told_energy[None, :] - 2 * track.common  # of the difference
    for limbs in limits.limbs:
        for first, second in itertools.combinations(range(limbs.shape[1]), 2):
            one, other = limbs[:, first], limbs[:, second]
            own = energy[one, one].sum() + energy[other, other].sum()
            if own <= _least_energy(float((noise[one] + noise[other]).sum()), one.size + other.size):
                continue
            if own > EXCHANGED * (energy[one, other].sum() + energy[other, one].sum()):
                return int(one[0]), int(other[0])
    return None
