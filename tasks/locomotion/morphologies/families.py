"""Four families of bodies, their variants, and which of them are kept for testing a policy on bodies it never saw.

The families, the names of their variants (the number of body parts, then the limbs that are missing: a missing `leg`
is one from the thigh down, `knee` from the shin down, `foot` the foot alone), the split and the numbers of the limbs
are those of 3D-SGRL (Chen et al., ICML 2023, arXiv:2305.18951), whose bodies extend the planar ones of modular RL
(Huang et al., ICML 2020) by hinges about x and z. Ours differ in this: hinges that theirs lock (a range of one degree
and no motor) are left out, every cheetah limb is one capsule from joint to joint, and a walker's legs hang side by side
(theirs from the same point, one inside the other).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tasks.locomotion.morphologies.description import Capsule, Hinge, Limb, Vector, bridged, pair, without

X, BACK, Z = (1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0)
"""Axes; a positive angle about BACK swings a hanging limb forward."""
ORIGIN = (0.0, 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Family:
    """Bodies that differ in the limbs they have."""

    name: str
    variants: Mapping[str, Limb]
    """Variant -> root of its body."""
    held_out: tuple[str, ...]
    """Variants that a policy is tested on and never trained on."""
    full: str
    """The variant that has every limb."""
    fall_height: float
    """Share of its height when standing below which the root counts as fallen."""
    fall_lean: float
    """rad, largest angle between the root's z axis and the vertical."""
    colours: tuple[Vector, Vector, Vector]
    """RGB of the root, of right (and middle) limbs, and of left limbs."""

    @property
    def train(self) -> tuple[str, ...]:
        """Variants to train on."""
        return tuple(name for name in self.variants if name not in self.held_out)


def _rod(end: Vector, radius: float) -> tuple[Capsule, ...]:
    """A capsule from the limb's joint to `end`."""
    return (Capsule(ORIGIN, end, radius),)


def _hopper() -> Family:
    def hinges(low: float, high: float) -> tuple[Hinge, Hinge, Hinge]:
        side, bend, turn = ((X, -10.0, 10.0), (BACK, low, high), (Z, -10.0, 10.0))
        make = lambda axis, low, high: Hinge(axis, (low, high), gear=200.0, damping=1.0, armature=1.0)  # noqa: E731
        return make(*side), make(*bend), make(*turn)

    foot = Limb("foot", (0, 0, -0.5), (Capsule((-0.13, 0, 0), (0.26, 0, 0), 0.06),), hinges(-45, 45))
    lower_shin = Limb("lower_shin", (0, 0, -0.5), _rod((0, 0, -0.5), 0.04), hinges(-150, 0), (foot,))
    shin = Limb("shin", (0, 0, -0.45), _rod((0, 0, -0.5), 0.04), hinges(-150, 0), (lower_shin,))
    thigh = Limb("thigh", (0, 0, -0.2), _rod((0, 0, -0.45), 0.05), hinges(-150, 0), (shin,))
    body = Limb("torso", ORIGIN, (Capsule((0, 0, 0.2), (0, 0, -0.2), 0.05),), children=(thigh,))
    # A hopper keeps its foot: the shorter ones lack links of the leg.
    variants = {
        "3_shin": bridged(body, ("shin", "lower_shin")),
        "4_lower_shin": bridged(body, ("lower_shin",)),
        "5_full": body,
    }
    colours = ((0.16, 0.46, 0.62), (0.86, 0.89, 0.90), (0.86, 0.89, 0.90))
    return Family("hopper", variants, (), "5_full", fall_height=0.54, fall_lean=1.0, colours=colours)


def _walker() -> Family:
    def hinge(axis: Vector, low: float, high: float) -> Hinge:
        return Hinge(axis, (low, high), gear=100.0, damping=0.1, armature=0.01)

    foot = Limb(
        "foot", (0, 0, -0.384), _rod((0.2, 0, 0), 0.06), (None, hinge(BACK, -45, 45), hinge(Z, -30, 5))
    )  # fmt: skip
    shin = Limb("shin", (0, 0, -0.48), _rod((0, 0, -0.384), 0.0448), (None, hinge(BACK, -160, -2), None), (foot,))
    hip = (hinge(X, -25, 5), hinge(BACK, -20, 110), hinge(Z, -60, 35))
    thigh = Limb("thigh", (0, -0.07, -0.3), _rod((0, 0, -0.48), 0.056), hip, (shin,))
    body = Limb("torso", ORIGIN, (Capsule((0, 0, 0.3), (0, 0, -0.3), 0.07),), children=pair(thigh))
    missing = {
        "2_right_leg_left_knee": ("right_thigh", "left_shin"),
        "3_left_leg_right_foot": ("left_thigh", "right_foot"),
        "4_right_knee_left_foot": ("right_shin", "left_foot"),
        "5_foot": ("right_foot", "left_foot"),
        "5_left_knee": ("left_shin",),
        "7_full": (),
        "3_left_knee_right_knee": ("left_shin", "right_shin"),
        "6_right_foot": ("right_foot",),
    }
    held_out = ("3_left_knee_right_knee", "6_right_foot")
    colours = ((0.25, 0.30, 0.37), (0.90, 0.43, 0.28), (0.20, 0.58, 0.60))
    variants = {name: without(body, limbs) for name, limbs in missing.items()}
    return Family("walker", variants, held_out, "7_full", fall_height=0.5, fall_lean=1.0, colours=colours)


