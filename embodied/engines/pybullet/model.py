"""A MuJoCo model as Bullet describes it: trees of links with one joint each.

Bullet's multibodies know one joint per link, so a body with several joints becomes a chain of massless links that ends
in the body itself. A link's frame lies at its joint's anchor with the body's orientation; an *anchor* below is that
place in the body frame. URDF and not `createMultiBody`, because only URDF joints get Bullet's own joint limits.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.engines.pybullet.quaternions import composed, turned
from embodied.engines.sensors import Bodies
from embodied.engines.servos import SCALAR, add_rotor
from embodied.errors import EngineError

G = mujoco.mjtGeom
SHAPES = (G.mjGEOM_PLANE, G.mjGEOM_HFIELD, G.mjGEOM_SPHERE, G.mjGEOM_CAPSULE, G.mjGEOM_CYLINDER, G.mjGEOM_BOX)
FREE, SLIDE = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_SLIDE)

SLIDE_SHARE, SLIDE_MOST = 0.1, 0.1  # of a slide's armature, and kg at most, which its body carries as mass


@dataclasses.dataclass(frozen=True)
class Link:
    """One Bullet link below the base."""

    name: str
    parent: int
    """Index into the tree's links; -1 is the base."""
    body: int
    """MuJoCo body to which it belongs."""
    joint: int
    """MuJoCo joint by which it moves; -1: fixed to its parent."""
    carries: bool
    """Whether it is the body itself, not a joint on the way to it, nor extra shapes."""
    geoms: tuple[int, ...]
    """Shapes, all alike in what they may touch and how they slide."""


@dataclasses.dataclass(frozen=True)
class Tree:
    """One Bullet multibody."""

    free: int
    """Body that is the floating base, or 0 for a base fixed to the world."""
    geoms: tuple[int, ...]
    """Shapes of the base."""
    links: tuple[Link, ...]

    @property
    def names(self) -> dict[int, str]:
        """Body -> name of the link that is this body."""
        base = {self.free: "base"} if self.free else {}
        return base | {link.body: link.name for link in self.links if link.carries}


def check(model: mujoco.MjModel, overshooting: np.ndarray) -> None:
    """Raise for what this engine cannot move; `overshooting` (nv,) bool: see `embodied.engines.servos.Servos`.

    Raises:
        EngineError: something in the model has no counterpart in Bullet; names it.
    """
    for joint in range(model.njnt):
        _check_joint(model, joint, overshooting)
    for equality in range(model.neq):
        _check_equality(model, equality)
    for tendon in range(model.ntendon):
        _check_tendon(model, tendon)
    floating = np.isin(model.body_rootid, model.jnt_bodyid[model.jnt_type == FREE])
    for what, count in {
        "explicit contact pairs": model.npair,
        "deformable bodies": model.nflex,
        "gravity compensation of floating bodies": np.count_nonzero(model.body_gravcomp[floating]),
    }.items():
        if count:
            raise EngineError(f"engine pybullet has no {what}; the model has {count}")
    if model.opt.density or model.opt.viscosity:
        raise EngineError("engine pybullet moves bodies in a vacuum; the model has a medium (density or viscosity)")
    for geom in np.flatnonzero(model.geom_contype | model.geom_conaffinity):
        kind, name = G(int(model.geom_type[geom])), model.geom(int(geom)).name or f"#{geom}"
        shape = kind.name.removeprefix("mjGEOM_").lower()
        if kind not in SHAPES:
            known = ", ".join(kind.name.removeprefix("mjGEOM_").lower() for kind in SHAPES)
            raise EngineError(f"engine pybullet cannot collide the geom {name!r} of type {shape}; it collides {known}")


def _check_joint(model: mujoco.MjModel, joint: int, overshooting: np.ndarray) -> None:
    name, kind = model.joint(joint).name or f"#{joint}", int(model.jnt_type[joint])
    dofs = slice(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + (6 if kind == FREE else 1))
    if kind not in (*SCALAR, FREE):
        raise EngineError(f"engine pybullet cannot move the ball joint {name!r}; it moves free, hinge and slide joints")
    if kind == FREE and model.dof_armature[dofs].any():
        raise EngineError(f"engine pybullet: the free joint {name!r} has armature, which Bullet lacks")
    if kind == SLIDE and (model.dof_armature[dofs].astype(bool) & ~overshooting[dofs]).any():
        raise EngineError(
            f"engine pybullet: the slide joint {name!r} has armature, which here only hinges can have, and slides that "
            "are damped"
        )


