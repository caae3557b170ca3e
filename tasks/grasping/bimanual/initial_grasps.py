"""A firm grip to begin with: physics closes a hand around an object, once for each hand, and the result is kept."""

from __future__ import annotations

import dataclasses
import functools

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec, load_spec
from embodied.errors import EmbodiedError
from tasks.grasping.hands.floating_hand import Mount, add_floating_hand
from tasks.grasping.hands.hand import PHYSICS_DT, Hand, check_width, poses, set_physics
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.object_spec import ObjectSpec

FRICTION = 0.8  # sliding friction of the object on hands, rubber on lacquer; episodes draw their own
CLOSING = 0.7  # s in which the hand closes
REACH = 0.15  # m from the palm, beyond which what it held has fallen
SETTLING = 1.0  # s until what it holds is at rest


@dataclasses.dataclass(frozen=True)
class InitialGrasp:
    """A hand that holds an object still against gravity."""

    joints: np.ndarray
    """(n,) rad."""
    targets: np.ndarray
    """(m,) rad, the servos'."""
    pos: np.ndarray
    """(3,) m, the object in the base's frame."""
    quat: np.ndarray
    """(4,) wxyz, base from object."""
    palm_pos: np.ndarray
    """(3,) m, the object in the palm's frame; the same as `pos` while a wrist is straight."""
    palm_quat: np.ndarray
    """(4,) wxyz, palm from object."""


def add_manipulated_object(spec: mujoco.MjSpec, item: ObjectSpec) -> None:
    """The body `object`, with its sensors, whose friction decides over that of hands (priority)."""
    body = add_object(spec, item, touch=True)
    # Its centre of mass will be shifted, which a body that is compiled as simple does not bear.
    body.simple = False
    for geom in body.geoms:
        geom.priority, geom.condim = 2, max(int(geom.condim), 4)
        geom.friction = [FRICTION, *geom.friction[1:]]


@functools.cache
def initial_grasp(
    hand: Hand, item: ObjectSpec, mount: Mount, pos: tuple[float, ...], quat: tuple[float, ...]
) -> InitialGrasp:
    """Close a hand around an object that is placed in the palm's frame, (3,) m and (4,) wxyz, and wait.

    Physics finds the grip; gravity sets in once the hand is closed.

    Raises:
        EmbodiedError: the object is wider than the hand opens, or the hand does not hold it there.
    """
    check_width(hand, float(np.min(item.extents)), f"the object {item.name!r}")
    spec = load_spec("scenes/floor.xml")
    set_physics(spec)
    add_floating_hand(spec, hand, mount)
    add_manipulated_object(spec, item)
    model = compile_spec(spec)
    data, layout = mujoco.MjData(model), hand.layout(model, mount.prefix)
    opened, closed = poses(hand).opened, poses(hand).closed
    data.qpos[layout.qpos], data.ctrl[layout.actuators] = opened.joints, opened.targets
    mujoco.mj_kinematics(model, data)
    frame, adr = data.body(f"{mount.prefix}base"), model.joint("object").qposadr[0]
    data.qpos[adr : adr + 3] = frame.xpos + frame.xmat.reshape(3, 3) @ np.asarray(pos)
    mujoco.mju_mulQuat(data.qpos[adr + 3 : adr + 7], frame.xquat, np.asarray(quat, float))
    gravity, model.opt.gravity = model.opt.gravity.copy(), 0
    for share in np.linspace(0, 1, round(CLOSING / PHYSICS_DT)):
        data.ctrl[layout.actuators] = (1 - share) * opened.targets + share * closed.targets
        mujoco.mj_step(model, data)
    model.opt.gravity = gravity
    mujoco.mj_step(model, data, nstep=round(SETTLING / PHYSICS_DT))
    palm = data.site(layout.palm)
    quat_of_palm = np.zeros(4)
    mujoco.mju_mat2Quat(quat_of_palm, palm.xmat)
    thing = data.qpos[adr : adr + 3], data.qpos[adr + 3 : adr + 7]
    in_base, in_palm = _seen_from(frame.xpos, frame.xquat, *thing), _seen_from(palm.xpos, quat_of_palm, *thing)
    if np.linalg.norm(in_palm[0]) > REACH:
        raise EmbodiedError(f"the hand {hand.name!r} does not hold the object {item.name!r} where it is put")
    return InitialGrasp(data.qpos[layout.qpos].copy(), data.ctrl[layout.actuators].copy(), *in_base, *in_palm)


def _seen_from(
    origin: np.ndarray, orientation: np.ndarray, pos: np.ndarray, quat: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A pose in the world, (3,) m and (4,) wxyz, as one in a frame."""
    back, place, turn = np.zeros(4), np.zeros(3), np.zeros(4)
    mujoco.mju_negQuat(back, orientation)
    mujoco.mju_rotVecQuat(place, pos - origin, back)
    mujoco.mju_mulQuat(turn, back, quat)
    return place, turn
