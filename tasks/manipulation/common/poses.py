"""Poses that an arm reaches: its tip's at random joint angles at which it touches neither itself nor the ground."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec
from embodied.errors import ModelError
from embodied.robot import NAME
from embodied.robot.prepared.arm import ArmModel
from embodied.robot.prepared.legged import bare_spec

USUAL = 0.5  # of all poses: bodies that touch in more are neighbours, whose shapes overlap
LOWEST = 0.05  # m of the tip above the ground
NEAREST = 0.2  # of the farthest tip's distance from the base's axis that is kept free
SECTOR = np.radians(75)  # to either side of where the arm points at home
STILL = 0.02  # m that a tip moves at least: as near to a goal as counts
BATCH = 1024  # poses tried at a time
MOST = 60  # batches


@dataclasses.dataclass(frozen=True)
class Poses:
    """k poses of a tip, in the world as the robot stands in its MJCF."""

    joints: np.ndarray
    """(k, n) rad or m, in the order of actions."""
    pos: np.ndarray
    """(k, 3) m."""
    rot: np.ndarray
    """(k, 3, 3) world from tip."""


def reachable(arm: ArmModel, low: np.ndarray, high: np.ndarray, count: int) -> Poses:
    """`count` poses with joints between two ends (n,), ahead of the arm and above the ground; the same every time.

    Raises:
        ModelError: hardly any pose is free of contact, or the tip hardly moves.
    """
    scene = _scene(arm)
    ours = mujoco.MjModel.from_xml_string(arm.xml)
    data, free = mujoco.MjData(ours), mujoco.MjData(scene)
    places, theirs = ([int(model.joint(name).qposadr[0]) for name in arm.joint_names] for model in (ours, scene))
    home, rest = ours.key("home").qpos.copy(), arm.source.home
    data.qpos[:] = home
    mujoco.mj_kinematics(ours, data)
    foot = data.joint(min(arm.joint_names, key=lambda name: int(ours.joint(name).id))).xanchor[:2].copy()
    ahead = np.arctan2(*(data.site("tcp").xpos[:2] - foot)[::-1])
    rng = np.random.default_rng(0)
    joints, pos, rot, touching = [], [], [], []
    kept = np.zeros(0, bool)
    for _ in range(MOST):
        for angles in rng.uniform(low, high, (BATCH, len(low))):
            data.qpos[places] = angles
            mujoco.mj_kinematics(ours, data)
            tip = data.site("tcp").xpos.copy()
            turn = np.arctan2(*(tip[:2] - foot)[::-1]) - ahead
            if tip[2] < LOWEST or abs((turn + np.pi) % (2 * np.pi) - np.pi) > SECTOR:
                continue
            free.qpos[:] = rest
            free.qpos[theirs] = angles
            mujoco.mj_fwdPosition(scene, free)
            joints.append(angles)
            pos.append(tip)
            rot.append(data.site("tcp").xmat.reshape(3, 3).copy())
            touching.append(_pairs(scene, free))
        if (kept := _kept(np.array(pos), foot, touching)).sum() >= count:
            chosen = np.flatnonzero(kept)[:count]
            if (wide := float(np.ptp(np.array(pos)[chosen], axis=0).max())) < STILL:
                raise ModelError(
                    f"{arm.source.file}: its tip {arm.source.tip!r} moves by {wide:.3f} m at most; say a tip farther "
                    f"from the joints in {NAME}"
                )
            return Poses(np.array(joints)[chosen], np.array(pos)[chosen], np.array(rot)[chosen])
    raise ModelError(
        f"{arm.source.file}: of {MOST * BATCH:,} poses of this arm {int(kept.sum())} lie ahead of it, above the "
        f"ground, and touch nothing; expected {count}: say another home in {NAME}, "
        "with the tip in the middle of its reach"
    )


def _scene(arm: ArmModel) -> mujoco.MjModel:
    """The arm with the shapes of its own file, which meet each other, on a floor."""
    spec = bare_spec(arm.source)
    root = arm.source.trunk
    spec.body(root).pos = mujoco.MjSpec.from_string(arm.xml).body(root).pos
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = int(bool(geom.contype or geom.conaffinity))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=1)
    return compile_spec(spec)


def _pairs(model: mujoco.MjModel, data: mujoco.MjData) -> frozenset[tuple[int, int]]:
    """Pairs of bodies that touch."""
    if not data.ncon:
        return frozenset()
    contacts = data.contact
    bodies = np.sort(model.geom_bodyid[contacts.geom[contacts.dist < 0]], axis=1)
    return frozenset((a, b) for a, b in bodies.tolist())


def _kept(pos: np.ndarray, foot: np.ndarray, touching: list[frozenset[tuple[int, int]]]) -> np.ndarray:
    """(k,) bool, the poses that have no contacts but the permanent ones, and are not at the base's axis."""
    if not len(pos):
        return np.zeros(0, bool)
    counts: dict[tuple[int, int], int] = {}
    for pairs in touching:
        for pair in pairs:
            counts[pair] = counts.get(pair, 0) + 1
    usual = {pair for pair, count in counts.items() if count > USUAL * len(touching)}
    distance = np.linalg.norm(pos[:, :2] - foot, axis=1)
    return np.array([pairs <= usual for pairs in touching]) & (distance > NEAREST * distance.max())
