"""A stranger's legged robot, as tasks get it: it stands, and its sensors bear the names and meanings of Go1's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.robot import NAME, Robot, robot_scene, standard_model
from embodied.robot.prepared.legged import LeggedModel, legged_model
from embodied.storage.paths import asset
from tests.kit.robots import BALL, SHAPE, joint, quadruped, walker

pytestmark = pytest.mark.timeout(120)
Load = Callable[..., Robot]


def on_floor(prepared: LeggedModel) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The robot on a floor, at its home key."""
    spec = prepared.spec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=0)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    return model, data


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> LeggedModel:
    file = tmp_path_factory.mktemp("robot") / "robot.urdf"
    file.write_text(quadruped())
    return legged_model(Robot.load(file))


def test_it_stays_where_its_home_key_puts_it(prepared: LeggedModel) -> None:
    model, data = on_floor(prepared)
    begin = data.qpos.copy()
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    assert abs(data.qpos[2] - begin[2]) < 0.01
    np.testing.assert_allclose(data.qpos[7:], begin[7:], atol=0.05)


def test_its_sensors_mean_what_their_names_say(prepared: LeggedModel) -> None:
    model, data = on_floor(prepared)
    while data.time < 1.0:
        mujoco.mj_step(model, data)
    mujoco.mj_forward(model, data)
    assert data.sensor("upvector").data[2] > 0.99
    assert data.sensor("position").data[2] == pytest.approx(prepared.height, abs=0.01)
    feet = [data.sensor(f"{foot}_pos").data[2] for foot in prepared.feet]
    np.testing.assert_allclose(feet, prepared.foot_radius, atol=0.005)
    touch = sum(float(data.sensor(f"{foot}_touch").data[0]) for foot in prepared.feet)
    assert touch == pytest.approx(9.81 * model.body_subtreemass[0], rel=0.02)
    for name in (model.actuator(index).name for index in range(model.nu)):
        assert data.sensor(f"{name}_torque").data[0] == pytest.approx(data.actuator(name).force[0], abs=1e-9)


def test_parts_of_the_robot_do_not_meet_each_other(prepared: LeggedModel) -> None:
    model, _ = on_floor(prepared)
    robot = model.geom_bodyid > 0
    assert not model.geom_contype[robot].any()


@pytest.mark.parametrize("name", ["go1", "go2", "g1"])
def test_a_file_that_has_all_stays_as_it_is(name: str) -> None:
    prepared, file = legged_model(Robot.load(name)), asset(f"robots/{name}/{name}.xml")
    original = mujoco.MjModel.from_xml_path(str(file))
    assert prepared.written(Path("unused")) == file
    assert prepared.height == original.key("home").qpos[2]
    data = mujoco.MjData(original)
    data.qpos[:] = original.key("home").qpos
    mujoco.mj_forward(original, data)
    for foot in prepared.feet:
        assert data.sensor(f"{foot}_pos").data[2] == pytest.approx(prepared.foot_radius, abs=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('name="FR_foot_touch"', 'name="FR_felt"'),
        lambda text: text.replace('key name="home"', 'key name="stand"'),
        lambda text: text.replace("<worldbody>", '<worldbody><geom name="floor" type="plane" size="0 0 1"/>'),
        lambda text: text,
    ],
    ids=["sensor", "key", "scene", "robot.toml"],
)
def test_a_file_that_lacks_something_is_rewritten_with_its_servos_and_pose(
    change: Callable[[str], str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = asset("robots/go1/go1.xml")
    (tmp_path / "go1.xml").write_text(change(file.read_text()))
    other = "robot.toml" in request.node.name
    (tmp_path / NAME).write_text('kp = { "*" = 36 }' if other else "")
    prepared, original = legged_model(Robot.load(tmp_path / "go1.xml")), mujoco.MjModel.from_xml_path(str(file))
    assert prepared.xml is not None
    model, _ = on_floor(prepared)
    for index in range(original.nu):
        servo = original.actuator(index).name
        assert model.actuator(servo).gainprm[0] == pytest.approx(36 if other else original.actuator_gainprm[index, 0])
        np.testing.assert_allclose(model.actuator(servo).forcerange, original.actuator_forcerange[index])
        for field in ("damping", "frictionloss", "armature"):
            np.testing.assert_allclose(getattr(model.joint(servo), field), getattr(original.joint(servo), field))
    np.testing.assert_allclose(model.key("home").qpos[7:], original.key("home").qpos[7:], atol=1e-6)
    assert model.key("home").qpos[2] == pytest.approx(original.key("home").qpos[2], abs=0.002)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('effort = { "*" = 0.5 }', r"its servos do not hold it up: .*say another home, or larger kp"),
        ('base = "fixed"\nkind = "legged"', r"its base is fixed, and it cannot walk; say base"),
    ],
)
def test_a_robot_that_cannot_stand_or_is_bolted_down_is_refused_with_what_mends_it(
    load: Callable[..., Robot], said: str, message: str
) -> None:
    with pytest.raises(EmbodiedError, match=message):
        legged_model(load(quadruped(), said))


