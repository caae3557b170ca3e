"""A MuJoCo model as Bullet describes it: trees of links with one joint each, and who may touch whom.

Bullet's multibodies know one joint per link, so a body with several joints becomes a chain of massless links that ends
in the body itself. A link's frame lies at its joint's anchor with the body's orientation; an *anchor* below is that
place in the body frame. URDF and not `createMultiBody`, because only URDF joints get Bullet's own joint limits.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.engines.pybullet.quaternions import composed, turned
from embodied.engines.servos import SCALAR, add_rotor
from embodied.errors import EngineError

G = mujoco.mjtGeom
SHAPES = (G.mjGEOM_PLANE, G.mjGEOM_HFIELD, G.mjGEOM_SPHERE, G.mjGEOM_CAPSULE, G.mjGEOM_CYLINDER, G.mjGEOM_BOX)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)


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


@dataclasses.dataclass(frozen=True)
class Collider:
    """Shapes that Bullet treats alike: a link, or one static shape."""

    tree: int
    """Index of the tree; -1: static."""
    link: str
    """Name of the link, or the id of the static geom."""
    geom: int
    """One of its shapes, which speaks for the others."""


def check(model: mujoco.MjModel) -> None:
    """Raise for what this engine cannot move.

    Raises:
        EngineError: something in the model has no counterpart in Bullet; names it.
    """
    for joint in range(model.njnt):
        name, kind = model.joint(joint).name or f"#{joint}", int(model.jnt_type[joint])
        dofs = slice(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + (6 if kind == FREE else 1))
        if kind not in (*SCALAR, FREE):
            raise EngineError(
                f"engine pybullet cannot move the ball joint {name!r}; it moves free, hinge and slide joints"
            )
        if kind == FREE and (model.dof_armature[dofs].any() or model.dof_damping[dofs].any()):
            raise EngineError(f"engine pybullet: the free joint {name!r} has armature or damping, which Bullet lacks")
        if kind == mujoco.mjtJoint.mjJNT_SLIDE and model.dof_armature[dofs].any():
            raise EngineError(
                f"engine pybullet: the slide joint {name!r} has armature, which only hinges can have here"
            )
    for what, count in {
        "equality constraints": model.neq,
        "tendons": model.ntendon,
        "mocap bodies": model.nmocap,
        "explicit contact pairs": model.npair,
        "deformable bodies": model.nflex,
        "bodies with gravity compensation": np.count_nonzero(model.body_gravcomp),
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


def trees(model: mujoco.MjModel) -> tuple[Tree, ...]:
    """The multibodies of a model, in the order of their bodies."""
    return tuple(_tree(model, body) for body in range(1, model.nbody) if _is_root(model, body))


def _is_root(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body moves and its parent does not."""
    return bool(model.body_weldid[body]) and not model.body_weldid[model.body_parentid[body]]


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
    """The colliding shapes of a body, apart where they differ in what they may touch or how they slide."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for geom in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body]):
        if model.geom_contype[geom] or model.geom_conaffinity[geom]:
            kind = (model.geom_contype[geom], model.geom_conaffinity[geom], model.geom_priority[geom])
            groups.setdefault((*kind, model.geom_condim[geom], model.geom_friction[geom, 0]), []).append(geom)
    return [tuple(geoms) for geoms in groups.values()] or [()]


def static_geoms(model: mujoco.MjModel) -> list[int]:
    """Colliding shapes that never move."""
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    return [int(geom) for geom in np.flatnonzero(collides & (model.body_weldid[model.geom_bodyid] == 0))]


def colliders(model: mujoco.MjModel, forest: tuple[Tree, ...]) -> tuple[Collider, ...]:
    """Everything that may touch anything."""
    found = [Collider(-1, str(geom), geom) for geom in static_geoms(model)]
    for index, tree in enumerate(forest):
        if tree.geoms:
            found.append(Collider(index, "base", tree.geoms[0]))
        found += [Collider(index, link.name, link.geoms[0]) for link in tree.links if link.geoms]
    return tuple(found)


def admitted(model: mujoco.MjModel, parts: tuple[Collider, ...]) -> list[tuple[int, int]]:
    """Pairs of colliders that MuJoCo's filter lets meet: contype/conaffinity, parent and child, excludes."""
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT:
        return []
    keep_parents = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in model.exclude_signature}
    pairs = []
    for i, first in enumerate(parts):
        for j, second in enumerate(parts[:i]):
            a, b = first.geom, second.geom
            bodies = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
            weld = [int(model.body_weldid[body]) for body in bodies]
            above = [int(model.body_weldid[model.body_parentid[body]]) for body in weld]
            family = weld[0] and weld[1] and (weld[0] == above[1] or weld[1] == above[0])
            meets = (
                model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a]
            )
            if not meets or weld[0] == weld[1] or (family and not keep_parents):
                continue
            if bodies not in excluded and bodies[::-1] not in excluded:
                pairs.append((i, j))
    return pairs


