"""`RobotModel`: the robot of a contract's task without its engine: its actuators, its sensors and its commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.facets import Operator, Pictures, Team
from embodied.core.task import Task
from embodied.core.world import Control, ResetState, World
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from embodied.storage.configs import from_json, to_json
from embodied.storage.trees import with_leaves
from sim2real.contract import model_files
from sim2real.contract.contract import COMMAND, STATE, Contract
from sim2real.graphs.control import jitted_reset, nominal, with_commands
from sim2real.graphs.describe import robot_contract
from sim2real.graphs.reference import with_numbers
from sim2real.graphs.tracing.sources import JOINT_POS, JOINT_VEL, Sources
from sim2real.robots.attitude import conjugate, rotate_inverse
from sim2real.robots.base import Measurement
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.photographer import Photographer
from sim2real.robots.simulation.same_robot import check_same

QUATERNION = 4  # numbers
STRENGTH = "strength"  # field of a drone's state: factor on the thrust of its rotors


class RobotModel:
    """The task's own model, moved by the targets of a step; it also gives what the task itself gives the policy."""

    def __init__(self, contract: Contract, mismatch: ModelMismatch, file: Path | None = None) -> None:
        """Make the robot of a contract.

        Args:
            contract: Of the policy.
            mismatch: In what the robot differs from the model that the policy was trained on.
            file: Where a user's own model file lies; by default the contract's path.

        Raises:
            EmbodiedError: it cannot be simulated here, or the file is not there, or not the one of the training.
        """
        self.task: Task[Any] = nominal(_task_of(contract, file))
        team = self.task.team or Team(1)
        self.agents = team.agents
        """Robots in it."""
        operator = self.task.operator or Operator()
        self.every_step = bool(operator.setpoints)
        """Whether forces change from physics step to physics step under one target."""
        self.in_place = not operator.deployment.stands
        """Whether it begins as an episode does and is not moved to its stance first."""
        check_same(contract, robot_contract(self.task, contract))
        self._mismatch, self._contract = mismatch, contract
        self._sources = Sources(self.task.model, [joint.name for joint in contract.joints])
        self._state: Any = None
        self._apply = jax.jit(self.task.apply_action)
        self._seen_by = jax.jit(team.seen_by)
        self._photographer = Photographer.of(self.task, contract.step.planner)
        limp = np.zeros(len(contract.actuators))
        self._limp = limp if contract.rotors else np.clip(limp, contract.row("lower"), contract.row("upper"))
        self._bias = np.asarray(mismatch.encoder_bias) if mismatch.encoder_bias else np.zeros(len(contract.joints))
        self._noise = {term.source: term.noise for term in contract.terms if term.source and term.noise > 0}
        floats = contract.imu is not None and not contract.step.base and self.agents == 1
        self._parts = _parts(self.task.model, contract) if floats else _first_body(self.task) if self.task.team else {}

    def start(self, seed: int) -> ResetState[Any]:
        """Initial state, with the parameters of this robot."""
        start = jitted_reset(self.task)(jax.random.PRNGKey(seed))
        self._state = self._of_strength(start.task_state)
        model, gains = self._with_gains()
        fields = {**gains, **self._mismatch.fields(model)}
        return dataclasses.replace(start, task_state=self._state, model={**start.model, **fields})

    def _of_strength(self, state: Any) -> Any:
        """A drone's state with the strength of this robot's rotors; any other as it is."""
        if not any(term.state_field == STRENGTH for term in self.task.declared_terms()):
            return state
        return with_leaves(state, {STRENGTH: lambda leaf: jnp.full_like(leaf, self._mismatch.motor_strength)})

    def _with_gains(self) -> tuple[mujoco.MjModel, dict[str, np.ndarray]]:
        """The model with the contract's gains, which a bundle brings along to a simulated robot as to a real one."""
        model = self.task.model.__copy__()
        for number, actuator in enumerate(self._contract.actuators):
            if actuator.joint:
                model.actuator_gainprm[number, 0] = actuator.stiffness
                model.actuator_biasprm[number, 1:3] = -actuator.stiffness, -actuator.damping
        return model, {name: getattr(model, name) for name in ("actuator_gainprm", "actuator_biasprm")}

    @property
    def state(self) -> Any:
        """The task's state at the start."""
        return self._state

    def commanded(self, command: np.ndarray) -> tuple[Task[Any], Callable[[Any], Any]]:
        """The task, and what puts a command (k,) into its state; without a command the task's own draws stay."""
        if not len(command):
            return self.task, lambda state: state
        written, start = {}, 0
        for one in self._contract.step.commands:
            written[one.name] = (one.places, command[start : start + one.size])
            start += one.size
        return self.task, lambda state: with_numbers(with_commands(self.task, state), written)

    def control(self, world: World, targets: Sequence[np.ndarray | None]) -> Control:
        """Inputs of the actuators, or what the robots' own controllers make of setpoints; None damps."""
        if self.every_step:
            rows = np.array([self._limp if target is None else target for target in targets])
            command = jnp.asarray(rows if self.task.team else rows[0], jnp.float32)
            control, self._state = self._apply(world, self._state, command)
            return jax.tree.map(lambda leaf: np.asarray(leaf)[None], control)
        (target,) = targets
        ctrl: Any = np.array(self._damped(world) if target is None else target)[None]
        mocap = (self.task.pictures or Pictures()).mocap_positions(self._state)
        return Control(ctrl=ctrl, mocap_pos=None if mocap is None else np.asarray(mocap)[None])  # type: ignore[arg-type]

    def _damped(self, world: World) -> np.ndarray:
        """Servos aim where they are; motors rest."""
        model, ctrl = self.task.model, self._limp.copy()
        for number, actuator in enumerate(self._contract.actuators):
            if actuator.joint:
                ctrl[number] = world.qpos[model.joint(actuator.joint).qposadr[0]]
        return ctrl

    def measure(
        self, world: World, time: float, rng: np.random.Generator, noise: float, state: Any, agent: int = 0
    ) -> Measurement:
        """An agent's sensors, with `noise` times training's where the task states which sensors had it.

        Args:
            world: Now.
            time: s.
            rng: For the noise.
            noise: Factor.
            state: The task's; None before it is evaluated.
            agent: Which one.
        """
        begun, state = self._state, self._state if state is None else with_commands(self.task, state)
        if self.agents > 1:
            _, begun = self._seen_by(world, begun, agent)
            world, state = self._seen_by(world, state, agent)
        parts = (np.asarray(part, float) for part in (world.qpos, world.qvel, world.sensordata))
        readings = self._noisy(self._sources.values(*parts), rng, noise)
        readings[JOINT_POS] = readings[JOINT_POS] + self._bias
        for one in self._contract.step.commands:
            value = _leaf(state, one.name).reshape(-1)
            readings[f"{COMMAND}{one.name}"] = value[list(one.places)] if one.places else value
        for one in self._contract.step.remembered:
            if one.given:
                readings[f"{STATE}{one.name}"] = _leaf(begun, one.name).reshape(-1)
        known = {name: part(readings) for name, part in self._parts.items()}
        if self._contract.joints:
            known |= {"joint_pos": readings[JOINT_POS], "joint_vel": readings[JOINT_VEL]}
        seen = self._photographer
        return Measurement(time, **known, readings=seen.beside(readings, world, state) if seen else readings)

    def _noisy(
        self, readings: Mapping[str, np.ndarray], rng: np.random.Generator, factor: float
    ) -> dict[str, np.ndarray]:
        """Readings with normal noise; an orientation is turned by a small random rotation."""
        noisy = dict(readings)
        for name, deviation in self._noise.items() if factor else ():
            clean = noisy[name]
            size = 3 if clean.size == QUATERNION else clean.size
            drawn = factor * deviation * rng.standard_normal(size)
            noisy[name] = turned(clean, drawn) if clean.size == QUATERNION else clean + drawn
        return noisy


