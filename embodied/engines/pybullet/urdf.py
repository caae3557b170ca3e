"""A tree of links written as URDF, from which Bullet loads bodies with joints."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from embodied.engines.pybullet.model import Link, Tree, anchor, inertia, static_pose
from embodied.engines.pybullet.quaternions import turned

G = mujoco.mjtGeom


def urdf(model: mujoco.MjModel, tree: Tree) -> str:
    """The tree as URDF. Inertias are left at one: Bullet's reader refuses those that no solid body could have."""
    free = tree.free
    base = (
        _inertial(float(model.body_mass[free]), model.body_ipos[free], model.body_iquat[free])
        if free
        else _inertial(0.0, np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
    )
    parts = [f'<link name="base">{base}{"".join(_shapes(model, tree.geoms, np.zeros(3)))}</link>']
    for link in tree.links:
        mass, place, _, quat = inertia(model, link)
        here = anchor(model, link.joint) if link.carries else np.zeros(3)
        shapes = "".join(_shapes(model, link.geoms, here))
        parts.append(f"<link name={quoteattr(link.name)}>{_inertial(mass, place, quat)}{shapes}</link>")
        parts.append(_joint(model, tree, link))
    # One element a line: Bullet cuts lines of more than some thousand characters in two.
    return "\n".join(['<robot name="tree">', *parts, "</robot>"])


def _joint(model: mujoco.MjModel, tree: Tree, link: Link) -> str:
    """The joint of a link, with its place in the parent link's frame."""
    parent = tree.links[link.parent] if link.parent >= 0 else None
    above = anchor(model, parent.joint) if parent and parent.carries else np.zeros(3)
    extra = not link.carries and link.joint < 0
    if extra:  # more shapes of the same body: their frame is the body frame
        pos, quat = -above, np.array([1.0, 0.0, 0.0, 0.0])
    elif parent and parent.body == link.body:  # the next joint of the same body
        pos, quat = anchor(model, link.joint) - anchor(model, parent.joint), np.array([1.0, 0.0, 0.0, 0.0])
    else:
        pos, quat = model.body_pos[link.body], model.body_quat[link.body]
        pos = pos + turned(quat, anchor(model, link.joint)) - above
        if parent is None and not tree.free:
            pos, quat = static_pose(model, int(model.body_parentid[link.body]), pos, quat)
    text = (
        f'<parent link="{parent.name if parent else "base"}"/><child link={quoteattr(link.name)}/>{origin(pos, quat)}'
    )
    if link.joint < 0:
        return f'<joint name={quoteattr(link.name)} type="fixed">{text}</joint>'
    slides = model.jnt_type[link.joint] == mujoco.mjtJoint.mjJNT_SLIDE
    limited = bool(model.jnt_limited[link.joint])
    # MuJoCo's joint positions are zero where qpos is qpos0 for the geometry, Bullet's where q is zero.
    low, high = model.jnt_range[link.joint] - model.qpos0[model.jnt_qposadr[link.joint]] if limited else (1.0, -1.0)
    kind = "prismatic" if slides else "revolute" if limited else "continuous"
    limit = (
        f'<limit lower="{float(low)!r}" upper="{float(high)!r}" effort="1e9" velocity="1e9"/>'
        if limited or slides
        else ""
    )
    axis = f'<axis xyz="{numbers(model.jnt_axis[link.joint])}"/>'
    return f"<joint name={quoteattr(link.name)} type={quoteattr(kind)}>{text}{axis}{limit}</joint>"


def _inertial(mass: float, pos: np.ndarray, quat: np.ndarray) -> str:
    unit = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    return f'<inertial>{origin(pos, quat)}<mass value="{mass!r}"/>{unit}</inertial>'


def _shapes(model: mujoco.MjModel, geoms: tuple[int, ...], anchor_: np.ndarray) -> Iterator[str]:
    """The collision elements of some geoms of one body, in the frame of a link at `anchor_`."""
    for geom in geoms:
        size = [float(value) for value in model.geom_size[geom]]
        match G(int(model.geom_type[geom])):
            case G.mjGEOM_SPHERE:
                shape = f'<sphere radius="{size[0]!r}"/>'
            case G.mjGEOM_CAPSULE:
                shape = f'<capsule radius="{size[0]!r}" length="{2 * size[1]!r}"/>'
            case G.mjGEOM_CYLINDER:
                shape = f'<cylinder radius="{size[0]!r}" length="{2 * size[1]!r}"/>'
            case _:
                shape = f'<box size="{numbers(2 * model.geom_size[geom])}"/>'
        place = origin(model.geom_pos[geom] - anchor_, model.geom_quat[geom])
        yield f"\n<collision>{place}<geometry>{shape}</geometry></collision>"


def origin(pos: np.ndarray, quat: np.ndarray) -> str:
    """URDF's pose element from metres and a quaternion wxyz."""
    return f'<origin xyz="{numbers(pos)}" rpy="{numbers(rpy(quat))}"/>'


def numbers(values: np.ndarray) -> str:
    """Numbers in full precision, with spaces between."""
    return " ".join(repr(float(value)) for value in values)


def rpy(quat: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw (3,) rad of a quaternion wxyz in double precision, R = Rz(yaw) Ry(pitch) Rx(roll)."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    m = matrix.reshape(3, 3)
    cosine = np.hypot(m[0, 0], m[1, 0])
    pitch = np.arctan2(-m[2, 0], cosine)
    if cosine < 1e-9:  # gimbal lock: the roll takes the whole turn
        return np.array([np.arctan2(-m[1, 2], m[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(m[2, 1], m[2, 2]), pitch, np.arctan2(m[1, 0], m[0, 0])])
