"""From the description of a body to a MuJoCo model of it on a floor, and where its parts are found in the model."""

from __future__ import annotations

import dataclasses
import functools
import math

import mujoco
import numpy as np

from embodied.core.body_rows import SLOTS
from embodied.core.scenes import compose
from tasks.locomotion.morphologies.description import Capsule, Hinge, Limb, Vector
from tasks.locomotion.morphologies.families import Family
from tasks.locomotion.morphologies.looks import DARK, DECORATIONS, DETAIL

ARENA = 4 * 2**20  # bytes for the contacts and constraints of one environment, of which MuJoCo would reserve 15 MB
FRICTION = 1.0  # sliding, of floor and body: the larger of the two is 1 in the published models too
BEARING = 1.2  # radius of the ball drawn at a joint, in radii of the limb
SENSORS = {
    "pos": mujoco.mjtSensor.mjSENS_FRAMEPOS,
    "quat": mujoco.mjtSensor.mjSENS_FRAMEQUAT,
    "linvel": mujoco.mjtSensor.mjSENS_FRAMELINVEL,
    "angvel": mujoco.mjtSensor.mjSENS_FRAMEANGVEL,
}
"""Sensors of every part, `<part>_<suffix>`: its frame's pose and velocity in the world (m, wxyz, m/s, rad/s)."""


def build_spec(body: Limb, family: Family) -> mujoco.MjSpec:
    """The body on a floor: a free root, a capsule or more for each limb, a motor for each hinge."""
    spec = compose("scenes/floor.xml")
    spec.modelname = f"reach-{family.name}"
    spec.memory = ARENA
    spec.compiler.inertiagrouprange = [0, 1]  # shapes of group 2 are visual
    floor = spec.geom("floor")
    floor.friction = [FRICTION, 0.005, 0.0001]
    root = _add(spec, spec.worldbody, body, family)
    height = standing_height(body)
    root.pos = [0, 0, height]
    root.add_camera(
        name="track", mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM, pos=[0, -3.5, 0.4], xyaxes=[1, 0, 0, 0, 0.15, 1]
    )
    spec.stat.center, spec.stat.extent = [0, 0, 0.6 * height], 0.9 * height
    for limb in body:
        for suffix, kind in SENSORS.items():
            # xbody: its frame, not its centre of mass.
            spec.add_sensor(
                name=f"{limb.name}_{suffix}", type=kind, objtype=mujoco.mjtObj.mjOBJ_XBODY, objname=limb.name
            )
    return spec


def standing_height(body: Limb) -> float:
    """m from the root's frame down to the body's lowest point in the pose in which it is described."""

    def lowest(limb: Limb) -> float:
        own = [min(c.start[2], c.end[2]) - c.radius for c in limb.capsules]
        return limb.at[2] + min(own + [lowest(child) for child in limb.children])

    return -lowest(body)


def hinge_name(limb: Limb, slot: int) -> str:
    """Name of the joint, and of its motor, in a slot of a limb."""
    return f"{limb.name}_{'xyz'[slot]}"


def _add(spec: mujoco.MjSpec, parent: mujoco.MjsBody, limb: Limb, family: Family) -> mujoco.MjsBody:
    """Add a limb and all that hangs on it."""
    body = parent.add_body(name=limb.name, pos=limb.at)
    root = parent.name == "world"
    if root:
        body.add_freejoint(name="root")
    for slot, hinge in enumerate(limb.hinges):
        if hinge is not None:
            _add_hinge(spec, body, hinge_name(limb, slot), hinge)
    colour = family.colours[0 if root else 2 if limb.name.startswith("left_") else 1]
    for number, capsule in enumerate(limb.capsules):
        geom = _add_capsule(body, capsule, colour)
        geom.name = limb.name if number == 0 else f"{limb.name}_{number}"
        geom.contype, geom.conaffinity, geom.condim = 0, 1, 3  # the floor alone touches it
        geom.friction = [FRICTION, 0.005, 0.0001]
    if root:
        for capsule, detail in DECORATIONS[family.name]:
            _for_the_eye(_add_capsule(body, capsule, detail))
    elif any(limb.hinges):
        bearing = Capsule((0, 0, 0), (0, 0, 0), BEARING * limb.capsules[0].radius)
        _for_the_eye(_add_capsule(body, bearing, DETAIL if limb.name.startswith("left_") else DARK))
    for child in limb.children:
        _add(spec, body, child, family)
    return body


