"""`lerobot`: an object with LeRobot's Robot interface: connect, get_observation, send_action, disconnect.

Only the interface is used, so anything that has it will do, and LeRobot need not be installed to import this. Its
dictionaries have an entry `MOTOR.pos` for each motor, in degrees or in percent of the calibrated range, and one with a
picture (height, width, 3) uint8, RGB, for each camera. Speeds are differences of angles; pictures are cut and scaled to
what the policy sees, whose angle of view the camera has to have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import time
from typing import Any, Protocol

import cv2
import numpy as np

from embodied.errors import EmbodiedError, listing, reason
from sim2real.contract.contract import Contract
from sim2real.contract.planner import IMAGE, PolicyCamera
from sim2real.robots.base import Measurement, Robot, RobotError

SMOOTHING = 0.5  # of each new difference in the estimate of speeds: encoders of 12 bit have steps of 1.5 mrad


class LeRobotDevice(Protocol):
    """LeRobot's `Robot`, as far as it is used."""

    def connect(self) -> None: ...

    def get_observation(self) -> dict[str, Any]:
        """Keys `MOTOR.pos`, and the names of cameras."""
        ...

    def send_action(self, action: dict[str, Any]) -> Any:
        """Keys `MOTOR.pos`."""
        ...

    def disconnect(self) -> None: ...


class Units(enum.StrEnum):
    """Unit of a motor's numbers."""

    DEGREES = "degrees"
    """Degrees from the calibrated middle."""
    PERCENT = "percent"
    """-100 to 100 between the ends of the calibrated range, which are the contract's joint limits."""


@dataclasses.dataclass(frozen=True)
class LeRobotOptions:
    """Which object, and how its numbers are meant."""

    device: str = ""
    """`module:callable` that returns the object when called without arguments."""
    units: Units = Units.DEGREES
    """Of the motors' positions: degrees, or percent of the range (LeRobot's -100 to 100)."""
    motors: tuple[str, ...] = ()
    """Names of the motors in the order of the contract's joints; by default the joints' own names."""
    reversed: tuple[str, ...] = ()
    """Motors that turn against the joint's axis."""
    offset: tuple[float, ...] = ()
    """rad, each joint's angle where its motor reads 0 degrees; by default 0. Not for percent."""


def connect(contract: Contract, options: LeRobotOptions) -> LeRobot:
    module, _, attribute = options.device.partition(":")
    if not module or not attribute:
        raise EmbodiedError(
            f"--device {options.device!r}; expected module:callable that returns a connected-to-be LeRobot robot, "
            "such as my_arm:make"
        )
    try:
        device = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise RobotError(f"--device {options.device!r} cannot be imported: {error}") from None
    return LeRobot(contract, device, options)


