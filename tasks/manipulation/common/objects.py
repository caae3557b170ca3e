"""Things on the table, from primitives that every engine collides: their looks, masses and sensors.

Free bodies have contype 1 and conaffinity 1: they meet everything. Fixed bodies, and those that turn on a fixture, have
contype 1 and conaffinity 0: they meet robot and free bodies alone. A round shape collides as a box or capsule, since
MJX has no contact between cylinder and box, and is drawn round by a second, visual geom.

`watch` makes a body, or a site on one, the first or second object of the observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco

BOX = mujoco.mjtGeom.mjGEOM_BOX
CYLINDER = mujoco.mjtGeom.mjGEOM_CYLINDER
CAPSULE = mujoco.mjtGeom.mjGEOM_CAPSULE
SPHERE = mujoco.mjtGeom.mjGEOM_SPHERE

RED = (0.86, 0.22, 0.18, 1.0)
BLUE = (0.13, 0.38, 0.78, 1.0)
YELLOW = (0.93, 0.73, 0.18, 1.0)
GREEN = (0.18, 0.58, 0.38, 1.0)
BRICK = (0.72, 0.40, 0.30, 1.0)
WHITE = (0.93, 0.93, 0.92, 1.0)
STEEL = (0.62, 0.65, 0.69, 1.0)
BLACK = (0.12, 0.13, 0.14, 1.0)

PINE = (0.80, 0.68, 0.49, 1.0)

TABLE_SIDE = 0.7  # m, |x| of its edges; assets/scenes/table.xml
TABLE_NEAR, TABLE_FAR = 0.2, 1.04  # m, y of its edges

CONTACT = {"friction": [0.5, 0.005, 0.0001], "solref": [0.0125, 1], "solimp": [0.95, 0.99, 0.001, 0.5, 2]}
"""Sliding friction 0.5 (no unit), wood on wood, where no pad's own decides: with Meta-World's 1, what the arm leads
along the table jams. And the stiffest contact that a step of 6.25 ms allows, against a hand that presses with 100 N."""
STOP = {"solref_limit": [0.0125, 1], "solimp_limit": [0.98, 0.998, 0.001, 0.5, 2]}
"""The end of a joint's travel, as hard as that: at MuJoCo's default stops the hand pushes a drawer 2 cm too far."""

SMOOTH = {"friction": [0.3, 0.005, 0.0001], "priority": 2}
"""Polished: sliding friction 0.3 (no unit), which decides even where a rubber pad meets it."""
TOP = {**CONTACT, **SMOOTH}
"""Table tops, and boards on them: a hand that is led too low slides over them instead of jamming."""

PUCK_RADIUS = 0.02  # m; Meta-World
PUCK_HEIGHT = 0.04  # m; Meta-World
PUCK_SIDE = 0.019  # m, half an edge of the box that stands for it in contacts
PUCK_MASS = 0.1  # kg, hard plastic's density of 2 g/cm^3; Meta-World's .75 kg would be denser than lead
BLOCK_SIDE = 0.02  # m, half an edge; Meta-World
GOAL = "goal"  # the body that marks it
GOAL_RADIUS = 0.02  # m; Meta-World


def watch(spec: mujoco.MjSpec, slot: int, kind: mujoco.mjtObj, name: str) -> None:
    """Observe a body or site as object 1 or 2: sensors `object<slot>_pos` (m, world), `object<slot>_quat` (wxyz)."""
    for what, sensor in (("pos", mujoco.mjtSensor.mjSENS_FRAMEPOS), ("quat", mujoco.mjtSensor.mjSENS_FRAMEQUAT)):
        spec.add_sensor(name=f"object{slot}_{what}", type=sensor, objtype=kind, objname=name)


def mark(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, pos: Sequence[float]) -> None:
    """A point on a body, m in its frame, that is not observed: a site, and a sensor of its name (m, world)."""
    body.add_site(name=name, pos=pos)
    spec.add_sensor(name=name, type=mujoco.mjtSensor.mjSENS_FRAMEPOS, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=name)


def free_body(spec: mujoco.MjSpec, name: str, slot: int = 1, point: Sequence[float] = (0, 0, 0)) -> mujoco.MjsBody:
    """A body that may go anywhere; its free joint bears its name. `Placement.joints` gives its start.

    `point`: what is observed of it, m in its frame; a site of its name is there.
    """
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name=name)
    body.add_site(name=name, pos=point)
    watch(spec, slot, mujoco.mjtObj.mjOBJ_SITE, name)
    return body


def fixture(spec: mujoco.MjSpec, name: str) -> mujoco.MjsBody:
    """A body that stands elsewhere in every episode; build the fixture, and what moves on it, below it.

    It is a mocap body: `Placement.fixtures` gives its place. A fixture that faces another way is built turned.
    """
    return spec.worldbody.add_body(name=name, mocap=True)


def solid(body: mujoco.MjsBody, **shape: Any) -> mujoco.MjsGeom:
    """A shape that stands fast, or moves on a fixture: meets the robot and free bodies."""
    return body.add_geom(**{"contype": 1, "conaffinity": 0, "condim": 3, **shape})


def loose(body: mujoco.MjsBody, **shape: Any) -> mujoco.MjsGeom:
    """A shape of a free body: meets everything."""
    return body.add_geom(**{"contype": 1, "conaffinity": 1, "condim": 3, **CONTACT, **shape})


def looks(body: mujoco.MjsBody, **shape: Any) -> mujoco.MjsGeom:
    """A shape that is only looked at."""
    return body.add_geom(**{"contype": 0, "conaffinity": 0, "mass": 0, "group": 2, **shape})


def goal(spec: mujoco.MjSpec) -> None:
    """A red ball at the goal, for cameras alone; at `Placement.fixtures`. Meta-World marks its goals so, too.

    As a mocap body without contacts it is seen by cameras on every engine; sites, `Pictures.markers` and
    `Pictures.goals` are for people only.
    """
    looks(fixture(spec, GOAL), type=SPHERE, size=[GOAL_RADIUS, 0, 0], rgba=RED)


def disc(
    body: mujoco.MjsBody,
    radius: float,
    half: float,
    pos: Sequence[float],
    rgba: Sequence[float],
    axis: Sequence[float] = (0, 0, 1),
) -> None:
    """A round plate, or post, that is only looked at: its radius, half its thickness, its middle, m; its axis."""
    looks(body, type=CYLINDER, size=[radius, half, 0], pos=pos, zaxis=axis, rgba=rgba)


def puck(spec: mujoco.MjSpec, name: str = "object", radius: float = PUCK_RADIUS, height: float = PUCK_HEIGHT) -> None:
    """A blue cylinder. In contacts it is a box, so it neither rolls nor slips from between two flat pads."""
    body, half = free_body(spec, name), height / 2
    side = PUCK_SIDE * radius / PUCK_RADIUS
    loose(body, type=BOX, size=[side, side, half], mass=PUCK_MASS, group=3)
    looks(body, type=CYLINDER, size=[radius, half - 0.003, 0], rgba=BLUE)
    for end in (-1, 1):  # a chamfer of 2 mm above and below
        looks(body, type=CYLINDER, size=[radius - 0.002, 0.0015, 0], pos=[0, 0, end * (half - 0.0015)], rgba=BLUE)


def block(spec: mujoco.MjSpec, name: str = "object", mass: float = PUCK_MASS, rgba: Sequence[float] = GREEN) -> None:
    """A cube of 4 cm. Its inertia is a cube's, where Meta-World's (1e5 kg m^2) keeps it from ever turning."""
    loose(free_body(spec, name), type=BOX, size=[BLOCK_SIDE] * 3, mass=mass, rgba=rgba)


def wall(spec: mujoco.MjSpec, pos: Sequence[float], half: Sequence[float]) -> None:
    """A wall that stands fast: its middle and half its extents, m, with a coping to look at."""
    body = spec.worldbody.add_body(name="wall", pos=pos)
    solid(body, name="wall", type=BOX, size=half, rgba=BRICK)
    looks(body, type=BOX, size=[half[0] + 0.002, half[1] + 0.002, 0.004], pos=[0, 0, half[2] - 0.0039], rgba=WHITE)


def slab(spec: mujoco.MjSpec, thickness: float, low: Sequence[float], high: Sequence[float]) -> None:
    """A board that covers the table but for a rectangular hole: its thickness, the hole's corners (2) m."""
    (left, near), (right, far) = low, high
    strips = (
        ((-TABLE_SIDE, TABLE_NEAR), (left, TABLE_FAR)),
        ((right, TABLE_NEAR), (TABLE_SIDE, TABLE_FAR)),
        ((left, TABLE_NEAR), (right, near)),
        ((left, far), (right, TABLE_FAR)),
    )
    for number, (start, end) in enumerate(strips):
        middle, half = [[(b + sign * a) / 2 for a, b in zip(start, end, strict=True)] for sign in (1, -1)]
        solid(
            spec.worldbody,
            name=f"slab{number}",
            type=BOX,
            pos=[*middle, thickness / 2],
            size=[*half, thickness / 2],
            rgba=PINE,
            **TOP,
        )
