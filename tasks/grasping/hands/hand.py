"""Multi-fingered hands as tasks need them: parts, palm, poses; alone on a fixed palm, or on the Panda's flange.

A hand is one MJCF and one `Hand` (`tasks.grasping.hands.models`). The MJCF holds a site `palm`, the sensors that `Hand`
names, and five keyframes: `home`, `pregrasp` (opened wide), `closed` (a power grasp), `pinch` (the
preshape of a precision grasp) and `pinched`. The servos of a closed hand push towards poses inside what is grasped.

The palm's frame, of every hand: origin where an object lies in it, x along the stretched fingers, z out of the palm. So
planner, script and policies do not depend on the hand.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from embodied.core.scenes import compile_spec, compose, load_spec
from embodied.errors import EmbodiedError
from tasks.manipulation.common import panda

PHYSICS_DT = 0.005
"""s per physics step. Grasps come out alike at 2.5, 5 and 10 ms (a held rod within .3 mm), but MuJoCo softens contacts
whose time constant, 20 ms by default, is below two steps: 10 ms would leave objects none that is stiffer."""
PANDA_PAYLOAD = 3.0
"""kg on the flange; Franka's data sheet of the Panda."""
ON_FLANGE = (0.0, float(np.sqrt(0.5)), 0.0, float(np.sqrt(0.5)))
"""wxyz, flange from palm: the fingers (x) point out of the flange (z)."""
MOUNTED = "hand_"
"""Prefix of the hand's names on an arm: `hand.layout(model, MOUNTED)`, sensor `hand_index_touch`."""
PALM_UP = (1.0, 0.0, 0.0, 0.0)
"""wxyz, world from palm."""
PALM_DOWN = (0.0, 1.0, 0.0, 0.0)
"""wxyz, world from palm."""

WRIST_EYE, WRIST_AIM = np.array([-0.09, 0.0, 0.12]), np.array([0.07, 0.0, 0.03])
"""m, palm's frame: where a hand's camera is, and what it looks at."""
WRIST_FOVY = 75.0  # degrees, as the camera on the Panda's gripper has


@dataclasses.dataclass(frozen=True)
class Hand:
    """A right hand whose actuators are position servos."""

    name: str
    asset: str
    """MJCF file below `assets/`."""
    joint_names: tuple[str, ...]
    """Names of the n joints, in the maker's order."""
    actuator_names: tuple[str, ...]
    """Names of the m servos, in the order of actions; m < n where tendons couple joints."""
    fingers: tuple[str, ...]
    """Names of the fingers, the thumb last: prefixes of the sensors `_touch` (N), `_tip_pos` (m), `_tip_quat` (wxyz),
    `_tip_linvel` (m/s); world frame. A fingertip's x axis points along it, z out of its pad."""
    pads: tuple[str, ...]
    """Prefixes of further sensors `_touch`, N: phalanges and the palm."""
    width: float
    """m, the widest object that fits between the thumb and the fingers when opened."""
    mass: float
    """kg, all of it."""
    on_arm: str = "palm"
    """Body that is screwed to an arm, with all that it carries; the site `mount` on it is where the flange is."""

    def layout(self, model: mujoco.MjModel, prefix: str = "") -> Layout:
        """Addresses of this hand's parts in a compiled model to which it was attached with `prefix`."""
        joints = [model.joint(prefix + name) for name in self.joint_names]
        actuators = [model.actuator(prefix + name).id for name in self.actuator_names]
        return Layout(
            qpos=np.array([joint.qposadr[0] for joint in joints]),
            qvel=np.array([joint.dofadr[0] for joint in joints]),
            actuators=np.array(actuators),
            limits=np.array([joint.range for joint in joints], np.float32),
            targets=model.actuator_ctrlrange[actuators].astype(np.float32),
            palm=model.site(prefix + "palm").id,
        )


@dataclasses.dataclass(frozen=True)
class Layout:
    """Addresses in a compiled model; joints and servos in the order of the `Hand`."""

    qpos: np.ndarray
    """(n,) addresses in qpos."""
    qvel: np.ndarray
    """(n,) addresses in qvel."""
    actuators: np.ndarray
    """(m,) actuator ids."""
    limits: np.ndarray
    """(n, 2) rad, the joints' ranges."""
    targets: np.ndarray
    """(m, 2) rad, the servos' ranges: of a coupled pair the range of its sum."""
    palm: int
    """Site id of the palm's frame."""


