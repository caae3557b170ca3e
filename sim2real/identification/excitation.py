"""Trajectories that excite a robot's joints for a calibration, scaled down in simulation until every limit is kept.

The robot's base is held, its limbs are free, and its joints follow targets: chirps or multi-sines from .1 to 10 Hz (as
PACE plays them, arXiv:2509.06342). They are played on the robot's model first, and made smaller until nothing comes
near a limit: joint ranges, motor speeds, torques, the robot's own parts.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import mujoco
import numpy as np

from embodied.errors import EmbodiedError
from embodied.robot import NAME
from embodied.storage.bounds import Bound, Bounded
from sim2real.contract.contract import UNSTATED_SPEED
from sim2real.contract.limits import CLEARANCE, Limits, hung_up, limits_of, need_joints
from sim2real.contract.model_files import is_file
from sim2real.identification.excitation_signals import Order, Waveform, motion
from sim2real.logs.log import UNITS, Channel, Log

SHARE = 0.8  # of a motor's speed and torque, our choice: the rest is for what the model does not know
EDGE = 0.05  # of a joint's range that is left free at either end
STEP = 0.002  # s, longest physics step
TRIES = 40  # how often the movement is made smaller before we give up
SMALLEST = 0.005  # rad; what moves less excites nothing
LONGEST = 3600.0  # s
DURATION = Bound("from 0.1 to 3600", lambda seconds: 0.1 <= seconds <= LONGEST)
PAUSE = Bound("from 0 to 60", lambda seconds: 0 <= seconds <= 60)
LOWEST = Bound("0.001 or more", lambda frequency: frequency >= 1e-3)
AMPLITUDE = Bound("from 0.005 to 3.14", lambda radians: SMALLEST <= radians <= math.pi)
RATE = Bound("from 10 to 2000", lambda rate: 10 <= rate <= 2000)
ROWS = 8, 1_000_000  # targets; the least that a movement can be told from, and an hour at 200 Hz and more


@dataclasses.dataclass(frozen=True)
class ExcitationConfig(Bounded):
    """Which joints of a robot move, how far, how fast and how long."""

    robot: str
    """The robot: a folder of assets/robots, or a model file."""
    seconds: Annotated[float, DURATION] = 20.0
    """Duration in s; one after the other (--order each), of each joint."""
    waveform: Waveform = Waveform.CHIRP
    """Excitation signal of each joint: chirp or multisine."""
    order: Order = Order.ALL
    """Which joints move when: all at once, or each in turn."""
    low: Annotated[float, LOWEST] = 0.1
    """Lowest frequency in Hz."""
    high: float = 10.0
    """Highest frequency in Hz."""
    amplitude: Annotated[float, AMPLITUDE] = 0.5
    """Largest amplitude in rad."""
    rate: Annotated[float, RATE] = 200.0
    """Targets per second."""
    rest: Annotated[float, PAUSE] = 0.5
    """s of rest before and after."""
    ramp: float = 1.0
    """s over which the movement grows and fades."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.low < self.high <= self.rate / 4:
            raise EmbodiedError(
                f"--low {self.low} and --high {self.high} Hz at --rate {self.rate}: expected 0 < low < high <= rate / 4"
            )
        if not 0 <= self.ramp <= self.seconds / 4:
            raise EmbodiedError(
                f"--ramp {self.ramp} s and --seconds {self.seconds}: expected a ramp up to a quarter of the duration"
            )


@dataclasses.dataclass(frozen=True)
class Excitation:
    """A trajectory, and the model's response to it."""

    limits: Limits
    centre: np.ndarray
    """(n,) rad, where it begins and ends."""
    log: Log
    """The channel `command`."""
    expected: Log
    """The channels `joint_pos`, `joint_vel` and `joint_torque`, as simulated with the model's own servos."""
    clearance: float
    """m between the robot's parts at the nearest; inf where they come nowhere near each other."""


def excite(config: ExcitationConfig) -> Excitation:
    """Make a trajectory that keeps every limit in simulation.

    Raises:
        UnknownNameError: there is no such robot.
        EmbodiedError: the robot has no joints to move, or hardly any movement keeps its limits.
    """
    limits = limits_of(config.robot)
    need_joints(limits)
    joints = len(limits.names)
    margin = EDGE * (limits.upper - limits.lower)
    centre = np.clip(limits.home, limits.lower + 2 * margin, limits.upper - 2 * margin)
    room = np.minimum(limits.upper - margin - centre, centre - limits.lower - margin)
    amplitude = np.minimum(room, config.amplitude)
    speed = SHARE * np.where(np.isfinite(limits.speed), limits.speed, UNSTATED_SPEED)
    each = round(config.seconds * config.rate)
    length = config.seconds * (joints if config.order is Order.EACH else 1)
    if not (each >= ROWS[0] and length * config.rate <= ROWS[1]):
        raise EmbodiedError(
            f"{length:g} s at --rate {config.rate:g} are {length * config.rate:.0f} targets; expected {ROWS[0]} of "
            f"each joint or more, and up to {ROWS[1]}"
        )
    time = np.arange(round(length * config.rate)) / config.rate
    played = motion(config.waveform, time, joints, (config.low, config.high), config.order, config.ramp)
    stage = Stage(limits, centre, config.rate)
    pause = np.zeros((round(config.rest * config.rate), joints))
    for _ in range(TRIES):
        command = centre + np.concatenate([pause, played(amplitude, speed), pause])
        trial = stage.play(command)
        less_speed, less_amplitude = trial.too_much(limits, margin)
        if (less_speed == 1).all() and (less_amplitude == 1).all():
            return _described(config, limits, centre, command, trial)
        # Torque mostly comes from speed; where gravity causes it, the amplitude follows slowly.
        speed = speed * less_speed
        amplitude = amplitude * less_amplitude * less_speed**0.25
        if amplitude.min() < SMALLEST:
            break
    worst = int(np.argmin(amplitude))
    raise EmbodiedError(
        f"'{limits.names[worst]}' of {config.robot} cannot move by {1e3 * SMALLEST:.0f} mrad about "
        f"{centre[worst]:.2f} rad within {SHARE:.0%} of its limits"
        + (f"; say a home with more room in {NAME} beside it" if is_file(config.robot) else "")
    )


