"""`crazyflie`: a Crazyflie by radio, with the policy on board.

A policy of rotor thrusts runs in the firmware, as the out-of-tree controller of the exported bundle: rotors cannot be
commanded by radio at a useful rate. So this driver flies by setpoints. The firmware's own controller takes off and
lands; the policy takes over for the run, with position setpoints in the world frame. Those go through
the same safety chain as any robot's targets, in m, and come at the control rate, far more often than the firmware's
commander needs: it levels the drone after 500 ms without a setpoint and stops the rotors after 2 s
(crazyflie-firmware, `commander.h`: COMMANDER_WDT_TIMEOUT_STABILIZE and _SHUTDOWN).
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import threading
import time
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError, listing
from sim2real.contract.contract import COMMAND, Actuator, Contract, Term
from sim2real.robots.base import Measurement, Phase, Robot, RobotError

BLOCKS = {
    # A packet of the log holds 26 bytes; gyro as 16 bit floats, so that two packets hold all.
    "place": {f"stateEstimate.{name}": "float" for name in ("x", "y", "z", "vx", "vy", "vz")},
    "turn": {f"stateEstimate.{name}": "float" for name in ("qw", "qx", "qy", "qz")}
    | {f"gyro.{axis}": "FP16" for axis in "xyz"},
}
"""Names in the firmware's log, and how they travel: m, m/s in the world frame; wxyz body to world; degrees/s."""
CONTROLLER, ESTIMATOR = "stabilizer.controller", "stabilizer.estimator"  # the firmware's parameters
SETTLE = 0.3  # s that a parameter takes to be written, obeyed and read back
ROBOT, ROTORS = "crazyflie", 4
FLOOR = -0.1  # m, a drone on the floor may be estimated this low


@dataclasses.dataclass(frozen=True)
class CrazyflieOptions:
    """The radio link and the flight around the policy's."""

    uri: str = "radio://0/80/2M/E7E7E7E7E7"
    """Of the drone, as cfclient shows it."""
    controller: int = 6
    """stabilizer.controller of the policy: 6 is out-of-tree in firmware with Lee's controller, 5 before that."""
    firmware_controller: int = 1
    """stabilizer.controller that takes off and lands: 1 is the PID."""
    estimator: int = 2
    """stabilizer.estimator: 2 is the Kalman filter."""
    height: float = 0.5
    """m above the start at which the policy takes over."""
    speed: float = 0.5
    """m/s, of the setpoints."""
    hz: float = 50.0
    """Setpoints per second."""
    log_ms: int = 10
    """ms between two rows of the log."""
    max_tilt: float = 60.0
    """degrees beyond which the rotors are stopped."""

    def __post_init__(self) -> None:
        if not self.hz >= 10:
            why = "after 0.5 s without a setpoint the firmware acts"
            raise EmbodiedError(f"--hz {self.hz}; expected at least 10: {why}")
        if not (self.height > 0 and self.speed > 0 and self.log_ms >= 10):
            raise EmbodiedError(
                f"--height {self.height}, --speed {self.speed}: expected positive; --log-ms {self.log_ms}: at least 10"
            )


def setpoints(contract: Contract, options: CrazyflieOptions, begin: np.ndarray) -> Contract:
    """The contract of the setpoints: three targets in m, within the workspace of the policy on board.

    Args:
        contract: Of the policy on board.
        options: Speed, rate, tilt.
        begin: (3,) m, where the drone stands.

    Raises:
        RobotError: the policy's workspace is unknown, or the drone stands outside it.
    """
    check_contract(contract)
    stance = begin + np.array([0.0, 0.0, options.height])
    actuators = []
    for axis, (low, high), place in zip("xyz", contract.workspace, stance, strict=True):
        if not low <= place <= high:
            space = f"{low} to {high}"
            raise RobotError(f"the drone would take off to {axis}={place:.2f} m; the policy's workspace: {space}")
        # The setpoints of `Setpoints` move at half of the rate, so that they catch up with where they should be.
        actuators.append(Actuator(axis, "m", float(place), 0.0, 0.0, low, high, max_rate=2 * options.speed))
    (x, y, (_, top)) = contract.workspace
    return dataclasses.replace(
        contract,
        control_hz=options.hz,
        actuators=tuple(actuators),
        rotors=(),
        terms=(Term("command", 3, "m", "the point to fly to, world frame"),),
        step=dataclasses.replace(contract.step, sources=(), remembered=(), action_size=3),
        workspace=(x, y, (FLOOR, top)),
        max_tilt=math.radians(options.max_tilt),
    )


