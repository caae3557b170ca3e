"""The Crazyflie's driver against a fake cflib: what it sets, logs and sends, and what it refuses."""

import math
import sys
import threading
import time
import types
from typing import Any, ClassVar

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.safety import Safety, SafetyConfig
from sim2real.robots.base import Phase, RobotError
from sim2real.robots.crazyflie import BLOCKS, Crazyflie, CrazyflieOptions, Setpoints, setpoints
from tests.kit.bundles import contract_of
from tests.kit.fakes import given

HOVER = "swarm/hover"


class Caller:
    def __init__(self):
        self.callbacks = []

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def call(self, *arguments):
        for callback in self.callbacks:
            callback(*arguments)


class Drone:
    """What a Crazyflie does, as far as the driver can see."""

    def __init__(self, uri, controllers=(1, 2, 6)):
        self.uri, self.controllers = uri, controllers
        self.sent, self.stops, self.armed, self.params, self.closed = [], 0, [], {"stabilizer.controller": "1"}, False
        self.place = np.array([0.3, -0.2, 0.01])
        self.flown_by = []
        self.disconnected, self.connection_lost = Caller(), Caller()
        self.commander = types.SimpleNamespace(send_position_setpoint=self.setpoint, send_stop_setpoint=self.stop)
        self.platform = types.SimpleNamespace(send_arming_request=self.armed.append)
        self.param = types.SimpleNamespace(
            set_value=self.set_value, get_value=self.params.__getitem__, request_param_update=lambda name: None
        )
        self.blocks = []
        self.log = types.SimpleNamespace(add_config=self.blocks.append)
        self.begin = time.monotonic()
        threading.Thread(target=self.stream, daemon=True).start()

    def set_value(self, name, value):
        if name != "stabilizer.controller" or int(value) in self.controllers:
            self.params[name] = value

    def setpoint(self, x, y, z, yaw):
        self.sent.append((time.monotonic(), np.array([x, y, z]), yaw))
        self.flown_by.append(self.params["stabilizer.controller"])
        self.place = np.array([x, y, z])

    def stop(self):
        self.stops += 1

    def stream(self):
        while not self.closed:
            tremble = 1e-4 * math.sin(1e4 * time.monotonic())
            values = dict(zip("xyz", self.place + tremble, strict=True)) | {"vx": tremble, "vy": 0.0, "vz": 0.1}
            values |= {"qw": math.cos(0.2), "qx": tremble, "qy": 0.0, "qz": math.sin(0.2)}
            row = {f"stateEstimate.{name}": value for name, value in values.items()}
            row |= {"gyro.x": 180 / math.pi, "gyro.y": tremble, "gyro.z": 0.0}
            for block in self.blocks:
                if block.started:
                    stamp = int(1e3 * (time.monotonic() - self.begin)) + 777
                    block.data_received_cb.call(stamp, {name: row[name] for name in block.variables}, block)
            time.sleep(0.005)


class LogConfig:
    def __init__(self, name, period_in_ms):
        self.name, self.period, self.variables, self.started = name, period_in_ms, {}, False
        self.data_received_cb = Caller()

    def add_variable(self, name, kind):
        self.variables[name] = kind

    def start(self):
        self.started = True


class Sync:
    drone: Drone
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, uri, cf):
        self.uri, self.cf = uri, Drone(uri, **Sync.options)
        Sync.drone = self.cf

    def open_link(self):
        if "nobody" in self.uri:
            raise Exception("Couldn't connect: no ack")

    def wait_for_params(self):
        pass

    def close_link(self):
        self.cf.closed = True


@pytest.fixture
def radio(monkeypatch):
    """A fake cflib, installed as modules."""
    Sync.options = {}
    parts = {
        "cflib": {},
        "cflib.crtp": {"init_drivers": lambda: None},
        "cflib.crazyflie": {"Crazyflie": lambda: None},
        "cflib.crazyflie.log": {"LogConfig": LogConfig},
        "cflib.crazyflie.syncCrazyflie": {"SyncCrazyflie": Sync},
    }
    for name, contents in parts.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    vars(sys.modules["cflib"])["crtp"] = sys.modules["cflib.crtp"]
    monkeypatch.setattr("sim2real.robots.crazyflie.SETTLE", 0.0)
    yield Sync
    if hasattr(Sync, "drone"):
        Sync.drone.closed = True


# The stand-in stays level while its gyro tells of 1 rad/s, which shows that degrees become radians.
ROOMY = SafetyConfig(max_age=1.0, max_late=1.0, misses=1e3, max_frozen=1.0, max_turn_error=10.0, predictions=False)


def test_log_blocks_fit_into_a_radio_packet():
    sizes = {"float": 4, "FP16": 2}
    for variables in BLOCKS.values():
        assert sum(sizes[kind] for kind in variables.values()) <= 26


