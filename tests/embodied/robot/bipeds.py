"""A URDF of a robot on two feet, with a waist and two arms."""

from __future__ import annotations

from tests.embodied.robot.test_robot import LINK, SHAPE, joint

SOLE = SHAPE.format(at=".03 0 -.04", kind='<box size=".2 .08 .02"/>')
UPPER = SHAPE.format(at="0 0 .15", kind='<box size=".15 .25 .3"/>')


def link(name: str, mass: float, shape: str = "", inertia: float = 0.01) -> str:
    return LINK.format(name=name, mass=mass, shape=shape).replace('".01"', f'"{inertia}"')


def biped(**changes: str) -> str:
    """Six joints a leg but for its yaw, a waist, and arms of two joints; 24 kg."""
    parts = [
        link("pelvis", 5),
        link("torso", 9, UPPER, inertia=0.1),
        joint("waist_yaw", "pelvis", "torso", at="0 0 .05", axis="0 0 1"),
    ]
    for side, y in (("left", 0.1), ("right", -0.1)):
        parts += [
            link(f"{side}_hip", 0.5, inertia=0.001),
            link(f"{side}_thigh", 1.5),
            link(f"{side}_shin", 1.0),
            link(f"{side}_ankle", 0.2, inertia=0.001),
            link(f"{side}_foot", 0.5, SOLE, inertia=0.001),
            joint(f"{side}_hip_roll", "pelvis", f"{side}_hip", at=f"0 {y} -.05", axis="1 0 0", effort="80", **changes),
            joint(f"{side}_hip_pitch", f"{side}_hip", f"{side}_thigh", at="0 0 0", effort="80", **changes),
            joint(
                f"{side}_knee",
                f"{side}_thigh",
                f"{side}_shin",
                at="0 0 -.3",
                **({"low": "0", "high": "2.5", "effort": "80"} | changes),
            ),
            joint(f"{side}_ankle_pitch", f"{side}_shin", f"{side}_ankle", at="0 0 -.3", effort="40", **changes),
            joint(
                f"{side}_ankle_roll", f"{side}_ankle", f"{side}_foot", at="0 0 0", axis="1 0 0", effort="40", **changes
            ),
            link(f"{side}_upper_arm", 1.0, inertia=0.005),
            link(f"{side}_forearm", 0.7, inertia=0.005),
            joint(f"{side}_shoulder", "torso", f"{side}_upper_arm", at=f"0 {2 * y} .3", effort="20"),
            joint(f"{side}_elbow", f"{side}_upper_arm", f"{side}_forearm", at="0 0 -.25", axis="1 0 0", effort="20"),
        ]
    return f'<?xml version="1.0"?><robot name="b">{"".join(parts)}</robot>'