class LeRobot(Robot):
    """Adapter of LeRobot's Robot interface."""

    name = "lerobot"

    def __init__(self, contract: Contract, device: LeRobotDevice, options: LeRobotOptions | None = None) -> None:
        """Connect and read once.

        Raises:
            RobotError: it does not connect, or lacks a motor.
            EmbodiedError: options that do not fit the contract's joints.
        """
        options = options or LeRobotOptions()
        joints = [joint.name for joint in contract.joints]
        driven = [actuator.joint for actuator in contract.actuators]
        if driven != joints:
            raise RobotError(
                f"actuators drive {listing(driven)}; expected each joint once, in order: {listing(joints)}"
            )
        turned = options.units is Units.DEGREES
        if other := [f"{a.name} in {a.unit}" for a in contract.actuators if a.unit not in ("rad", "m")[: 2 - turned]]:
            raise RobotError(
                f"the bundle commands {listing(other)}; motors in {options.units.value} take rad"
                + " or m" * (not turned)
            )
        motors = options.motors or tuple(joints)
        for what, names in (("motors", motors), ("offset", options.offset or joints)):
            if len(names) != len(joints):
                raise EmbodiedError(f"--{what} has {len(names)} values; expected {len(joints)}: {listing(joints)}")
        if unknown := sorted(set(options.reversed) - set(motors)):
            raise EmbodiedError(f"--reversed names {listing(unknown)}; the motors are {listing(motors)}")
        self._device, self._keys = device, [f"{motor}.pos" for motor in motors]
        self._scale, self._zero = scales(contract, options, motors)
        planner = contract.step.planner
        self._cameras = () if planner is None else planner.cameras
        self._last: Measurement | None = None
        self._held: np.ndarray | None = None
        self._limp = False
        try:
            device.connect()
        except Exception as error:  # drivers of motors raise what they like
            raise RobotError(f"the robot does not connect: {reason(error)}") from None
        try:
            self.read()
        except BaseException:
            with contextlib.suppress(Exception):
                device.disconnect()
            raise

    def read(self) -> Measurement:
        """Angles from the bus, speeds by differences, pictures; a `RobotError` where a motor does not answer."""
        observation = self._device.get_observation()
        if missing := [key for key in self._keys if key not in observation]:
            raise RobotError(f"the robot does not observe {listing(missing)}; it has {listing(observation)}")
        angles = self._zero + self._scale * np.array([float(observation[key]) for key in self._keys])
        taken, last = time.monotonic(), self._last
        speed = np.zeros(len(angles))
        if last is not None and last.joint_pos is not None and last.joint_vel is not None and taken > last.time:
            difference = (angles - last.joint_pos) / (taken - last.time)
            speed = last.joint_vel + SMOOTHING * (difference - last.joint_vel)
        shown = {f"{IMAGE}{one.name}": fitted(observation[one.name], one) for one in self._cameras_of(observation)}
        self._last = Measurement(taken, joint_pos=angles, joint_vel=speed, readings=shown)
        return self._last

    def _cameras_of(self, observation: dict[str, Any]) -> list[PolicyCamera]:
        """The policy's cameras that an observation has; an estimator may have the others."""
        return [camera for camera in self._cameras if camera.name in observation]

    def write(self, target: np.ndarray) -> None:
        self._held = None
        self._send(target)
        if self._limp:
            # After the goal, which is near where the robot is: before it, it would jump to an old one.
            self._device.bus.enable_torque()  # type: ignore[attr-defined]
            self._limp = False

    def damp(self) -> None:
        """Torque off where the object's motor bus can do that; else hold the pose of the first call."""
        bus: Any = getattr(self._device, "bus", None)
        if hasattr(bus, "disable_torque"):
            bus.disable_torque()
            self._limp = True
            return
        if self._held is None:
            self._held = self.read().joint_pos
        if self._held is not None:
            self._send(self._held)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.damp()
        self._device.disconnect()

    def _send(self, angles: np.ndarray) -> None:
        numbers = (np.asarray(angles, float) - self._zero) / self._scale
        self._device.send_action(dict(zip(self._keys, map(float, numbers), strict=True)))


def fitted(picture: Any, camera: PolicyCamera) -> np.ndarray:
    """(height, width, 3) uint8: a picture cut about its middle to the proportions of what a policy sees, and scaled.

    Raises:
        RobotError: it is no picture (height, width, 3) uint8.
    """
    picture = np.asarray(picture)
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        raise RobotError(f"camera '{camera.name}' gives {picture.dtype} {picture.shape}; expected uint8 (h, w, 3), RGB")
    height, width = picture.shape[:2]
    tall, wide = min(height, width * camera.height // camera.width), min(width, height * camera.width // camera.height)
    top, left = (height - tall) // 2, (width - wide) // 2
    cut = np.ascontiguousarray(picture[top : top + tall, left : left + wide])
    return cv2.resize(cut, (camera.width, camera.height), interpolation=cv2.INTER_AREA)


def scales(contract: Contract, options: LeRobotOptions, motors: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """rad per unit (n,), and rad at zero (n,)."""
    low, high = contract.joint_row("lower"), contract.joint_row("upper")
    if options.units is Units.PERCENT:
        scale, zero = (high - low) / 200.0, (high + low) / 2
    else:
        scale = np.full(len(motors), np.pi / 180)
        zero = np.array(options.offset, float) if options.offset else np.zeros(len(motors))
    sign = np.array([-1.0 if motor in options.reversed else 1.0 for motor in motors])
    return sign * scale, zero