def test_measurements_are_in_si_units_and_on_our_clock(radio):
    robot = Crazyflie(contract_of(HOVER), CrazyflieOptions())
    measured = robot.read()
    assert abs(robot.now() - measured.time) < 0.1
    np.testing.assert_allclose(given(measured.gyro), [1.0, 0, 0], atol=1e-4)
    np.testing.assert_allclose(given(measured.orientation), [math.cos(0.2), 0, 0, math.sin(0.2)], atol=1e-3)
    np.testing.assert_allclose(given(measured.position), [0.3, -0.2, 0.01], atol=1e-3)
    np.testing.assert_allclose(given(measured.linvel), [0, 0, 0.1], atol=1e-3)
    robot.close()
    assert radio.drone.closed
    assert radio.drone.armed[-1] is False


def test_a_flight_takes_off_hands_over_lands_and_stops(radio):
    robot = Crazyflie(contract_of(HOVER), CrazyflieOptions(hz=50, speed=1.0))
    policy, drone = given(robot.setpoint_policy), radio.drone
    phases = []

    def watch(progress):
        if not phases or phases[-1] is not progress.phase:
            phases.append(progress.phase)

    settings = LoopSettings(seconds=1.0, soft_start=0.5, rest=0.5, damp=0.1)
    safety = Safety.of(policy.contract, ROOMY)
    point = np.array([0.5, 0.0, 0.8])
    report = Loop(robot, policy, point, settings, safety=safety, watch=watch).run()
    robot.close()
    assert report.whole, report.reason
    assert phases == [Phase.CHECK, Phase.SOFT_START, Phase.RUN, Phase.REST, Phase.DAMP]
    places = np.array([place for _, place, _ in drone.sent])
    np.testing.assert_allclose(places[0], [0.3, -0.2, 0.01], atol=0.02)
    assert (np.linalg.norm(places - point, axis=1) < 0.02).any()
    np.testing.assert_allclose(places[-1], [0.5, 0.0, 0.01], atol=0.02)
    low, high = np.array(contract_of(HOVER).workspace).T
    assert ((places >= low) & (places <= high)).all()
    np.testing.assert_allclose([yaw for *_, yaw in drone.sent], math.degrees(0.4), atol=0.1)
    # The firmware's own controller but for the run; setpoints far more often than its watchdog's 0.5 s.
    assert drone.flown_by[0] == drone.flown_by[-1] == "1"
    assert "6" in drone.flown_by
    assert np.diff([sent for sent, *_ in drone.sent]).max() < 0.4
    assert drone.armed == [True, False]
    assert drone.stops >= 5


def test_a_lost_link_latches_and_stops(radio):
    robot = Crazyflie(contract_of(HOVER), CrazyflieOptions())
    radio.drone.connection_lost.call("radio://0", "too many packets lost")
    report = Loop(robot, given(robot.setpoint_policy), np.array([0.0, 0, 1]), LoopSettings(damp=0.1)).run()
    assert report.step == "error"
    assert "too many packets lost" in report.reason
    assert not radio.drone.sent
    assert radio.drone.stops


def test_firmware_without_the_policy_is_refused(radio):
    radio.options = {"controllers": (1, 2)}
    with pytest.raises(RobotError, match=r"no controller 6 \(stabilizer\.controller stays 1\)"):
        Crazyflie(contract_of(HOVER), CrazyflieOptions())
    assert radio.drone.closed


def test_what_keeps_a_drone_from_flying_is_said_in_one_line(radio, monkeypatch):
    with pytest.raises(RobotError, match="cannot reach a Crazyflie at radio://nobody: Couldn't connect"):
        Crazyflie(contract_of(HOVER), CrazyflieOptions(uri="radio://nobody"))
    with pytest.raises(RobotError, match=r"x=3\.50 m; the policy's workspace"):
        setpoints(contract_of(HOVER), CrazyflieOptions(), np.array([3.5, 0.0, 0.0]))
    monkeypatch.setitem(sys.modules, "cflib.crtp", None)
    with pytest.raises(RobotError, match=r"embodied-sim\[crazyflie\]"):
        Crazyflie(contract_of(HOVER), CrazyflieOptions())


def test_setpoints_go_straight_and_stay_inside():
    contract = setpoints(contract_of(HOVER), CrazyflieOptions(speed=0.5), np.zeros(3))
    policy = Setpoints(contract, 0.5)
    path = np.array([policy.step({"command.target": np.array([0.0, 9.0, 0.5])})["target"] for _ in range(400)])
    np.testing.assert_allclose(path[-1], [0.0, 3.0, 0.5])
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() <= 0.5 / 50 + 1e-12


@pytest.mark.parametrize("options", [{"hz": 1.0}, {"speed": 0.0}, {"log_ms": 1}])
def test_options_that_the_firmware_would_punish_are_refused(options):
    with pytest.raises(EmbodiedError, match="expected"):
        CrazyflieOptions(**options)