@dataclasses.dataclass(frozen=True)
class Trial:
    """Response of the model to a trajectory."""

    pos: np.ndarray
    """(t, n) rad."""
    vel: np.ndarray
    """(t, n) rad/s."""
    torque: np.ndarray
    """(t, n) N m, the largest while each target held."""
    crowded: np.ndarray
    """(n,) whether a joint brought parts of the robot too near to each other."""
    clearance: float
    """m."""

    def too_much(self, limits: Limits, margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) factors by which speeds and amplitudes must shrink; 1 where all is well."""
        strain = np.abs(self.torque).max(0) / limits.torque
        top = np.where(np.isfinite(limits.speed), limits.speed, UNSTATED_SPEED)
        strain = np.maximum(strain, np.abs(self.vel).max(0) / top)
        # A little more than needed, so that a few tries suffice.
        less_speed = np.where(strain > SHARE, 0.97 * SHARE / np.maximum(strain, SHARE), 1.0)
        outside = ((self.pos < limits.lower + 0.5 * margin) | (self.pos > limits.upper - 0.5 * margin)).any(0)
        return less_speed, np.where(outside | self.crowded, 0.85, 1.0)


class Stage:
    """A robot's model with its base held, on which trajectories are tried."""

    def __init__(self, limits: Limits, centre: np.ndarray, rate: float) -> None:
        """Compile it; parts that touch at the centre are taken to be made so."""
        self.substeps = math.ceil(1 / (rate * STEP))
        self.model = hung_up(limits.robot, 1 / (rate * self.substeps))
        self.data = mujoco.MjData(self.model)
        joints = [self.model.joint(name) for name in limits.names]
        self.qpos = np.array([joint.qposadr[0] for joint in joints])
        self.qvel = np.array([joint.dofadr[0] for joint in joints])
        self.actuators = np.array([self.model.actuator(name).id for name in limits.actuators])
        self.centre = centre
        self._moves = np.array([self._moved_by(joint.id) for joint in joints])
        self._start()
        mujoco.mj_forward(self.model, self.data)
        self._made_so = {self._pair(i) for i in range(self.data.ncon)}

    def play(self, command: np.ndarray) -> Trial:
        """Follow targets (t, n) in rad from rest at the centre."""
        self._start()
        pos, vel, torque = (np.zeros_like(command) for _ in range(3))
        crowded, clearance = np.zeros(command.shape[1], bool), math.inf
        for row, target in enumerate(command):
            self.data.ctrl[self.actuators] = target
            for _ in range(self.substeps):
                mujoco.mj_step(self.model, self.data)
                # A servo pulls hardest right after its command has stepped: the rows must not miss it.
                force = self.data.actuator_force[self.actuators]
                torque[row] = np.where(np.abs(force) > np.abs(torque[row]), force, torque[row])
            pos[row], vel[row] = self.data.qpos[self.qpos], self.data.qvel[self.qvel]
            for i in range(self.data.ncon):
                pair = self._pair(i)
                if pair in self._made_so:
                    continue
                distance = float(self.data.contact.dist[i])
                clearance = min(clearance, distance)
                if distance < CLEARANCE:
                    # Joints that move one of the parts and not the other bring them together.
                    crowded |= self._moves[:, pair[0]] != self._moves[:, pair[1]]
        return Trial(pos, vel, torque, crowded, clearance)

    def _start(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self.qpos] = self.centre
        self.data.ctrl[self.actuators] = self.centre

    def _pair(self, contact: int) -> tuple[int, int]:
        """The two bodies of a contact, the smaller number first."""
        bodies = sorted(int(self.model.geom_bodyid[geom]) for geom in self.data.contact.geom[contact])
        return bodies[0], bodies[1]

    def _moved_by(self, joint: int) -> np.ndarray:
        """(bodies,) whether a joint moves each body."""
        moved = np.zeros(self.model.nbody, bool)
        moved[self.model.jnt_bodyid[joint]] = True
        for body in range(1, self.model.nbody):
            moved[body] |= moved[self.model.body_parentid[body]]
        return moved


def _described(
    config: ExcitationConfig, limits: Limits, centre: np.ndarray, command: np.ndarray, trial: Trial
) -> Excitation:
    time = np.arange(len(command)) / config.rate
    metadata = {
        "robot": config.robot,
        "kind": "excitation",
        "waveform": f"{config.waveform}, {config.order}",
        "band": f"{config.low:g} to {config.high:g} Hz",
        "rate": repr(config.rate),
        # The limits were checked with these gains; a robot with others moves differently.
        "stiffness": " ".join(f"{value:g}" for value in limits.stiffness),
        "damping": " ".join(f"{value:g}" for value in limits.damping),
    }
    # A row of the trial is the end of the time for which its command held.
    measured = {"joint_pos": trial.pos, "joint_vel": trial.vel, "joint_torque": trial.torque}
    expected = {
        name: Channel(time + 1 / config.rate, values, limits.names, UNITS[name]) for name, values in measured.items()
    }
    log = Log({"command": Channel(time, command, limits.names, "rad")}, metadata)
    return Excitation(limits, centre, log, Log(expected, metadata), trial.clearance)
