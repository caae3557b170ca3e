"""Rotors of other people's multirotors: where they are, how they turn, what they give, and what is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import NAME, Kind, Robot
from embodied.robot import __main__ as command
from embodied.robot.prepared.multirotor import prepare_multirotor
from embodied.robot.rotors import GRAVITY
from embodied.storage.paths import asset
from tests.kit.robots import (
    BASE,
    DISC,
    INERTIAL,
    JOINT,
    PICTURE,
    arm,
    bullet_drone,
    multirotor,
    quadruped,
    ring,
    thrusters,
)

pytestmark = pytest.mark.timeout(120)
Load = Callable[..., Robot]


@pytest.mark.parametrize("count", [4, 6, 8])
@pytest.mark.parametrize("kind", ["continuous", "revolute"])
def test_links_that_spin_upright_are_rotors(load: Load, count: int, kind: str) -> None:
    """Also those on revolute joints with limits that no rotor reaches."""
    robot = load(multirotor(count, kind))
    assert (robot.kind, robot.free, robot.joints, len(robot.rotors)) == (Kind.MULTIROTOR, True, (), count)
    mass = 1.2 + 0.01 * count
    assert robot.mass == pytest.approx(mass)
    above = 0.03 * (1 - 0.01 * count / mass)  # of the centre of mass, which the rotors lift
    for rotor, place in zip(robot.rotors, ring(count, 0.2, math.pi / count), strict=True):
        np.testing.assert_allclose(rotor.position, [*place, above], atol=1e-5)
        np.testing.assert_allclose(rotor.axis, [0, 0, 1], atol=1e-9)
    assert [rotor.spin for rotor in robot.rotors] == [1, -1] * (count // 2)


def test_what_is_assumed_is_warned_of_by_its_key(load: Load) -> None:
    robot = load(multirotor())
    lines = [line for line in robot.warnings if line.startswith("assumed")]
    assert len(lines) == 1
    assert lines[0].endswith("say spin, thrust, torque_per_thrust, rotor_lag, drag in robot.toml")
    assert robot.airframe is not None
    assert robot.airframe.thrust_to_weight == pytest.approx(2.0)
    said = "spin = [1, -1, 1, -1]\nthrust = 5\ntorque_per_thrust = 0.01\nrotor_lag = 0.02\ndrag = [0.1, 0.2, 0.3]"
    told = load(multirotor(), said)
    assert not told.warnings
    assert told.airframe is not None
    assert told.airframe.drag == (0.1, 0.2, 0.3)
    assert {(r.max_thrust, r.torque_per_thrust, r.lag) for r in told.rotors} == {(5.0, 0.01, 0.02)}


def test_pictures_of_propellers_say_how_they_turn(load: Load) -> None:
    text = multirotor()
    for blade in ("ccw", "ccw", "cw", "cw"):
        text = text.replace(DISC, PICTURE.format(f"prop_{blade}.dae"), 1)
    assert [rotor.spin for rotor in load(text).rotors] == [1, 1, -1, -1]


def test_a_drone_of_gym_pybullet_drones_is_understood(load: Load) -> None:
    """Massless links weigh nothing, and lie where their inertials are; thrust and torque by the tag."""
    robot = load(bullet_drone())
    assert robot.mass == pytest.approx(0.027)
    assert robot.airframe is not None
    np.testing.assert_allclose(robot.airframe.inertia, [1.4e-5, 1.4e-5, 2.17e-5], rtol=1e-6)
    np.testing.assert_allclose(robot.rotors[0].position, [0.028, 0.028, 0], atol=1e-6)
    for rotor, spin in zip(robot.rotors, [1, -1, 1, -1], strict=True):
        assert rotor.max_thrust == pytest.approx(2.25 * 0.027 * GRAVITY / 4)
        assert rotor.torque_per_thrust == pytest.approx(7.94e-12 / 3.16e-10)
        assert rotor.spin == spin


def test_motors_at_sites_say_thrust_torque_and_direction(load: Load) -> None:
    """A reaction that turns the body counter-clockwise comes of a rotor that turns clockwise."""
    robot = load(thrusters())
    assert robot.kind is Kind.MULTIROTOR
    assert [rotor.spin for rotor in robot.rotors] == [-1, 1, -1, 1]
    assert {rotor.max_thrust for rotor in robot.rotors} == {6.0}
    assert [rotor.torque_per_thrust for rotor in robot.rotors] == pytest.approx([0.02] * 4)
    np.testing.assert_allclose(robot.rotors[0].axis, [0, -0.5, math.sqrt(0.75)], atol=1e-5)
    scaled = load(thrusters("0 0 2 0 0 {torque}", 'forcelimited="true" forcerange="0 4"'))
    assert {rotor.max_thrust for rotor in scaled.rotors} == {8.0}
    assert [rotor.torque_per_thrust for rotor in scaled.rotors] == pytest.approx([0.01] * 4)


def test_places_may_be_said_in_the_trunks_frame(load: Load, tmp_path: Path) -> None:
    """The file has no rotors; axes may be said too, and need not have unit length."""
    inertial = INERTIAL.format(at=".1 0 0", mass=1, x=0.01, y=0.01, z=0.02)
    text = f'<robot name="m"><link name="base">{inertial}</link></robot>'
    rotors = "rotors = [[0.3, 0.2, 0], [-0.1, 0.2, 0], [-0.1, -0.2, 0], [0.3, -0.2, 0]]"
    axes = "rotor_axes = [[0, 0, 2], [0, 3, 4], [0, 0, 1], [0, 0, 1]]"
    robot = load(text, f"{rotors}\n{axes}\nthrust_to_weight = 3")
    np.testing.assert_allclose(robot.rotors[0].position, [0.2, 0.2, 0], atol=1e-9)
    np.testing.assert_allclose(robot.rotors[1].axis, [0, 0.6, 0.8])
    assert sum(rotor.max_thrust for rotor in robot.rotors) == pytest.approx(3 * GRAVITY)
    robot.description().write(tmp_path / NAME)
    again = Robot.load(tmp_path / "robot.urdf")
    assert again.airframe is not None
    assert robot.airframe is not None
    np.testing.assert_allclose(again.airframe.inertia, robot.airframe.inertia)
    for one, other in zip(robot.rotors, again.rotors, strict=True):
        np.testing.assert_allclose(one.position, other.position, atol=1e-6)
        np.testing.assert_allclose(one.axis, other.axis, atol=1e-5)
        assert one.spin == other.spin


def test_an_arm_below_is_locked_and_counts(load: Load) -> None:
    link = f'<link name="hand">{INERTIAL.format(at="0 0 -.1", mass=0.5, x=0.001, y=0.001, z=0.001)}</link>'
    elbow = JOINT.format(
        name="elbow", type="revolute", parent="base", child="hand", at="0 0 -.05", axis="0 1 0", low="-1", high="1",
        effort="2",
    )  # fmt: skip
    robot = load(multirotor().replace("</robot>", f"{link}{elbow}</robot>"))
    assert robot.kind is Kind.MULTIROTOR
    assert [joint.name for joint in robot.joints] == ["elbow"]
    assert robot.mass == pytest.approx(1.74)
    assert robot.airframe is not None
    assert robot.airframe.centre[2] == pytest.approx((0.5 * -0.15 + 0.04 * 0.03) / 1.74, abs=1e-6)
    assert any("elbow" in line and "locked" in line for line in robot.warnings)


def test_the_crazyflies_own_file_is_a_multirotor(load: Load) -> None:
    robot = Robot.load(asset("robots/crazyflie/crazyflie.xml"))
    assert robot.kind is Kind.MULTIROTOR
    assert [rotor.name for rotor in robot.rotors] == [f"rotor_{number}" for number in range(1, 5)]
    assert robot.airframe is not None
    assert robot.airframe.thrust_to_weight == pytest.approx(1.54, abs=0.005)
    assert not robot.warnings


def test_wheels_are_no_rotors(load: Load) -> None:
    with pytest.raises(EmbodiedError):
        load(multirotor(axis="0 1 0"))


OBJECT = f'<robot name="m"><link name="base">{BASE}</link></robot>'


@pytest.mark.parametrize(
    ("text", "toml", "message"),
    [
        (OBJECT, "", r"an object, not a robot; if it flies, say rotors in robot.toml"),
        (OBJECT, 'kind = "multirotor"', r"no rotors: .*say rotors = \[\[x, y, z\], ...\] .*'base'.* in robot.toml"),
        (multirotor(), "rotors = ['nose']", r"unknown body or site in .* \(key rotors\) 'nose'"),
        (multirotor(), "rotors = [[1, 2]]", r"rotors is .*; expected a list of names, or of places"),
        (multirotor(), "rotors = []", r"rotors is \[\]; expected a list of names"),
        (multirotor(), "spin = [1, 2, 1, 2]", r"spin is .*; expected a list of 1 \(counter-clockwise"),
        (multirotor(), "spin = [1, -1]", r"2 entries of spin in robot.toml for 4 rotors"),
        (multirotor(), "thrust = [1, 0, 1, 1]", r"thrust is .*; expected a positive number of N, or a list"),
        (
            multirotor(),
            "rotor_axes = [[0, 0, -1], [0, 0, -1], [0, 0, -1], [0, 0, -1]]",
            r"its rotors push down .*rotor_axes",
        ),
        (
            multirotor(),
            "rotor_axes = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, 0, -1]]",
            r"its rotors push down or sideways",
        ),
        (multirotor(), "thrust = [1, 2]", r"2 entries of thrust in robot.toml for 4 rotors"),
        (multirotor(), "thrust_to_weight = 'much'", r"thrust_to_weight is 'much'; expected a positive number"),
        (multirotor(), "drag = [1, -1, 0]", r"drag is .*; expected \[x, y, z\] in N s/m, at least 0"),
        (multirotor(), "rotor_lag = nan", r"rotor_lag is nan; expected a number of s"),
        (multirotor(), "rotor_axes = [[0, 0, 0]]", r"rotor_axes is .*; expected a list of directions"),
        (multirotor(5), "", r"cannot tell how its 5 rotors turn; say spin in robot.toml"),
    ],
)
def test_what_is_missing_or_wrong_is_asked_for_in_one_line(load: Load, text: str, toml: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message) as caught:
        load(text, toml)
    assert "\n" not in str(caught.value)


def test_table_and_picture_name_the_rotors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.urdf"
    file.write_text(multirotor(6))
    picture = tmp_path / "m.png"
    assert command.main([str(file), "--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "6 rotors, in the order of actions; they lift 2.00 weights" in printed
    assert "rotor_5" in printed
    drawn = cv2.imread(str(picture))
    assert drawn is not None
    assert drawn.std() > 5


@pytest.mark.parametrize(("text", "what"), [(quadruped(), "a legged robot"), (arm(), "an arm")])
def test_only_multirotors_are_made_ready_to_fly(load: Load, text: str, what: str) -> None:
    with pytest.raises(EmbodiedError, match=f"is understood as {what}; expected a multirotor"):
        prepare_multirotor(load(text), "cf")