def _humanoid() -> Family:
    hip = (
        Hinge(X, (-25, 5), gear=100.0, stiffness=10.0, damping=5.0, armature=0.01),
        Hinge(BACK, (-20, 110), gear=300.0, stiffness=20.0, damping=5.0, armature=0.008),
        Hinge(Z, (-60, 35), gear=100.0, stiffness=10.0, damping=5.0, armature=0.01),
    )
    knee = Hinge(BACK, (-160, -2), gear=200.0, stiffness=1.0, damping=1.0, armature=0.006, offset=(0, 0, 0.02))
    shin_shape = (*_rod((0, 0, -0.3), 0.049), Capsule((0, 0, -0.35), (0, 0, -0.35), 0.075))
    shin = Limb("shin", (0, 0.01, -0.403), shin_shape, (None, knee, None))
    thigh = Limb("thigh", (0, -0.1, -0.299625), _rod((0, 0.01, -0.34), 0.06), hip, (shin,))

    def arm(axis: Vector, low: float, high: float, stiffness: float, armature: float) -> Hinge:
        return Hinge(axis, (low, high), gear=25.0, stiffness=stiffness, damping=1.0, armature=armature)

    hand = (0.18, 0.18, 0.18)
    lower_shape = (Capsule((0.01, 0.01, 0.01), (0.17, 0.17, 0.17), 0.031), Capsule(hand, hand, 0.04))
    lower_arm = Limb(
        "lower_arm", (0.18, -0.18, -0.18), lower_shape, (None, arm((0, -1, 1), -90, 50, 0.0, 0.0028), None)
    )  # fmt: skip
    shoulder = (arm((2, 1, 1), -85, 60, 1.0, 0.0068), arm((0, -1, 1), -85, 60, 1.0, 0.0051), None)
    upper_arm = Limb(
        "upper_arm", (0, -0.17, 0.225375), _rod((0.16, -0.16, -0.16), 0.04), shoulder, (lower_arm,)
    )  # fmt: skip
    trunk = (
        Capsule((0, -0.07, 0.165375), (0, 0.07, 0.165375), 0.07),
        Capsule((0, 0, 0.355375), (0, 0, 0.355375), 0.09),
        Capsule((-0.01, -0.06, 0.045375), (-0.01, 0.06, 0.045375), 0.06),
        Capsule((-0.01, -0.06, -0.094625), (-0.01, 0.06, -0.094625), 0.06),
        Capsule((-0.02, -0.07, -0.259625), (-0.02, 0.07, -0.259625), 0.09),
    )
    body = Limb("torso", ORIGIN, trunk, children=(*pair(thigh), *pair(upper_arm)))
    missing = {
        "7_left_arm": ("left_upper_arm",),
        "7_lower_arms": ("left_lower_arm", "right_lower_arm"),
        "7_right_arm": ("right_upper_arm",),
        "7_right_leg": ("right_thigh",),
        "8_left_knee": ("left_shin",),
        "9_full": (),
        "7_left_leg": ("left_thigh",),
        "8_right_knee": ("right_shin",),
    }
    held_out = ("7_left_leg", "8_right_knee")
    colours = ((0.25, 0.36, 0.55), (0.80, 0.81, 0.84), (0.95, 0.62, 0.32))
    variants = {name: without(body, limbs) for name, limbs in missing.items()}
    return Family("humanoid", variants, held_out, "9_full", fall_height=0.68, fall_lean=1.0, colours=colours)


