"""Robot files as other people write them: URDF and MJCF of arms, quadrupeds, bipeds and multirotors."""

from __future__ import annotations

import math
import re

from embodied.robot import robot_file

LINK = """<link name="{name}"><inertial><origin xyz="0 0 -.1"/><mass value="{mass}"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>{shape}</link>"""
SHAPE = '<collision><origin xyz="{at}"/><geometry>{kind}</geometry></collision>'
BALL = SHAPE.format(at="0 0 -.2", kind='<sphere radius=".02"/>')
JOINT = """<joint name="{name}" type="{type}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>
<axis xyz="{axis}"/><limit lower="{low}" upper="{high}" effort="{effort}" velocity="10"/></joint>"""


def joint(name: str, parent: str, child: str, **changes: str) -> str:
    usual = {"type": "revolute", "at": "0 0 -.2", "axis": "0 1 0", "low": "-1.5", "high": "1.5", "effort": "30"}
    return JOINT.format(name=name, parent=parent, child=child, **(usual | changes))


def quadruped(extra: str = "", **changes: str) -> str:
    """A URDF of a box on four legs of two joints."""
    parts = [LINK.format(name="body", mass=8, shape=SHAPE.format(at="0 0 0", kind='<box size=".5 .3 .1"/>'))]
    for x, y in ((0.2, -0.15), (0.2, 0.15), (-0.2, -0.15), (-0.2, 0.15)):
        leg = f"leg{len(parts)}"
        parts += [
            LINK.format(name=f"{leg}_upper", mass=1, shape=""),
            LINK.format(name=f"{leg}_lower", mass=0.3, shape=BALL),
            joint(f"{leg}_hip", "body", f"{leg}_upper", at=f"{x} {y} 0", **changes),
            joint(f"{leg}_knee", f"{leg}_upper", f"{leg}_lower", **({"low": "-2.5", "high": "-.3"} | changes)),
        ]
    return f'<?xml version="1.0"?><robot name="q">{"".join(parts)}{extra}</robot>'


def arm(last: str = "", joints: int = 4) -> str:
    """A URDF of a serial arm."""
    parts = [LINK.format(name="link0", mass=1, shape="")]
    for index in range(joints):
        shape = SHAPE.format(at="0 0 .1", kind='<cylinder radius=".03" length=".2"/>')
        parts.append(LINK.format(name=f"link{index + 1}", mass=1, shape=shape))
        axis = "0 0 1" if index % 2 == 0 else "0 1 0"
        parts.append(joint(f"j{index + 1}", f"link{index}", f"link{index + 1}", at="0 0 .2", axis=axis))
    return f'<robot name="arm">{"".join(parts)}{last}</robot>'


MESH = '<link name="hat"><collision><geometry><mesh filename="{}"/></geometry></collision></link>' + joint(
    "neck", "body", "hat", type="fixed"
)
SIX = ("0 0 1", "0 1 0", "0 1 0", "0 0 1", "0 1 0", "0 0 1")
"""Axes of an arm with a spherical wrist."""


def six_axes(last: str = "", **changes: str) -> str:
    """A URDF of an arm of six joints and 90 cm."""
    link = LINK.replace("-.1", ".1")
    parts = [link.format(name="base", mass=2, shape=SHAPE.format(at="0 0 .05", kind='<box size=".1 .1 .1"/>'))]
    lengths = (0.1, 0.1, 0.3, 0.15, 0.15, 0.05)
    for index, (axis, length) in enumerate(zip(SIX, lengths, strict=True)):
        shape = SHAPE.format(at="0 0 .03", kind='<cylinder radius=".03" length=".06"/>')
        parts.append(link.format(name=f"link{index + 1}", mass=0.5, shape=shape))
        parent = f"link{index}" if index else "base"
        usual = {"low": "-2.6", "high": "2.6", "effort": "40", "at": f"0 0 {length}", "axis": axis}
        parts.append(joint(f"j{index + 1}", parent, f"link{index + 1}", **(usual | changes)))
    return f'<robot name="six">{"".join(parts)}{last}</robot>'


def fingers(parent: str = "link6", mimic: bool = False) -> str:
    """Two fingers of 6 cm that slide apart by up to 4 cm each along y, beyond a palm of 5 cm."""
    copied = '<mimic joint="fa" multiplier="1"/></joint>'
    parts = []
    for side, sign in (("a", 1), ("b", -1)):
        box = SHAPE.format(at="0 0 .03", kind='<box size=".02 .01 .06"/>')
        parts.append(LINK.format(name=f"finger_{side}", mass=0.05, shape=box))
        made = joint(f"f{side}", parent, f"finger_{side}", type="prismatic", low="0", high=".04", effort="20",
                     axis=f"0 {sign} 0", at=f"0 {0.005 * sign} .05")  # fmt: skip
        parts.append(made.replace("</joint>", copied) if mimic and side == "b" else made)
    return "".join(parts)


INERTIAL = """<inertial><origin xyz="{at}"/><mass value="{mass}"/>
<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/></inertial>"""
BASE = INERTIAL.format(at="0 0 0", mass=1.2, x=0.02, y=0.03, z=0.04)
BLADE = INERTIAL.format(at="0 0 0", mass=0.01, x=1e-5, y=1e-5, z=2e-5)
PICTURE = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
DISC = '<visual><geometry><cylinder radius=".1" length=".005"/></geometry></visual>'


def ring(count: int, radius: float, offset: float = 0.0) -> list[tuple[float, float]]:
    """Places on a circle, m, the first `offset` rad from ahead."""
    angles = [offset + 2 * math.pi * number / count for number in range(count)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for angle in angles]