def frictions(model: mujoco.MjModel, parts: tuple[Collider, ...], pairs: list[tuple[int, int]]) -> np.ndarray:
    """A sliding friction (colliders,) for each collider, whose products are the friction of MuJoCo's pairs.

    MuJoCo takes the larger value of a pair, or that of the geom of higher priority; Bullet multiplies.

    Raises:
        EngineError: no factors give the pairs' friction.
    """
    if not pairs:
        return np.ones(len(parts))
    wanted = np.log([max(_pair_friction(model, parts[i].geom, parts[j].geom), 1e-9) for i, j in pairs])
    table = np.zeros((len(pairs), len(parts)))
    table[np.arange(len(pairs)), [i for i, _ in pairs]] = 1.0
    table[np.arange(len(pairs)), [j for _, j in pairs]] = 1.0
    factors = np.linalg.lstsq(table, wanted, rcond=None)[0]
    worst = int(np.abs(table @ factors - wanted).argmax())
    if abs(table[worst] @ factors - wanted[worst]) > 0.01:
        names = [model.geom(parts[k].geom).name or f"#{parts[k].geom}" for k in pairs[worst]]
        raise EngineError(
            f"engine pybullet: Bullet multiplies the frictions of two bodies, and no factors give every pair what "
            f"MuJoCo gives it; the geoms {names[0]!r} and {names[1]!r} are wrong by "
            f"{abs(np.expm1(table[worst] @ factors - wanted[worst])):.0%}"
        )
    return np.exp(factors)


def _pair_friction(model: mujoco.MjModel, a: int, b: int) -> float:
    """Sliding friction between two geoms by MuJoCo's rules."""
    order = int(model.geom_priority[a]) - int(model.geom_priority[b])
    deciding = [a, b] if order == 0 else [a if order > 0 else b]
    if max(int(model.geom_condim[geom]) for geom in deciding) == 1:
        return 0.0
    return max(float(model.geom_friction[geom, 0]) for geom in deciding)


def anchor(model: mujoco.MjModel, joint: int) -> np.ndarray:
    """(3,) m, where a link's frame lies in its body's frame."""
    return np.zeros(3) if joint < 0 else model.jnt_pos[joint]


def inertia(model: mujoco.MjModel, link: Link) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """Mass (kg), centre of mass (3,) m in the link's frame, principal inertia (3,) kg m^2 and axes (4,) wxyz of a link.

    The armature of its hinge is added about the hinge's axis: Bullet has no inertia of joints.
    """
    body, own = link.body, link.carries
    mass = float(model.body_mass[body]) if own else 0.0
    place = model.body_ipos[body] - anchor(model, link.joint) if own else np.zeros(3)
    moments = model.body_inertia[body] if own else np.zeros(3)
    quat = model.body_iquat[body] if own else np.array([1.0, 0.0, 0.0, 0.0])
    rotor = float(model.dof_armature[model.jnt_dofadr[link.joint]]) if link.joint >= 0 else 0.0
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