def _add_hinge(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, hinge: Hinge) -> None:
    body.add_joint(
        name=name,
        type=mujoco.mjtJoint.mjJNT_HINGE,
        axis=hinge.axis,
        pos=hinge.offset,
        limited=True,
        range=[math.radians(angle) for angle in hinge.range],
        stiffness=hinge.stiffness,
        damping=hinge.damping,
        armature=hinge.armature,
    )
    motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    motor.set_to_motor()
    motor.gear[0] = hinge.gear
    motor.ctrllimited, motor.ctrlrange = True, [-1, 1]


def _add_capsule(body: mujoco.MjsBody, capsule: Capsule, colour: Vector) -> mujoco.MjsGeom:
    rgba = [*colour, 1.0]
    if capsule.start == capsule.end:
        return body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_SPHERE, pos=capsule.start, size=[capsule.radius, 0, 0], rgba=rgba
        )
    ends = [*capsule.start, *capsule.end]
    return body.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, fromto=ends, size=[capsule.radius, 0, 0], rgba=rgba)


def _for_the_eye(geom: mujoco.MjsGeom) -> None:
    geom.group, geom.contype, geom.conaffinity, geom.mass = 2, 0, 0, 0.0


@dataclasses.dataclass(frozen=True)
class Layout:
    """Indices of a body's parts in its model. Arrays have a row for each part and a column for each hinge slot."""

    names: tuple[str, ...]
    """Parts, the root first."""
    parents: np.ndarray
    """(parts,) number of the part that each hangs on; -1 for the root."""
    has: np.ndarray
    """(parts, slots) bool, whether there is a hinge."""
    qpos: np.ndarray
    """(parts, slots) index into qpos; 0 where there is none."""
    qvel: np.ndarray
    """(parts, slots) index into qvel; 0 where there is none."""
    axes: np.ndarray
    """(parts, slots, 3) unit vectors in the part's frame; 0 where there is none."""
    limits: np.ndarray
    """(parts, slots, 2) rad; 0 where there is none."""
    strength: np.ndarray
    """(parts, slots) N m at a control of 1; 0 where there is none."""
    size: np.ndarray
    """(parts, 2) m, length and radius."""

    @classmethod
    def of(cls, body: Limb, model: mujoco.MjModel) -> Layout:
        """Look the parts of a body up in its model."""
        limbs = list(body)
        names = tuple(limb.name for limb in limbs)
        parents = [names.index(model.body(model.body(name).parentid[0]).name) for name in names[1:]]
        shape = (len(limbs), SLOTS)
        has, qpos, qvel = np.zeros(shape, bool), np.zeros(shape, int), np.zeros(shape, int)
        axes, limits, strength = np.zeros((*shape, 3)), np.zeros((*shape, 2)), np.zeros(shape)
        for part, limb in enumerate(limbs):
            for slot, hinge in enumerate(limb.hinges):
                if hinge is not None:
                    joint = model.joint(hinge_name(limb, slot))
                    has[part, slot], qpos[part, slot], qvel[part, slot] = True, joint.qposadr[0], joint.dofadr[0]
                    axes[part, slot], limits[part, slot], strength[part, slot] = joint.axis, joint.range, hinge.gear
        size = [(math.dist(c.start, c.end), c.radius) for c in (limb.capsules[0] for limb in limbs)]
        parent_numbers = np.array([-1, *parents])
        return cls(names, parent_numbers, has, qpos, qvel, axes, limits, strength, np.array(size))

    @functools.cached_property
    def motors(self) -> np.ndarray:
        """(nu,) which entry of an action, three for each part but the root, goes to which motor, in their order."""
        return np.flatnonzero(self.has[1:])
