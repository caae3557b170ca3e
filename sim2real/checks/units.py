"""Checks of a log that need no robot: units, signs and frames, by comparing what must agree.

Each is a function of a log that yields findings.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim2real.checks.findings import Finding, Severity, at_rows_of, ratio, slope, smooth, tidy
from sim2real.logs.log import UNITS, WXYZ, Channel, Log

GRAVITY = 9.81  # m/s^2
DEGREES = 180 / np.pi
FASTEST_TURN = 35.0  # rad/s, the range of common gyroscopes, 2000 degrees/s
FASTEST_RIDE, FARTHEST = 20.0, 50.0  # m/s and m, beyond which a robot's log is hardly in metres
SHAKEN = 0.3  # m/s^2, standard deviation beyond which an accelerometer is not at rest
TURNING = 0.05  # rad/s, standard deviation above which a rotation differs from noise
AT_REST = 0.25  # s, length of the pieces that are looked at for rest


def stated_units(log: Log) -> Iterator[Finding]:
    """Units that are not those of the format."""
    for name, channel in log.channels.items():
        if channel.unit and channel.unit != UNITS.get(name, channel.unit):
            yield Finding(Severity.ERROR, "unit", name, channel.unit, UNITS[name], "convert it before writing the log")


def quaternions(log: Log) -> Iterator[Finding]:
    """Orientations that are no unit quaternions."""
    channel = tidy(log, "orientation")
    if channel is None:
        return
    if set(channel.names) != set(WXYZ):
        yield Finding(
            Severity.ERROR, "quaternion", "orientation", f"columns {', '.join(channel.names)}", "w, x, y, z",
            "write orientations as quaternions",
        )  # fmt: skip
        return
    norm = np.linalg.norm(channel.values, axis=1)
    if np.abs(norm - 1).max() > 0.01:
        yield Finding(
            Severity.ERROR, "quaternion", "orientation", f"lengths from {norm.min():.3g} to {norm.max():.3g}", "1",
            "Euler angles, or another scale?",
        )  # fmt: skip


def rates_agree(log: Log) -> Iterator[Finding]:
    """Velocities that are not the slopes of positions: other units, signs, orders."""
    for position, velocity, unit in (("joint_pos", "joint_vel", "rad"), ("position", "linvel", "m")):
        pos, vel = tidy(log, position), tidy(log, velocity)
        if pos is None or vel is None:
            continue
        rate = slope(pos)
        reference = at_rows_of(rate, vel.time)
        seen = smooth(vel, 0.03)
        for i, column in enumerate(vel.names):
            if column not in pos.names:
                continue
            scale, alike = ratio(seen[:, i], reference[:, pos.names.index(column)])
            others = [ratio(seen[:, i], reference[:, j])[1] for j in range(len(pos.names))]
            best = int(np.argmax(others))
            if alike < 0.6 and others[best] > 0.9:
                yield Finding(
                    Severity.ERROR, "velocity", f"{velocity}.{column}",
                    f"the slope of {position}.{pos.names[best]} (correlation {others[best]:.2f})",
                    f"of its own (correlation {alike:.2f})", "columns in another order than their names",
                )  # fmt: skip
            elif np.abs(alike) > 0.6 and not 0.7 < scale < 1.4:
                yield Finding(
                    Severity.ERROR, "velocity", f"{velocity}.{column}", f"{scale:.3g} times the slope of {position}",
                    f"1 ({unit}/s)", _scale_hint(scale, position, velocity),
                )  # fmt: skip


def _scale_hint(scale: float, position: str, velocity: str) -> str:
    """Likely cause of a factor between a velocity and the slope of a position."""
    usual = {
        DEGREES: f"{velocity} is in degrees/s",
        1 / DEGREES: f"{position} is in degrees",
        1000.0: f"{velocity} is in mm/s",
        0.001: f"{position} is in mm",
        -1.0: "one of the two has the wrong sign",
    }
    found = [hint for value, hint in usual.items() if 0.7 < scale / value < 1.4]
    return found[0] if found else "another unit, gear ratio or order"


def turning(log: Log) -> Iterator[Finding]:
    """A gyroscope that is not in rad/s, or not in the body's frame."""
    gyro = tidy(log, "gyro")
    if gyro is None or gyro.names != ("x", "y", "z"):
        return
    fast = float(np.percentile(np.abs(gyro.values), 99))
    if fast > FASTEST_TURN:
        yield Finding(
            Severity.ERROR, "gyroscope", "gyro", f"1 % of rates beyond {fast:.0f} rad/s", f"within {FASTEST_TURN:.0f}",
            "degrees/s?",
        )  # fmt: skip
        return
    pose = tidy(log, "orientation")
    if pose is None or set(pose.names) != set(WXYZ):
        return
    seen = smooth(gyro, 0.05)
    turned = {
        reading: at_rows_of(body_rates(pose.time, q), gyro.time) for reading, q in readings(pose.columns(WXYZ)).items()
    }
    agree = {reading: ratio(seen.ravel(), rates.ravel()) for reading, rates in turned.items()}
    scale, alike = agree["wxyz"]
    if min(seen.std(), turned["wxyz"].std()) < TURNING or (alike > 0.6 and 0.7 < scale < 1.4):
        return
    best = max(agree, key=lambda reading: agree[reading][1])
    hint = f"orientation read as {best} would fit" if best != "wxyz" and agree[best][1] > 0.8 else "frames, or order?"
    if abs(alike) > 0.6:
        hint = "degrees/s?" if 0.7 < scale / DEGREES < 1.4 else "another unit or sign"
    if alike < 0.6:
        yield Finding(
            Severity.ERROR, "gyroscope", "gyro", f"unlike the turning of orientation (correlation {alike:.2f})",
            "the same (correlation 1)", hint,
        )  # fmt: skip
    else:
        seen_scale = f"{scale:.3g} times the turning of orientation"
        yield Finding(Severity.ERROR, "gyroscope", "gyro", seen_scale, "1 (rad/s)", hint)


