"""What is derived from other people's robots, and what is said of files that lie."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import NAME, Description, Kind, Robot, picture, standard_model
from embodied.robot import __main__ as command
from embodied.robot.tree import lowest_point
from tests.kit.robots import LINK, MESH, arm, biped, fingers, joint, multirotor, quadruped, six_axes

pytestmark = pytest.mark.timeout(120)
Load = Callable[..., Robot]


def test_a_quadruped_stands_on_four_feet_below_its_hips(load: Load) -> None:
    robot = load(quadruped())
    assert (robot.kind, robot.free, robot.trunk) == (Kind.LEGGED, True, "body")
    assert len(robot.joints) == 8
    assert len(robot.feet) == 4
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_forward(robot.model, data)
    bottoms = [lowest_point(data, robot.model, (robot.model.body(foot).id,))[0] for foot in robot.feet]
    np.testing.assert_allclose(bottoms, 0.0, atol=0.005)
    for foot in robot.foot_points:
        hips = np.array([data.joint(joint.name).xanchor[:2] for joint in robot.joints if joint.name.endswith("hip")])
        assert np.abs(hips - foot[:2]).max(axis=1).min() < 0.05
    for part in robot.joints:
        assert part.low < part.home < part.high


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_servos_grow_with_the_motors(load: Load, scale: float) -> None:
    usual = load(quadruped()).joints[0].servo
    other = load(quadruped(effort=str(30 * scale))).joints[0].servo
    assert other.kp == pytest.approx(scale * usual.kp)
    assert other.kv > usual.kv if scale > 1 else other.kv < usual.kv


@pytest.mark.usefixtures("any_pose")
def test_top_speeds_are_the_files_and_the_descriptions_before(load: Load) -> None:
    text = arm(joints=3).replace('velocity="10"', 'velocity="fast"', 1)
    assert [part.speed for part in load(text).joints] == [np.inf, 10, 10]
    stated = load(text, description=Description(speed={"j[23]": 4.0}, acceleration={"j1": 7.0}))
    assert [part.speed for part in stated.joints] == [np.inf, 4, 4]
    assert [part.acceleration for part in stated.joints] == [7, np.inf, np.inf]
    assert stated.description().speed == {"j2": 4.0, "j3": 4.0}


@pytest.mark.usefixtures("any_pose")
def test_an_arm_reaches_with_what_carries_its_fingers(load: Load) -> None:
    fingers = "".join(
        LINK.format(name=f"finger{side}", mass=0.05, shape="")
        + joint(f"f{side}", "link4", f"finger{side}", type="prismatic", low="0", high=".04", axis="0 1 0")
        for side in "ab"
    )
    robot = load(arm(fingers))
    assert (robot.kind, robot.free, robot.tip) == (Kind.ARM, False, "link4")
    assert [part.slides for part in robot.joints] == [False] * 4 + [True] * 2


@pytest.mark.usefixtures("any_pose")
def test_legs_below_a_waist_share_its_joints(load: Load) -> None:
    waist = '<parent link="{}"/><child link="{}"/>'
    robot = load(biped().replace(waist.format("pelvis", "torso"), waist.format("torso", "pelvis")))
    assert (robot.trunk, sorted(robot.feet)) == ("torso", ["left_foot", "right_foot"])


@pytest.mark.usefixtures("any_pose")
def test_a_single_finger_ends_in_its_tip(load: Load) -> None:
    text = arm().replace('name="j', 'name="finger_j').replace('joint="j', 'joint="finger_j')
    assert load(text).tip == "link4"


PADS = "".join(
    f'<link name="pad_{side}"/>' + joint(side, f"finger_{side}", f"pad_{side}", type="fixed") for side in "ab"
)
TOOLS = "".join(
    f'<link name="tool_{side}"/>' + joint(f"t{side}", "link6", f"tool_{side}", type="fixed", at=f"0 {y} .1")
    for side, y in (("a", ".03"), ("b", "-.03"))
)


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize(
    ("last", "said"),
    [
        (fingers(), "tip: between finger_a and finger_b, 0.100 m from the frame of link6\n"),
        (fingers() + PADS, "tip: between finger_a and finger_b, 0.100 m from the frame of link6\n"),
        (
            fingers().replace("prismatic", "continuous"),
            "warning: fa, fb close no two bodies on each other: the tip is the frame of link6",
        ),
        (TOOLS, "warning: the tip is tool_b, one of several last bodies; others: tool_a (key tip in robot.toml)"),
    ],
)
def test_the_tip_is_said_as_it_was_understood(
    load: Load, last: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([str(load(six_axes(last)).file)])
    assert said in capsys.readouterr().out


@pytest.mark.usefixtures("any_pose")
def test_a_mimic_is_no_joint_of_its_own(load: Load) -> None:
    follower = LINK.format(name="b", mass=0.05, shape="") + joint("fb", "link4", "b", type="prismatic").replace(
        "</joint>", '<mimic joint="j1" multiplier="-1"/></joint>'
    )
    assert "fb" not in [part.name for part in load(arm(follower)).joints]


@pytest.mark.usefixtures("any_pose")
def test_joints_that_copy_each_other_in_a_circle_are_refused(load: Load) -> None:
    gripper = fingers(mimic=True).replace("</joint>", '<mimic joint="fb"/></joint>', 1)
    with pytest.raises(EmbodiedError, match=r"joints copy each other in a circle \(f[ab], f[ab], f[ab]\)"):
        load(six_axes(gripper))


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize(("offset", "warned"), [(0.02, False), (9.0, True)])
def test_in_the_home_pose_joints_are_where_the_one_that_they_copy_puts_them(
    load: Load, offset: float, warned: bool
) -> None:
    robot = load(six_axes(fingers(mimic=True).replace('multiplier="1"', f'multiplier="1" offset="{offset}"')))
    model = standard_model(robot).compile()
    for described, qpos in ((robot.model, robot.home), (model, model.key("home").qpos)):
        leader, copy = (qpos[described.joint(name).qposadr[0]] for name in ("fa", "fb"))
        assert copy == pytest.approx(leader + offset)
    assert ("the home pose is beyond the limits of fb" in robot.warnings) == warned


@pytest.mark.parametrize(
    ("name", "kind", "joints", "feet"),
    [("go1", Kind.LEGGED, 12, 4), ("g1", Kind.LEGGED, 29, 2), ("panda", Kind.ARM, 8, 0), ("allegro", Kind.HAND, 16, 0)],
)
def test_our_own_models_are_loaded_by_name_and_understood(name: str, kind: Kind, joints: int, feet: int) -> None:
    robot = Robot.load(name)
    assert robot.file.name == f"{name}.xml"
    assert (robot.kind, len(robot.joints), len(robot.feet)) == (kind, joints, feet)
    assert not robot.warnings


STRANGERS = {
    "a1/a1.urdf": (Kind.LEGGED, 12, 4),
    "aliengo/aliengo.urdf": (Kind.LEGGED, 12, 4),
    "laikago/laikago_toes_zup.urdf": (Kind.LEGGED, 12, 4),
    "quadruped/spirit40.urdf": (Kind.LEGGED, 12, 4),
    "quadruped/vision60.urdf": (Kind.LEGGED, 12, 4),
    "xarm/xarm6_robot.urdf": (Kind.ARM, 6, 0),
    "franka_panda/panda.urdf": (Kind.ARM, 8, 0),
    "kuka_iiwa/model.urdf": (Kind.ARM, 7, 0),
}


QUICK = ("a1/a1.urdf", "quadruped/spirit40.urdf", "xarm/xarm6_robot.urdf", "franka_panda/panda.urdf")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in STRANGERS]
)
def test_models_of_pybullet_data_are_understood(name: str) -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    robot = Robot.load(folder / name)
    assert (robot.kind, len(robot.joints), len(robot.feet)) == STRANGERS[name]


def test_models_of_all_kinds_of_pybullet_data_are_understood_or_refused_in_one_line() -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    said = {
        name: refusal(folder / name) for name in ("mjcf/ant.xml", "mjcf/capsule.xml", "table/table.urdf", "r2d2.urdf")
    }
    assert not said["mjcf/ant.xml"]
    assert "capsule.xml: no joint that a motor could turn and no rotors: an object" in said["mjcf/capsule.xml"]
    assert said["table/table.urdf"]
    assert said["r2d2.urdf"]
    assert not [line for line in said.values() if "\n" in line or len(line) > 700]


@pytest.mark.slow
def test_every_model_of_pybullet_data_is_understood_or_refused_in_one_line() -> None:
    folder = Path(pytest.importorskip("pybullet_data").getDataPath())
    files = [path for path in sorted(folder.rglob("*.urdf")) if "random_urdfs" not in path.parts]
    files += sorted((folder / "mjcf").glob("*.xml"))
    said = [line for file in files if (line := refusal(file))]
    assert len(files) - len(said) >= 25  # most others are balls, capsules, tables and single links
    assert any("capsule.xml: no joint that a motor could turn and no rotors: an object" in line for line in said)
    assert not [line for line in said if "\n" in line or len(line) > 700]


def test_every_model_of_dm_controls_suite_is_understood_or_refused_in_one_line() -> None:
    folder = Path(pytest.importorskip("dm_control").__file__).parent / "suite"
    said = {file.stem: refusal(file) for file in sorted(folder.glob("*.xml"))}
    assert {name for name, line in said.items() if not line} >= {"dog", "humanoid", "humanoid_CMU", "quadruped"}
    assert not [line for line in said.values() if "\n" in line or len(line) > 700]


def refusal(file: Path) -> str:
    """Why a file is refused, or nothing."""
    try:
        Robot.load(file)
    except EmbodiedError as error:
        return str(error)
    return ""


@pytest.mark.usefixtures("any_pose")
def test_a_description_goes_before_what_is_derived(load: Load) -> None:
    robot = load(quadruped(), 'home = { "*_knee" = -1.2 }\neffort = { "*" = 12 }\nkp = { "leg1_hip" = 99 }\n')
    assert {round(part.home, 6) for part in robot.joints if part.name.endswith("knee")} == {-1.2}
    assert {part.servo.effort for part in robot.joints} == {12.0}
    assert [part.servo.kp for part in robot.joints if part.name == "leg1_hip"] == [99.0]


@pytest.mark.usefixtures("any_pose")
def test_what_write_writes_says_the_same_again(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    before = load(quadruped())
    assert command.main([str(before.file), "--write"]) == 0
    after = Robot.load(before.file)
    np.testing.assert_allclose(after.home, before.home, atol=1e-3)
    for old, new in zip(before.joints, after.joints, strict=True):
        assert new.servo.kp == pytest.approx(old.servo.kp, abs=1e-3)
    with pytest.raises(SystemExit, match="2"):
        command.main([str(before.file), "--write"])
    assert "exists already" in capsys.readouterr().err


@pytest.mark.usefixtures("any_pose")
def test_another_models_description_is_not_used(load: Load) -> None:
    assert load(quadruped(), 'file = "other.urdf"\nkind = "arm"\n').kind is Kind.LEGGED


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kynd = 'arm'", r"robot.toml: unknown key 'kynd'; did you mean 'kind'\? expected file, kind"),
        ("kind = 3", r"kind is 3; expected a name in quotes"),
        ("kind = 'boat'", r"unknown kind of robot in robot.toml 'boat'"),
        ("feet = 'a'", r"feet is 'a'; expected a list of names"),
        ("home = { a = 'b' }", r"home is .*; expected a table of joints and numbers"),
        ("home = { nose = 1 }", r"unknown joint in .*robot.urdf \(key home\) 'nose'"),
        ("kp = { a = nan }", r"kp is .*; expected a table of joints and positive numbers"),
        ("kp = { '*' = 0 }", r"kp is .*; expected a table of joints and positive numbers"),
        ("kv = { '*' = -1 }", r"kv is .*; expected a table of joints and numbers, at least 0"),
        ("effort = { '*' = -1 }", r"effort is .*; expected a table of joints and numbers, at least 0"),
        ("speed = { '*' = 0 }", r"speed is .*; expected a table of joints and positive numbers"),
        ("acceleration = { '*' = -3 }", r"acceleration is .*; expected a table of joints and positive numbers"),
        (f"kp = {'9' * 5000}", r"robot.toml is no TOML: Exceeds the limit"),
        (f"kp = 0x{'f' * 5000}", r"kp is a int; expected a table"),
        ("feet = ['nose', 'ear']", r"unknown foot in .*robot.urdf \(key feet\) 'nose'"),
        ("trunk = 'nose'", r"unknown body in .*robot.urdf \(key trunk\) 'nose'"),
        ("= 3", r"robot.toml is no TOML"),
    ],
)
def test_descriptions_that_lie_are_refused(load: Load, text: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        load(quadruped(), text)


def test_a_description_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    """Names with all that XML may have in them, and numbers of all sizes."""
    name = 'a "b"\\\n\t\x7f é'
    home, kp, effort = {name: 0.0, "q[1]": -2.5e-7}, {name: 1e-5, "q[1]": 123456.0}, {name: 2e-9, "q[1]": 2e-9}
    said = Description(file=name, joints=(name, "q[1]"), home=home, kp=kp, effort=effort)
    said.write(tmp_path / NAME)
    read = Description.read(tmp_path / NAME)
    assert read == dataclasses.replace(said, effort={"*": 2e-9})


@pytest.mark.usefixtures("any_pose")
def test_a_joints_own_name_is_no_pattern(load: Load) -> None:
    text = quadruped().replace('"leg1_hip"', '"q[1]"').replace('"leg1_knee"', '"q1"')
    robot = load(text, "kp = { 'q[1]' = 7, q1 = 9 }")
    assert {joint.name: joint.servo.kp for joint in robot.joints if joint.name.startswith("q")} == {"q[1]": 7, "q1": 9}
    robot.description().write(robot.file.parent / NAME)
    assert Robot.load(robot.file).home_angles == pytest.approx(robot.home_angles, rel=1e-5)


@pytest.mark.usefixtures("any_pose")
def test_a_description_that_is_a_broken_link_is_neither_passed_over_nor_written_through(
    load: Load, tmp_path: Path
) -> None:
    file, there = load(quadruped()).file, tmp_path / "elsewhere.toml"
    (file.parent / NAME).symlink_to(there)
    with pytest.raises(EmbodiedError, match=r"cannot read .*robot.toml: No such file"):
        Robot.load(file)
    with pytest.raises(EmbodiedError, match="exists already"):
        command.write(file, Description())
    assert not there.exists()


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot", "is no XML"),
        ("<html/>", r"its root element is <html>; expected <mujoco> \(MJCF\) or <robot> \(URDF\)"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><robot/>', "has a document type"),
        (quadruped('<link name="other"/>'), r"2 links are the child of no joint \(body, other\)"),
        (quadruped('<link name="body"/>'), "two links are called 'body'; expected a name of its own for each"),
        (quadruped(MESH.format("hat.stl")), "the collision mesh 'hat.stl' of link 'hat' does not exist"),
        (quadruped(MESH.format("package://q/hat.stl")), "'package://q/hat.stl' of link 'hat' does not exist"),
        (quadruped(MESH.format("file:///etc/passwd")), "of link 'hat' does not exist"),
        (quadruped(effort="0"), r"no largest torque of leg1_hip, .* and 2 more .*say effort = .*\"leg1_hip\""),
        (quadruped(effort="much"), 'effort: "much"; expected a number'),
        (arm(joints=1), "cannot tell what this robot is, of 1 joints"),
        ('<mujoco><include file="/etc/passwd"/></mujoco>', "refers to '/etc/passwd', outside of"),
        ("<mujoco><worldbody/></mujoco>", r"0 bodies in the world move \(none\)"),
        (
            "<mujoco><worldbody><body name='a'><freejoint/><geom size='1'/></body><body name='b'><freejoint/>"
            "<geom size='1'/></body></worldbody></mujoco>",
            r"2 bodies in the world move \(a, b\); say which by trunk in robot.toml",
        ),
        (
            "<mujoco><worldbody><body><joint type='ball' name='s'/><geom size='1'/></body></worldbody></mujoco>",
            "joint 's' is a ball",
        ),
    ],
)
def test_files_that_lie_are_refused_in_one_line(load: Load, text: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("any_pose")
def test_what_is_fixed_and_what_looks_wrong_is_said(load: Load) -> None:
    text = quadruped(effort="2").replace('<mass value="0.3"/>', '<mass value="0"/>')
    robot = load(text.replace("<axis", "<axis "))
    assert any("next to no mass" in line and "leg1_lower" in line for line in robot.fixes)
    assert any("too weak" in line for line in robot.warnings)


@pytest.mark.usefixtures("any_pose")
def test_a_description_to_fill_in_is_written_where_efforts_are_missing(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "robot.urdf"
    file.write_text(quadruped().replace('effort="30"', 'effort="0"', 3))
    assert command.main([str(file), "--write"]) == 0
    lacking = ("leg1_hip", "leg1_knee", "leg5_hip")
    assert f"fill in its effort of {', '.join(lacking)}" in capsys.readouterr().out
    said = Description.beside(file)
    assert (len(said.feet), said.kp) == (4, {})
    with pytest.raises(EmbodiedError, match="no largest torque of leg1_hip, leg1_knee, leg5_hip "):
        Robot.load(file)
    filled = Robot.load(file, dataclasses.replace(said, effort=said.effort | dict.fromkeys(lacking, 20.0)))
    assert {part.servo.effort for part in filled.joints} == {20, 30}


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (quadruped(), "next: python -m embodied.train locomotion/velocity --robot "),
        (six_axes(fingers()), "tasks: manipulation/track-pose, manipulation/reach, "),
        (multirotor(), "tasks: swarm/hover, swarm/trajectory\nnext: python -m embodied.train swarm/hover "),
        (quadruped(effort="0.4"), "warning: tasks of a legged robot refuse it: its servos do not hold it up"),
    ],
)
def test_the_command_names_the_tasks_and_the_next_command(
    load: Load, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([str(load(text).file)])
    assert said in capsys.readouterr().out


@pytest.mark.usefixtures("any_pose")
def test_meshes_of_packages_are_found_beside_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "q_description"
    (folder / "meshes").mkdir(parents=True)
    (folder / "urdf").mkdir()
    cube = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (folder / "meshes" / "hat.obj").write_text(cube)
    file = folder / "urdf" / "q.urdf"
    file.write_text(quadruped(MESH.format("package://q_description/meshes/hat.obj")))
    assert Robot.load(file, Description(collision="meshes")).model.nmesh == 1
    shutil.rmtree(folder / "meshes")
    with pytest.raises(EmbodiedError, match="does not exist"):
        Robot.load(file)


@pytest.mark.usefixtures("any_pose")
def test_the_command_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.urdf").write_text(quadruped())
    assert command.main([str(tmp_path / "q.urdf"), "--picture", str(tmp_path / "q.png")]) == 0
    said = capsys.readouterr().out
    assert "legged" in said
    assert "leg1_hip" in said
    picture = cv2.imread(str(tmp_path / "q.png"))
    assert picture is not None
    assert picture.std() > 5
    with pytest.raises(SystemExit, match="2"):
        command.main([str(tmp_path / "none.urdf")])
    assert "none.urdf does not exist; expected a model file, or allegro, crazyflie" in capsys.readouterr().err


def tall() -> str:
    """An MJCF of an arm whose hand carries a pole of 2 m."""
    pole = '<geom type="capsule" size=".01" fromto="0 0 0 0 0 2" mass=".01"/>'
    link = '<body pos="0 0 .2"><joint name="{}" axis="0 1 0"/><geom size=".02"/>'
    links = "".join(link.format(name) for name in "abc")
    motors = "".join(f'<motor joint="{name}" ctrlrange="-9 9"/>' for name in "abc")
    return f"<mujoco><worldbody><body>{links}{pole}{'</body>' * 4}</worldbody><actuator>{motors}</actuator></mujoco>"


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize("text", [quadruped(), six_axes(), tall()])
def test_the_whole_robot_is_in_its_picture(load: Load, text: str) -> None:
    robot = load(text)
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.home
    mujoco.mj_kinematics(robot.model, data)
    points = picture.corners(robot.model, data)
    points -= (points.min(0) + points.max(0)) / 2
    turn, tilt = np.radians(picture.AZIMUTH), np.radians(picture.ELEVATION)
    forward = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    up = np.array([0.0, 0.0, 1.0]) - forward * forward[2]
    width, height = picture.SIZE[0] - 2 * picture.MARGIN, picture.SIZE[1]
    eye = -picture.distance(points, width / height) * forward
    seen = picture.Projection(eye, forward, up / np.linalg.norm(up), (width, height))
    places = np.array([seen(point) for point in points]) - [picture.MARGIN, 0]
    assert (places >= 0).all()
    assert (places <= [width, height]).all()
    assert (np.ptp(places, axis=0) / [width, height]).max() > 0.8


def test_names_that_no_robot_has_are_refused() -> None:
    for name in ("go11", ""):
        with pytest.raises(EmbodiedError, match=rf"unknown robot '{name}'.*go1"):
            Robot.load(name)
    with pytest.raises(EmbodiedError, match="is a folder; expected a model file, or allegro, crazyflie"):
        Robot.load(Path(__file__).parent)
