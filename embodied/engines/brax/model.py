"""A MuJoCo model as a system of Brax's: which links there are, and which of them carries which body.

Brax wants a link for every joint and a joint for every link. So each hinge and slide moves a link of its own (those of
a body with several joints weigh nothing, but for the last), a ball joint is three hinges at right angles, whose zero
moves along with it (`embodied.engines.brax.step`), and a body without joints is a part of the link that carries it, or
of the world, or of a mocap body.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from brax.base import Inertia, Transform
from jax import Array

from embodied.engines.sensors import multiply, rotate
from embodied.errors import EngineError

FREE, BALL, SLIDE, HINGE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("FREE", "BALL", "SLIDE", "HINGE")
)
LINKS = {FREE: 1, BALL: 3, SLIDE: 1, HINGE: 1}
"""Kind of joint -> number of links it moves."""
VARIABLE = (
    "body_mass",
    "body_inertia",
    "body_ipos",
    "body_iquat",
    "body_gravcomp",
    "body_invweight0",
    "dof_invweight0",
    "dof_armature",
    "geom_friction",
    "geom_pos",
    "geom_quat",
    "geom_rbound",
    "geom_size",
)
"""Model fields of bodies, joints and shapes that an episode may vary on this engine."""
IDENTITY = np.array([1.0, 0.0, 0.0, 0.0])


@dataclasses.dataclass(frozen=True)
class Links:
    """The constant part of Brax's links; where the world needs a link, it has the last index."""

    model: mujoco.MjModel
    parent: np.ndarray
    """(links,) parent link; -1 for the world."""
    kind: np.ndarray
    """(links,) kind of its joint."""
    body: np.ndarray
    """(links,) the body whose joint it is."""
    carries: np.ndarray
    """(links,) bool, whether it is the last of its body's links, which has the body's mass and shapes."""
    carrier: np.ndarray
    """(nbody,) link that carries each body; `links` for the world."""
    mocap: np.ndarray
    """(nbody,) mocap body that carries each body, -1 where none does."""
    pos: np.ndarray
    """(nbody, 3) m, origin of the body's frame in that of its carrier."""
    quat: np.ndarray
    """(nbody, 4) wxyz, body -> carrier."""
    moves: np.ndarray
    """(nv, links + 1) 1 where a degree of freedom moves a link."""
    dof_link: np.ndarray
    """(nv,) the link of each degree of freedom."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> Links:
        """Sort joints and bodies into links."""
        parent, kind, owner, carries, columns = [], [], [], [], []
        carrier, mocap = np.full(model.nbody, -1), np.full(model.nbody, -1)
        pos, quat = np.zeros((model.nbody, 3)), np.tile(IDENTITY, (model.nbody, 1))
        for body in range(1, model.nbody):
            above = int(model.body_parentid[body])
            link = carrier[above]
            joints = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
            for joint in joints:
                for _ in range(LINKS[int(model.jnt_type[joint])]):
                    parent.append(-1 if model.jnt_type[joint] == FREE else link)
                    kind.append(int(model.jnt_type[joint]))
                    owner.append(body)
                    carries.append(False)
                    link = len(parent) - 1
            carrier[body] = link
            if len(joints):
                carries[link] = True
            elif model.body_mocapid[body] >= 0:
                mocap[body] = model.body_mocapid[body]
            else:
                mocap[body] = mocap[above]
                pos[body], quat[body] = _attached(model, body, pos[above], quat[above])
        links = len(parent)
        carrier[carrier < 0] = links
        for link in range(links):
            columns += [link] * (6 if kind[link] == FREE else 1)
        above = np.eye(links + 1, dtype=bool)
        for link in range(links):
            if parent[link] >= 0:
                above[link] |= above[parent[link]]
        return cls(
            model=model,
            parent=np.array(parent, int),
            kind=np.array(kind, int),
            body=np.array(owner, int),
            carries=np.array(carries, bool),
            carrier=carrier,
            mocap=mocap,
            pos=pos,
            quat=quat,
            moves=above.T[np.array(columns, int)].astype(float),
            dof_link=np.array(columns, int),
        )

    @property
    def count(self) -> int:
        """Number of links, without the world."""
        return len(self.parent)

    def of_bodies(self, rows: Array) -> Array:
        """Rows (links, 3) for each body, (nbody, 3); 0 for those of the world."""
        return jnp.concatenate([rows, jnp.zeros((1, 3))])[self.carrier]

    def inertia(self, fields: Mapping[str, Any]) -> Inertia:
        """Mass, centre of mass and inertia about it of each link, in its frame: those of the bodies that it carries."""
        value = lambda name: jnp.asarray(fields.get(name, getattr(self.model, name)), jnp.float32)  # noqa: E731
        mass, frame = value("body_mass"), multiply(jnp, jnp.asarray(self.quat, jnp.float32), value("body_iquat"))
        centre = self.pos + rotate(jnp, self.quat, value("body_ipos"))
        axes = jnp.stack([rotate(jnp, frame, jnp.asarray(axis)) for axis in np.eye(3)], axis=-1)
        own = jnp.einsum("bij,bj,bkj->bik", axes, value("body_inertia"), axes)
        add = lambda rows: jax.ops.segment_sum(rows, self.carrier, self.count + 1)[: self.count]  # noqa: E731
        whole = add(mass)
        common = add(mass[:, None] * centre) / jnp.where(whole > 0, whole, 1.0)[:, None]
        arm = centre - jnp.concatenate([common, jnp.zeros((1, 3))])[self.carrier]
        around = jnp.sum(arm**2, axis=1)[:, None, None] * np.eye(3) - arm[:, :, None] * arm[:, None, :]
        still = jnp.tile(jnp.asarray(IDENTITY, jnp.float32), (self.count, 1))
        return Inertia(Transform(pos=common, rot=still), add(own + mass[:, None, None] * around), whole)

    def base(self) -> tuple[np.ndarray, np.ndarray]:
        """Pose of each link's frame at zero in that of its parent, (links, 3) m and (links, 4) wxyz."""
        pos, quat = np.zeros((self.count, 3)), np.tile(IDENTITY, (self.count, 1))
        for link in np.flatnonzero((self.kind != FREE) & self._first()):
            body = self.body[link]
            above = self.model.body_parentid[body]
            pos[link], quat[link] = _attached(self.model, body, self.pos[above], self.quat[above])
        return pos, quat

    def _first(self) -> np.ndarray:
        """(links,) bool, whether a link is the first of its body's."""
        return np.append(True, self.body[1:] != self.body[:-1])[: self.count]

    def shapes(self, fields: Mapping[str, Any]) -> tuple[Array, Array]:
        """Pose of each shape in its carrier's frame, (ngeom, 3) m and (ngeom, 4) wxyz."""
        value = lambda name: jnp.asarray(fields.get(name, getattr(self.model, name)), jnp.float32)  # noqa: E731
        body = self.model.geom_bodyid
        pos = self.pos[body] + rotate(jnp, self.quat[body], value("geom_pos"))
        return pos, multiply(jnp, jnp.asarray(self.quat[body], jnp.float32), value("geom_quat"))

    def placed(self, system: Any, mocap_pos: Array, mocap_quat: Array) -> Any:
        """The system with mocap bodies at (nmocap, 3) m and (nmocap, 4) wxyz, and everything attached to them."""
        of_shape = self.mocap[self.model.geom_bodyid]
        above = self.mocap[self.model.body_parentid[self.body]]
        of_link = np.where(self._first() & (self.kind != FREE), above, -1)
        pos, quat = _moved(of_shape, mocap_pos, mocap_quat, system.geom_pos, system.geom_quat)
        base = system.link.transform
        place, turn = _moved(of_link, mocap_pos, mocap_quat, base.pos, base.rot)
        link = system.link.replace(transform=Transform(pos=place, rot=turn))
        return system.replace(geom_pos=pos, geom_quat=quat, link=link)

    def poses(self, x: Transform, mocap_pos: Array, mocap_quat: Array) -> tuple[Array, Array]:
        """Origins (nbody, 3) m and orientations (nbody, 4) of all bodies, given the links' in the world."""
        pos, quat = _moved(self.mocap, mocap_pos, mocap_quat, jnp.asarray(self.pos), jnp.asarray(self.quat))
        place = jnp.concatenate([x.pos, jnp.zeros((1, 3))])[self.carrier]
        turn = jnp.concatenate([x.rot, jnp.asarray(IDENTITY[None])])[self.carrier]
        return place + rotate(jnp, turn, pos), multiply(jnp, turn, quat)


