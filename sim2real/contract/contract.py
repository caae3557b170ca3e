"""`Contract`: everything that must be the same on the robot as it was in training, as one document of full precision.

Joint order, default pose, scales, gains, rates and history are what deployments most often get wrong, so nothing of it
is left to a second source: the exported network, the C code, the safety limits and the deployment loop are all made
from this.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from embodied.errors import EmbodiedError, listing
from sim2real.contract.planner import Planner

FORMAT = 2
STATE, COMMAND, NEXT = "state.", "command.", ":next"
"""How inputs of a whole control step begin that are remembered or told, and how outputs end that are remembered."""


class ContractError(EmbodiedError):
    """A contract that contradicts itself or the policy it came with."""


@dataclasses.dataclass(frozen=True)
class Actuator:
    """One number that is written to the robot in every control step.

    target = offset + up * max(action, 0) + down * min(action, 0), within [lower, upper].
    """

    name: str
    unit: str
    """Of the target: rad for a joint's position servo, N for a rotor's thrust."""
    offset: float
    """Target at action 0."""
    up: float
    """Change of the target per unit of a positive action."""
    down: float
    """Change of the target per unit of a negative action; the same as `up` but for rotors."""
    lower: float
    """Smallest target."""
    upper: float
    """Largest target."""
    max_rate: float
    """Largest change of the target per second; inf where the robot has none."""
    stiffness: float = 0.0
    """N m/rad, gain of the servo in training."""
    damping: float = 0.0
    """N m s/rad, gain of the servo in training."""
    max_effort: float = math.inf
    """N m (N of a rotor), largest effort."""
    joint: str = ""
    """The joint it drives; empty of rotors."""


@dataclasses.dataclass(frozen=True)
class Joint:
    """One measured joint."""

    name: str
    default: float
    """rad, the pose that angles are observed from."""
    lower: float
    """rad, where a safe robot stops."""
    upper: float
    """rad."""
    max_velocity: float
    """rad/s, the motor's; inf where nobody states it."""
    armature: float = 0.0
    """kg m^2, the rotor's inertia seen at the joint, as training had it."""
    friction: float = 0.0
    """N m, dry friction in training."""
    axis: tuple[float, ...] = ()
    """(3,) about (along) which it turns (moves) with positive sign, in the body's own frame; empty: not stated."""
    body: str = ""
    """The body that it moves."""


@dataclasses.dataclass(frozen=True)
class Rotor:
    """One rotor, in the order of actions, as training had it."""

    position: tuple[float, float, float]
    """m from the centre of mass, body frame: x forward, y left, z up."""
    axis: tuple[float, float, float]
    """Along which it pushes, body frame."""
    spin: int
    """1 counter-clockwise seen from where it pushes, -1 clockwise; the body is driven the other way."""
    thrust: tuple[float, float]
    """N = thrust[0] n + thrust[1] n^2 at a speed n, rpm of a Crazyflie, else a fraction of the largest."""
    torque: tuple[float, float]
    """N m = torque[0] n + torque[1] n^2, reaction about its axis."""
    speed_up: tuple[float, ...]
    """n' = a (c - n) + b (c^2 - n^2) while the command c exceeds n: a 1/s and b; empty: no lag."""
    speed_down: tuple[float, ...]
    """The same while c is below n."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where something sits on a body."""

    body: str
    position: tuple[float, float, float]
    """m, in the body's frame."""
    quaternion: tuple[float, float, float, float]
    """wxyz, from its own frame to the body's."""


@dataclasses.dataclass(frozen=True)
class Term:
    """Some consecutive numbers of the observation."""

    name: str
    """As the task calls it."""
    source: str
    """What computes it: a name in `sim2real.deployment.terms`."""
    size: int
    unit: str
    noise: float = 0.0
    """Standard deviation of the noise it had in training."""
    history: int = 1
    """Control steps it holds, newest last."""
    meaning: str = ""
    """What the numbers are, with the frame they are in, and what they are before anything has happened."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Some numbers that are measured, or estimated from what is."""

    name: str
    size: int
    unit: str
    meaning: str
    """What they are, with the frame they are in."""