def _cheetah_leg(end: str, at: Vector, tips: tuple[Vector, Vector, Vector], radius: float, *hinges: Hinge) -> Limb:
    """A leg from its thigh down, with the letter of its end of the body in its names.

    Args:
        end: `b` or `f`.
        at: m, the hip.
        tips: m, the ends of thigh, shin and foot, each from its own joint.
        radius: m, of the thigh.
        hinges: Three of the hip, one of the knee, two of the ankle.
    """
    thigh, shin, toe = tips
    foot = Limb(f"{end}foot", shin, _rod(toe, 0.046), (None, hinges[4], hinges[5]))
    lower = Limb(f"{end}shin", thigh, _rod(shin, 0.046), (None, hinges[3], None), (foot,))
    return Limb(f"{end}thigh", at, _rod(thigh, radius), (hinges[0], hinges[1], hinges[2]), (lower,))


def _cheetah() -> Family:
    def hinge(axis: Vector, low: float, high: float, gear: float, stiffness: float, damping: float) -> Hinge:
        return Hinge(axis, (low, high), gear=gear, stiffness=stiffness, damping=damping, armature=0.1)

    back = _cheetah_leg(
        "b", (-0.445, -0.12, 0), ((0.16, 0, -0.25), (-0.28, 0, -0.14), (0.055, 0, -0.188)), 0.06,
        hinge(X, -10, 0, 120.0, 240, 6), hinge(BACK, -60, 30, 120.0, 240, 6), hinge(Z, -15, 5, 120.0, 240, 6),
        hinge(BACK, -45, 45, 90.0, 180, 4.5),
        hinge(BACK, -45, 25, 60.0, 120, 3), hinge(Z, -15, 5, 60.0, 120, 3),
    )  # fmt: skip
    front = _cheetah_leg(
        "f", (0.4, -0.09, 0), ((-0.14, 0, -0.24), (0.13, 0, -0.18), (0.085, 0, -0.128)), 0.055,
        hinge(X, -15, 5, 120.0, 180, 4.5), hinge(BACK, -40, 60, 120.0, 180, 4.5), hinge(Z, -20, 10, 120.0, 180, 4.5),
        hinge(BACK, -50, 70, 60.0, 120, 3),
        hinge(BACK, -30, 30, 30.0, 60, 1.5), hinge(Z, -20, 5, 30.0, 60, 1.5),
    )  # fmt: skip
    tail = Limb(
        "tail",
        (-0.445, 0, 0),
        (Capsule(ORIGIN, (-0.5, 0, 0), 0.04), Capsule((-0.5, 0, 0), (-0.6, 0, 0.1), 0.04)),
        (hinge(X, -20, 20, 70.0, 0, 3.5), hinge(BACK, -80, 80, 70.0, 0, 3.5), None),
    )
    ribs = [(0.28, 0.07, -0.01), (0.14, 0.07, -0.01), (0.0, 0.06, -0.01), (-0.14, 0.06, -0.01), (-0.28, 0.06, -0.01)]
    trunk = (
        Capsule((0.4, -0.08, 0), (0.4, 0.08, 0), 0.07),
        *(Capsule((x, -half, z), (x, half, z), 0.06) for x, half, z in ribs),
        Capsule((-0.445, -0.09, -0.02), (-0.445, 0.09, -0.02), 0.09),
        Capsule((0.5, 0, 0.1), (0.5, 0, 0.1), 0.09),
    )
    right_back, left_back = pair(back)
    right_front, left_front = pair(front)
    body = Limb("torso", ORIGIN, trunk, children=(tail, right_back, right_front, left_back, left_front))
    # The names are the published ones, a misspelling among them.
    missing = {
        "10_tail_leftbleg": ("tail", "left_bthigh"),
        "11_leftfleg": ("left_fthigh",),
        "11_tail_rightfknee": ("tail", "right_fshin"),
        "12_rightbknee": ("right_bshin",),
        "12_tail_leftbfoot": ("tail", "left_bfoot"),
        "13_rightffoot": ("right_ffoot",),
        "13_tail": ("tail",),
        "14_full": (),
        "11_leftbkneen_rightffoot": ("left_bshin", "right_ffoot"),
        "12_tail_leftffoot": ("tail", "left_ffoot"),
    }
    held_out = ("11_leftbkneen_rightffoot", "12_tail_leftffoot")
    colours = ((0.91, 0.66, 0.26), (0.96, 0.84, 0.58), (0.78, 0.52, 0.20))
    variants = {name: without(body, limbs) for name, limbs in missing.items()}
    return Family("cheetah", variants, held_out, "14_full", fall_height=0.37, fall_lean=1.35,
                  colours=colours)  # fmt: skip


FAMILIES: Mapping[str, Family] = {family.name: family for family in (_hopper(), _walker(), _humanoid(), _cheetah())}
"""Name -> family."""


def task_name(family: str, variant: str) -> str:
    """The registered name of a variant's task: `locomotion/reach-walker-6-right-foot`."""
    return f"locomotion/reach-{family}-{variant.replace('_', '-')}"
