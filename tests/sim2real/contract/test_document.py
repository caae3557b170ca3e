"""Contracts as documents: what a stranger's program may rely on."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from embodied.errors import EmbodiedError
from sim2real.contract.contract import FORMAT, Contract
from sim2real.contract.document import contract_text, read_text, schema
from tests.kit.bundles import contract_of

pytestmark = pytest.mark.timeout(120)
SCHEMA = Path(__file__).parents[3] / "docs" / "contract.schema.json"
TASKS = (
    "locomotion/go1-joystick-flat",
    "locomotion/g1-joystick-flat",
    "swarm/hover",
    "manipulation/reach",
    "locomotion/go1-getup",
)


@pytest.fixture(scope="module", params=TASKS)
def contract(request: pytest.FixtureRequest) -> Contract:
    return contract_of(request.param)


def test_the_schema_in_the_documents_is_that_of_the_code() -> None:
    """python -m sim2real.contract.document > docs/contract.schema.json"""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == schema()


def test_contracts_meet_the_schema_and_come_back_whole(contract: Contract) -> None:
    document = json.loads(contract_text(contract))
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert read_text(contract_text(contract).encode()) == contract
    assert document["format"] == FORMAT
    assert '"inf"' not in contract_text(contract)


def test_every_source_has_a_unit_and_says_what_it_is(contract: Contract) -> None:
    for one in contract.step.sources:
        assert one.unit
        assert len(one.meaning) > 10
    for number in contract.command:
        assert number.unit
        assert number.lower <= number.upper


def test_a_robot_rests_in_its_home_pose(contract: Contract) -> None:
    """Also where episodes begin in any pose: what the servos hold is off by what their load bends them."""
    home = {joint.name: joint.default for joint in contract.joints}
    for actuator in contract.actuators:
        if actuator.joint:
            assert actuator.offset == pytest.approx(home[actuator.joint], abs=0.2)


def test_what_has_to_be_given_has_the_home_pose_as_its_example() -> None:
    contract = contract_of("locomotion/go1-getup")
    limp, target = (next(one for one in contract.step.remembered if one.name == name) for name in ("limp", "target"))
    assert limp.begin == (0.0,)
    assert target.begin == pytest.approx([joint.default for joint in contract.joints], abs=0.2)


def test_a_hovering_drone_says_where_its_rotors_are_and_how_they_push() -> None:
    """From these numbers alone the drone hangs level: no torque at equal thrusts, and thrust for its weight."""
    contract = contract_of("swarm/hover")
    assert len(contract.rotors) == 4
    for axis in (0, 1):
        assert sum(rotor.position[axis] for rotor in contract.rotors) == pytest.approx(0.0, abs=1e-9)
    assert sum(rotor.spin for rotor in contract.rotors) == 0
    thrusts = [
        a * n + b * n * n for (a, b), n in zip((r.thrust for r in contract.rotors), contract.row("offset"), strict=True)
    ]
    assert sum(thrusts) == pytest.approx(contract.mass * 9.81, rel=1e-5)
    full = [rotor.thrust for rotor in contract.rotors]
    assert all(b > 0 for _, b in full)
    assert contract.command[2].lower == 0.0  # no lower than the floor


def test_a_legged_robot_says_what_training_assumed_of_its_joints() -> None:
    contract = contract_of("locomotion/go1-joystick-flat")
    assert contract.mass == pytest.approx(12.74, abs=0.01)
    assert contract.imu is not None
    assert contract.imu.body == "trunk"
    for joint in contract.joints:
        assert joint.armature > 0
        assert joint.friction > 0
        assert len(joint.axis) == 3
        assert joint.body


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(format=1), "format 1; this version reads 3: export it again"),
        (lambda d: d.update(limits=3), "unknown fields limits"),
        (lambda d: d["step"]["commands"][0]["numbers"][0].update(lower=9.0), "its range is"),
        (lambda d: d["step"]["commands"][0]["numbers"].pop(), "has 3 numbers, and names 2"),
        (lambda d: d.update(config="[1]"), "expected the task's changed options as a JSON object"),
        (lambda d: d["joints"][0].update(name="leg"), "drives joint 'FR_hip'; known: "),
        (lambda d: d["actuators"][0].update(lower=5.0), "lies outside"),
    ],
)
def test_documents_that_contradict_themselves_are_refused(change, said: str) -> None:
    contract = contract_of("locomotion/go1-joystick-flat")
    document = json.loads(contract_text(contract))
    change(document)
    with pytest.raises((ValueError, EmbodiedError), match=said):
        read_text((json.dumps(document, indent=2) + "\n").encode())


@pytest.mark.parametrize("name", ["swarm/formation", "swarm/hover", "swarm/trajectory"])
def test_a_drone_has_a_fence(name: str) -> None:
    workspace = contract_of(name).workspace
    assert len(workspace) == 3
    assert all(low < high for low, high in workspace)