@dataclasses.dataclass(frozen=True)
class Told:
    """Some numbers that an operator, a planner or an estimator gives."""

    name: str
    size: int
    meaning: str
    """What they are, with units and frame."""
    example: tuple[float, ...]
    """One episode's."""
    places: tuple[int, ...] = ()
    """Which numbers of the task's field these are; empty: all. Of a team, those that one robot needs."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """scale x a number that is measured when the policy begins + offset."""

    source: str
    place: int
    scale: float = 1.0
    offset: float = 0.0


@dataclasses.dataclass(frozen=True)
class Remembered:
    """Some numbers that a step hands to the next."""

    name: str
    size: int
    begin: tuple[float, ...]
    """Before the first step."""
    measured: tuple[Measured, ...] = ()
    """What each number begins with instead, where they follow from what is measured then."""
    told: str = ""
    """What somebody has to say before the first step: what the numbers are; `begin` is an example."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A whole control step as one computation: from what is measured to targets, inverse kinematics and all.

    Inputs of `policy.onnx` are `sources` by their names, `command.NAME` for each of `told`, and `state.NAME` for each
    of `remembered`, and `planned.action` where there is a `planner`; outputs are `target` (A,), `observation` and
    `action`, and `state.NAME:next`, which go into the next step as `state.NAME`.
    """

    sources: tuple[Source, ...]
    told: tuple[Told, ...]
    remembered: tuple[Remembered, ...]
    action_size: int
    """Numbers of the policy's own action."""
    base: tuple[float, ...] = ()
    """Position m and quaternion wxyz of the robot's fixed base in the world's frame; empty: it floats."""
    base_body: str = ""
    """Which body of the model that is."""
    planner: Planner | None = None
    """The network that sees and chooses the actions, in a file of its own; None: the step has the whole policy."""


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """The model file of a robot of one's own: only a simulation needs it, and only this one will do."""

    path: str
    """Where it lay when the policy was trained."""
    sha256: str
    """Of its content."""
    description: str = ""
    """SHA-256 of what the `robot.toml` beside it said; empty: there was none."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not isinstance(value := getattr(self, field.name), str):
                raise ContractError(f"model: {field.name} is {value!r}; expected a text")


@dataclasses.dataclass(frozen=True)
class Contract:
    """What a policy expects of the robot that runs it."""

    task: str
    robot: str
    control_hz: float
    """Policy steps per second."""
    physics_hz: float
    """Physics steps per second in training."""
    actuators: tuple[Actuator, ...]
    """In the order of actions."""
    joints: tuple[Joint, ...]
    """In the order of the observation; none of a drone."""
    terms: tuple[Term, ...]
    """In the order of the observation."""
    command: tuple[str, ...] = ()
    """Names, with units, of what an operator sets, such as a velocity: the term whose source is `command`."""
    command_ranges: tuple[tuple[float, float], ...] = ()
    """Smallest and largest value of each in training."""
    latency: tuple[float, float] = (0.0, 0.0)
    """s, range of the delay of commands in training."""
    workspace: tuple[tuple[float, float], ...] = ()
    """m, x, y and z between which the body may be; empty: anywhere."""
    gait_hz: float = 0.0
    """Steps of each foot per second that the term with source `clock` counts; 0 without one."""
    mass: float = 0.0
    """kg of the whole robot in training; 0: not stated."""
    rotors: tuple[Rotor, ...] = ()
    """Of a drone."""
    imu: Place | None = None
    """Where gyro, accelerometer and `linvel` are measured; None: not stated, or at the body's origin."""
    max_tilt: float = math.inf
    """rad between the body's z axis and up, beyond which the robot has fallen."""
    quaternion: str = "wxyz"
    """Order of quaternions everywhere."""
    format: int = FORMAT
    model: ModelFile | None = None
    """The file of a robot of one's own; None of robots under assets/."""
    step: Step | None = None
    """Of policies whose network is one part of a computation that begins at the measurements; None where the terms
    above and the rule of `Actuator` are all there is beside the network."""

    def __post_init__(self) -> None:
        for kind, items in (("actuator", self.actuators), ("joint", self.joints), ("term", self.terms)):
            names = [item.name for item in items]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ContractError(f"two {kind}s are called {listing(twice)}")
        if self.format != FORMAT:
            raise ContractError(f"format {self.format!r}; this version reads {FORMAT}: export it again")
        if self.quaternion != "wxyz":
            raise ContractError(f"quaternions of order {self.quaternion!r}; expected 'wxyz'")
        if not (self.control_hz > 0 and math.isfinite(self.control_hz)):
            raise ContractError(f"control_hz={self.control_hz}; expected a positive number")
        known = {joint.name for joint in self.joints}
        for actuator in self.actuators:
            if not actuator.lower <= actuator.offset <= actuator.upper:
                raise ContractError(
                    f"actuator '{actuator.name}': offset {actuator.offset} lies outside [{actuator.lower}, "
                    f"{actuator.upper}] {actuator.unit}"
                )
            if actuator.joint and actuator.joint not in known:
                raise ContractError(
                    f"actuator '{actuator.name}' drives joint '{actuator.joint}'; known: {listing(known)}"
                )
        if len(self.command) != len(self.command_ranges):
            raise ContractError(f"{len(self.command)} commands with {len(self.command_ranges)} ranges")
        for command, (low, high) in zip(self.command, self.command_ranges, strict=True):
            if not low <= high:
                raise ContractError(f"command '{command}': its range is [{low}, {high}]")

    @property
    def observation_size(self) -> int:
        return sum(term.size * term.history for term in self.terms)

    @property
    def action_size(self) -> int:
        return len(self.actuators) if self.step is None else self.step.action_size

    @property
    def period(self) -> float:
        return 1.0 / self.control_hz

    def row(self, field: str) -> np.ndarray:
        """(A,) float64, one field of all actuators, in the order of actions."""
        return np.array([getattr(actuator, field) for actuator in self.actuators], float)

    def joint_row(self, field: str) -> np.ndarray:
        """(n,) float64, one field of all joints."""
        return np.array([getattr(joint, field) for joint in self.joints], float)

    def target(self, action: np.ndarray) -> np.ndarray:
        """(..., A) targets, in each actuator's unit, that an action (..., A) means."""
        action = np.clip(action, -1.0, 1.0)
        moved = self.row("up") * np.maximum(action, 0.0) + self.row("down") * np.minimum(action, 0.0)
        return np.clip(self.row("offset") + moved, self.row("lower"), self.row("upper"))


class DeployablePolicy(Protocol):
    """A policy with its contract: a bundle, or anything that behaves like one."""

    contract: Contract

    def run(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Action (A,) in [-1, 1] and target (A,) in the actuators' units, from an observation (n,) float32."""
        ...


class StepPolicy(Protocol):
    """A policy whose contract has a whole control step."""

    contract: Contract

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Outputs of a whole control step by name; NaN of inputs that are not finite."""
        ...


class PlanningPolicy(StepPolicy, Protocol):
    """A policy whose step is told actions that a network plans from images."""

    def plan(self, images: Mapping[str, np.ndarray], observation: np.ndarray, instruction: str) -> np.ndarray:
        """(chunk, k) actions in [-1, 1].

        Args:
            images: Camera -> (height, width, 3) uint8, RGB.
            observation: (n,) of the step.
            instruction: What it is told; empty: its default.

        Raises:
            EmbodiedError: an image or the instruction is none that it takes.
        """
        ...