def check_contract(contract: Contract) -> None:
    """Raise a `RobotError` where a bundle is not for a Crazyflie that is flown by points."""
    if contract.robot != ROBOT:
        raise RobotError(f"the bundle is for the robot '{contract.robot}'; expected one for {ROBOT}")
    if len(contract.workspace) != 3 or len(contract.command) != 3 or len(contract.step.commands) != 1:
        raise RobotError(f"'{contract.task}' is not flown by points: its contract has no workspace, or another command")
    if len(contract.rotors) != ROTORS:
        names = listing(actuator.name for actuator in contract.actuators)
        raise RobotError(f"the bundle commands {names}; a Crazyflie has {ROTORS} rotors")


class Setpoints:
    """Stand-in in the loop for the policy on board: a setpoint that goes to the commanded point."""

    def __init__(self, contract: Contract, speed: float) -> None:
        self.contract = contract
        self._way = speed * contract.period
        self._aim = contract.row("offset")

    def step(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """No action, and the next setpoint (3,) in m, world frame."""
        command = np.asarray(inputs[f"{COMMAND}{self.contract.step.commands[0].name}"], float)
        way = np.clip(command, self.contract.row("lower"), self.contract.row("upper")) - self._aim
        self._aim = self._aim + way * min(1.0, self._way / max(float(np.linalg.norm(way)), 1e-9))
        return {"observation": command, "action": np.zeros(3), "target": self._aim}


class Crazyflie(Robot):
    """The radio link. What cflib calls back comes from its own thread."""

    name = "crazyflie"

    def __init__(self, contract: Contract, options: CrazyflieOptions) -> None:
        """Open the link, choose estimator and controller, wait for the first rows of the log."""
        self._options, self._lock = options, threading.Lock()
        self._rows: dict[str, tuple[float, dict[str, float]]] = {}
        self._ahead = math.inf  # s, the computer's clock less the drone's, of the fastest packet
        self._lost = ""
        self._armed = False
        check_contract(contract)
        cflib = import_cflib()
        try:
            cflib.crtp.init_drivers()
            self._link = cflib.SyncCrazyflie(options.uri, cf=cflib.Crazyflie())
            self._link.open_link()
        except Exception as error:  # cflib raises bare exceptions
            raise RobotError(f"cannot reach a Crazyflie at {options.uri}: {error}") from None
        try:
            self._prepare(cflib)
            self.setpoint_policy = Setpoints(setpoints(contract, options, self._first()), options.speed)
        except BaseException:
            self.close()
            raise
        # Down to the height at which it stood, wherever it is.
        takeoff = self.setpoint_policy.contract.row("offset")[2]
        self.rest_pose = np.array([np.nan, np.nan, takeoff - options.height])

    def read(self) -> Measurement:
        if self._lost:
            raise RobotError(self._lost)
        with self._lock:
            rows = dict(self._rows)
            ahead = self._ahead
        if len(rows) < len(BLOCKS):
            return Measurement(-math.inf)
        (place_time, place), (turn_time, turn) = rows["place"], rows["turn"]
        return Measurement(
            min(place_time, turn_time) + ahead,
            gyro=np.radians([turn[f"gyro.{axis}"] for axis in "xyz"]),
            orientation=np.array([turn[f"stateEstimate.{name}"] for name in ("qw", "qx", "qy", "qz")]),
            position=np.array([place[f"stateEstimate.{name}"] for name in ("x", "y", "z")]),
            linvel=np.array([place[f"stateEstimate.{name}"] for name in ("vx", "vy", "vz")]),
        )

    def enter(self, phase: Phase) -> None:
        """Hand over: the policy flies the run, the firmware's own controller all else."""
        chosen = self._options.controller if phase is Phase.RUN else self._options.firmware_controller
        if phase in (Phase.RUN, Phase.REST):
            self._link.cf.param.set_value(CONTROLLER, str(chosen))

    def write(self, target: np.ndarray) -> None:
        """Send a setpoint; the first arms the drone."""
        if not self._armed:
            self._armed = True
            self._link.cf.platform.send_arming_request(True)
        x, y, z = (float(value) for value in target)
        self._link.cf.commander.send_position_setpoint(x, y, z, self._yaw)

    def damp(self) -> None:
        self._link.cf.commander.send_stop_setpoint()

    def close(self) -> None:
        """Stop the rotors, disarm, close the link; whatever fails, the rest is done."""
        for step in (self.damp, lambda: self._link.cf.platform.send_arming_request(False), self._link.close_link):
            with contextlib.suppress(Exception):
                step()

    def _prepare(self, cflib: Any) -> None:
        cf = self._link.cf
        cf.disconnected.add_callback(lambda uri: self._lose(f"the link to {uri} was closed"))
        cf.connection_lost.add_callback(lambda uri, message: self._lose(f"the link to {uri} was lost: {message}"))
        self._link.wait_for_params()
        cf.param.set_value(ESTIMATOR, str(self._options.estimator))
        for controller in (self._options.controller, self._options.firmware_controller):
            self._choose(controller)
        for name, variables in BLOCKS.items():
            block = cflib.LogConfig(name=name, period_in_ms=self._options.log_ms)
            for variable, kind in variables.items():
                block.add_variable(variable, kind)
            cf.log.add_config(block)
            block.data_received_cb.add_callback(self._receive)
            block.start()

    def _choose(self, controller: int) -> None:
        """Choose a controller, and see whether the firmware did: it ignores numbers of controllers that it lacks."""
        param = self._link.cf.param
        param.set_value(CONTROLLER, str(controller))
        time.sleep(SETTLE)
        param.request_param_update(CONTROLLER)
        time.sleep(SETTLE)
        found = param.get_value(CONTROLLER)
        if int(found) != controller:
            raise RobotError(
                f"the firmware has no controller {controller} ({CONTROLLER} stays {found}); build it with the bundle's "
                "out-of-tree controller, see the bundle's README"
            )

    def _first(self) -> np.ndarray:
        """(3,) m, where the drone stands, from its first estimates."""
        end = time.monotonic() + 5.0
        while (measured := self.read()).position is None or measured.orientation is None:
            if time.monotonic() > end:
                raise RobotError("the drone sends no state estimates; is there a positioning system (Flow deck, ...)?")
            time.sleep(0.01)
        w, x, y, z = measured.orientation
        self._yaw = math.degrees(math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
        return measured.position

    def _receive(self, stamp: int, data: dict[str, float], block: Any) -> None:
        """One row of the log; `stamp` is in ms on the drone's clock."""
        taken = 1e-3 * stamp
        with self._lock:
            self._ahead = min(self._ahead, time.monotonic() - taken)
            self._rows[block.name] = taken, data

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why


def import_cflib() -> Any:
    """The parts of cflib that are used; a `RobotError` where it is not installed."""
    try:
        return types.SimpleNamespace(
            crtp=importlib.import_module("cflib.crtp"),
            Crazyflie=importlib.import_module("cflib.crazyflie").Crazyflie,
            LogConfig=importlib.import_module("cflib.crazyflie.log").LogConfig,
            SyncCrazyflie=importlib.import_module("cflib.crazyflie.syncCrazyflie").SyncCrazyflie,
        )
    except ImportError as error:
        raise RobotError(f'cflib is not installed ({error}); pip install "embodied-sim[crazyflie]"') from None
