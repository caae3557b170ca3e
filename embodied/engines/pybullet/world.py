"""One Bullet world: a MuJoCo model's bodies in it, their state in MuJoCo's coordinates, forces and contacts.

Bullet places a body by its centre of mass and orders quaternions xyzw; both are converted here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from embodied.engines.pybullet import contacts as bc
from embodied.engines.pybullet import model as bm
from embodied.engines.pybullet import quaternions as bq
from embodied.engines.pybullet.urdf import urdf
from embodied.engines.sensors import Bodies, at_rest, cross, multiply, rotate

UNLIMITED = 1e30  # m/s, rad/s: Bullet otherwise clips every speed at 100, and a divergence would pass for a motion
UNLIMITED_FORCE = 1e9  # N, N m: of a gear
GEAR_ERP = 0.2  # share of a gear's error that a step takes away; Bullet's own value for joints
GAP = 1e-9  # m, s: below it, contact forces are rounding


@dataclasses.dataclass(frozen=True)
class Placed:
    """A tree in a world, and its rows in MuJoCo's arrays."""

    uid: int
    """Bullet's id of the multibody."""
    free: int
    """Floating body, or 0."""
    free_qpos: int
    """First of its seven entries in qpos."""
    free_qvel: int
    """First of its six entries in qvel."""
    mocap: int
    """Mocap body on which its base stands, or 0."""
    joints: list[int]
    """Bullet's indices of the links that move."""
    motors: list[int]
    """Those of `joints` that Bullet's own motors drive, see `Servos.overshooting`."""
    motor_qvel: np.ndarray
    """(motors,) their addresses in qvel."""
    qpos: np.ndarray
    """(joints,) their addresses in qpos."""
    qvel: np.ndarray
    """(joints,) their addresses in qvel."""
    links: list[int]
    """Bullet's indices of the links that are bodies."""
    bodies: np.ndarray
    """(links,) those bodies."""
    anchors: np.ndarray
    """(links, 3) m, the links' frames in the body frames."""


class Client:
    """The module pybullet as one world of its own sees it."""

    def __init__(self, pb: Any) -> None:
        """Open a world."""
        self._pb, self.number = pb, pb.connect(pb.DIRECT)

    def __getattr__(self, name: str) -> Any:
        """A constant, or a function that acts in this world."""
        value = getattr(self._pb, name)
        own = functools.partial(value, physicsClientId=self.number) if callable(value) else value
        setattr(self, name, own)
        return own


