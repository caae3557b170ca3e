"""Objects in a model: free bodies with named sensors, made of shapes that every engine collides.

In contacts a cylinder is four crossed boxes, an octagonal prism of the same volume: MJX (jax) has no contact between
cylinders and boxes. Boxes, capsules and spheres meet everything, on every engine.
"""

from __future__ import annotations

import dataclasses
import math

import mujoco
import numpy as np

from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.shapes import Colour, Part, Shape

FRICTION = 0.6  # no unit, sliding: plastic and cardboard on rubber or wood, our choice
ROLLING = 0.001  # m, rolling friction of what would otherwise roll for ever: felt, fruit, our choice
SPINNING = 0.005  # m, torsional friction, MuJoCo's default
OCTAGON = 8
CORNER = math.sqrt(math.pi / (OCTAGON / 2 * math.sin(2 * math.pi / OCTAGON)))
"""Radius of the corners of an octagon with the area of the unit circle: 1.0539; its edges are at 0.9737."""


def contact_parts(part: Part) -> tuple[Part, ...]:
    """Shapes that stand for a part in contacts: itself; for a cylinder an octagonal prism of four crossed boxes."""
    if part.shape is not Shape.CYLINDER:
        return (part,)
    radius, half = part.size
    along, across = CORNER * radius * math.cos(math.pi / OCTAGON), CORNER * radius * math.sin(math.pi / OCTAGON)
    boxes = []
    for number in range(OCTAGON // 2):
        angle = math.pi * number / OCTAGON * 2
        quat = np.zeros(4)
        mujoco.mju_mulQuat(quat, np.array(part.quat), np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2)]))
        w, x, y, z = (float(value) for value in quat)
        boxes.append(dataclasses.replace(part, shape=Shape.BOX, size=(along, across, half), quat=(w, x, y, z)))
    return tuple(boxes)


def add_object(spec: mujoco.MjSpec, item: ObjectSpec, name: str = "object", touch: bool = False) -> mujoco.MjsBody:
    """Put an object into a model as a free body that meets everything (contype 1, conaffinity 1).

    Body, free joint and a site at its frame bear the name. Sensors: `<name>_pos` (3,) m and `<name>_quat` (4,) wxyz,
    `<name>_linvel` (3,) m/s and `<name>_angvel` (3,) rad/s, of its frame, in the world; with `touch`, `<name>_touch`
    (1,) N, the sum of the normal forces on it.
    """
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    body.add_site(name=name, group=4)
    found = item.properties
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = found.inertia
    body.explicitinertial = True
    body.mass, body.ipos, body.fullinertia = found.mass, found.centre, [xx, yy, zz, xy, xz, yz]
    contact = {
        "contype": 1,
        "conaffinity": 1,
        "condim": 6 if item.rolls else 3,
        "friction": [FRICTION, SPINNING, ROLLING],
        # A floor whose friction decides (priority 1) has none against rolling; of equals the larger counts.
        "priority": 1 if item.rolls else 0,
    }
    for number, part in enumerate(item.parts):
        rgba = part.rgba or item.rgba
        stands = contact_parts(part)
        if len(stands) > 1:
            _add_geom(body, part, rgba, group=2, contype=0, conaffinity=0)
        for index, solid in enumerate(stands):
            named = f"{name}_{number}" if len(stands) == 1 else f"{name}_{number}_{index}"
            _add_geom(body, solid, rgba, name=named, group=3 if len(stands) > 1 else 0, **contact)
    add_frame_sensors(spec, name)
    if touch:
        low, high = item.bounds
        half = (high - low) / 2 * 1.1 + 0.002
        body.add_site(name=f"{name}_touch", type=mujoco.mjtGeom.mjGEOM_BOX, size=half, group=5)
        spec.add_sensor(
            name=f"{name}_touch",
            type=mujoco.mjtSensor.mjSENS_TOUCH,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=f"{name}_touch",
        )
    return body


def _add_geom(body: mujoco.MjsBody, part: Part, rgba: Colour, **options: object) -> None:
    size = [*part.size, 0.0, 0.0][:3]
    body.add_geom(type=part.shape.value, size=size, pos=part.pos, quat=part.quat, rgba=rgba, mass=0, **options)


def add_frame_sensors(spec: mujoco.MjSpec, name: str, of: mujoco.mjtObj = mujoco.mjtObj.mjOBJ_SITE) -> None:
    """Pose and velocity in the world frame, of a site or a body: `<name>_pos`, `_quat` (wxyz), `_linvel`, `_angvel`."""
    kinds = {
        "pos": mujoco.mjtSensor.mjSENS_FRAMEPOS,
        "quat": mujoco.mjtSensor.mjSENS_FRAMEQUAT,
        "linvel": mujoco.mjtSensor.mjSENS_FRAMELINVEL,
        "angvel": mujoco.mjtSensor.mjSENS_FRAMEANGVEL,
    }
    for suffix, kind in kinds.items():
        spec.add_sensor(name=f"{name}_{suffix}", type=kind, objtype=of, objname=name)