def _check_equality(model: mujoco.MjModel, equality: int) -> None:
    name, kind = model.equality(equality).name or f"#{equality}", mujoco.mjtEq(int(model.eq_type[equality]))
    first, second = int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])
    if kind != mujoco.mjtEq.mjEQ_JOINT or second < 0:
        what = kind.name.removeprefix("mjEQ_").lower()
        raise EngineError(f"engine pybullet has no equality constraints but of two joints; {name!r} is of type {what}")
    bodies = model.jnt_bodyid[[first, second]]
    gears = (
        np.isin(model.jnt_type[[first, second]], SCALAR).all()
        and len({*model.dof_treeid[model.body_dofadr[bodies]]}) == 1
    )
    if not gears or model.eq_data[equality, 2:5].any():
        raise EngineError(
            f"engine pybullet: the equality constraint {name!r} is none that gears make: linear, of two hinges or "
            "slides of one tree of bodies"
        )


def _check_tendon(model: mujoco.MjModel, tendon: int) -> None:
    name, first = model.tendon(tendon).name or f"#{tendon}", int(model.tendon_adr[tendon])
    if model.wrap_type[first] != mujoco.mjtWrap.mjWRAP_JOINT:
        raise EngineError(f"engine pybullet has no spatial tendons; the model has {name!r}")
    fields = ("stiffness", "damping", "frictionloss", "armature", "limited")
    if found := [field for field in fields if np.any(getattr(model, f"tendon_{field}")[tendon])]:
        raise EngineError(f"engine pybullet: the tendon {name!r} has {found[0]}, which here no tendon can have")


def by_motors(model: mujoco.MjModel, overshooting: np.ndarray) -> np.ndarray:
    """(nv,) bool, joints that Bullet's motors drive: the `overshooting` ones, and damped slides with armature.

    Such slides reach at once the speed that they gather in MuJoCo.
    """
    slides = model.jnt_type[model.dof_jntid] == SLIDE
    return overshooting | (slides & (model.dof_armature > 0) & (model.dof_damping > 0))


def extra_mass(model: mujoco.MjModel, overshooting: np.ndarray) -> np.ndarray:
    """(nbody,) kg that bodies on slides weigh more: a tenth of the slides' armature, 100 g at most.

    Bullet finds contact forces in 50 rounds, in each of which a motor adds what stops its link alone. For a gripper's
    finger of 15 g, driven at 0.25 m/s, this makes 20 N; with another 100 g, the 70 N that it closes with.
    """
    result = np.zeros(model.nbody)
    for joint in np.flatnonzero(model.jnt_type == SLIDE):
        dof = int(model.jnt_dofadr[joint])
        result[model.jnt_bodyid[joint]] += min(SLIDE_SHARE * model.dof_armature[dof], SLIDE_MOST) * overshooting[dof]
    return result


def trees(model: mujoco.MjModel) -> tuple[Tree, ...]:
    """The multibodies of a model, in the order of their bodies."""
    moving = [body for body in range(1, model.nbody) if not stands(model, body)]
    return tuple(_tree(model, body) for body in moving if stands(model, int(model.body_parentid[body])))


