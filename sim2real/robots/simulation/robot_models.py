"""Simulated robots without their engine: actuators and sensors of a task's model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.task import Task
from embodied.core.world import Control, ResetState, World
from embodied.errors import EmbodiedError, listing
from embodied.registry import join_content
from sim2real.contract import model_files
from sim2real.contract.contract import Contract
from sim2real.contract.describe import describe
from sim2real.deployment.terms import rotate_inverse
from sim2real.robots.base import Measurement, RobotError
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.same_robot import check_same
from sim2real.robots.simulation.step_model import StepModel
from tasks.locomotion.legged import LeggedTask
from tasks.swarm.dynamics import quadrotor
from tasks.swarm.single.hover import Hover

SOURCES: Mapping[str, str] = {
    "gyro": "gyro",
    "gravity": "orientation",
    "up": "orientation",
    "linvel": "linvel",
    "joint_offset": "joint_pos",
    "joint_vel": "joint_vel",
    "to_command": "position",
}
"""Source of an observation term -> the part of a measurement whose noise it carries."""


class RobotModel(Protocol):
    """A simulated robot without its engine."""

    task: Task[Any]
    agents: int
    """Robots in it."""
    every_step: bool
    """Whether forces change from physics step to physics step under one target."""
    in_place: bool
    """Whether it begins as an episode does and is not to be moved to its stance first."""

    def start(self, seed: int) -> ResetState[Any]:
        """Initial state, with the parameters of this robot."""
        ...

    def commanded(self, command: np.ndarray) -> tuple[Task[Any], Callable[[Any], Any]]:
        """The task under an operator's command (k,), and what puts the command into the task's state."""
        ...

    def control(self, world: World, targets: Sequence[np.ndarray | None]) -> Control:
        """What acts on them (leading axis 1) for one physics step; a target None damps."""
        ...

    @property
    def state(self) -> Any:
        """The task's state as the episode began, where its evaluation depends on that; else None."""
        ...

    def measure(
        self, world: World, time: float, rng: np.random.Generator, noise: float, state: Any, agent: int = 0
    ) -> Measurement:
        """An agent's sensors, with `noise` times training's; `state`: the task's, None before it is evaluated."""
        ...


def model_of(contract: Contract, mismatch: ModelMismatch, file: Path | None = None) -> RobotModel:
    """The robot of a contract.

    Args:
        contract: Of the policy.
        mismatch: In what the robot differs from the model that the policy was trained on.
        file: Where the model file of a robot of one's own lies; by default where the contract says.

    Raises:
        EmbodiedError: it cannot be simulated here, or the file is not there, or not the one of the training.
    """
    if contract.model is None and file is not None:
        raise EmbodiedError(f"--robot-file {file}: the {contract.robot} of this policy comes with embodied")
    own = {} if contract.model is None else {"robot": str(model_files.found(contract.model, file))}
    kind: Any = join_content()[contract.task].load()
    if contract.step is not None:
        return StepModel(kind, contract, mismatch, own)
    kinds: Mapping[type, Any] = {LeggedTask: LeggedModel, Hover: DroneModel}
    for base, model in kinds.items():
        if issubclass(kind, base):
            return model(kind, contract, mismatch, own)
    raise EmbodiedError(
        f"'{contract.task}' has no simulated robot; these kinds of tasks have: {listing(k.__name__ for k in kinds)}"
    )


class LeggedModel:
    """Position servos with the contract's gains."""

    agents = 1
    every_step = False
    state = None

    def __init__(
        self, kind: type[LeggedTask[Any]], contract: Contract, mismatch: ModelMismatch, own: Mapping[str, str]
    ) -> None:
        self.task: Any = kind(dataclasses.replace(kind.config_type(), without=("all",), **own))
        # On two feet nothing stands by its stance alone: a real one hangs from a gantry until the policy runs.
        self.in_place = len(self.task.robot.feet) == 2
        check_same(contract, describe(self.task, contract.task))
        self._mismatch, self._contract = mismatch, contract
        self._layout, self._joints = self.task.layout, [joint.name for joint in contract.joints]
        self._bias = np.asarray(mismatch.encoder_bias) if mismatch.encoder_bias else np.zeros(len(self._joints))
        self._noise = noise_of(contract)

    def start(self, seed: int) -> ResetState[Any]:
        start = jax.jit(self.task.reset)(jax.random.key(seed))
        # A bundle brings its gains along, to a simulated robot as to a real one.
        model, rows = self.task.model.__copy__(), self._layout.actuators
        model.actuator_gainprm[rows, 0] = self._contract.row("stiffness")
        model.actuator_biasprm[rows, 1] = -self._contract.row("stiffness")
        model.actuator_biasprm[rows, 2] = -self._contract.row("damping")
        gains = {name: getattr(model, name) for name in ("actuator_gainprm", "actuator_biasprm")}
        return dataclasses.replace(start, model={**gains, **self._mismatch.fields(model)})

    def commanded(self, command: np.ndarray) -> tuple[Task[Any], Callable[[Any], Any]]:
        """The task keeps the command in its state, and draws another one now and then."""
        wanted = jnp.asarray(command, jnp.float32)
        return self.task, lambda state: dataclasses.replace(state, command=wanted)

    def control(self, world: World, targets: Sequence[np.ndarray | None]) -> Control:
        """Servo targets; a servo that aims where it is only damps."""
        (target,) = targets
        ctrl: Any = np.zeros((1, self.task.model.nu))
        ctrl[0, self._layout.actuators] = world.qpos[self._layout.qpos] if target is None else target
        return Control(ctrl=ctrl)

    def measure(
        self, world: World, time: float, rng: np.random.Generator, noise: float, state: Any, agent: int = 0
    ) -> Measurement:
        del state, agent
        quat = np.asarray(world["orientation"], float)
        clean = {
            "joint_pos": world.qpos[self._layout.qpos] + self._bias,
            "joint_vel": world.qvel[self._layout.qvel],
            "joint_torque": np.concatenate([world[f"{name}_torque"] for name in self._joints]),
            "gyro": world["gyro"],
            "accelerometer": world["accelerometer"],
            "orientation": quat,
            "position": world["position"],
            # The task observes the velocity of the IMU's site, in its frame.
            "linvel": rotate_inverse(quat * [1, -1, -1, -1], np.asarray(world["linvel"], float)),
        }
        return noisy(clean, time, rng, noise, self._noise)