def _task_of(contract: Contract, file: Path | None) -> Task[Any]:
    """The task of a contract with the options of the training."""
    if contract.model is None and file is not None:
        raise EmbodiedError(f"--robot-file {file}: the {contract.robot} of this policy comes with embodied")
    own = {} if contract.model is None else {"robot": str(model_files.found(contract.model, file))}
    kind: Any = join_content()[contract.task].load()
    config = dataclasses.replace(kind.config_type(), **own)
    if changed := json.loads(contract.config):
        config = from_json(kind.config_type, {**to_json(config), **changed}, f"options of '{contract.task}'")
    return kind(config)


def _parts(model: mujoco.MjModel, contract: Contract) -> dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]:
    """Part of a measurement of a floating robot -> its value from the readings, as far as the model has the sensors."""
    sensors = {model.sensor(number).name for number in range(model.nsensor)}
    found: dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]] = {}
    for name in sensors & {"gyro", "accelerometer", "orientation", "position"}:
        found[name] = lambda readings, name=name: readings[name]
    read = {source.name for source in contract.step.sources}
    if {"linvel", "orientation"} <= sensors and "linvel_w" not in read:  # of a velocimeter, in the body's frame
        found["linvel"] = lambda readings: rotate_inverse(conjugate(readings["orientation"]), readings["linvel"])
    elif "linvel_w" in sensors:
        found["linvel"] = lambda readings: readings["linvel_w"]
    torques = [f"{joint.name}_torque" for joint in contract.joints]
    if torques and sensors.issuperset(torques):
        found["joint_torque"] = lambda readings: np.concatenate([readings[name] for name in torques])
    return found


def _first_body(task: Task[Any]) -> dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]:
    """Position of the first floating body: of a team that is seen by one of its robots, that one. Else nothing."""
    free = np.flatnonzero(task.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    if not len(free):
        return {}
    name = task.model.body(int(task.model.jnt_bodyid[free[0]])).name
    return {"position": lambda readings: readings[f"{name}.pos"]}


def turned(quat: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """(4,) wxyz, turned by a rotation vector (3,) rad in the body's frame."""
    result = np.array(quat, float)
    mujoco.mju_quatIntegrate(result, rotation, 1.0)
    return result / np.linalg.norm(result)


def _leaf(state: Any, path: str) -> np.ndarray:
    for name in path.split("."):
        state = getattr(state, name)
    return np.asarray(state, float)
