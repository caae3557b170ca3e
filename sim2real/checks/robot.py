"""Checks of a log against the robot that made it: channels, joints, limits, order and signs, excitation, delay."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from embodied.errors import listing
from sim2real.checks.findings import Finding, Severity, at_rows_of, ratio, slope, smooth, tidy
from sim2real.contract.limits import Limits
from sim2real.logs.delay import MAX_DELAY
from sim2real.logs.log import WXYZ, XYZ, Channel, Log, LogError
from sim2real.logs.resample import unbroken
from sim2real.logs.servo_delay import delay_of, response

SLACK = 0.02  # rad beyond a joint's limits that encoders and soft stops explain
LEAST_RATE = 80.0  # rows/s, eight per period of the 10 Hz that excitation goes up to
LEAST_TIME = 5.0  # s
LEAST_SPAN, LEAST_SPEED = 0.05, 0.3  # rad and rad/s that a joint should reach to show friction and inertia
SLOW = 3.0  # Hz below which a servo follows its command without turning its sign
LEAST_TURN = 0.1  # rad/s, standard deviation about x or y: a hover in still air has less
LEANING = 0.1  # s over which accelerations are smoothed
HOLE = 1.0  # s without a row of a joint, across which it is not compared
COMPARED = 3600.0  # s that are compared at most
TIMED = 3  # joints whose delay is estimated, those that move most


def channels(log: Log, limits: Limits) -> Iterator[Finding]:
    """Channels that are missing, too short, or too slow."""
    needed = ("command", "joint_pos") if limits.names else ("command", "gyro", "orientation", "position")
    useful = ("joint_vel", "joint_torque") if limits.names else ("accelerometer", "linvel")
    useful += ("gyro", "accelerometer", "orientation") if limits.names and limits.floating else ()
    for name in (*needed, *useful):
        if name not in log or not len(log[name]):
            yield Finding(
                Severity.ERROR if name in needed else Severity.NOTE, "missing", name, "no rows",
                "needed to calibrate" if name in needed else "makes a calibration surer", "record it",
            )  # fmt: skip
        elif name in needed and log[name].rate < LEAST_RATE:
            yield Finding(
                Severity.WARNING, "slow", name, f"{log[name].rate:.0f} rows/s", f"{LEAST_RATE:.0f} or more",
                "fast parameters (delay, armature) need it",
            )  # fmt: skip
    here = [log[name] for name in needed if name in log and len(log[name])]
    if len(here) < 2:
        return
    common = min(part.time[-1] for part in here) - max(part.time[0] for part in here)
    if common < LEAST_TIME:
        yield Finding(
            Severity.ERROR if common <= 0 else Severity.WARNING, "short", "",
            f"{', '.join(needed)} share {max(common, 0):.1f} s", f"{LEAST_TIME:.0f} s or more",
            "clocks that disagree?" if common <= 0 else "record longer",
        )  # fmt: skip


def joint_names(log: Log, limits: Limits) -> Iterator[Finding]:
    """Columns that are not the robot's joints."""
    for name in ("command", "joint_pos", "joint_vel", "joint_torque"):
        if name not in log or not limits.names:
            continue
        given = log[name].names
        if unknown := [column for column in given if column not in limits.names]:
            yield Finding(
                Severity.ERROR, "joint names", name, listing(unknown, 4), listing(limits.names, 4),
                "name columns after the robot's joints",
            )  # fmt: skip
        elif missing := [column for column in limits.names if column not in given]:
            yield Finding(
                Severity.WARNING, "joint names", name, f"without {listing(missing, 4)}", "all joints",
                "what is not measured is not calibrated",
            )  # fmt: skip


def within_limits(log: Log, limits: Limits) -> Iterator[Finding]:
    """Angles that the joints cannot have, speeds and torques that the motors cannot."""
    bounds = {
        "joint_pos": (limits.lower, limits.upper),
        "command": (limits.lower, limits.upper),
        "joint_vel": (-limits.speed, limits.speed),
        "joint_torque": (-limits.torque, limits.torque),
    }
    for name, (lower, upper) in bounds.items():
        channel = tidy(log, name)
        known = [column for column in channel.names if column in limits.names] if channel else []
        if channel is None or not known:
            continue
        place = [limits.names.index(column) for column in known]
        values, low, high = channel.columns(tuple(known)), lower[place], upper[place]
        if name in ("joint_pos", "command") and _in_degrees(values, low, high):
            yield Finding(
                Severity.ERROR, "degrees", name, f"from {values.min():.0f} to {values.max():.0f}",
                f"from {low.min():.2f} to {high.max():.2f} rad", "degrees? multiply by pi / 180",
            )  # fmt: skip
            continue
        slack = SLACK if name in ("joint_pos", "command") else 0.05 * high
        beyond = np.maximum(low - slack - values, values - high - slack)
        worst = int(np.argmax(beyond.max(0)))
        if beyond[:, worst].max() > 0:
            yield Finding(
                Severity.ERROR if name == "joint_pos" and beyond.max() > 0.2 else Severity.WARNING, "limits",
                f"{name}.{known[worst]}", f"from {values[:, worst].min():.2f} to {values[:, worst].max():.2f}",
                f"from {low[worst]:.2f} to {high[worst]:.2f}", _BEYOND[name],
            )  # fmt: skip