class BulletWorld:
    """A simulation of one model; build it anew for every episode, so that nothing of the last one remains."""

    def __init__(self, pb: Any, folder: Path) -> None:
        """Open a world; `pb` is the module pybullet, and models pass through a file in `folder`."""
        self._pb, self._file = Client(pb), folder / "tree.urdf"
        self._contacts: tuple[bytes, bc.Contacts] | None = None
        self._close = weakref.finalize(self, pb.disconnect, self._pb.number)

    def build(self, model: mujoco.MjModel, motors: np.ndarray) -> None:
        """Empty the world and put the bodies of `model` into it, mocap bodies where the model has them.

        `motors` (nv,) bool: the hinges and slides that Bullet's own motors drive.
        """
        pb = self._pb
        self.model, self._motors = model, motors
        pb.resetSimulation()
        # The cache would hand out the model of an earlier episode under the file's name; without warm starting, a
        # world restored from positions and velocities goes on as the original did.
        pb.setPhysicsEngineParameter(
            fixedTimeStep=model.opt.timestep,
            numSubSteps=0,
            enableFileCaching=0,
            warmStartingFactor=0.0,
            deterministicOverlappingPairs=1,
        )
        gravity = model.opt.gravity * (not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        pb.setGravity(*gravity)
        allowed = self._allowed()
        self._statics = {name: self._static(geom) for name, geom in allowed.statics.items()}
        self._links: dict[tuple[int, str], int] = {}
        self._built_at: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._placed = [self._place(index, tree) for index, tree in enumerate(allowed.forest)]
        self._shape_bodies = self._filter(allowed)
        for equality in np.flatnonzero(model.eq_active0):
            self._gear(int(equality))
        # A fleet pushes each of its bodies at every step; searching all trees for each would cost their square.
        self._handles = {tree.free: (tree.uid, -1) for tree in self._placed if tree.free}
        for tree in self._placed:
            self._handles |= {int(body): (tree.uid, link) for body, link in zip(tree.bodies, tree.links, strict=True)}
        self._rest = self._resting()

    def _allowed(self) -> bc.Contacts:
        """Pairs that may touch; computed again only where an episode's frictions are not those of the last."""
        key = self.model.geom_friction.tobytes()
        if self._contacts is None or self._contacts[0] != key:
            self._contacts = key, bc.contacts(self.model, bm.trees(self.model))
        return self._contacts[1]

    def _resting(self) -> Bodies:
        """The bodies, those that stand still in their places."""
        rest, model = at_rest(self.model), self.model
        for body in range(1, model.nbody):
            if bm.stands(model, body):
                rest.pos[body], rest.quat[body] = bm.static_pose(model, body, np.zeros(3), np.array([1.0, 0, 0, 0]))
        return rest

    def move_mocap(self, bodies: np.ndarray, pos: np.ndarray, quat: np.ndarray) -> None:
        """Put mocap bodies (k,) elsewhere, with all that stands on them: (k, 3) m and (k, 4) wxyz, world frame.

        They jump there: contacts feel no speed of theirs.
        """
        pb, model = self._pb, self.model
        model.body_pos[bodies], model.body_quat[bodies] = pos, quat
        moved = set(bodies.tolist())
        for name, geom in self._allowed().statics.items():
            if int(model.body_rootid[model.geom_bodyid[geom]]) in moved:
                where, turn = bm.geom_pose(model, geom)
                pb.resetBasePositionAndOrientation(self._statics[name], list(where), list(bq.xyzw_from_wxyz(turn)))
        for tree in self._placed:
            if tree.mocap in moved:
                was_at, was_turned = self._built_at[tree.mocap]
                turn = bq.composed(model.body_quat[tree.mocap], bq.conjugate(was_turned))
                where = model.body_pos[tree.mocap] - bq.turned(turn, was_at)
                pb.resetBasePositionAndOrientation(tree.uid, list(where), list(bq.xyzw_from_wxyz(turn)))
        self._rest = self._resting()

    def _gear(self, equality: int) -> None:
        """Couple two joints of a tree: first = a + b second, from their reference positions."""
        pb, model = self._pb, self.model
        first, second = (int(ids[equality]) for ids in (model.eq_obj1id, model.eq_obj2id))
        offset, ratio = (float(value) for value in model.eq_data[equality, :2])
        for tree in self._placed:
            known = dict(zip(tree.qvel.tolist(), tree.joints, strict=True))
            links = [known.get(int(model.jnt_dofadr[joint])) for joint in (first, second)]
            if None not in links:
                axis, here = [1, 0, 0], [0, 0, 0]
                gear = pb.createConstraint(tree.uid, links[0], tree.uid, links[1], pb.JOINT_GEAR, axis, here, here)
                pb.changeConstraint(
                    gear, gearRatio=-ratio, relativePositionTarget=offset, erp=GEAR_ERP, maxForce=UNLIMITED_FORCE
                )

    def _static(self, geom: int) -> int:
        """Put one shape that never moves into the world; returns Bullet's id."""
        pb, model = self._pb, self.model
        size, kind = model.geom_size[geom], bm.G(int(model.geom_type[geom]))
        pos, quat = bm.geom_pose(model, geom)
        match kind:
            case bm.G.mjGEOM_PLANE:
                options: dict[str, Any] = {"shapeType": pb.GEOM_PLANE, "planeNormal": [0, 0, 1]}
            case bm.G.mjGEOM_SPHERE:
                options = {"shapeType": pb.GEOM_SPHERE, "radius": size[0]}
            case bm.G.mjGEOM_CAPSULE:
                options = {"shapeType": pb.GEOM_CAPSULE, "radius": size[0], "height": 2 * size[1]}
            case bm.G.mjGEOM_CYLINDER:
                options = {"shapeType": pb.GEOM_CYLINDER, "radius": size[0], "height": 2 * size[1]}
            case bm.G.mjGEOM_BOX:
                options = {"shapeType": pb.GEOM_BOX, "halfExtents": list(size)}
            case _:
                options, lift = self._height_field(int(model.geom_dataid[geom]))
                pos = pos + bq.turned(quat, np.array([0.0, 0.0, lift]))
        shape = pb.createCollisionShape(**options)
        return pb.createMultiBody(0, shape, -1, list(pos), list(bq.xyzw_from_wxyz(quat)))

    def _height_field(self, field: int) -> tuple[dict[str, Any], float]:
        """Bullet's description of a height field, and how far (m) its middle lies above its frame."""
        model = self.model
        rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
        first = int(model.hfield_adr[field])
        radius_x, radius_y, height, _ = model.hfield_size[field]
        data = height * model.hfield_data[first : first + rows * columns].astype(float)
        options = {
            "shapeType": self._pb.GEOM_HEIGHTFIELD,
            "meshScale": [2 * radius_x / (columns - 1), 2 * radius_y / (rows - 1), 1.0],
            "heightfieldData": data.tolist(),
            "numHeightfieldRows": columns,
            "numHeightfieldColumns": rows,
        }
        # Bullet centres a height field between its lowest and its highest point.
        return options, float(data.min() + data.max()) / 2

    def _place(self, index: int, tree: bm.Tree) -> Placed:
        """Load a tree and set what URDF cannot express."""
        pb, model = self._pb, self.model
        self._file.write_text(urdf(model, tree), encoding="utf-8")
        root = tree.links[0].body if tree.links and not tree.free else 0
        mocap = int(model.body_rootid[root]) if root and model.body_mocapid[model.body_rootid[root]] >= 0 else 0
        if mocap:
            self._built_at[mocap] = model.body_pos[mocap].copy(), model.body_quat[mocap].copy()
        flags = (
            pb.URDF_USE_INERTIA_FROM_FILE
            | pb.URDF_MAINTAIN_LINK_ORDER
            | pb.URDF_USE_SELF_COLLISION
            | pb.URDF_USE_IMPLICIT_CYLINDER
        )
        uid = pb.loadURDF(str(self._file), useFixedBase=not tree.free, flags=flags)
        numbers = {"base": -1}
        for number in range(pb.getNumJoints(uid)):
            numbers[pb.getJointInfo(uid, number)[12].decode()] = number
        self._links |= {(index, name): number for name, number in numbers.items()}
        pb.changeDynamics(uid, -1, linearDamping=0, angularDamping=0, maxJointVelocity=UNLIMITED)
        if tree.free:
            moments = [float(value) for value in model.body_inertia[tree.free]]
            pb.changeDynamics(uid, -1, mass=model.body_mass[tree.free], localInertiaDiagonal=moments)
        for link in tree.links:
            mass, _, moments, _ = bm.inertia(model, link)
            pb.changeDynamics(
                uid,
                numbers[link.name],
                mass=mass,
                localInertiaDiagonal=[float(value) for value in moments],
                jointDamping=0,
            )
        moving = [link for link in tree.links if link.joint >= 0]
        carrying = [link for link in tree.links if link.carries]
        joints = [numbers[link.name] for link in moving]
        dofs = model.jnt_dofadr[[link.joint for link in moving]]
        if joints:
            # Bullet's idiom for dry friction: a motor with target speed zero, with the friction as its strength.
            pb.setJointMotorControlArray(
                uid,
                joints,
                pb.VELOCITY_CONTROL,
                targetVelocities=[0.0] * len(joints),
                forces=list(model.dof_frictionloss[dofs]),
            )
        root = model.body_jntadr[tree.free] if tree.free else 0
        return Placed(
            uid=uid,
            free=tree.free,
            free_qpos=int(model.jnt_qposadr[root]) if tree.free else -1,
            free_qvel=int(model.jnt_dofadr[root]) if tree.free else -1,
            mocap=mocap,
            joints=joints,
            motors=[joint for joint, dof in zip(joints, dofs, strict=True) if self._motors[dof]],
            motor_qvel=np.array([dof for dof in dofs if self._motors[dof]], int),
            qpos=model.jnt_qposadr[[link.joint for link in moving]],
            qvel=dofs,
            links=[numbers[link.name] for link in carrying],
            bodies=np.array([link.body for link in carrying], int),
            anchors=np.array([bm.anchor(model, link.joint) for link in carrying]).reshape(-1, 3),
        )

    def _filter(self, allowed: bc.Contacts) -> dict[int, list[tuple[int, int]]]:
        """Let only admitted pairs touch, with their friction; returns body -> its Bullet (uid, link) with shapes."""
        pb, model = self._pb, self.model
        parts = allowed.parts
        ids = [
            (self._statics[part.link], -1)
            if part.tree < 0
            else (self._placed[part.tree].uid, self._links[part.tree, part.link])
            for part in parts
        ]
        for (uid, link), friction in zip(ids, allowed.frictions, strict=True):
            pb.setCollisionFilterGroupMask(uid, link, 0, 0)
            pb.changeDynamics(uid, link, lateralFriction=float(friction), restitution=0)
        for i, j in allowed.pairs:
            pb.setCollisionFilterPair(ids[i][0], ids[j][0], ids[i][1], ids[j][1], 1)
        owners: dict[int, list[tuple[int, int]]] = {}
        for part, place in zip(parts, ids, strict=True):
            owners.setdefault(int(model.geom_bodyid[part.geom]), []).append(place)
        return owners

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put every joint at qpos (nq,) with qvel (nv,), in MuJoCo's conventions."""
        pb, model = self._pb, self.model
        self._last_quat = {}
        for tree in self._placed:
            if tree.free:
                where, how = qpos[tree.free_qpos : tree.free_qpos + 7], qvel[tree.free_qvel : tree.free_qvel + 6]
                quat = where[3:] / np.linalg.norm(where[3:])
                self._last_quat[tree.uid] = quat
                # MuJoCo: velocity of the frame's origin in the world, turning rate in the body frame.
                arm, angvel = bq.turned(quat, model.body_ipos[tree.free]), bq.turned(quat, how[3:])
                turn = bq.xyzw_from_wxyz(bq.composed(quat, model.body_iquat[tree.free]))
                pb.resetBasePositionAndOrientation(tree.uid, list(where[:3] + arm), list(turn))
                velocity = how[:3] + cross(np, angvel, arm)
                pb.resetBaseVelocity(tree.uid, list(velocity), list(angvel))
            offsets = qpos[tree.qpos] - model.qpos0[tree.qpos]
            for joint, position, speed in zip(tree.joints, offsets, qvel[tree.qvel], strict=True):
                pb.resetJointState(tree.uid, joint, position, speed)

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """qpos (nq,) and qvel (nv,) in MuJoCo's conventions."""
        pb, model = self._pb, self.model
        qpos, qvel = np.zeros(model.nq), np.zeros(model.nv)
        for tree in self._placed:
            if tree.free:
                pos, quat, velocity, angvel = self._base(tree)
                quat = quat if quat @ self._last_quat[tree.uid] >= 0 else -quat
                self._last_quat[tree.uid] = quat
                qpos[tree.free_qpos : tree.free_qpos + 7] = np.concatenate([pos, quat])
                spin = bq.turned(bq.conjugate(quat), angvel)
                qvel[tree.free_qvel : tree.free_qvel + 6] = np.concatenate([velocity, spin])
            if tree.joints:
                rows = pb.getJointStates(tree.uid, tree.joints)
                qpos[tree.qpos] = [row[0] for row in rows] + model.qpos0[tree.qpos]
                qvel[tree.qvel] = [row[1] for row in rows]
        return qpos, qvel

    def _base(self, tree: Placed) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Position, quaternion wxyz, velocity and turning rate of a floating body's frame, all in the world frame."""
        pb, model = self._pb, self.model
        centre, turn = pb.getBasePositionAndOrientation(tree.uid)
        velocity, angvel = (np.array(v) for v in pb.getBaseVelocity(tree.uid))
        quat = bq.composed(bq.wxyz_from_xyzw(np.array(turn)), bq.conjugate(model.body_iquat[tree.free]))
        arm = bq.turned(quat, model.body_ipos[tree.free])
        return np.array(centre) - arm, quat, velocity - cross(np, angvel, arm), angvel

    def bodies(self) -> Bodies:
        """Pose and motion of every body, from Bullet's own links."""
        pb, rest = self._pb, self._rest
        pos, quat, vel, angvel = rest.pos.copy(), rest.quat.copy(), rest.vel.copy(), rest.angvel.copy()
        for tree in self._placed:
            if tree.free:
                pos[tree.free], _, vel[tree.free], angvel[tree.free] = self._base(tree)
                quat[tree.free] = self._last_quat[tree.uid]
            if tree.links:
                rows = pb.getLinkStates(tree.uid, tree.links, computeLinkVelocity=1, computeForwardKinematics=1)
                centre, frame, turn, speed, spin = (np.array([row[k] for row in rows]) for k in (0, 4, 5, 6, 7))
                quat[tree.bodies] = bq.wxyz_from_xyzw(turn)
                pos[tree.bodies] = frame - rotate(np, quat[tree.bodies], tree.anchors)
                vel[tree.bodies] = speed + cross(np, spin, pos[tree.bodies] - centre)
                angvel[tree.bodies] = spin
        return Bodies(pos, quat, vel, angvel, rest.ipos, rest.iquat)

    def step(
        self,
        torque: np.ndarray,
        motors: tuple[np.ndarray, np.ndarray],
        turns: Mapping[int, np.ndarray],
        wrench: np.ndarray | None,
        centres: np.ndarray | None,
    ) -> None:
        """One physics step.

        Args:
            torque: (nv,) N m or N on the hinges and slides; the entries of free joints are not read.
            motors: Speeds (nv,) rad/s or m/s at which the motors aim, and their strengths, (nv,) N m or N; only the
                entries of the joints that motors drive are read.
            turns: Floating body -> torque (3,) N m on it, world frame.
            wrench: (nbody, 6) N and N m on each body at its centre of mass, world frame.
            centres: (nbody, 3) m, those centres of mass; needed with `wrench`.
        """
        pb = self._pb
        for tree in self._placed:
            if tree.joints:
                forces = torque[tree.qvel].tolist()
                pb.setJointMotorControlArray(tree.uid, tree.joints, pb.TORQUE_CONTROL, forces=forces)
            if tree.motors:
                speeds, strengths = (values[tree.motor_qvel].tolist() for values in motors)
                pb.setJointMotorControlArray(
                    tree.uid, tree.motors, pb.VELOCITY_CONTROL, targetVelocities=speeds, forces=strengths
                )
            if tree.free in turns:
                turn = turns[tree.free].tolist()
                pb.applyExternalTorque(tree.uid, -1, turn, pb.WORLD_FRAME)
        if wrench is not None and centres is not None:
            for body in np.flatnonzero(wrench.any(axis=1)):
                self._push(int(body), wrench[body], centres[body])
        pb.stepSimulation()

    def _push(self, body: int, wrench: np.ndarray, centre: np.ndarray) -> None:
        """Apply a wrench (6,) to one body until the next step is done."""
        pb = self._pb
        if body not in self._handles:
            return  # nothing moves the world and what is fixed to it
        uid, link = self._handles[body]
        force, torque = wrench[:3].tolist(), wrench[3:].tolist()
        pb.applyExternalForce(uid, link, force, centre.tolist(), pb.WORLD_FRAME)
        pb.applyExternalTorque(uid, link, torque, pb.WORLD_FRAME)

    def touch(self, sites: np.ndarray, bodies: Bodies) -> np.ndarray:
        """Normal force (sites,) N that each site's volume felt in the last step.

        As MuJoCo's touch sensor: contacts of the site's body that lie in the site, or whose normal, followed outwards,
        meets it. `bodies` are those of the beginning of the step, where Bullet looked for contacts.
        """
        model, pb = self.model, self._pb
        felt = np.zeros(len(sites))
        for row, site in enumerate(sites):
            body = int(model.site_bodyid[site])
            pos = bodies.pos[body] + bq.turned(bodies.quat[body], model.site_pos[site])
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, multiply(np, bodies.quat[body], model.site_quat[site]))
            for uid, link in self._shape_bodies.get(body, ()):
                for contact in pb.getContactPoints(bodyA=uid, linkIndexA=link):
                    if contact[9] <= GAP:
                        continue
                    middle, outwards = (np.array(contact[5]) + contact[6]) / 2, -np.array(contact[7])
                    shape = int(model.site_type[site])
                    if mujoco.mju_rayGeom(pos, matrix, model.site_size[site], middle, outwards, shape) >= 0:
                        felt[row] += contact[9]
        return felt

    def close(self) -> None:
        """Leave Bullet's list of clients."""
        self._close()