def multirotor(count: int = 4, kind: str = "continuous", radius: float = 0.2, **changes: str) -> str:
    """A URDF of a box under a ring of rotors 3 cm above its middle; the first is ahead on the left."""
    parts = [f'<link name="base">{BASE}</link>']
    for number, (x, y) in enumerate(ring(count, radius, math.pi / count)):
        name = f"rotor_{number}"
        joint = {"type": kind, "axis": "0 0 1", "low": "-1e16", "high": "1e16", "effort": "0"} | changes
        parts.append(f'<link name="{name}">{BLADE}{DISC}</link>')
        parts.append(JOINT.format(name=f"{name}_joint", parent="base", child=name, at=f"{x:.6f} {y:.6f} .03", **joint))
    return f'<robot name="m">{"".join(parts)}</robot>'


def bullet_drone() -> str:
    """A drone as gym-pybullet-drones writes it: massless propellers, whose inertials are where they are."""
    parts = [f'<link name="base_link">{INERTIAL.format(at="0 0 0", mass=0.027, x=1.4e-5, y=1.4e-5, z=2.17e-5)}</link>']
    for number, (x, y) in enumerate([(0.028, 0.028), (-0.028, 0.028), (-0.028, -0.028), (0.028, -0.028)]):
        name = f"prop{number}_link"
        parts.append(f'<link name="{name}">{INERTIAL.format(at=f"{x} {y} 0", mass=0, x=0, y=0, z=0)}</link>')
        parts.append(
            f'<joint name="prop{number}_joint" type="fixed"><parent link="base_link"/><child link="{name}"/></joint>'
        )
    tag = '<properties arm="0.0397" kf="3.16e-10" km="7.94e-12" thrust2weight="2.25"/>'
    return f'<robot name="cf2">{tag}{"".join(parts)}</robot>'


def thrusters(gear: str = "0 0 1 0 0 {torque}", limits: str = 'ctrllimited="true" ctrlrange="0 6"') -> str:
    """An MJCF of a box with four motors at sites, one of them tilted by 30 degrees about x."""
    sites, motors = "", ""
    for number, (x, y) in enumerate(ring(4, 0.2, math.pi / 4), 1):
        tilt = "0.965926 0.258819 0 0" if number == 1 else "1 0 0 0"
        sites += f'<site name="place{number}" pos="{x} {y} .02" quat="{tilt}"/>'
        torque = 0.02 if number % 2 else -0.02
        motors += f'<motor name="m{number}" site="place{number}" {limits} gear="{gear.format(torque=torque)}"/>'
    box = '<geom type="box" size=".1 .1 .02" mass="1"/>'
    return (
        f'<mujoco><worldbody><body name="box" pos="0 0 1"><freejoint/>{box}{sites}</body></worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )


SOLE = SHAPE.format(at=".03 0 -.04", kind='<box size=".2 .08 .02"/>')
UPPER = SHAPE.format(at="0 0 .15", kind='<box size=".15 .25 .3"/>')


def link(name: str, mass: float, shape: str = "", inertia: float = 0.01) -> str:
    return LINK.format(name=name, mass=mass, shape=shape).replace('".01"', f'"{inertia}"')


def biped(**changes: str) -> str:
    """Six joints a leg but for its yaw, a waist, and arms of two joints; 24 kg."""
    parts = [link("pelvis", 5), link("torso", 9, UPPER, inertia=0.1)]
    parts.append(joint("waist_yaw", "pelvis", "torso", at="0 0 .05", axis="0 0 1"))
    for side, y in (("left", 0.1), ("right", -0.1)):
        bends = {"low": "0", "high": "2.5", "effort": "80"} | changes
        parts += [
            link(f"{side}_hip", 0.5, inertia=0.001),
            link(f"{side}_thigh", 1.5),
            link(f"{side}_shin", 1.0),
            link(f"{side}_ankle", 0.2, inertia=0.001),
            link(f"{side}_foot", 0.5, SOLE, inertia=0.001),
            joint(f"{side}_hip_roll", "pelvis", f"{side}_hip", at=f"0 {y} -.05", axis="1 0 0", effort="80", **changes),
            joint(f"{side}_hip_pitch", f"{side}_hip", f"{side}_thigh", at="0 0 0", effort="80", **changes),
            joint(f"{side}_knee", f"{side}_thigh", f"{side}_shin", at="0 0 -.3", **bends),
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


def bare(name: str) -> str:
    """The MJCF file of a robot of ours without its sensors, as others publish it."""
    return re.sub(r"<sensor>.*?</sensor>", "", robot_file(name).read_text(), flags=re.DOTALL)


WALKER = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="ball"><freejoint/><geom size=".1"/></body>
<body name="trunk" pos="0 0 1">{root}<geom type="box" size=".2 .1 .05"/>{legs}</body><camera name="c" target="ball"/>
</worldbody><actuator>{motors}</actuator></mujoco>"""


def walker(root: str) -> str:
    """An MJCF of four legs, whose toes nothing drives, beside a ball."""
    legs, motors = "", ""
    for index, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))):
        legs += (
            f'<body pos="{x} {y} 0"><joint name="hip{index}" axis="0 1 0" range="-90 90"/>'
            '<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/><body pos="0 0 -.2">'
            f'<joint name="knee{index}" axis="0 1 0" range="-120 -10"/>'
            '<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/></body></body>'
        )
        motors += f'<position joint="hip{index}" kp="50"/><motor joint="knee{index}" ctrlrange="-9 9"/>'
    return WALKER.format(root=root, legs=legs, motors=motors)
