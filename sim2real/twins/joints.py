"""`JointTwin`: a robot whose base stands still, as joints driven by position servos, simulated by MuJoCo in batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum

import mujoco
import numpy as np

from sim2real.identification import parameters as pm
from sim2real.identification import simulate as sm
from sim2real.identification.parameters import APPLY, Kind, Parameter
from sim2real.identification.simulate import Output, Windows, value_and_slope
from sim2real.logs.log import Log

TOLERANCE = 1e-12
"""Of the constraint solver: friction must not vary between runs by more than finite differences can bear."""

STABLE = 0.5
"""Largest damping rate times time step with which joints are integrated by Runge-Kutta: the method is stable to 2.78,
and a fit may come upon rotors of a fraction of the nominal inertia. Stiffer ones are integrated implicitly, to first
order: their rotor inertias and delays are those of the time step. A quarter of the implicit step leaves a quarter of
the error at four times the cost, where Runge-Kutta leaves next to none."""


class Torque(StrEnum):
    """Meaning of a robot's channel `joint_torque`."""

    MOTOR = "motor"
    """Torque of the servo, compensation of gravity included."""
    LINK = "link"
    """Torque on the link, after friction and rotor inertia: a torque sensor behind the gear."""


@dataclasses.dataclass(frozen=True)
class JointTwin:
    """Joints on a fixed base. A start is the joints' angles as encoders read them, then their velocities."""

    name: str
    spec: mujoco.MjSpec
    """Model with the joints and actuators alone; not changed."""
    joints: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    timestep: float
    torque: Torque = Torque.MOTOR
    threads: int = 0
    """Of the simulation; 0: all processors."""
    settle: float = 0.1
    window: float = 1.0

    @property
    def actuators(self) -> tuple[str, ...]:
        return self.joints

    @property
    def start_step(self) -> np.ndarray:
        """(2n,) rad, rad/s."""
        return np.repeat([1e-4, 1e-2], len(self.joints))

    @property
    def start_spread(self) -> np.ndarray:
        """(2n,) rad, rad/s."""
        return np.repeat([0.05, 2.0], len(self.joints))

    def starts(self, log: Log, times: np.ndarray) -> np.ndarray:
        """(W, 2n) angles and velocities, from a cubic through the measurements around each time."""
        angle = log["joint_pos"]
        speed = log.channels.get("joint_vel")
        return np.stack([value_and_slope(angle, speed, self.joints, time).ravel() for time in times])

    def moved(self, starts: np.ndarray, change: np.ndarray) -> np.ndarray:
        return starts + change

    def column(self, kind: Kind) -> np.ndarray:
        """(n,) index of each joint's parameter of this kind; -1 where it has none."""
        mine = [(i, parameter) for i, parameter in enumerate(self.parameters) if parameter.kind is kind]
        names = {name: i for i, parameter in mine for name in parameter.members}
        return np.array([names.get(joint, -1) for joint in self.joints])

    def whole(self, kind: Kind, values: np.ndarray) -> np.ndarray:
        """(N,) of N parameter vectors (N, p): what the whole robot has once; 0 where it is no parameter."""
        index = next((i for i, parameter in enumerate(self.parameters) if parameter.kind is kind), None)
        return np.zeros(len(values)) if index is None else values[:, index]

    def stepped(self, timestep: float) -> JointTwin:
        spec = self.spec.copy()
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        return dataclasses.replace(self, spec=spec, timestep=timestep)

    def compile(self, values: np.ndarray) -> mujoco.MjModel:
        spec = self.spec.copy()
        pm.apply(spec, self.parameters, values)
        spec.option.timestep = self.timestep
        return spec.compile()

    def simulate(self, values: np.ndarray, starts: np.ndarray, windows: Windows) -> tuple[np.ndarray, ...]:
        """See `Twin.simulate`: one batch of N W simulations, each on its vector's own model."""
        from mujoco.batch import Batch

        count, width, n = len(values), len(windows), len(self.joints)
        inside = [i for i, parameter in enumerate(self.parameters) if parameter.kind in APPLY]
        _, which, models_of = np.unique(values[:, inside], axis=0, return_index=True, return_inverse=True)
        models = [self.compile(values[index]) for index in which]
        batch = Batch(models[0], count * width, self.threads)
        batch.set_models([models[index] for index in np.repeat(models_of.ravel(), width)])
        batch.reset(stage=int(mujoco.mjtStage.mjSTAGE_NONE))
        column = self.column(Kind.ENCODER_BIAS)
        bias = np.where(column >= 0, values[:, column], 0.0)  # (N, n)
        states = starts.copy()
        states[..., :n] -= bias[:, None]
        batch.qpos = states[..., :n].reshape(-1, n)
        batch.qvel = states[..., n:].reshape(-1, n)
        command = sm.commands(windows, self.whole(Kind.DELAY, values), self.whole(Kind.LOSS, values))
        command = (command - bias[:, None, None]).reshape(count * width, windows.steps, n)
        felt = any(output.channel == "joint_torque" for output in self.outputs)
        record = ["qpos", "qvel", *(["sensordata"] if felt else [])]
        seen = batch.rollout(windows.steps, command, record=record)
        shape = (count, width, windows.steps, -1)
        angle, speed = seen["qpos"].reshape(shape), seen["qvel"].reshape(shape)
        tracks = {
            "joint_pos": np.concatenate([states[..., None, :n], angle], 2) + bias[:, None, None],
            "joint_vel": np.concatenate([states[..., None, n:], speed], 2),
        }
        if felt:  # A sensor shows the state before its step, so the last one is missing.
            torque = self.torques(seen["sensordata"].reshape(shape))
            tracks["joint_torque"] = np.concatenate([torque, torque[:, :, -1:]], 2)
        columns = [[self.joints.index(name) for name in output.names] for output in self.outputs]
        return tuple(tracks[o.channel][..., c] for o, c in zip(self.outputs, columns, strict=True))

    def torques(self, sensors: np.ndarray) -> np.ndarray:
        """(..., n) N m; a sensor behind the gear reads three components, of which the joint's is the last."""
        return sensors[..., 2::3] if self.torque is Torque.LINK else sensors