@pytest.mark.parametrize("dressed", [False, True])
def test_pictures_show_shapes_for_the_eye_alone_where_there_are_any(load: Callable[..., Robot], dressed: bool) -> None:
    """Feet's touch sites, as large as the feet, and shapes that collide stay out of sight."""
    visual = '<visual><geometry><box size=".5 .3 .1"/></geometry></visual>' * dressed
    model = legged_model(load(quadruped().replace("<collision>", visual + "<collision>"))).spec().compile()
    solid = model.geom_conaffinity != 0
    assert (model.geom_group[solid] > 2).all() == dressed
    assert (model.geom_group[~solid] <= 2).all()
    assert (model.site_group > 2).all()


def based_at_the_soles() -> str:
    """The quadruped with a base link without mass 35 cm below its body."""
    return quadruped('<link name="sole"/>' + joint("pillar", "sole", "body", type="fixed", at="0 0 .35"))


def standing_on_its_frame() -> str:
    """The walker with its trunk's frame 40 cm lower, turned and with a shape from end to end."""
    lower = walker('<freejoint/><geom fromto="-.1 0 .4 .1 0 .4" size=".03" type="capsule"/>')
    lower = lower.replace('size=".2 .1 .05"', 'size=".2 .1 .05" pos="0 0 .4"').replace("0.1 0", "0.1 0.4")
    return lower.replace("-0.1 0<", "-0.1 0.4<").replace('name="trunk"', 'name="trunk" quat=".8 0 0 .6"')


@pytest.mark.usefixtures("any_pose")
@pytest.mark.parametrize("text", [based_at_the_soles(), standing_on_its_frame()])
def test_a_base_at_the_soles_is_measured_at_the_hips_and_said(load: Load, text: str) -> None:
    robot = load(text)
    assert any(f"the frame of the base {robot.trunk!r} is " in line for line in robot.warnings)
    prepared = legged_model(robot)
    model, data = on_floor(prepared)
    mujoco.mj_forward(model, data)
    theirs = mujoco.MjData(robot.model)
    theirs.qpos[:] = robot.home
    mujoco.mj_forward(robot.model, theirs)
    hip = theirs.joint(robot.joints[0].name).xanchor[2]
    assert data.sensor("position").data[2] == pytest.approx(hip, abs=0.01) == prepared.height
    np.testing.assert_allclose(data.subtree_com[1], theirs.subtree_com[1], atol=0.005)
    np.testing.assert_allclose(model.body_subtreemass[1], robot.mass)
    for foot in robot.feet:
        np.testing.assert_allclose(data.body(foot).xpos, theirs.body(foot).xpos, atol=0.005)


STRANGE = """<mujoco><default><general gear="50" ctrllimited="true" ctrlrange="-.1 .1" forcelimited="true"
forcerange="-1 1"/><geom contype="0" friction="9"/><site size="3"/><mesh scale="9 9 9"/></default>"""


@pytest.mark.usefixtures("any_pose")
def test_defaults_of_a_file_are_those_of_its_own_elements(load: Load) -> None:
    """Its gears do not drive our servos, and its contacts are not the floor's."""
    colliding = walker("<freejoint/>").replace("<geom ", '<geom contype="1" friction="1" ')
    robot = load(colliding.replace("<mujoco>", STRANGE).replace("<motor ", MOTOR).replace("<position ", SERVO))
    floor = robot_scene(robot).compile().geom("floor")
    assert (floor.contype[0], floor.friction[0] < 9) == (1, True)
    plain = load(colliding.replace("<motor ", '<motor gear="1" ').replace("<position ", '<position gear="1" '))
    assert standard_model(robot).to_xml() == standard_model(plain).to_xml()


MOTOR = '<motor gear="1" forcelimited="false" forcerange="0 0" '
SERVO = '<position gear="1" forcelimited="false" forcerange="0 0" ctrllimited="false" ctrlrange="0 0" '


@pytest.mark.usefixtures("any_pose")
def test_a_calf_that_is_a_foot_stands_on_its_end(load: Load) -> None:
    calf = '<capsule radius=".015" length=".2"/>'
    robot = load(quadruped().replace(BALL, SHAPE.format(at="0 0 -.1", kind=calf)).replace("capsule", "cylinder"))
    assert [round(float(point[2]), 3) for point in robot.foot_points] == pytest.approx([0.015] * 4, abs=0.01)


@pytest.mark.usefixtures("any_pose")
def test_unequal_feet_are_asked_about(load: Load) -> None:
    knee = SHAPE.format(at="0 0 -.02", kind='<sphere radius=".21"/>')
    text = quadruped().replace(BALL, knee, 2)
    with pytest.raises(EmbodiedError, match=r"stand on different parts, .*: leg1_lower 0.02 m.*leg13_lower 0.20"):
        load(text)
    feet = ", ".join(f'"leg{number}_lower"' for number in (1, 5, 9, 13))
    assert len(load(text, f"feet = [{feet}]").feet) == 4
