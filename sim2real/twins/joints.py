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


class Torque(StrEnum):
    """Meaning of a robot's channel `joint_torque`."""

    MOTOR = "motor"
    """What the servo exerts, compensation of gravity included."""
    LINK = "link"
    """What the link feels, after friction and rotor inertia: a torque sensor behind the gear."""


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
        delay = next((i for i, p in enumerate(self.parameters) if p.kind is Kind.DELAY), None)
        command = sm.commands(windows, np.zeros(count) if delay is None else values[:, delay])
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
        if torque is Torque.MOTOR:
            spec.add_sensor(
                name=name, type=mujoco.mjtSensor.mjSENS_JOINTACTFRC, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name
            )
        else:
            site = joint.parent.add_site(name=f"{name}_gear", pos=joint.pos, quat=_onto_z(np.asarray(joint.axis)))
            spec.add_sensor(
                name=name, type=mujoco.mjtSensor.mjSENS_TORQUE, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=site.name
            )
    spec.option.timestep = timestep
    spec.option.tolerance = TOLERANCE
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def _onto_z(axis: np.ndarray) -> np.ndarray:
    """(4,) wxyz, a frame whose z axis is `axis`."""
    quat = np.zeros(4)
    mujoco.mju_quatZ2Vec(quat, axis / np.linalg.norm(axis))
    return quat