def prepared(
    spec: mujoco.MjSpec, joints: Sequence[str], timestep: float, torque: Torque, *, gravity_compensated: bool = False
) -> mujoco.MjSpec:
    """The spec reduced to what moves: no shapes, cameras, keyframes; sensors of `joint_torque` alone.

    Args:
        spec: A robot without a free joint; changed in place.
        joints: Those that move; others are frozen where they are, actuators that drive them removed.
        timestep: s.
        torque: What `joint_torque` is.
        gravity_compensated: Whether the servo's torque includes compensation of gravity.
    """
    for group in (spec.geoms, spec.materials, spec.sensors, spec.keys, spec.cameras, spec.equalities, spec.excludes):
        for element in list(group):
            spec.delete(element)
    for actuator in list(spec.actuators):
        if actuator.target not in joints:
            spec.delete(actuator)
    for tendon in list(spec.tendons):
        spec.delete(tendon)
    for joint in list(spec.joints):
        if joint.name not in joints:
            spec.delete(joint)
    for name in joints:
        joint = spec.joint(name)
        joint.actgravcomp = gravity_compensated
        kind, place, at = mujoco.mjtSensor.mjSENS_JOINTACTFRC, mujoco.mjtObj.mjOBJ_JOINT, name
        if torque is Torque.LINK:
            kind, place, at = mujoco.mjtSensor.mjSENS_TORQUE, mujoco.mjtObj.mjOBJ_SITE, f"{name}_gear"
            joint.parent.add_site(name=at, pos=joint.pos, quat=_onto_z(np.asarray(joint.axis)))
        spec.add_sensor(name=name, type=kind, objtype=place, objname=at)
    spec.option.timestep = timestep
    spec.option.tolerance = TOLERANCE
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    if stiffness(spec.compile()) * timestep > STABLE:
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def friction_time(model: mujoco.MjModel, joints: Sequence[str]) -> Parameter:
    """The time in which dry friction stops a joint, of all joints together."""
    nominal = float(np.mean([pm.read(model, Kind.FRICTION_TIME, joint) for joint in joints]))
    least = 2 * model.opt.timestep  # what MuJoCo takes at least
    return Parameter(Kind.FRICTION_TIME, "*", nominal, least, 3 * nominal, nominal / 2, "s", shared=tuple(joints))


def stiffness(model: mujoco.MjModel) -> float:
    """1/s, how fast the joint that stops soonest comes to rest by its servo's and its own damping."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    inertia = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    damping = np.array(model.dof_damping).reshape(model.nv, -1)[:, 0].copy()
    for actuator in range(model.nu):
        dof = model.jnt_dofadr[model.actuator_trnid[actuator, 0]]
        damping[dof] -= model.actuator_gear[actuator, 0] ** 2 * model.actuator_biasprm[actuator, 2]
    return float(np.abs(np.linalg.eigvals(np.linalg.solve(inertia, np.diag(damping)))).max()) if model.nv else 0.0


def _onto_z(axis: np.ndarray) -> np.ndarray:
    """(4,) wxyz, a frame whose z axis is `axis`."""
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, axis / np.linalg.norm(axis))
    return quat
