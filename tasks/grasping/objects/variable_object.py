"""One body that can be any of many objects: shapes of fixed kinds, whose sizes and places every episode sets anew.

Batched physics shares one model, in which a shape cannot change its kind, nor a body the number of its shapes; sizes,
poses and masses are fields that may differ between environments. A sphere is a capsule without length.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.objects.model import FRICTION, ROLLING, SPINNING, add_object, contact_parts
from tasks.grasping.objects.object_spec import ObjectSpec, object_spec
from tasks.grasping.objects.shapes import Part, Shape

BOXES, CAPSULES = 5, 3
"""Number of shapes of each kind: enough for all but bowls, mugs, pitchers, bananas and scissors."""
HIDDEN = 5e-4  # m, size of a shape that is not needed, inside of one that is
FLAT = 1e-4  # m, half the length of the capsule that stands for a sphere


@dataclasses.dataclass(frozen=True)
class ObjectFields:
    """Objects as model fields: one row each."""

    things: tuple[ObjectSpec, ...]
    fields: Mapping[str, np.ndarray]
    """Model field -> (objects, ...) the whole field with this object's shapes in it."""


def fits(item: ObjectSpec) -> bool:
    """Whether an object is made of few enough shapes."""
    boxes, capsules = _sorted(item)
    return len(boxes) <= BOXES and len(capsules) <= CAPSULES


def add_variable_object(spec: mujoco.MjSpec, name: str = "object") -> mujoco.MjsBody:
    """Put a body that can be any object into a model, with the joint, site and sensors that `add_object` gives it."""
    boxes = tuple(Part(Shape.BOX, (0.02, 0.02, 0.02)) for _ in range(BOXES))
    capsules = tuple(Part(Shape.CAPSULE, (0.02, 0.02)) for _ in range(CAPSULES))
    body = add_object(spec, object_spec(name, 0.1, boxes + capsules, (0.85, 0.45, 0.25, 1.0)), name)
    # Its centre of mass will lie elsewhere, which a body that is compiled as simple does not bear.
    body.simple = False
    for geom in body.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_CAPSULE:
            geom.condim = 6  # Spheres roll, and would for ever.
    # Trees of bounding boxes within a body are made once, and would not follow its shapes.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
    return body


def object_fields(model: mujoco.MjModel, things: Sequence[ObjectSpec], name: str = "object") -> ObjectFields:
    """The fields with which the body of `add_variable_object` is each of some objects, which must `fit`."""
    body = model.body(name)
    first = int(body.geomadr[0])
    rows = [_rows(item) for item in things]
    fields: dict[str, np.ndarray] = {}
    for field in ("geom_size", "geom_pos", "geom_quat", "geom_rbound", "geom_friction"):
        base = np.array(getattr(model, field), np.float32)
        stacked = np.repeat(base[None], len(things), axis=0)
        for index, row in enumerate(rows):
            stacked[index, first : first + BOXES + CAPSULES] = row[field]
        fields[field] = stacked
    for field in ("body_mass", "body_inertia", "body_ipos", "body_iquat"):
        stacked = np.repeat(np.array(getattr(model, field), np.float32)[None], len(things), axis=0)
        for index, item in enumerate(things):
            stacked[index, body.id] = _inertial(item)[field]
        fields[field] = stacked
    return ObjectFields(tuple(things), fields)


def _sorted(item: ObjectSpec) -> tuple[list[Part], list[Part]]:
    """Boxes, and what is round, of an object as it collides."""
    parts = [solid for part in item.parts for solid in contact_parts(part)]
    boxes = [part for part in parts if part.shape is Shape.BOX]
    return boxes, [part for part in parts if part.shape is not Shape.BOX]


def _rows(item: ObjectSpec) -> dict[str, np.ndarray]:
    boxes, capsules = _sorted(item)
    if not fits(item):
        raise EmbodiedError(
            f"the object {item.name!r} has {len(boxes)} boxes and {len(capsules)} round shapes; expected at most "
            f"{BOXES} and {CAPSULES}"
        )
    inside = item.parts[0].pos
    spare = Part(Shape.BOX, (HIDDEN,) * 3, inside), Part(Shape.CAPSULE, (HIDDEN, HIDDEN), inside)
    parts = boxes + [spare[0]] * (BOXES - len(boxes)) + capsules + [spare[1]] * (CAPSULES - len(capsules))
    sizes = np.array([_size(part) for part in parts], np.float32)
    friction = [FRICTION, SPINNING, ROLLING if item.rolls else 0.0]
    return {
        "geom_size": sizes,
        "geom_pos": np.array([part.pos for part in parts], np.float32),
        "geom_quat": np.array([part.quat for part in parts], np.float32),
        "geom_rbound": np.array([_bound(part) for part in parts], np.float32),
        "geom_friction": np.repeat(np.array([friction], np.float32), len(parts), axis=0),
    }


def _size(part: Part) -> tuple[float, float, float]:
    """MuJoCo's three numbers."""
    if part.shape is Shape.SPHERE:
        return part.size[0], FLAT, 0.0
    first, second, third = (*part.size, 0.0)[:3]
    return first, second, third


def _bound(part: Part) -> float:
    """m, radius of the sphere about its centre that holds a shape."""
    size = _size(part)
    return float(np.linalg.norm(size)) if part.shape is Shape.BOX else size[0] + size[1]


def _inertial(item: ObjectSpec) -> dict[str, np.ndarray]:
    """Fields of the body."""
    found = item.properties
    moments, turn = found.principal
    return {
        "body_mass": np.asarray(found.mass, np.float32),
        "body_inertia": moments.astype(np.float32),
        "body_ipos": found.centre.astype(np.float32),
        "body_iquat": np.asarray(turn, np.float32),
    }
