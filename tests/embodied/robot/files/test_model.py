"""Faults of strangers' model files: fixed and named, or refused with the element and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import Kind, Robot
from tests.kit.robots import BALL, LINK, SHAPE, arm, joint, quadruped, walker

pytestmark = pytest.mark.usefixtures("any_pose")
Load = Callable[..., Robot]

INERTIA = '<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/>'
ACTUATED = "<actuator>{}</actuator>"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (INERTIA, INERTIA.replace(".01", "0"), "inertias that are not positive"),
        (INERTIA, INERTIA.replace(".01", "1e-20"), "inertias that are not positive"),
        (INERTIA, INERTIA.replace('ixx=".01"', 'ixx="-.01"'), "inertias that are not positive"),
        (INERTIA, INERTIA.replace('ixx=".01"', 'ixx="1"'), "break the triangle inequality"),
        ('<mass value="0.3"/>', '<mass value="0"/>', "next to no mass"),
        ('<mass value="8"/>', '<mass value="0"/>', "next to no mass, raised to 0.001 kg and 1e-06 kg m^2: body"),
        (BALL, BALL.replace("collision", "visual"), "no shapes that collide at the ends of limbs"),
    ],
)
def test_faults_are_fixed_and_named(load: Load, old: str, new: str, said: str) -> None:
    robot = load(quadruped().replace(old, new))
    assert any(said in line for line in robot.fixes)
    assert len(robot.feet) == 4
    assert (robot.model.body_inertia[1:] > 0).all()


def test_a_link_without_an_inertial_weighs_nothing(load: Load) -> None:
    shape = '<collision><geometry><box size="1 1 1"/></geometry></collision>'
    plain = load(quadruped()).mass
    extra = f'<link name="hat">{shape}</link>' + joint("neck", "body", "hat", type="fixed")
    assert load(quadruped(extra)).mass == pytest.approx(plain)


def test_where_no_link_has_a_mass_shapes_have_that_of_water(load: Load) -> None:
    text = quadruped()
    while "<inertial>" in text:
        before, _, after = text.partition("<inertial>")
        text = before + after.partition("</inertial>")[2]
    robot = load(text)
    assert any("no link has a mass" in line for line in robot.fixes)
    assert robot.mass == pytest.approx(1000 * 0.5 * 0.3 * 0.1, rel=0.1)


@pytest.mark.parametrize("declared", ["", ' xmlns:xacro="http://ros.org/wiki/xacro"'])
def test_prefixes_that_nothing_declares_are_parts_of_names(load: Load, declared: str) -> None:
    text = quadruped('<drake:group name="a"><drake:member link="body"/></drake:group>')
    text = text.replace("<limit ", '<limit drake:acceleration="2" ').replace("<robot", f"<robot{declared}")
    assert [part.name for part in load(text).joints] == [part.name for part in load(quadruped()).joints]


def hand(fingers: int, joints: int, mass: float) -> str:
    """A URDF of fingers on a palm, which two joints of a wrist carry."""
    parts = [LINK.format(name="forearm", mass=mass, shape=""), LINK.format(name="wrist", mass=0.1, shape="")]
    parts += [LINK.format(name="palm", mass=0.3, shape=""), joint("w1", "forearm", "wrist", at="0 0 .05")]
    parts.append(joint("w2", "wrist", "palm", at="0 0 .02", axis="1 0 0"))
    for finger in range(fingers):
        above = "palm"
        for number in range(joints):
            name = f"f{finger}_{number}"
            at = f"{0.02 * finger} 0 .03" if above == "palm" else "0 0 .03"
            parts += [LINK.format(name=name, mass=0.02, shape=""), joint(f"j{name}", above, name, at=at)]
            above = name
        parts[-2] = LINK.format(name=above, mass=0.02, shape=SHAPE.format(at="0 0 .01", kind='<sphere radius=".008"/>'))
    return f'<robot name="hand">{"".join(parts)}</robot>'


@pytest.mark.parametrize(("fingers", "joints", "mass"), [(5, 4, 3.0), (4, 4, 0.3), (5, 1, 0.5)])
def test_many_fingers_on_a_wrist_are_a_hand(load: Load, fingers: int, joints: int, mass: float) -> None:
    assert load(hand(fingers, joints, mass)).kind is Kind.HAND


def one_arm_and_a_head() -> str:
    """A URDF of a head of two joints, and an arm that hangs down and ends in two fingers."""
    limb = "".join(
        LINK.format(name=f"a{number}", mass=0.5, shape="")
        + joint(f"arm{number}", f"a{number - 1}" if number else "base", f"a{number}", at="0 .3 -.2")
        for number in range(3)
    )
    ends = "".join(
        LINK.format(name=f"f{side}", mass=0.1, shape=BALL) + joint(f"finger{side}", "a2", f"f{side}", at=f"0 {side} 0")
        for side in (0.1, -0.1)
    )
    head = LINK.format(name="neck", mass=0.5, shape="") + joint("pan", "base", "neck", at="0 0 .4", axis="0 0 1")
    head += LINK.format(name="head", mass=0.5, shape=BALL) + joint("tilt", "neck", "head", at="0 0 .1")
    return f'<robot name="half">{LINK.format(name="base", mass=9, shape="")}{limb}{ends}{head}</robot>'


def lying() -> str:
    """The quadruped with y up."""
    text = quadruped().replace("0 0 -.2", "0 -.2 0").replace('"0 1 0"', '"0 0 1"')
    for x in ("0.2", "-0.2"):
        for y in ("0.15", "-0.15"):
            text = text.replace(f'"{x} {y} 0"', f'"{x} 0 {y}"')
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<robot name="ur3"/>', "has no links; a xacro file is expanded by 'xacro FILE"),
        (
            quadruped().replace('xyz="0 1 0"', 'xyz="0, 1, 0"', 1),
            r"<axis xyz='0, 1, 0'> of joint 'leg1_hip'; expected three",
        ),
        (quadruped().replace('<mass value="0.3"/>', '<mass value="-1"/>', 1), "of link 'leg1_lower' is -1 kg"),
        (quadruped().replace(BALL, ""), "no limb ends in a shape that collides; give the feet's links a <collision>"),
        (lying(), "its legs point along -y and not down: z is to be up"),
        ("<mujoco><include file='b.xml'/></mujoco>", "includes 'b.xml', which does not exist"),
        ("\0<robot/>", "is no XML in UTF-8"),
        (one_arm_and_a_head(), "f0.1 and f-0.1 end lowest and share arm0, arm1, arm2: fingers of an arm, or two feet"),
        (
            quadruped().replace("</inertial>", "</inertial><inertial><mass value='1'/></inertial>", 1),
            "link 'body' has several <inertial>; expected one",
        ),
        (arm(joints=65), "65 joints lead to 'link65'; expected at most 64"),
        (
            "<mujoco><worldbody><body name='a'><joint name='x' type='slide'/><geom size='1'/><body><joint name='j'/>"
            "<geom size='1'/></body></body></worldbody><actuator><motor joint='j'/></actuator></mujoco>",
            r"its base hangs on x, which nothing drives; a base that floats has a <freejoint/>",
        ),
    ],
)
def test_what_cannot_be_fixed_is_refused_in_one_line(load: Load, text: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("<mujoco><asset><mesh file='../../../etc/x.stl'/></asset></mujoco>", "outside of"),
        ("<mujoco><compiler meshdir='/etc'/></mujoco>", "outside of"),
        ("<mujoco><include file='part.xml'/></mujoco>", "which is part of the model already"),
    ],
)
def test_included_files_may_refer_to_nothing_outside(load: Load, tmp_path: Path, part: str, message: str) -> None:
    (tmp_path / "part.xml").write_text(part)
    with pytest.raises(EmbodiedError, match=message):
        load("<mujoco><include file='part.xml'/></mujoco>")


def test_a_mimic_of_a_joint_that_does_not_exist_is_a_joint(load: Load) -> None:
    text = arm().replace("</joint>", '<mimic joint="gone"/></joint>', 1)
    robot = load(text)
    assert "j1" in [part.name for part in robot.joints]
    assert any("follow none that exists" in line for line in robot.fixes)


def wheeled() -> str:
    """A URDF of a box on two wheels and a castor."""
    wheel = (
        '<link name="{0}"><inertial><mass value="1"/>' + INERTIA + "</inertial><collision><geometry>"
        '<sphere radius=".1"/></geometry></collision></link>'
    )
    text = arm(joints=0).replace("</robot>", "")
    for side, y in (("left", ".2"), ("right", "-.2")):
        text += wheel.format(side) + joint(f"{side}_axle", "link0", side, type="continuous", at=f"0 {y} 0")
    return text + "</robot>"


def two_armed() -> str:
    """A URDF of two arms on a pedestal."""
    pedestal = '<collision><origin xyz="0 0 -1"/><geometry><box size=".3 .3 2"/></geometry></collision></link>'
    parts = ['<link name="base">' + pedestal]
    for side in ("left", "right"):
        limb = arm(joints=5).removeprefix('<robot name="arm">').removesuffix("</robot>")
        for name in ("link", "j"):
            limb = limb.replace(f'"{name}', f'"{side}_{name}')
        parts += [limb, joint(side, "base", f"{side}_link0", type="fixed", at="0 .5 0")]
    return f'<robot name="two">{"".join(parts)}</robot>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (wheeled(), r"stands on '(left|right)', which turns on one joint without limits: robots on wheels"),
        (two_armed(), "2 arms on one base, which end in left_link5, right_link5; expected one"),
    ],
)
def test_forms_that_have_no_tasks_are_told_apart(load: Load, text: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        load(text)


def test_a_small_quadruped_is_no_hand(load: Load) -> None:
    text = (
        quadruped().replace('<mass value="8"/>', '<mass value="1"/>').replace('<mass value="1"/>', '<mass value=".1"/>')
    )
    assert load(text).kind is Kind.LEGGED


@pytest.mark.parametrize("root", ["", "<freejoint/>"])
def test_of_a_scene_what_is_driven_is_the_robot(load: Load, root: str) -> None:
    robot = load(walker(root))
    assert (robot.trunk, robot.free, len(robot.feet), len(robot.joints)) == ("trunk", True, 4, 8)
    assert any("left out: ball" in line for line in robot.fixes)
    efforts = {part.name: part.servo.effort for part in robot.joints}
    assert efforts["hip0"] == pytest.approx(50 * 0.7)
    assert efforts["knee0"] == pytest.approx(9)
    assert any("no largest torque, taken to be what the servo gives" in line for line in robot.warnings)


def test_a_legged_robot_can_be_bolted_down(load: Load) -> None:
    robot = load(walker("<freejoint/>"), 'base = "fixed"')
    assert (robot.kind, robot.free, robot.model.nq) == (Kind.LEGGED, False, 8)
    assert np.isfinite(robot.home).all()
