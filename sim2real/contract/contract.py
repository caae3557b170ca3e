"""`Contract`: everything that must be the same on the robot as it was in training, as one document of full precision.

Joint order, default pose, scales, gains and rates are what deployments most often get wrong, so nothing of it is left
to a second source: the exported step, the C code, the safety limits and the deployment loop are all made from this.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from embodied.errors import EmbodiedError, listing
from sim2real.contract.planner import Planner

FORMAT = 3
STATE, COMMAND, NEXT = "state.", "command.", ":next"
"""Prefixes of a step's inputs that are its state or commands, and suffix of outputs that are its next state."""

UNSTATED_SPEED = 6.0  # rad/s, our choice for motors whose maker's limit is not stated in this suite


class ContractError(EmbodiedError):
    """A contract that contradicts itself or the policy it came with."""


@dataclasses.dataclass(frozen=True)
class Actuator:
    """One number that is written to the robot in every control step.

    Where `up` and `down` are not both 0, target = offset + up * max(action, 0) + down * min(action, 0), within [lower,
    upper], of the action with the same index; the exported step computes it.
    """

    name: str
    unit: str
    """Of the target, such as rad for a joint's position servo."""
    offset: float
    """Target at action 0 where that is the same at any time, else in the home pose: the first target of a robot that is
    brought to its stance, and that of a step which fails."""
    up: float
    """Change of the target per unit of a positive action; 0 where the target follows from more than the action."""
    down: float
    """Change of the target per unit of a negative action."""
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
    """The joint it drives; empty for rotors."""


@dataclasses.dataclass(frozen=True)
class Joint:
    """One measured joint."""

    name: str
    default: float
    """rad (m of a slide), in the home pose."""
    lower: float
    """rad, where a safe robot stops."""
    upper: float
    """rad."""
    max_velocity: float
    """rad/s, the motor's; inf where it is not stated."""
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
    """Pose on a body."""

    body: str
    position: tuple[float, float, float]
    """m, in the body's frame."""
    quaternion: tuple[float, float, float, float]
    """wxyz, from its own frame to the body's."""


@dataclasses.dataclass(frozen=True)
class Term:
    """Some consecutive numbers of the observation, which the step computes."""

    name: str
    """As the task calls it."""
    size: int
    unit: str = ""
    """Empty: not stated."""
    meaning: str = ""
    """Meaning of the numbers, with the frame they are in; empty: not stated."""
    noise: float = 0.0
    """Standard deviation of the noise it had in training."""
    source: str = ""
    """Source of the step whose errors this noise stands for; empty: not stated."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Some numbers that are measured, or estimated from what is."""

    name: str
    size: int
    unit: str
    meaning: str
    """Meaning of the numbers, with the frame they are in."""


@dataclasses.dataclass(frozen=True)
class Number:
    """One number of a command."""

    name: str
    unit: str
    lower: float
    """Smallest value."""
    upper: float
    """Largest value."""


@dataclasses.dataclass(frozen=True)
class Command:
    """Some numbers that an operator, a planner or an estimator gives."""

    name: str
    size: int
    meaning: str
    """Meaning of the numbers, with units and frame."""
    example: tuple[float, ...]
    """One episode's."""
    places: tuple[int, ...] = ()
    """Which numbers of the task's field these are; empty: all. For a team, those that one robot needs."""
    numbers: tuple[Number, ...] = ()
    """Each of them with its range; empty: not stated."""


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
    """Initial value of each number instead of `begin`, where it follows from what is measured then."""
    given: str = ""
    """Meaning of numbers that have to be given before the first step, of which `begin` is an example; empty: none."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A control step as one computation: from what is measured to targets, inverse kinematics and all.

    Inputs of `policy.onnx` are `sources` by their names, `command.NAME` for each of `commands`, and `state.NAME` for
    each of `remembered`, and `planned.action` where there is a `planner`; outputs are `target` (A,), `observation` and
    `action`, and `state.NAME:next`, which go into the next step as `state.NAME`.
    """

    sources: tuple[Source, ...]
    commands: tuple[Command, ...]
    remembered: tuple[Remembered, ...]
    action_size: int
    """Numbers of the policy's own action."""
    base: tuple[float, ...] = ()
    """Position m and quaternion wxyz of the robot's fixed base in the world's frame; empty: it floats."""
    base_body: str = ""
    """Name of that body in the model."""
    planner: Planner | None = None
    """The network that sees and chooses the actions, in a file of its own; None: the step has the whole policy."""


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A user's own model file: only a simulation needs it, and only this one will do."""

    path: str
    """Path when the policy was trained."""
    sha256: str
    """Of its content."""
    description: str = ""
    """SHA-256 of the description in the `robot.toml` beside it; empty: there was none."""


