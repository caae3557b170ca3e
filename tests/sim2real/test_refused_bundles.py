"""Bundles that were edited, or are for another robot: `deploy` says so in one line, exits with 2, and sends nothing."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import shutil
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.storage.files import seal
from sim2real import deploy, export
from sim2real.bundles.files import MANIFEST
from sim2real.contract.contract import Contract
from sim2real.deployment.policies import load
from sim2real.robots import crazyflie, lerobot
from sim2real.robots.simulation.simulated import SimulatedRobot, connect_mujoco
from sim2real.robots.udp_bridge import Bridge, BridgeOptions
from tests.kit.bundles import small_contract, small_policy
from tests.kit.fakes import FakeRobot, Sway, leg

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

Change = Callable[[Contract], Contract]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which `deploy` refuses to begin."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        deploy.main([*words, "--seconds", "0.2", "--soft-start", "0"])
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1, said
    return said


# --- edited ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "bundle"
    export.write(folder, small_policy(), small_contract())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "bundle"))


@pytest.fixture
def robot(monkeypatch: pytest.MonkeyPatch) -> FakeRobot:
    """A robot that remembers whatever it is told, in place of all others."""
    recording = FakeRobot(small_contract())
    monkeypatch.setattr("sim2real.robots.registry.connect", lambda *_: recording)
    return recording


def reseal(folder: Path) -> None:
    """Make the manifest agree with whatever the files hold now: what a forger would do."""
    document = json.loads((folder / MANIFEST).read_bytes())
    del document["sha256"]
    for name, entry in document["files"].items():
        data = (folder / name).read_bytes()
        entry["bytes"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()
    (folder / MANIFEST).write_bytes(seal(document))


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "limit": lambda d: d["actuators"][0].update(upper=9.0),
    "rate": lambda d: d.update(control_hz=50.0),
    "unit": lambda d: d["actuators"][1].update(unit="deg"),
    "name": lambda d: d["joints"][0].update(name="elbow"),
    "gain": lambda d: d["actuators"][2].update(stiffness=99.0),
    "order": lambda d: d["joints"].reverse(),
    "field": lambda d: d.update(owner="me"),
    "text": lambda d: d["actuators"][0].update(lower="low"),
    "nothing": lambda d: d.clear(),
}


@pytest.mark.parametrize("sealed", [False, True], ids=["by hand", "sealed anew"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_contract(
    edit: str, sealed: bool, folder: Path, robot: FakeRobot, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((folder / "contract.json").read_text())
    EDITS[edit](document)
    (folder / "contract.json").write_text(json.dumps(document, indent=2) + "\n")
    if sealed:
        reseal(folder)
    message = refused(capsys, str(folder))
    assert str(folder) in message
    assert re.search(r"contract\.json|policy\.onnx: it maps", message)
    assert not robot.sent
    assert not robot.damped  # it was not even connected


@pytest.mark.parametrize("operator", ["NonZero", "Loop", "If", "Scan", "Sin"])
@pytest.mark.parametrize("sealed", [False, True], ids=["by hand", "sealed anew"])
def test_a_foreign_operator(
    operator: str, sealed: bool, folder: Path, robot: FakeRobot, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(folder / "policy.onnx")
    model.graph.node[0].op_type = operator
    (folder / "policy.onnx").write_bytes(model.SerializeToString())
    if sealed:
        reseal(folder)
    message = refused(capsys, str(folder))
    expected = f"it has operators that no exported policy has: {operator}" if sealed else "policy.onnx: "
    assert expected in message
    assert not robot.sent
    assert not robot.damped


def test_a_foreign_operator_of_another_domain(
    folder: Path, robot: FakeRobot, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(folder / "policy.onnx")
    model.graph.node[0].domain = "com.example"
    (folder / "policy.onnx").write_bytes(model.SerializeToString())
    reseal(folder)
    assert "foreign operators" in refused(capsys, str(folder))
    assert not robot.sent


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


@functools.cache
def policy_of(task: str) -> Any:
    return load(task)


GO1, HOVER, REACH = "locomotion/go1-joystick-flat", "swarm/hover", "manipulation/reach"


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
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
        (HOVER, actuators(unit="rpm"), "commands rotor1 in rpm; the simulated robot takes N"),
        (HOVER, actuators(upper=0.5), "no drone here has the thrusts"),
        (HOVER, rate(0.5), "the bundle commands 25 times a second; the simulated robot is controlled 50 times"),
    ],
)
def test_a_bundle_for_another_robot_than_the_simulated(
    engine: str,
    task: str,
    change: Change,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refused_by_simulation(engine, change(policy_of(task).contract), monkeypatch, capsys)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (joints(name="elbow"), r"the bundle's joints are .*elbow.*; the simulated robot's are "),
        (turned_round, "the bundle's joints are .*; the simulated robot's are "),
        (actuators(unit="deg"), "in deg; the simulated robot takes rad"),
        (rate(2), "times a second; the simulated robot is controlled "),
        (actuators(upper=9.0), "limits of actuator .* to 9; the simulated robot's are "),
    ],
)
def test_a_whole_step_for_another_robot_than_the_simulated(
    change: Change, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused_by_simulation("mujoco", change(policy_of(REACH).contract), monkeypatch, capsys)
    assert re.search(message, said), said


def refused_by_simulation(
    engine: str, contract: Contract, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    sent: list[np.ndarray] = []
    monkeypatch.setattr(SimulatedRobot, "write", lambda self, target: sent.append(target))
    monkeypatch.setattr(deploy, "load", lambda _: Sway(contract))
    said = refused(capsys, "bundle", "--robot", engine)
    assert not sent
    return said


def test_narrower_limits_than_the_robots_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    contract = actuators(lower=-0.1, upper=0.1)(policy_of(GO1).contract)
    monkeypatch.setattr(deploy, "load", lambda _: Sway(contract))
    assert connect_mujoco(contract, deploy.parse(["bundle"]).driver).contract is contract


@pytest.fixture
def bridge() -> Iterator[tuple[Bridge, FakeRobot]]:
    """A bridge around a recording robot, served by a thread."""
    robot, end = FakeRobot(), threading.Event()
    served = Bridge(robot, robot.contract, BridgeOptions(port=0))

    def serve() -> None:
        while not end.wait(0.005):
            served.poll()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield served, robot
    end.set()
    thread.join(5)


@pytest.mark.parametrize(
    "change", [joints(name="k0"), turned_round, actuators(unit="deg"), actuators(name="k0")],
    ids=["joints", "order", "units", "actuators"],
)  # fmt: skip
def test_a_bundle_for_another_robot_than_the_bridges(
    change: Change,
    bridge: tuple[Bridge, FakeRobot],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    served, robot = bridge
    monkeypatch.setattr(deploy, "load", lambda _: Sway(change(leg())))
    said = refused(capsys, "bundle", "--robot", "udp", "--address", served.address)
    assert "the bridge is of another robot: names, order or units of its joints and actuators" in said
    assert not robot.sent


class Device:
    """A LeRobot that remembers what it is sent."""

    made: list[Device] = []  # noqa: RUF012  (one list for all, on purpose)

    def __init__(self) -> None:
        self.sent: list[dict[str, float]] = []
        self.connected = False
        Device.made.append(self)

    def connect(self) -> None:
        self.connected = True

    def get_observation(self) -> dict[str, Any]:
        return {f"j{number}.pos": 0.0 for number in range(3)}

    def send_action(self, action: dict[str, float]) -> None:
        self.sent.append(action)

    def disconnect(self) -> None:
        self.connected = False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            joints(name="k0"),
            r"does not observe k0\.pos; it has j0\.pos, j1\.pos, j2\.pos",
        ),
        (actuators(unit="N m"), "the bundle commands m0 in N m; motors in degrees take rad"),
        (actuators(unit="m"), "the bundle commands m0 in m; motors in degrees take rad"),
        (lambda c: dataclasses.replace(c, actuators=c.actuators[:2]), "expected each joint once, in order: j0, j1, j2"),
        (lambda c: dataclasses.replace(c, actuators=c.actuators[::-1]), "expected each joint once, in order"),
    ],
    ids=["joints", "torques", "slides", "fewer", "order"],
)
def test_a_bundle_for_another_robot_than_lerobots(
    change: Change, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "my_arm", types.SimpleNamespace(make=Device))  # type: ignore[arg-type]
    Device.made.clear()
    monkeypatch.setattr(deploy, "load", lambda _: Sway(change(leg())))
    said = refused(capsys, "bundle", "--robot", "lerobot", "--device", "my_arm:make")
    assert re.search(message, said), said
    assert all(not device.sent and not device.connected for device in Device.made)


def test_percent_takes_slides() -> None:
    lerobot.LeRobot(actuators(unit="m")(leg()), Device(), lerobot.LeRobotOptions(units=lerobot.Units.PERCENT))


@pytest.mark.parametrize(
    ("task", "change", "message"),
    [
        (GO1, lambda c: c, "the bundle is for the robot 'go1'; expected one for crazyflie"),
        (HOVER, lambda c: dataclasses.replace(c, robot="hexa"), "for the robot 'hexa'; expected one for crazyflie"),
        (HOVER, lambda c: dataclasses.replace(c, workspace=()), "is not flown by points"),
        (HOVER, actuators(unit="rpm"), "commands rpm, N, N, N; a Crazyflie has 4 rotors, in N"),
        (HOVER, lambda c: dataclasses.replace(c, actuators=c.actuators[:3]), "a Crazyflie has 4 rotors, in N"),
    ],
    ids=["legs", "hexarotor", "workspace", "units", "rotors"],
)
def test_a_bundle_for_another_robot_than_a_crazyflie(
    task: str, change: Change, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[bool] = []
    monkeypatch.setattr(crazyflie, "import_cflib", lambda: opened.append(True))
    monkeypatch.setattr(deploy, "load", lambda _: Sway(change(policy_of(task).contract)))
    assert re.search(message, refused(capsys, "bundle", "--robot", "crazyflie"))
    assert not opened  # refused before any radio is
