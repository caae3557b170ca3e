"""Kinds of faults by name: of what the safety chain measures, and of what a policy puts out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.deploy_standin import Spoil, dropped, first, frozen, paused
from benchmarks.faults.changes import (
    Begin,
    both,
    clock,
    drifting,
    held,
    in_body,
    in_world,
    late,
    lossy,
    part,
    permuted,
    put,
    scaled,
    stuck,
    stuck_exactly,
    swapped,
)

DEGREES = 180 / np.pi
JOINTS = ("joint_pos", "joint_vel")
FAULTS: Mapping[str, Begin] = {
    **{f"encoder {i} frozen": held("joint_pos", i) for i in range(6)},
    "encoder 0 not a number": part("joint_pos", put(0, np.nan)),
    "encoder 1 infinite": part("joint_pos", put(1, np.inf)),
    "encoder 0 jumps by 2 rad": part("joint_pos", lambda q: q + 2.0 * (np.arange(len(q)) == 0)),
    "encoder 2 off by 0.3 rad": part("joint_pos", lambda q: q + 0.3 * (np.arange(len(q)) == 2)),
    "encoders in degrees": part("joint_pos", lambda q: q * DEGREES),
    "two encoders swapped": part("joint_pos", swapped),
    "encoders turned round": part("joint_pos", lambda q: -q),
    "joint speeds infinite": part("joint_vel", put(0, np.inf)),
    "joint speeds of 100 rad/s": part("joint_vel", lambda v: v + 100.0),
    "joint speeds zero": part("joint_vel", lambda v: 0.0 * v),
    "gyro frozen": part("gyro", lambda v: np.array([0.1, 0.2, 0.3])),
    "gyro not a number": part("gyro", put(0, np.nan)),
    "gyro in degrees": part("gyro", lambda v: v * DEGREES),
    "gyro turned round": part("gyro", lambda v: -v),
    "orientation frozen": part("orientation", lambda q: np.array([1.0, 0.0, 0.0, 0.0])),
    "orientation xyzw": part("orientation", lambda q: q[[1, 2, 3, 0]]),
    "orientation of length 0": part("orientation", lambda q: 0.0 * q),
    "orientation of length 2": part("orientation", lambda q: 2.0 * q),
    "orientation upside down": part("orientation", lambda q: np.array([0.0, 1.0, 1e-3 * q[0], 0.0])),
    "position not a number": part("position", put(2, np.nan)),
    "position 10 m away": part("position", lambda p: p + 10.0),
    "all sensors frozen": frozen,
    "measurements dropped": dropped,
    "half of the measurements lost": lossy(0.5),
    "nine of ten measurements lost": lossy(0.9),
    "clock 1 s back": clock(lambda time: time - 1.0),
    "clock 1 s ahead": clock(lambda time: time + 1.0),
    "clock not a number": clock(lambda time: np.nan),
    "cycles 25 ms late": paused(0.025),
    "one pause of 0.3 s": paused(0.3),
    "object not seen": part("object1_pos", lambda p: p * np.nan),
    # Of here on plausible numbers, which only what the other sensors tell contradicts.
    "object frozen": stuck_exactly("object1_pos"),
    "object jumps by 0.3 m": part("object1_pos", lambda p: p + np.array([0.3, 0.0, 0.0])),
    "encoder 1 stuck, with noise": stuck("joint_pos", place=1),
    "encoder and speed 1 stuck, with noise": stuck(*JOINTS, place=1),
    "encoders stuck, with noise": stuck("joint_pos"),
    "encoders and speeds stuck, with noise": stuck(*JOINTS),
    "joint speed 1 stuck, with noise": stuck("joint_vel", place=1),
    "joint speeds stuck, with noise": stuck("joint_vel"),
    "orientation stuck, with noise": stuck("orientation"),
    "gyro stuck, with noise": stuck("gyro"),
    "position stuck, with noise": stuck("position"),
    "velocity stuck, with noise": stuck("linvel"),
    "encoders replayed from 0.3 s before": late(0.3, "joint_pos"),
    "joints replayed from 0.3 s before": late(0.3, *JOINTS),
    "joints replayed from 1 s before": late(1.0, *JOINTS),
    "legs 0 and 1 swapped": both(*(part(name, permuted(1, 0, 2, 3)) for name in JOINTS)),
    "legs 0 and 2 swapped": both(*(part(name, permuted(2, 1, 0, 3)) for name in JOINTS)),
    "legs 0 and 3 swapped": both(*(part(name, permuted(3, 1, 2, 0)) for name in JOINTS)),
    "joint speeds of legs 0 and 1 swapped": part("joint_vel", permuted(1, 0, 2, 3)),
    "sign of encoder 0": part("joint_pos", scaled(0, -1.0)),
    "sign of joint speed 1": part("joint_vel", scaled(1, -1.0)),
    "sign of encoder and speed 0": both(*(part(name, scaled(0, -1.0)) for name in JOINTS)),
    "sign of encoder and speed 1": both(*(part(name, scaled(1, -1.0)) for name in JOINTS)),
    "joint speeds in degrees/s": part("joint_vel", lambda v: v * DEGREES),
    "joint speeds halved": part("joint_vel", lambda v: v / 2),
    "velocity in the body's frame": in_body,
    "velocity turned by 90 degrees": in_world(lambda v: v[[1, 0, 2]] * [-1, 1, 1]),
    "velocity turned round": in_world(lambda v: -v),
    "position turned by 90 degrees": part("position", lambda p: p[[1, 0, 2]] * [-1, 1, 1]),
    "orientation late by 0.3 s": late(0.3, "orientation"),
    "position late by 0.5 s": late(0.5, "position"),
    "gyro's x and y swapped": part("gyro", swapped),
    "encoder 1 drifts by 0.1 rad/s": drifting("joint_pos", np.array([0.0, 0.1, *np.zeros(10)])),
    "heading drifts by 0.1 rad/s": drifting("orientation", np.array([0.0, 0.0, 0.1])),
    "position drifts by 0.1 m/s": drifting("position", np.array([0.1, 0.0, 0.0])),
}
"""Faults of what the chain measures."""

OUTPUTS: Mapping[str, Spoil] = {
    "policy not a number": lambda action, target: (action * np.nan, target * np.nan),
    "target infinite": lambda action, target: (action, first(target, np.inf)),
    "target beyond its limit": lambda action, target: (action, first(target, 9.0)),
    "target of -1e300": lambda action, target: (action, first(target, -1e300)),
    "actions of 1e6": lambda action, target: (action + 1e6, target),
}
"""Faults of the policy's output."""
STOP = "operator's stop"