_BEYOND = {
    "joint_pos": "zero of the encoder, sign, or order of the joints?",
    "command": "the model clips its targets there; does the robot?",
    "joint_vel": "degrees/s, or before the gearbox?",
    "joint_torque": "current instead of torque, or another gear ratio?",
}


def _in_degrees(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether angles (t, n) fit limits (n,) rad as degrees, and not as radians."""
    turned = np.radians(values)
    outside = (values < low - 0.5) | (values > high + 0.5)
    inside = (turned > low - 0.3) & (turned < high + 0.3)
    return bool(outside.mean() > 0.3 and inside.mean() > 0.95 and np.abs(values).max() > 2 * math.pi)


def saturated(log: Log, limits: Limits) -> Iterator[Finding]:
    """Torques at the motors' limits, where gains and friction are not observable."""
    torque = tidy(log, "joint_torque")
    for column in torque.names if torque else ():
        if torque and column in limits.names:
            limit = limits.torque[limits.names.index(column)]
            share = float((np.abs(torque.columns((column,))) > 0.98 * limit).mean())
            if share > 0.005:
                yield Finding(
                    Severity.WARNING, "saturated", f"joint_torque.{column}", f"{share:.1%} of rows at {limit:g} N m",
                    "less than that", "move less, or more slowly",
                )  # fmt: skip


def excited(log: Log, limits: Limits) -> Iterator[Finding]:
    """Joints that move too little to identify their parameters."""
    pos = tidy(log, "joint_pos")
    if pos is None:
        return
    span = np.ptp(np.percentile(pos.values, [0.5, 99.5], axis=0), axis=0)
    speed = np.percentile(np.abs(slope(pos).values), 95, axis=0)
    for column, far, fast in zip(pos.names, span, speed, strict=True):
        if column in limits.names and (far < LEAST_SPAN or fast < LEAST_SPEED):
            yield Finding(
                Severity.ERROR if far < 0.01 else Severity.WARNING, "excitation", f"joint_pos.{column}",
                f"moves {far:.3f} rad at {fast:.2f} rad/s", f"{LEAST_SPAN} rad at {LEAST_SPEED} rad/s",
                f"play python -m sim2real.excitation --robot {limits.robot}",
            )  # fmt: skip


def flown(log: Log, limits: Limits) -> Iterator[Finding]:
    """A drone's flight that excites nothing, or whose position and orientation are in different frames.

    A drone speeds up where it leans: along the horizontal part of its body's z axis, times gravity.
    """
    gyro, pos, pose = tidy(log, "gyro"), tidy(log, "position"), tidy(log, "orientation")
    if limits.names or gyro is None or pos is None or pose is None:
        return
    # Turning that is slower than this is all but noise.
    turned = float(smooth(gyro, 0.03).std(0)[:2].max())
    if turned < LEAST_TURN:
        yield Finding(
            Severity.ERROR, "excitation", "gyro", f"turns at {turned:.3f} rad/s", f"{LEAST_TURN} rad/s or more",
            "sway and climb: a drone that only hovers shows its weight and nothing else",
        )  # fmt: skip
        return
    if set(pose.names) != set(WXYZ) or set(pos.names) != set(XYZ):
        return
    w, x, y, z = pose.columns(WXYZ).T
    lean = Channel(pose.time, np.stack([2 * (x * z + w * y), 2 * (y * z - w * x)], 1), XYZ[:2])
    smoothed = dataclasses.replace(pos, values=pos.columns(XYZ), names=XYZ)
    pulled = slope(slope(smoothed, LEANING), LEANING)
    tilt = at_rows_of(dataclasses.replace(lean, values=smooth(lean, np.sqrt(2) * LEANING)), pulled.time)
    for i, axis in enumerate(XYZ[:2]):
        alike = [ratio(column, tilt[:, i])[1] for column in pulled.values.T]
        best = int(np.argmax(np.abs(alike)))
        if abs(alike[best]) > 0.8 and (best != i or alike[i] < 0):
            yield Finding(
                Severity.ERROR, "axes", f"position.{XYZ[best]}",
                f"follows the leaning along {axis} (correlation {alike[best]:.2f})",
                f"position.{axis} does (correlation {alike[i]:.2f})", "axes that are swapped, or of another sign",
            )  # fmt: skip


def order_and_signs(log: Log, limits: Limits) -> Iterator[Finding]:
    """Joints that follow another joint's command, or go the other way.

    A joint's slow movement is compared with every command, at whatever lag up to `MAX_DELAY` fits best.
    """
    del limits
    command, pos = tidy(log, "command"), tidy(log, "joint_pos")
    if command is None or pos is None or any(name not in pos.names for name in command.names):
        return
    alike = _likeness(command, pos)
    for i, column in enumerate(command.names):
        own, others = alike[i, i], np.delete(alike[:, i], i)
        best = int(np.nanargmax(np.abs(alike[:, i])))
        if len(others) and abs(alike[best, i]) > 0.6 and abs(own) < 0.6 * abs(alike[best, i]):
            yield Finding(
                Severity.ERROR, "joint order", f"joint_pos.{column}",
                f"follows the command of {command.names[best]} (correlation {alike[best, i]:.2f})",
                f"its own (correlation {own:.2f})", "joints in another order than their names",
            )  # fmt: skip
        elif own < -0.6:
            yield Finding(
                Severity.ERROR, "sign", f"joint_pos.{column}", f"goes against its command (correlation {own:.2f})",
                "along with it", "one of the two has the opposite sign",
            )  # fmt: skip


def _likeness(command: Channel, pos: Channel) -> np.ndarray:
    """(n, n) correlation of each command with each joint, both slow, at the lag of largest size."""
    rate = 40.0
    # The longest stretch without a hole: straight lines across one are like nothing.
    rows = max(unbroken(pos.time, HOLE), key=lambda part: pos.time[part.stop - 1] - pos.time[part.start])
    stretch = pos.time[rows]
    start, end = max(command.time[0], stretch[0]), min(command.time[-1], stretch[-1])
    times = np.arange(start, min(end, start + COMPARED), 1 / rate)
    width = 1 / (2 * np.pi * SLOW)
    u = at_rows_of(dataclasses.replace(command, values=smooth(command, width)), times)
    slow = dataclasses.replace(pos, values=smooth(pos, width))
    result = np.zeros((len(command.names), len(command.names)))
    if len(times) < 3 * rate:
        return result
    columns = [pos.names.index(name) for name in command.names]
    for lag in np.arange(0, MAX_DELAY + 1e-9, 1 / rate):
        q = at_rows_of(slow, times + lag)[:, columns]
        for i in range(len(command.names)):
            for j in range(len(command.names)):
                found = ratio(q[:, j], u[:, i])[1]
                if abs(found) > abs(result[i, j]):
                    result[i, j] = found
    return result


def delayed(log: Log, limits: Limits) -> Iterator[Finding]:
    """Delay of joints behind their commands: good to know before a delay is fitted."""
    command, pos = tidy(log, "command"), tidy(log, "joint_pos")
    shared = tuple(name for name in limits.names if command and pos and name in command.names and name in pos.names)
    if not (command and pos and shared):
        return
    most = sorted(shared, key=lambda name: -float(np.ptp(pos.columns((name,)))))[:TIMED]
    part = dataclasses.replace(command, values=command.columns(tuple(most)), names=tuple(most))
    try:
        servos = response(part, pos)
    except LogError:
        return
    good = tuple(servo for servo in servos if servo.delay.explained > 0.8)
    if good:
        found = delay_of(good)
        yield Finding(
            Severity.WARNING if not -0.002 < found.seconds < 0.9 * MAX_DELAY else Severity.NOTE, "delay", "joint_pos",
            f"{found} behind command", f"0 to {1e3 * MAX_DELAY:.0f} ms",
            "beside the servo's own lag; clocks that disagree show here too",
        )  # fmt: skip


TIMELESS = (joint_names, within_limits, saturated)
"""Checks that hold in whatever unit times are."""
CHECKS = (channels, *TIMELESS, excited, flown, order_and_signs, delayed)
