"""Inputs of a policy's graph at every control step, by name: joints, floating bodies, the task's sensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from embodied.core.world import SensorLayout, World
from sim2real.contract.contract import Source
from sim2real.graphs.graph import Builder
from sim2real.graphs.kinematics import readings
from sim2real.graphs.tracing.from_jax import Argument, inline

JOINT_POS, JOINT_VEL = "joint_pos", "joint_vel"
SINGLE = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
S = mujoco.mjtSensor
READINGS: Mapping[int, tuple[str, str, str]] = {
    int(kind): said
    for kind, said in {
        S.mjSENS_GYRO: ("rad/s", "angular velocity of {thing}, in its own frame", "site"),
        S.mjSENS_ACCELEROMETER: ("m/s^2", "proper acceleration at {thing}, in its frame (at rest 9.81 up)", "site"),
        S.mjSENS_VELOCIMETER: ("m/s", "velocity of {thing}, in its own frame", "site"),
        S.mjSENS_MAGNETOMETER: ("T", "magnetic field at {thing}, in its own frame", "site"),
        S.mjSENS_TOUCH: ("N", "sum of the normal forces of contacts within {thing}", "site"),
        S.mjSENS_FORCE: ("N", "force between {thing}'s body and its parent, in the site's frame", "site"),
        S.mjSENS_TORQUE: ("N m", "torque between {thing}'s body and its parent, in the site's frame", "site"),
        S.mjSENS_RANGEFINDER: ("m", "distance along the z axis of {thing}; -1: nothing", "site"),
        S.mjSENS_JOINTPOS: ("rad or m", "position of {thing}", "joint"),
        S.mjSENS_JOINTVEL: ("rad/s or m/s", "velocity of {thing}", "joint"),
        S.mjSENS_ACTUATORFRC: ("N or N m", "force of {thing}", "actuator"),
        S.mjSENS_JOINTACTFRC: ("N m or N", "actuator torque at {thing}", "joint"),
        S.mjSENS_FRAMEPOS: ("m", "position of {thing}{frame}", ""),
        S.mjSENS_FRAMEQUAT: ("1", "orientation of {thing}, quaternion wxyz{frame}", ""),
        S.mjSENS_FRAMEXAXIS: ("1", "x axis of {thing}{frame}", ""),
        S.mjSENS_FRAMEYAXIS: ("1", "y axis of {thing}{frame}", ""),
        S.mjSENS_FRAMEZAXIS: ("1", "z axis of {thing}{frame}", ""),
        S.mjSENS_FRAMELINVEL: ("m/s", "linear velocity of {thing}{frame}", ""),
        S.mjSENS_FRAMEANGVEL: ("rad/s", "angular velocity of {thing}{frame}", ""),
        S.mjSENS_FRAMELINACC: ("m/s^2", "linear acceleration of {thing}{frame}", ""),
        S.mjSENS_SUBTREECOM: ("m", "centre of mass of {thing} and all it carries, in the world's frame", "body"),
        S.mjSENS_SUBTREELINVEL: ("m/s", "velocity of the centre of mass of {thing} and all it carries, world", "body"),
        S.mjSENS_SUBTREEANGMOM: ("kg m^2/s", "angular momentum of {thing} and all it carries, world frame", "body"),
        S.mjSENS_CONTACT: ("as MuJoCo's contact sensor", "what touches {thing}", ""),
    }.items()
}  # fmt: skip
"""Kind of a MuJoCo sensor -> unit, meaning, and type of its object where the model does not give it."""


class Sources:
    """A model's sources: which there are, and how a task's `World` is made of them."""

    def __init__(self, model: mujoco.MjModel, joints: Sequence[str] | None = None) -> None:
        """Of all hinges and slides, or of those that are named, in their order."""
        self.model, self.layout = model, SensorLayout.from_model(model)
        every = [model.joint(i).name for i in range(model.njnt) if int(model.jnt_type[i]) in SINGLE]
        self.joints = tuple(every if joints is None else [name for name in joints if name in every])
        joints_of = [model.joint(name) for name in self.joints]
        self._pos = np.array([int(joint.qposadr[0]) for joint in joints_of], int)
        self._vel = np.array([int(joint.dofadr[0]) for joint in joints_of], int)
        self.bodies = {
            int(model.jnt_qposadr[i]): (i, _called(model, i))
            for i in range(model.njnt)
            if model.jnt_type[i] == mujoco.mjtJoint.mjJNT_FREE
        }
        self.known = {source.name: source for source in self._listed()}

    def _listed(self) -> list[Source]:
        model = self.model
        units = {model.jnt_type[model.joint(name).id] == mujoco.mjtJoint.mjJNT_SLIDE for name in self.joints}
        unit = "rad" if units == {False} else "m" if units == {True} else "rad, or m of slides"
        count = len(self.joints)
        found = [
            Source(JOINT_POS, count, unit, "positions of `joints`, in their order"),
            Source(JOINT_VEL, count, f"{unit}/s" if len(units) == 1 else "rad/s, or m/s", "their velocities"),
        ]
        for _, name in self.bodies.values():
            found += [
                Source(f"{name}.pos", 3, "m", f"position of the frame of {name} in the world"),
                Source(f"{name}.quat", 4, "1", f"orientation of {name} in the world, quaternion wxyz"),
                Source(f"{name}.linvel_w", 3, "m/s", f"velocity of the origin of {name}'s frame, world frame"),
                Source(f"{name}.angvel_b", 3, "rad/s", f"angular velocity of {name}, in its own frame"),
            ]
        return found + [self._sensor(name) for name in self.layout.slices]

    def _sensor(self, name: str) -> Source:
        model = self.model
        sensor = model.sensor(name)
        size, number = int(sensor.dim[0]), int(sensor.id)
        unit, meaning, kind = READINGS.get(int(sensor.type[0]), ("as MuJoCo has it", "reading of {thing}", ""))
        objects = int(model.sensor_objtype[number]), int(model.sensor_objid[number])
        thing = _thing(model, *objects) or kind
        reference = int(model.sensor_refid[number])
        frame = " in the world's frame"
        if reference >= 0:
            frame = f" in the frame of {_thing(model, int(model.sensor_reftype[number]), reference)}"
        return Source(name, size, unit, meaning.format(thing=thing, frame=frame))

    def world(self, build: Builder) -> World:
        """The world a task reads, made of inputs of these names; joints that are not among them stay at 0."""
        model = self.model
        zero = build.constant(0.0)
        qpos, qvel = [zero] * model.nq, [zero] * model.nv
        pos, vel = (build.input(name, len(self.joints)) for name in (JOINT_POS, JOINT_VEL))
        for place, name in enumerate(self.joints):
            joint = model.joint(name)
            qpos[joint.qposadr[0]], qvel[joint.dofadr[0]] = build.take(pos, [place]), build.take(vel, [place])
        for name, (array, window) in self._free.items():
            size = window.stop - window.start
            whole = build.input(name, size)
            (qpos, qvel)[array][window] = [build.take(whole, [axis]) for axis in range(size)]
        sensed = [zero] * model.nsensordata
        pose = Argument(build.concat(qpos), (model.nq,))
        computed = inline(build, functools.partial(readings, model), pose)
        for name, window in self.layout.slices.items():
            size = window.stop - window.start
            whole = computed[name] if name in computed else build.input(name, size)
            sensed[window] = [build.take(whole, [axis]) for axis in range(size)]
        parts = [Argument(build.concat(row), (len(row),)) for row in (qpos, qvel, sensed)]
        return World(Argument(zero, ()), *parts, self.layout)  # type: ignore[arg-type]

    def values(self, qpos: np.ndarray, qvel: np.ndarray, sensordata: np.ndarray) -> dict[str, np.ndarray]:
        """Name -> (..., size) of every source, of a simulated world's arrays or of many (..., n)."""
        found = {JOINT_POS: qpos[..., self._pos], JOINT_VEL: qvel[..., self._vel]}
        found |= {name: (qpos, qvel)[array][..., window] for name, (array, window) in self._free.items()}
        return {**{name: sensordata[..., window] for name, window in self.layout.slices.items()}, **found}

    @property
    def _free(self) -> dict[str, tuple[int, slice]]:
        """Source of a floating body -> whether it is in qpos (0) or qvel (1), and where."""
        found = {}
        for start, (joint, name) in self.bodies.items():
            dof = int(self.model.jnt_dofadr[joint])
            found[f"{name}.pos"], found[f"{name}.quat"] = (0, slice(start, start + 3)), (0, slice(start + 3, start + 7))
            found[f"{name}.linvel_w"] = 1, slice(dof, dof + 3)
            found[f"{name}.angvel_b"] = 1, slice(dof + 3, dof + 6)
        return found


def _called(model: mujoco.MjModel, joint: int) -> str:
    """A floating body's name."""
    return model.body(int(model.jnt_bodyid[joint])).name or model.joint(joint).name or f"body{joint}"


def _thing(model: mujoco.MjModel, kind: int, number: int) -> str:
    """Object that a sensor is attached to, such as `site imu of body trunk`."""
    types = mujoco.mjtObj
    if kind == types.mjOBJ_SITE:
        place, body = model.site(number), model.body(int(model.site_bodyid[number])).name
        return f"site {place.name} of body {body or 'world'} (at {_numbers(place.pos)} m, wxyz {_numbers(place.quat)})"
    if kind == types.mjOBJ_XBODY:
        return f"body {model.body(number).name}"
    if kind == types.mjOBJ_BODY:
        return f"body {model.body(number).name}, at its centre of mass and along its axes of inertia"
    name = mujoco.mj_id2name(model, kind, number)
    return f"{types(kind).name.removeprefix('mjOBJ_').lower()} {name}" if name else ""


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{value:.4g}" for value in values)