def body_rates(time: np.ndarray, q: np.ndarray) -> Channel:
    """Angular velocity, rad/s, in the body's frame, of orientations (n, 4) wxyz, smoothed over 50 ms."""
    # A quaternion and its negative are one orientation: keep to one of them.
    sign = np.cumprod(np.where((q[1:] * q[:-1]).sum(1) < 0, -1.0, 1.0))
    q = q * np.concatenate([[1.0], sign])[:, None]
    dq = slope(Channel(time, q, WXYZ), 0.05).values
    w, v, dw, dv = q[:, :1], q[:, 1:], dq[:, :1], dq[:, 1:]
    return Channel(time, 2 * (w * dv - dw * v - np.cross(v, dv)), ("x", "y", "z"))


def metres(log: Log) -> Iterator[Finding]:
    """Positions and velocities that are hardly in metres."""
    for name, bound, unit in (("position", FARTHEST, "m"), ("linvel", FASTEST_RIDE, "m/s")):
        channel = tidy(log, name)
        if channel is None:
            continue
        far = float(np.percentile(np.abs(channel.values), 99))
        speed = float(np.percentile(np.abs(slope(channel).values), 95)) if name == "position" else 0.0
        if far > bound or speed > FASTEST_RIDE:
            seen = f"up to {far:.0f} {unit}" + (f" at {speed:.0f} m/s" if speed else "")
            yield Finding(Severity.ERROR, "metres", name, seen, f"up to {bound:.0f} {unit}", "millimetres?")


def gravity(log: Log) -> Iterator[Finding]:
    """An accelerometer that does not feel 9.81 m/s^2 upwards at rest."""
    felt = tidy(log, "accelerometer")
    if felt is None or felt.names != ("x", "y", "z"):
        return
    rest = resting(log)
    if not rest.any():
        yield Finding(
            Severity.NOTE, "gravity", "accelerometer", "no rest", f"{AT_REST} s of rest or more",
            "record some rest at the start: it shows the sensor's bias",
        )  # fmt: skip
        return
    mean = felt.values[rest].mean(0)
    size = float(np.linalg.norm(mean))
    if abs(size - GRAVITY) > 0.3:
        hint = "in g?" if 0.9 < size < 1.1 else "gravity was removed?" if size < 0.7 else "scale or bias of the sensor"
        yield Finding(
            Severity.ERROR if abs(size - GRAVITY) > 1 else Severity.WARNING, "gravity", "accelerometer",
            f"{size:.2f} m/s^2 at rest", "9.81 m/s^2", hint,
        )  # fmt: skip
        return
    pose = tidy(log, "orientation")
    if pose is None or set(pose.names) != set(WXYZ):
        return
    at = np.abs(pose.time[:, None] - felt.time[rest][[0, -1]][None, :]).argmin(0)
    q = pose.columns(WXYZ)[at[0] : at[1] + 1]
    angles = {reading: _tilt_between(mean, np.mean(up(values), axis=0)) for reading, values in readings(q).items()}
    if angles["wxyz"] > 0.35:
        best = min(angles, key=lambda reading: angles[reading])
        fits = f"as {best} it would fit" if angles[best] < 0.2 else "frames of IMU and body differ?"
        if _tilt_between(-mean, np.mean(up(q), axis=0)) < 0.2:
            fits = "the accelerometer has the opposite sign"
        yield Finding(
            Severity.ERROR, "gravity", "orientation",
            f"{np.degrees(angles['wxyz']):.0f} degrees from the accelerometer's up", "the same up at rest", fits,
        )  # fmt: skip


def readings(q: np.ndarray) -> dict[str, np.ndarray]:
    """Other things that four numbers may mean, as wxyz."""
    return {"wxyz": q, "xyzw": q[:, [3, 0, 1, 2]], "world to body": q * [1, -1, -1, -1]}


def up(q: np.ndarray) -> np.ndarray:
    """(n, 3) the world's z axis in the body's frame, of orientations (n, 4) wxyz."""
    w, x, y, z = q.T
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z], 1)


def _tilt_between(a: np.ndarray, b: np.ndarray) -> float:
    """rad between two vectors."""
    return float(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b))


def resting(log: Log) -> np.ndarray:
    """(n,) the rows of the accelerometer, in pieces of `AT_REST`, in which nothing shakes or turns."""
    felt = tidy(log, "accelerometer")
    if felt is None:
        return np.zeros(0, bool)
    piece = np.floor((felt.time - felt.time[0]) / AT_REST).astype(int)
    moving = [channel for channel in (tidy(log, "gyro"), tidy(log, "joint_vel")) if channel is not None]
    rest = np.zeros(len(felt), bool)
    for number in np.unique(piece):
        rows = piece == number
        span = felt.time[rows][[0, -1]]
        shaken = felt.values[rows].std(0).max() > SHAKEN
        parts = (channel.between(*span).values for channel in moving)
        quiet = all(np.abs(part.mean(0)).max() < 0.1 for part in parts if len(part))
        rest[rows] = rows.sum() >= 5 and not shaken and quiet
    return rest


TIMELESS = (stated_units, quaternions)
"""Checks that hold in whatever unit times are."""
CHECKS = (*TIMELESS, rates_agree, turning, metres, gravity)