def _attached(model: mujoco.MjModel, body: int, pos: np.ndarray, quat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A body's frame in the frame in which its parent's is `pos` and `quat`."""
    return pos + rotate(np, quat, model.body_pos[body]), multiply(np, quat, model.body_quat[body])


def _moved(of: np.ndarray, mocap_pos: Array, mocap_quat: Array, pos: Array, quat: Array) -> tuple[Array, Array]:
    """Frames (k,) with those that hang on mocap bodies, `of` (k,) or -1, brought along."""
    hangs = np.flatnonzero(of >= 0)
    if not len(hangs):
        return pos, quat
    turn = mocap_quat[of[hangs]]
    turn = turn / jnp.linalg.norm(turn, axis=-1, keepdims=True)
    place = mocap_pos[of[hangs]] + rotate(jnp, turn, pos[hangs])
    return pos.at[hangs].set(place), quat.at[hangs].set(multiply(jnp, turn, quat[hangs]))


def check(model: mujoco.MjModel) -> None:
    """Raise for what this engine cannot move.

    Raises:
        EngineError: something in the model has no counterpart; names it.
    """
    for joint in range(model.njnt):
        name, kind = model.joint(joint).name or f"#{joint}", int(model.jnt_type[joint])
        if kind == BALL and (model.jnt_limited[joint] or model.jnt_stiffness[joint]):
            raise EngineError(f"engine brax: the ball joint {name!r} has a limit or a spring; Brax has hinges' only")
        if kind == FREE and (model.dof_damping[model.jnt_dofadr[joint]] < 0 or model.jnt_stiffness[joint]):
            raise EngineError(f"engine brax: the free joint {name!r} has a spring; Brax has hinges' only")
    for equality in np.flatnonzero(model.eq_type != mujoco.mjtEq.mjEQ_JOINT):
        name = model.equality(equality).name or f"#{equality}"
        kind = mujoco.mjtEq(int(model.eq_type[equality])).name.removeprefix("mjEQ_").lower()
        raise EngineError(f"engine brax: the equality constraint {name!r} is a {kind}; it holds those of joints only")
    for tendon in range(model.ntendon):
        held = [
            what
            for what, there in (
                ("a limit", model.tendon_limited[tendon]),
                ("a spring", model.tendon_stiffness[tendon]),
                ("damping", model.tendon_damping[tendon]),
                ("dry friction", model.tendon_frictionloss[tendon]),
                ("armature", model.tendon_armature[tendon]),
            )
            if there
        ]
        if held:
            name = model.tendon(tendon).name or f"#{tendon}"
            raise EngineError(
                f"engine brax: the tendon {name!r} has {' and '.join(held)}; tendons only transmit forces"
            )
    collide = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    if (collide & (model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD)).any():
        raise EngineError(
            "engine brax has no height fields: each shape over one would be hundreds of possible contacts"
        )
    if model.opt.density or model.opt.viscosity:
        raise EngineError(
            f"engine brax has no fluid; the model's has density {model.opt.density} and viscosity {model.opt.viscosity}"
        )
    if model.nflex or model.nskin:
        raise EngineError("engine brax moves rigid bodies only; the model has flexible ones")


def load(model: mujoco.MjModel, links: Links) -> Any:
    """Brax's system of a checked model, at the model's time step.

    Raises:
        EngineError: Brax or MJX refuses the model; says why.
    """
    from brax.io import mjcf

    copy = model.__copy__()  # Brax writes infinities into the ranges of what it is given
    copy.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    copy.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    copy.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON  # which is ours; Brax refuses others
    copy.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    copy.sensor_type[:] = mujoco.mjtSensor.mjSENS_CLOCK  # read by the engine; MJX does not know them all
    if not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_REFSAFE:
        for times in (copy.jnt_solref, copy.geom_solref, copy.pair_solref):
            positive = times[:, 0] > 0
            times[positive, 0] = np.maximum(times[positive, 0], 2 * model.opt.timestep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Brax is no longer developed, at every load
        try:
            system: Any = mjcf.load_model(copy)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise EngineError(f"engine brax does not support this model: {' '.join(str(error).split())}") from None
    pos, quat = links.base()
    anchor = np.concatenate([np.zeros((0, 3)), *_anchors(model)])
    weight = np.where(links.carries, model.body_invweight0[links.body, 0], 0.0)
    whole = jax.tree.map(lambda leaf: jnp.zeros((links.count, *leaf.shape[1:])), system.link)
    link = whole.replace(
        transform=Transform(pos=jnp.asarray(pos, jnp.float32), rot=jnp.asarray(quat, jnp.float32)),
        joint=Transform(pos=jnp.asarray(anchor, jnp.float32), rot=jnp.tile(jnp.asarray(IDENTITY), (links.count, 1))),
        inertia=jax.jit(links.inertia)({}),  # at once: a program for each operation took a second
        invweight=jnp.asarray(weight, jnp.float32),
    )
    shape_pos, shape_quat = jax.jit(links.shapes)({})
    dof = system.dof.replace(stiffness=jnp.zeros(model.nv))
    if dof.limit is not None:
        reference = np.zeros(model.nv)
        reference[model.jnt_dofadr] = np.where(
            np.isin(model.jnt_type, (SLIDE, HINGE)), model.qpos0[model.jnt_qposadr], 0
        )
        dof = dof.replace(limit=tuple(bound - jnp.asarray(reference, jnp.float32) for bound in dof.limit))
    return system.replace(
        mj_model=None,
        link=link,
        link_types="".join("f" if kind == FREE else "1" for kind in links.kind),
        link_parents=tuple(int(parent) for parent in links.parent),
        link_names=[model.body(body).name for body in links.body],
        geom_bodyid=np.where(links.carrier < links.count, links.carrier + 1, 0)[model.geom_bodyid],
        geom_pos=shape_pos,
        geom_quat=shape_quat,
        dof=dof,
        matrix_inv_iterations=0,
    )


def _anchors(model: mujoco.MjModel) -> list[np.ndarray]:
    """Anchor of each link's joint in the link's frame, (k, 3) m for each joint."""
    kinds = [int(kind) for kind in model.jnt_type]
    return [
        np.zeros((1, 3)) if kind == FREE else np.tile(model.jnt_pos[joint], (LINKS[kind], 1))
        for joint, kind in enumerate(kinds)
    ]


def varied(system: Any, links: Links, fields: Mapping[str, Array]) -> Any:
    """The system with an episode's own fields."""
    link, dof = system.link, system.dof
    if {"body_mass", "body_inertia", "body_ipos", "body_iquat"} & fields.keys():
        link = link.replace(inertia=links.inertia(fields))
    if "body_invweight0" in fields:
        link = link.replace(invweight=links.carries * fields["body_invweight0"][links.body, 0])
    if "dof_invweight0" in fields:
        dof = dof.replace(invweight=fields["dof_invweight0"])
    if "dof_armature" in fields:
        dof = dof.replace(armature=fields["dof_armature"])
    system = system.replace(link=link, dof=dof)
    if {"geom_pos", "geom_quat"} & fields.keys():
        pos, quat = links.shapes(fields)
        system = system.replace(geom_pos=pos, geom_quat=quat)
    own = {name: fields[name] for name in ("geom_friction", "geom_rbound", "geom_size") if name in fields}
    return system.replace(**own)