def stands(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body never moves by itself: it is the world, a mocap body, or fixed to one of them."""
    weld = int(model.body_weldid[body])
    return not weld or bool(model.body_mocapid[weld] >= 0)


def _tree(model: mujoco.MjModel, root: int) -> Tree:
    """The multibody that begins at `root`."""
    free = root if model.jnt_type[model.body_jntadr[root]] == FREE else 0
    place = {root: -1} if free else {int(model.body_parentid[root]): -1}
    groups = _groups(model, root) if free else [()]
    links = [Link(f"shapes{root}_{n}", -1, root, -1, False, geoms) for n, geoms in enumerate(groups[1:])]
    for body in range(root + bool(free), model.nbody):
        parent = int(model.body_parentid[body])
        if parent not in place or (not free and parent == model.body_parentid[root] and body != root):
            continue
        last = place[parent]
        joints = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
        groups_here = _groups(model, body)
        for joint in list(joints) or [-1]:
            carries = joint == (joints[-1] if len(joints) else -1)
            links.append(
                Link(f"body{body}_joint{joint}", last, body, joint, carries, groups_here[0] if carries else ())
            )
            last = len(links) - 1
        place[body] = last
        links += [Link(f"shapes{body}_{n}", last, body, -1, False, geoms) for n, geoms in enumerate(groups_here[1:])]
    return Tree(free, groups[0], tuple(links))


def _groups(model: mujoco.MjModel, body: int) -> list[tuple[int, ...]]:
    """The colliding shapes of a body, grouped by what they may touch and how they slide."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for geom in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body]):
        if model.geom_contype[geom] or model.geom_conaffinity[geom]:
            kind = (model.geom_contype[geom], model.geom_conaffinity[geom], model.geom_priority[geom])
            groups.setdefault((*kind, model.geom_condim[geom], model.geom_friction[geom, 0]), []).append(geom)
    return [tuple(geoms) for geoms in groups.values()] or [()]


def dragged(model: mujoco.MjModel) -> tuple[int, ...]:
    """Floating bodies whose joints are damped."""
    free = np.flatnonzero(model.jnt_type == FREE)
    first = model.jnt_dofadr[free]
    return tuple(
        int(model.jnt_bodyid[j]) for j, dof in zip(free, first, strict=True) if model.dof_damping[dof : dof + 6].any()
    )


def drag(
    model: mujoco.MjModel, floating: tuple[int, ...], bodies: Bodies, qvel: np.ndarray, wrench: np.ndarray | None
) -> np.ndarray:
    """`wrench` (nbody, 6) N, N m at the centres of mass, world frame, with the damping of `floating` bodies' joints."""
    result = np.zeros((model.nbody, 6)) if wrench is None else wrench.copy()
    for body in floating:
        dof = int(model.body_dofadr[body])
        damping = model.dof_damping[dof : dof + 6]
        damping = damping / (1.0 + model.opt.timestep * damping / model.dof_M0[dof : dof + 6])
        resisting = -damping * qvel[dof : dof + 6]
        arm = turned(bodies.quat[body], bodies.ipos[body])
        result[body, :3] += resisting[:3]
        result[body, 3:] += turned(bodies.quat[body], resisting[3:]) - np.cross(arm, resisting[:3])
    return result


def anchor(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """(3,) m, where a link's frame lies in its body's frame."""
    return np.zeros(3) if joint < 0 else model.jnt_pos[joint]


def inertia(model: mujoco.MjModel, link: Link) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Mass (kg), centre of mass (3,) m in the link's frame, principal inertia (3,) kg m^2 and axes (4,) wxyz of a link.

    The armature of its hinge is added about the hinge's axis: Bullet has no inertia of joints. That of a slide is left
    out; see `check`.
    """
    body, own = link.body, link.carries
    mass = float(model.body_mass[body]) if own else 0.0
    place = model.body_ipos[body] - anchor(model, link.joint) if own else np.zeros(3)
    moments = model.body_inertia[body] if own else np.zeros(3)
    quat = model.body_iquat[body] if own else np.array([1.0, 0.0, 0.0, 0.0])
    turns = link.joint >= 0 and model.jnt_type[link.joint] != SLIDE
    rotor = float(model.dof_armature[model.jnt_dofadr[link.joint]]) if turns else 0.0
    if rotor:
        moments, quat = add_rotor(moments, quat, model.jnt_axis[link.joint], rotor)
    return mass, place, moments, quat


def static_pose(model: mujoco.MjModel, body: int, pos: np.ndarray, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A pose in the frame of a body that does not move, in the world."""
    while body:
        pos = model.body_pos[body] + turned(model.body_quat[body], pos)
        quat = composed(model.body_quat[body], quat)
        body = int(model.body_parentid[body])
    return pos, quat


def geom_pose(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """World pose of a static geom: position (3,) m and quaternion (4,) wxyz."""
    return static_pose(model, int(model.geom_bodyid[geom]), model.geom_pos[geom], model.geom_quat[geom])


VARIABLE = frozenset(
    {
        "body_mass",
        "body_inertia",
        "body_ipos",
        "body_iquat",
        "body_pos",
        "body_quat",
        "geom_friction",
        "geom_size",
        "geom_pos",
        "geom_quat",
        "jnt_range",
        "dof_armature",
        "dof_frictionloss",
    }
)
"""Model fields that Bullet's world is built from, each of which an episode may vary."""