class DroneModel:
    """Four rotors with lag, thrust curves and drag; see `tasks.swarm.dynamics.quadrotor`."""

    agents = 1
    every_step = True
    in_place = False
    state = None

    def __init__(self, kind: type[Hover], contract: Contract, mismatch: ModelMismatch, own: Mapping[str, str]) -> None:
        config = kind.config_type(noise=False, mass_spread=0.0, thrust_spread=0.0, **own)  # type: ignore[arg-type]
        same = (preset for preset, drone in quadrotor.QUADROTORS.items() if fits(drone, contract))
        if (preset := next(same, None)) is None:
            raise RobotError(f"no drone here has the thrusts of the bundle's: {contract.row('upper')} N at most")
        self.task: Any = kind(dataclasses.replace(config, preset=preset))
        check_same(contract, describe(self.task, contract.task))
        self._mismatch, self._noise = mismatch, noise_of(contract)
        self._apply_action = jax.jit(self.task.apply_action)
        self._state: Any = None
        self._command = np.zeros(4, np.float32)
        self._target: np.ndarray | None = None

    def start(self, seed: int) -> ResetState[Any]:
        start = jax.jit(self.task.reset)(jax.random.key(seed))
        strength = np.float32(self._mismatch.motor_strength)
        self._state = dataclasses.replace(start.task_state, strength=strength)
        return dataclasses.replace(start, task_state=self._state, model=self._mismatch.fields(self.task.model))

    def commanded(self, command: np.ndarray) -> tuple[Task[Any], Callable[[Any], Any]]:
        """The commanded point is the target of the whole task."""
        return self.task.flying_to(command), lambda state: state

    def control(self, world: World, targets: Sequence[np.ndarray | None]) -> Control:
        """The rotors' wrench; without a target they run down."""
        (target,) = targets
        if target is None:
            self._target, self._command = None, np.zeros(4, np.float32)
        elif target is not self._target:
            speed = quadrotor.speed_for_thrust(self.task.drone, jnp.asarray(target, jnp.float32))
            self._target, self._command = target, np.asarray(speed)
        control, self._state = self._apply_action(world, self._state, self._command)
        wrench: Any = np.asarray(control.wrench)[None]
        return Control(wrench=wrench)

    def measure(
        self, world: World, time: float, rng: np.random.Generator, noise: float, state: Any, agent: int = 0
    ) -> Measurement:
        del state, agent
        clean = {
            "gyro": world["gyro"],
            "accelerometer": world["accelerometer"],
            "orientation": world["orientation"],
            "position": world["position"],
            "linvel": world["linvel_w"],
        }
        return noisy(clean, time, rng, noise, self._noise)


def fits(drone: quadrotor.Quadrotor, contract: Contract) -> bool:
    """Whether a drone hovers and tops out at the contract's thrusts."""
    hover = drone.hover_fraction * drone.max_thrust
    return bool(np.allclose(contract.row("upper"), drone.max_thrust) and np.allclose(contract.row("offset"), hover))


def noise_of(contract: Contract) -> dict[str, float]:
    """Part of a measurement -> standard deviation of the noise it had in training; an orientation's in rad."""
    return {SOURCES[term.source]: term.noise for term in contract.terms if term.source in SOURCES and term.noise > 0}


def noisy(
    clean: Mapping[str, Any], time: float, rng: np.random.Generator, factor: float, deviations: Mapping[str, float]
) -> Measurement:
    """A measurement with normal noise; an orientation is turned by a small random rotation."""
    parts: dict[str, Any] = {name: np.asarray(value, float) for name, value in clean.items()}
    for name, deviation in deviations.items():
        if name not in parts or not factor:
            continue
        drawn = factor * deviation * rng.standard_normal(3 if name == "orientation" else parts[name].shape)
        parts[name] = turned(parts[name], drawn) if name == "orientation" else parts[name] + drawn
    return Measurement(time, **parts)


def turned(quat: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """(4,) wxyz, turned by a rotation vector (3,) rad in the body's frame."""
    result = np.array(quat, float)
    mujoco.mju_quatIntegrate(result, rotation, 1.0)
    return result / np.linalg.norm(result)
