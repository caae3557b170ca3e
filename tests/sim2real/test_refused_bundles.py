"""Bundles that were edited, or are for another robot: `deploy` says so in one line, exits with 2, and sends nothing."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from sim2real import deploy
from sim2real.contract.contract import Contract
from sim2real.robots import crazyflie, lerobot, registry
from sim2real.robots.base import RobotError
from sim2real.robots.simulation.mismatch import ModelMismatch
from sim2real.robots.simulation.robot_model import RobotModel
from sim2real.robots.simulation.simulated import SimulatedOptions, SimulatedRobot, connect_mujoco
from tests.kit.bundles import contract_of, reseal, small_bundle, small_contract
from tests.kit.commands import refused
from tests.kit.fakes import Device, FakeRobot, Sway, leg

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

Change = Callable[[Contract], Contract]
SHORT = ("--seconds", "0.2", "--soft-start", "0")


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> FakeRobot:
    """A robot that remembers whatever it is told, in place of all others."""
    recording = FakeRobot(small_contract())
    monkeypatch.setattr("sim2real.robots.registry.connect", lambda *_: recording)
    return recording


@pytest.mark.parametrize("sealed", [False, True], ids=["by hand", "sealed anew"])
def test_no_robot_is_reached_for_a_bundle_that_was_edited(sealed: bool, tmp_path: Path, robot: FakeRobot) -> None:
    """What there is to edit, and what is said of it, is in `bundles/test_bundle.py`."""
    folder = Path(shutil.copytree(small_bundle(), tmp_path / "bundle"))
    text = (folder / "contract.json").read_text()
    (folder / "contract.json").write_text(text.replace('"control_hz": 100.0', '"control_hz": 50.0'))
    if sealed:
        reseal(folder)
    message = refused(deploy.main, *SHORT, str(folder))
    assert str(folder) in message
    assert "contract.json" in message
    assert not robot.sent
    assert not robot.damped  # it was not even connected


# --- for another robot ----------------------------------------------------------------------------------------------


def actuators(**changed: Any) -> Change:
    """The first actuator with other values."""
    return lambda c: dataclasses.replace(
        c, actuators=(dataclasses.replace(c.actuators[0], **changed), *c.actuators[1:])
    )


def joints(**changed: Any) -> Change:
    """The first joint with other values, and under another name what drives it."""

    def change(contract: Contract) -> Contract:
        old = contract.joints[0]
        new = dataclasses.replace(old, **changed)
        rows = (dataclasses.replace(a, joint=new.name if a.joint == old.name else a.joint) for a in contract.actuators)
        return dataclasses.replace(contract, joints=(new, *contract.joints[1:]), actuators=tuple(rows))

    return change


def turned_round(contract: Contract) -> Contract:
    return dataclasses.replace(contract, joints=contract.joints[::-1], actuators=contract.actuators[::-1])


def rate(factor: float) -> Change:
    return lambda contract: dataclasses.replace(contract, control_hz=factor * contract.control_hz)


GO1, HOVER, REACH = "locomotion/go1-joystick-flat", "swarm/hover", "manipulation/reach"


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        (GO1, joints(name="FR_knee"), r"the bundle's joints are .*FR_knee.*; the simulated robot's are "),
        (GO1, turned_round, "the bundle's joints are .*; the simulated robot's are "),
        (GO1, actuators(name="motor"), "the bundle's actuators are .*motor"),
        (GO1, actuators(unit="deg"), "commands FR_hip in deg; the simulated robot takes rad"),
        (GO1, rate(2), "the bundle commands 100 times a second; the simulated robot is controlled 50 times"),
        (GO1, actuators(upper=9.0), "limits of actuator FR_hip are .* to 9; the simulated robot's are "),
        (GO1, joints(lower=-9.0), "limits of joint FR_hip are -9 to .*; the simulated robot's are "),
        (HOVER, actuators(unit="N"), "commands rotor1 in N; the simulated robot takes rpm"),
        (HOVER, actuators(upper=1e5), "limits of actuator rotor1 are .* to 100000; the simulated robot's are "),
        (HOVER, rate(0.5), "the bundle commands 25 times a second; the simulated robot is controlled 50 times"),
        (REACH, joints(name="elbow"), r"the bundle's joints are .*elbow.*; the simulated robot's are "),
        (REACH, turned_round, "the bundle's joints are .*; the simulated robot's are "),
        (REACH, actuators(unit="deg"), "in deg; the simulated robot takes rad"),
        (REACH, rate(2), "times a second; the simulated robot is controlled "),
        (REACH, actuators(upper=9.0), "limits of actuator .* to 9; the simulated robot's are "),
    ],
)
def test_a_bundle_for_another_robot_than_the_simulated(task: str, change: Change, message: str) -> None:
    with pytest.raises(RobotError, match=message) as caught:
        RobotModel(change(contract_of(task)), ModelMismatch())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_simulated_robot_is_sent_nothing_of_a_bundle_for_another(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[np.ndarray] = []
    monkeypatch.setattr(SimulatedRobot, "write", lambda self, target: sent.append(target))
    monkeypatch.setattr(deploy, "load", lambda _: Sway(turned_round(contract_of(GO1))))
    assert "the bundle's joints are " in refused(deploy.main, *SHORT, "bundle", "--robot", engine)
    assert not sent


def test_narrower_limits_than_the_robots_are_no_mistake() -> None:
    contract = actuators(lower=-0.1, upper=0.1)(contract_of(GO1))
    assert connect_mujoco(contract, SimulatedOptions()).contract is contract


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (joints(name="k0"), r"does not observe k0\.pos; it has j0\.pos, j1\.pos, j2\.pos"),
        (actuators(unit="N m"), "the bundle commands m0 in N m; motors in degrees take rad"),
        (actuators(unit="m"), "the bundle commands m0 in m; motors in degrees take rad"),
        (lambda c: dataclasses.replace(c, actuators=c.actuators[:2]), "expected each joint once, in order: j0, j1, j2"),
        (lambda c: dataclasses.replace(c, actuators=c.actuators[::-1]), "expected each joint once, in order"),
    ],
    ids=["joints", "torques", "slides", "fewer", "order"],
)
def test_a_bundle_for_another_robot_than_lerobots(
    change: Change, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Device()
    monkeypatch.setitem(sys.modules, "my_arm", types.SimpleNamespace(make=lambda: device))  # type: ignore[arg-type]
    with pytest.raises(EmbodiedError, match=message) as caught:
        lerobot.connect(change(leg()), lerobot.LeRobotOptions(device="my_arm:make"))
    assert "\n" not in str(caught.value)
    assert not device.sent
    assert device.log.count("connect") == device.log.count("disconnect")


def test_percent_takes_slides() -> None:
    lerobot.LeRobot(actuators(unit="m")(leg()), Device(), lerobot.LeRobotOptions(units=lerobot.Units.PERCENT))


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        (GO1, lambda c: c, "the bundle is for the robot 'go1'; expected one for crazyflie"),
        (HOVER, lambda c: dataclasses.replace(c, robot="hexa"), "for the robot 'hexa'; expected one for crazyflie"),
        (HOVER, lambda c: dataclasses.replace(c, workspace=()), "is not flown by points"),
        (HOVER, lambda c: dataclasses.replace(c, rotors=c.rotors[:3]), "a Crazyflie has 4 rotors"),
    ],
    ids=["legs", "hexarotor", "workspace", "rotors"],
)
def test_a_bundle_for_another_robot_than_a_crazyflie(
    task: str, change: Change, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []
    monkeypatch.setattr(crazyflie, "import_cflib", lambda: opened.append(True))
    with pytest.raises(RobotError, match=message):
        registry.connect("crazyflie", change(contract_of(task)))
    assert not opened  # refused before any radio is