@dataclasses.dataclass(frozen=True)
class Contract:
    """Requirements of a policy on the robot that runs it."""

    task: str
    robot: str
    control_hz: float
    """Policy steps per second."""
    physics_hz: float
    """Physics steps per second in training."""
    actuators: tuple[Actuator, ...]
    """In the order of targets."""
    joints: tuple[Joint, ...]
    """In the order of the sources `joint_pos` and `joint_vel`: those that actuators drive first, in their order."""
    terms: tuple[Term, ...]
    """In the order of the observation."""
    step: Step
    """The policy with all that stood between measurements and motors in training."""
    latency: tuple[float, float] = (0.0, 0.0)
    """s, range of the delay of commands in training."""
    workspace: tuple[tuple[float, float], ...] = ()
    """m, x, y and z between which the body may be; empty: anywhere."""
    mass: float = 0.0
    """kg of the whole robot in training; 0: not stated."""
    rotors: tuple[Rotor, ...] = ()
    """Of a drone."""
    imu: Place | None = None
    """Pose of gyro, accelerometer and `linvel`; None: not stated, or at the body's origin."""
    max_tilt: float = math.inf
    """rad between the body's z axis and up, beyond which the robot has fallen."""
    quaternion: str = "wxyz"
    """Order of quaternions everywhere."""
    format: int = FORMAT
    model: ModelFile | None = None
    """A user's own model file; None for robots under assets/."""
    config: str = "{}"
    """The task's options where they are not the defaults, as JSON: only a simulation needs them."""

    def __post_init__(self) -> None:
        for kind, items in (("actuator", self.actuators), ("joint", self.joints), ("term", self.terms)):
            names = [item.name for item in items]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ContractError(f"two {kind}s are called {listing(twice)}")
        if self.format != FORMAT:
            raise ContractError(f"format {self.format!r}; this version reads {FORMAT}: export it again")
        if not isinstance(_options(self.config), dict):
            raise ContractError(f"config is {self.config!r}; expected the task's changed options as a JSON object")
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
                driven = f"'{actuator.name}' drives joint '{actuator.joint}'"
                raise ContractError(f"actuator {driven}; known: {listing(known)}")
        for command in self.step.commands:
            if command.numbers and len(command.numbers) != command.size:
                named = len(command.numbers)
                raise ContractError(f"command '{command.name}' has {command.size} numbers, and names {named}")
            for number in command.numbers:
                if not number.lower <= number.upper:
                    raise ContractError(f"command '{number.name}': its range is [{number.lower}, {number.upper}]")

    @property
    def observation_size(self) -> int:
        return sum(term.size for term in self.terms)

    @property
    def action_size(self) -> int:
        return self.step.action_size

    @property
    def command_size(self) -> int:
        """Numbers of an operator's command: those of all commands of the step, one after the other."""
        return sum(command.size for command in self.step.commands)

    @property
    def command(self) -> tuple[Number, ...]:
        """The numbers of an operator's command; empty where there are none, or not each number's range is stated."""
        numbers = tuple(number for command in self.step.commands for number in command.numbers)
        return numbers if len(numbers) == self.command_size else ()

    @property
    def period(self) -> float:
        return 1.0 / self.control_hz

    @property
    def rest_range(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,), (n,) rad, bound of each joint's motion from home to the stance and while actions are zero.

        Between home and stance, and further by what a servo's largest effort bends it; infinite where no servo holds
        the joint. Damped, the robot sinks from there.
        """
        lower, upper = np.full(len(self.joints), -math.inf), np.full(len(self.joints), math.inf)
        places = {joint.name: place for place, joint in enumerate(self.joints)}
        for actuator in (one for one in self.actuators if one.joint and one.stiffness > 0):
            joint, bend = self.joints[places[actuator.joint]], actuator.max_effort / actuator.stiffness
            ends = sorted((joint.default, actuator.offset))
            lower[places[joint.name]] = max(joint.lower, ends[0] - bend)
            upper[places[joint.name]] = min(joint.upper, ends[1] + bend)
        return lower, upper

    def row(self, field: str) -> np.ndarray:
        """(A,) float64, one field of all actuators, in the order of actions."""
        return np.array([getattr(actuator, field) for actuator in self.actuators], float)

    def joint_row(self, field: str) -> np.ndarray:
        """(n,) float64, one field of all joints."""
        return np.array([getattr(joint, field) for joint in self.joints], float)


def _options(text: str) -> Any:
    """Value of a JSON text; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


class DeployablePolicy(Protocol):
    """A policy with its contract: a bundle, or anything that behaves like one."""

    contract: Contract

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Outputs of a control step by name; NaN for inputs that are not finite."""
        ...


class PlanningPolicy(DeployablePolicy, Protocol):
    """A policy whose step takes actions that a network plans from images."""

    def plan(self, images: Mapping[str, np.ndarray], observation: np.ndarray, instruction: str) -> np.ndarray:
        """(chunk, k) actions in [-1, 1].

        Args:
            images: Camera -> (height, width, 3) uint8, RGB.
            observation: (n,) of the step.
            instruction: What it shall do; empty: its default.

        Raises:
            EmbodiedError: an image or the instruction does not fit.
        """
        ...
