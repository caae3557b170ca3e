"""Servos for joints that have none: stiffness, damping and reflected inertia from the motor's strength.

The rule for legs: a servo gives its whole torque at 0.7 rad of error (Go1's at 0.68, G1's hips at 0.88). Damping is
half of critical for the inertia that the joint sees in the home pose. The rotor's inertia seen through the gears grows
with the torque (Go1: 0.005 kg m^2 for 23.7 N m; G1's knee 0.025 for 139 N m).

A robot on two feet is an inverted pendulum, which tips with a torque of weight times height per radian. Each of its
ankles can hold it alone: every joint of its legs has at least that stiffness.

The rule for arms, which are geared ten times higher and held stiffly: all torque at 0.1 rad (Franka's Panda: 0.03 rad
for the large joints, 0.006 for the small), critical damping, and a rotor's inertia of 7e-3 kg m^2 for each N m (Panda:
0.606 for 87 N m, 0.206 for 12 N m; Feetech's STS3215 as MuJoCo Menagerie has it: 0.028 for 2.9 N m).
"""

from __future__ import annotations

import dataclasses
import math

SLIDE = 0.1  # metres of a slide that stand for a radian


@dataclasses.dataclass(frozen=True)
class Rule:
    """Rule for a servo, from the motor's strength."""

    full: float
    """rad (m for slides: a tenth) of error at which a servo gives all its torque."""
    damping_ratio: float
    """Of critical."""
    rotor: float
    """kg m^2 of reflected inertia per N m of torque."""


LEGS = Rule(full=0.7, damping_ratio=0.5, rotor=2e-4)
ARMS = Rule(full=0.1, damping_ratio=1.0, rotor=7e-3)


@dataclasses.dataclass(frozen=True)
class Servo:
    """A position servo on a joint."""

    kp: float
    """N m/rad or N/m."""
    kv: float
    """N m s/rad or N s/m."""
    effort: float
    """N m or N, the most it gives."""
    armature: float
    """kg m^2 or kg, the rotor's inertia seen at the joint."""


def servo_for(
    effort: float, inertia: float, armature: float, slides: bool, rule: Rule = LEGS, least: float = 0.0
) -> Servo:
    """The servo of a joint.

    Args:
        effort: N m or N.
        inertia: kg m^2 or kg that the joint moves, its rotor not counted.
        armature: kg m^2 or kg of the model; 0: by the rule.
        slides: Whether the joint is a slide.
        rule: That of legs or of arms.
        least: N m/rad or N/m, the smallest stiffness.
    """
    reflected = armature or rule.rotor * effort
    kp = max(effort / (rule.full * (SLIDE if slides else 1.0)), least)
    return Servo(kp, 2 * rule.damping_ratio * math.sqrt(kp * (inertia + reflected)), effort, reflected)


def effort_of(kp: float, slides: bool) -> float:
    """N m or N of a position servo of stiffness `kp` whose model file has no largest force, by the rule of legs."""
    return kp * LEGS.full * (SLIDE if slides else 1.0)