@dataclasses.dataclass(frozen=True)
class Pose:
    """One shape of a hand."""

    joints: np.ndarray
    """(n,) rad."""
    targets: np.ndarray
    """(m,) rad, the servos'."""


@dataclasses.dataclass(frozen=True)
class Poses:
    """The shapes that every hand's MJCF defines."""

    home: Pose
    """Half open."""
    opened: Pose
    """Opened wide, the thumb opposite the fingers."""
    closed: Pose
    """A fist around what is grasped: servos push towards it, and what is in the hand keeps the joints from it."""
    pinch: Pose
    """Index and middle finger bent, their pads 5 cm from the thumb's and facing it."""
    pinched: Pose
    """The same pads pressed together, or on what is between them."""


@functools.cache
def poses(hand: Hand) -> Poses:
    """The shapes of a hand, from the keyframes of its MJCF."""
    model = compile_spec(load_spec(hand.asset))
    layout = hand.layout(model)

    def pose(key: str) -> Pose:
        found = model.key(key)
        joints, targets = found.qpos[layout.qpos], found.ctrl[layout.actuators]
        return Pose(joints.astype(np.float32), targets.astype(np.float32))

    return Poses(
        home=pose("home"), opened=pose("pregrasp"), closed=pose("closed"), pinch=pose("pinch"), pinched=pose("pinched")
    )


def closing(hand: Hand, closure: ArrayLike) -> Array:
    """Targets (m,) rad of a power grasp: on the straight way from opened (0) to closed (1), clipped beyond."""
    return _between(poses(hand).opened.targets, poses(hand).closed.targets, closure)


def pinching(hand: Hand, closure: ArrayLike) -> Array:
    """Targets (m,) rad of a precision grasp with thumb, index and middle finger: 0 apart, 1 pressed; clipped beyond."""
    shapes = poses(hand)
    return _between(shapes.pinch.targets, shapes.pinched.targets, closure)


@dataclasses.dataclass(frozen=True)
class Pinch:
    """Pinch of small things between thumb, index and middle finger, in the palm's frame."""

    middle: np.ndarray
    """(3,) m, between the pads while they are apart."""
    turn: float
    """rad about z, from the palm's x axis to the line from the thumb's pad to the others."""
    opening: float
    """m, along that line, from fingertip to fingertip."""


@functools.cache
def pinch_of(hand: Hand) -> Pinch:
    """Measured on the hand's preshape of a precision grasp."""
    model = compile_spec(spec_of(hand))
    data = mujoco.MjData(model)
    data.qpos[hand.layout(model).qpos] = poses(hand).pinch.joints
    mujoco.mj_forward(model, data)
    tips = np.array([data.sensor(f"{finger}_tip_pos").data for finger in hand.fingers])
    fingers, thumb = tips[:2].mean(0), tips[-1]
    line = fingers - thumb
    return Pinch((fingers + thumb) / 2, float(np.arctan2(line[1], line[0])), float(np.linalg.norm(line[:2])))


def _between(start: np.ndarray, end: np.ndarray, share: ArrayLike) -> Array:
    """The point that far on the straight way."""
    return jnp.asarray(start) + jnp.clip(jnp.asarray(share, jnp.float32), 0.0, 1.0) * (end - start)


def check_width(hand: Hand, width: float, what: str = "an object") -> None:
    """Raise an `EmbodiedError` where an object's narrowest side, m, is wider than the hand opens, or not positive."""
    if not 0.0 < width <= hand.width:
        raise EmbodiedError(
            f"{what} {100 * width:.1f} cm wide does not fit the hand {hand.name!r}, which grasps above 0 and up to "
            f"{100 * hand.width:.1f} cm"
        )


def set_physics(spec: mujoco.MjSpec, dt: float = PHYSICS_DT) -> None:
    """The options that grasping needs: friction is stiffer than a contact's normal, else what is held creeps away.

    `dt` s per physics step.
    """
    spec.option.timestep = dt
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10


