"""The adapter for LeRobot's interface: names, units and signs, and what it refuses."""

import dataclasses
import math

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real.contract.contract import Contract, Step
from sim2real.contract.planner import Planner, PolicyCamera
from sim2real.deployment.loop import Loop, LoopSettings
from sim2real.deployment.safety import Safety, SafetyConfig
from sim2real.robots.base import RobotError
from sim2real.robots.lerobot import LeRobot, LeRobotOptions, Units, connect, fitted
from tests.kit.fakes import Device, Sway, given, leg


def test_degrees_signs_and_offsets():
    device = Device(("a", "b", "c"))
    options = LeRobotOptions(motors=("a", "b", "c"), reversed=("b",), offset=(0.1, 0.2, 0.0))
    robot = LeRobot(leg(), device, options)
    robot.write(np.array([0.1 + math.radians(30), 0.2 + math.radians(30), -1.0]))
    assert device.sent[-1] == pytest.approx({"a.pos": 30.0, "b.pos": -30.0, "c.pos": -math.degrees(1.0)})
    np.testing.assert_allclose(given(robot.read().joint_pos), [0.1 + math.pi / 6, 0.2 + math.pi / 6, -1.0], atol=1e-3)


def test_pictures_are_cut_and_scaled_to_what_the_policy_sees():
    """Those of the policy's cameras, by their names; the left third and the right third differ, the middle is kept."""
    front = PolicyCamera("front", 16, 16, 20.0, (7.5, 7.5), "world", (0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))
    step = Step((), (), (), 3, planner=Planner((front,), 4, 4, False, None))
    device = Device()
    picture = np.zeros((48, 96, 3), np.uint8)
    picture[:, :24], picture[:, 24:72], picture[:, 72:] = (255, 0, 0), (0, 200, 0), (0, 0, 255)
    observe = device.get_observation
    device.get_observation = lambda: {**observe(), "front": picture}
    shown = LeRobot(dataclasses.replace(leg(), step=step), device).read().readings
    assert set(shown) == {"image.front"}
    assert shown["image.front"].shape == (16, 16, 3)
    np.testing.assert_array_equal(shown["image.front"], np.broadcast_to((0, 200, 0), (16, 16, 3)))
    with pytest.raises(RobotError, match=r"camera 'front' gives float64 \(4, 4\); expected uint8 \(h, w, 3\), RGB"):
        fitted(np.zeros((4, 4)), front)


def test_percent_of_the_range():
    joints = tuple(dataclasses.replace(joint, lower=-0.5, upper=1.5) for joint in leg().joints)
    device = Device()
    robot = LeRobot(dataclasses.replace(leg(), joints=joints), device, LeRobotOptions(units=Units.PERCENT))
    robot.write(np.array([-0.5, 0.5, 1.5]))
    assert device.sent[-1] == pytest.approx({"j0.pos": -100.0, "j1.pos": 0.0, "j2.pos": 100.0})


def test_speeds_are_differences(monkeypatch):
    clock = iter(np.arange(0, 100, 0.02))
    monkeypatch.setattr("sim2real.robots.base.time.monotonic", lambda: next(clock))
    device = Device()
    measured = (robot := LeRobot(leg(), device)).read()
    for step in range(50):
        device.at = {key: math.degrees(0.02 * step * 0.7) for key in device.at}
        measured = robot.read()
    np.testing.assert_allclose(given(measured.joint_vel), 0.7, atol=0.02)


@pytest.mark.parametrize("bus", [True, False])
def test_a_deployment_ends_limp(bus):
    device = Device(bus=bus)
    step = dataclasses.replace(leg().step, sources=leg().step.sources[:1])  # no gyro
    contract: Contract = dataclasses.replace(leg(), terms=(leg().terms[0], leg().terms[2]), step=step)
    robot = LeRobot(contract, device)
    roomy = Safety.of(contract, SafetyConfig(max_age=1.0, max_late=1.0, misses=1e3, predictions=False))
    settings = LoopSettings(seconds=0.3, soft_start=0.2, damp=0.1)
    report = Loop(robot, Sway(contract), np.zeros(1), settings, safety=roomy).run()
    robot.close()
    assert report.whole, report.reason
    assert device.log == ["connect", "disconnect"]
    angles = np.array([list(action.values()) for action in device.sent])
    assert (np.abs(angles) <= math.degrees(1.0)).all()
    if bus:
        # Limp while it checks, stiff from the first target on, limp at the end.
        assert device.bus.enabled.count(True) == 1
        assert device.bus.enabled[0] is device.bus.enabled[-1] is False
    else:
        np.testing.assert_array_equal(angles[-1], angles[-3])


class Wrong(Device):
    def connect(self):
        raise OSError("no such port")


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        (Device(), LeRobotOptions(motors=("a", "b")), "--motors has 2 values; expected 3: j0, j1, j2"),
        (Device(), LeRobotOptions(reversed=("j9",)), "--reversed names j9; the motors are j0, j1, j2"),
        (Device(), LeRobotOptions(offset=(1.0,)), "--offset has 1 values"),
        (Wrong(), LeRobotOptions(), "does not connect: no such port"),
    ],
)
def test_what_does_not_fit_is_said(device, options, message):
    with pytest.raises(EmbodiedError, match=message):
        LeRobot(leg(), device, options)


@pytest.mark.parametrize("name", ["", "module", "no_such_module:make", "math:nothing"])
def test_devices_are_named_by_module_and_callable(name):
    with pytest.raises(EmbodiedError, match="--device"):
        connect(leg(), LeRobotOptions(device=name))