@functools.cache
def palm_in_root(hand: Hand) -> np.ndarray:
    """(3,) m: the palm's origin in the frame of the hand's outermost body; their axes agree at zero."""
    model = compile_spec(load_spec(hand.asset))
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    mujoco.mj_kinematics(model, data)
    return data.site("palm").xpos.copy()


def spec_of(
    hand: Hand, pos: Sequence[float] | np.ndarray = (0, 0, 0), quat: Sequence[float] = PALM_UP, scene: str | None = None
) -> mujoco.MjSpec:
    """The hand alone, fixed, its palm at `pos` (3,) m and `quat` (4,) wxyz in the world while a wrist is straight.

    `scene` names an asset that it is put into, such as `scenes/floor.xml`.
    """
    spec = load_spec(hand.asset) if scene is None else compose(scene, hand.asset)
    root = spec.worldbody.first_body()
    root.pos, root.quat = np.asarray(pos) - _turned(palm_in_root(hand), quat), quat
    add_wrist_camera(spec)
    return spec


def add_wrist_camera(spec: mujoco.MjSpec, hand: str = "", camera: str = "") -> None:
    """Give a hand a camera `wrist` above its wrist that looks along the palm; names begin with `hand` and `camera`."""
    palm = spec.site(hand + "palm")
    ahead = np.subtract(WRIST_AIM, WRIST_EYE) / np.linalg.norm(np.subtract(WRIST_AIM, WRIST_EYE))
    right = np.cross(ahead, (0.0, 0.0, 1.0))
    quat, turned = np.zeros(4), np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.column_stack([right, np.cross(right, ahead), -ahead]).ravel())
    mujoco.mju_mulQuat(turned, palm.quat, quat)
    eye = palm.pos + _turned(WRIST_EYE, palm.quat)
    palm.parent.add_camera(name=f"{camera}wrist", pos=eye, quat=turned, fovy=WRIST_FOVY)


def mounted(hand: Hand, scene: str | None = None) -> mujoco.MjSpec:
    """The Panda with this hand on its flange instead of its gripper; the hand's names begin with `MOUNTED`.

    `scene` names an asset that both are put into, such as `scenes/table.xml`.

    The arm bears the hand's weight as it bears its own (`gravcomp`): the real one's controller knows its payload.

    Raises:
        EmbodiedError: the hand is heavier than the Panda's payload.
    """
    spec = load_spec(panda.ASSET) if scene is None else compose(scene, panda.ASSET)
    child = load_spec(hand.asset)
    spec.delete(spec.body("hand"))
    for key in list(child.keys):
        child.delete(key)
    base, face = child.body(hand.on_arm), child.site("mount")
    parts = [base, *base.find_all("body")]
    if (payload := sum(part.mass for part in parts)) > PANDA_PAYLOAD:
        raise EmbodiedError(
            f"the hand {hand.name!r} puts {payload:.2f} kg on the flange; the Panda carries {PANDA_PAYLOAD:.2f} kg"
        )
    for part in parts:
        part.gravcomp = 1
    base.pos, base.quat = -face.pos, PALM_UP
    flange = spec.body("link7").add_frame(pos=[0, 0, panda.FLANGE], quat=_product(_about_z(panda.HAND_TURN), ON_FLANGE))
    flange.attach_body(base, MOUNTED, "")
    add_wrist_camera(spec, MOUNTED)
    spec.modelname = f"panda + {hand.name}"
    return spec


def _turned(vector: np.ndarray, quat: Sequence[float]) -> np.ndarray:
    """A vector (3,) turned by a quaternion (4,) wxyz."""
    result = np.zeros(3)
    mujoco.mju_rotVecQuat(result, np.asarray(vector, float), np.asarray(quat, float))
    return result


def _product(first: Sequence[float], second: Sequence[float]) -> np.ndarray:
    """The product of two quaternions (4,) wxyz."""
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, np.asarray(first, float), np.asarray(second, float))
    return result


def _about_z(angle: float) -> tuple[float, float, float, float]:
    """Quaternion wxyz of a turn about z by an angle in rad."""
    return float(np.cos(angle / 2)), 0.0, 0.0, float(np.sin(angle / 2))
