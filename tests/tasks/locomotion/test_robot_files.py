"""Tasks of legged robots of files: velocity on four feet and two, getting up, walking to points.

Robots are those that the tests write; whole environments of them run with the slow tests.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.core.world import World
from embodied.env.factory import configured
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from tasks.locomotion.getup import Getup, GetupConfig, touching
from tasks.locomotion.ground import Rough, Terrain
from tasks.locomotion.humanoid_joystick import HumanoidConfig, HumanoidJoystick
from tasks.locomotion.joystick import Joystick, JoystickConfig
from tasks.locomotion.reach import Reach, ReachConfig
from tests.kit.hooks import blank, partly
from tests.kit.robots import arm, bare, biped, quadruped
from tests.kit.scripts import still
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(280)


@pytest.fixture(scope="module")
def two_feet(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("biped") / "b.urdf"
    file.write_text(biped())
    return str(file)


@pytest.fixture(scope="module")
def four_feet(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("quadruped") / "q.urdf"
    file.write_text(quadruped())
    return str(file)


KEY = jax.random.PRNGKey(0)


def at_home(task: Any) -> World:
    """The world as the robot stands there, at rest."""
    return World.posed(task.model, task.model.key("home").qpos, np.zeros(task.model.nv))


@pytest.mark.parametrize("feet", ["four_feet", "two_feet"])
def test_a_strangers_robot_is_held_by_zero_actions(feet: str, request: pytest.FixtureRequest) -> None:
    """It stands on four feet for a second; on two it has not fallen over after a fifth of one."""
    kind: Any = Joystick if feet == "four_feet" else HumanoidJoystick
    task = kind(kind.config_type(robot=request.getfixturevalue(feet), without=("all",)))
    start, data = blank(task).task_state, mujoco.MjData(task.model)
    data.qpos = task.model.key("home").qpos
    act = partly(
        lambda: task.apply_action(None, start, task.process_action(None, start, jnp.zeros(task.action_size), KEY)[0]),
        lambda applied: applied[0].ctrl,
    )
    data.ctrl = act()
    mujoco.mj_step(task.model, data, round((1.0 if feet == "four_feet" else 0.2) / task.timing.physics_dt))
    np.testing.assert_allclose(data.qpos[2], task.robot.height, atol=0.05)
    assert not jitted(task.outcome)(World.posed(task.model, data.qpos, data.qvel), start).failure
    assert task.action_size == (8 if feet == "four_feet" else len(task.robot.joint_names))
    terms = task.observation_terms["policy"]
    assert feet == "four_feet" or terms["phase"] == (4,)


def test_a_robot_in_a_scene_of_its_own_is_taken_alone(four_feet: str, tmp_path: Path) -> None:
    """Floor, lights, cameras and names of the file's scene neither stay nor meet those of the task."""
    spec = mujoco.MjSpec.from_file(four_feet)
    world, trunk = spec.worldbody, spec.worldbody.first_body()
    if not any(int(joint.type) == int(mujoco.mjtJoint.mjJNT_FREE) for joint in trunk.joints):
        trunk.add_freejoint()
    spec.add_material(name="floor")
    world.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], material="floor")
    for place in (world, trunk):
        place.add_light(name=f"{place.name}_light")
        place.add_camera(name=f"{place.name}_camera")
    file = tmp_path / "scene.xml"
    file.write_text(spec.to_xml())
    (tmp_path / "robot.toml").write_text('kind = "legged"\nbase = "free"\n')
    model = Joystick(JoystickConfig(robot=str(file))).model
    cameras = {model.camera(number).name for number in range(model.ncam)}
    assert not {"world_camera", f"{trunk.name}_camera"} & cameras
    assert model.nu == 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "feet", "options"),
    [("velocity", "four_feet", {"terrain": "rough"}), ("velocity-biped", "two_feet", {}), ("reach", "four_feet", {})],
    ids=["rough", "biped", "reach"],
)
def test_a_strangers_robot_runs(name: str, feet: str, options: Any, request: pytest.FixtureRequest) -> None:
    robot = request.getfixturevalue(feet)
    env = embodied.make(f"locomotion/{name}", 8, engine="mujoco", robot=robot, **options)
    assert all(torch.isfinite(step.obs["critic"]).all() for step in still(env, 5))


def test_rough_ground_is_a_word_away(four_feet: str) -> None:
    task = configured(join_content()["locomotion/velocity"], {"robot": four_feet, "terrain": "rough"})
    assert isinstance(task, Joystick)
    assert isinstance(task.ground, Rough)
    assert task.config.terrain is Terrain.ROUGH
    assert task.model.nhfield == Joystick().model.nhfield + 1
    seen = jax.eval_shape(task.observe, at_home(task), blank(task).task_state, KEY)
    assert seen["critic"].keys() > Joystick(JoystickConfig(robot=four_feet)).observation_terms["critic"].keys()


@pytest.mark.parametrize(
    ("robot", "named"), [("go1", Joystick), pytest.param("g1", HumanoidJoystick, marks=pytest.mark.slow)]
)
def test_a_robot_of_ours_whose_file_is_rewritten_is_the_same(robot: str, named: type[Any], tmp_path: Path) -> None:
    """Without sensors in the file the model is written anew: same servos, pose and numbers by role."""
    (tmp_path / "bare.xml").write_text(bare(robot))
    ours, same = named(), named(named.config_type(robot=str(tmp_path / "bare.xml")))
    assert (ours.robot.xml, same.robot.xml is None) == (None, False)
    assert same.robot.joint_names == ours.robot.joint_names
    assert same.robot.roles == ours.robot.roles
    assert same.effort_scale == pytest.approx(ours.effort_scale, rel=0.01)
    np.testing.assert_allclose(same.layout.home, ours.layout.home, atol=1e-5)
    np.testing.assert_allclose(same.layout.stance, ours.layout.stance, atol=0.01)
    np.testing.assert_allclose(same.layout.limits, ours.layout.limits)
    np.testing.assert_allclose(same.action_scale, ours.action_scale)
    servos = same.model.actuator_gainprm[same.layout.actuators, 0]
    np.testing.assert_allclose(servos, ours.model.actuator_gainprm[ours.layout.actuators, 0], rtol=0.03)
    assert ours.observation_terms == same.observation_terms


def test_each_number_of_feet_has_its_task(two_feet: str, four_feet: str) -> None:
    with pytest.raises(EmbodiedError, match=r"b.urdf stands on 2 feet .*: locomotion/velocity-biped is for it"):
        Joystick(JoystickConfig(robot=two_feet))
    with pytest.raises(EmbodiedError, match=r"q.urdf stands on 4 feet .*: locomotion/velocity is for it"):
        HumanoidJoystick(HumanoidConfig(robot=four_feet))


def test_small_robots_are_told_to_go_slower_unless_asked_otherwise(two_feet: str) -> None:
    task = HumanoidJoystick(HumanoidConfig(robot=two_feet))
    expected = 1.0 * np.sqrt(task.robot.height / 0.7842)
    assert task.velocities.limits[0] == pytest.approx(expected)
    asked = HumanoidJoystick(HumanoidConfig(robot=two_feet, froude=False))
    assert asked.velocities.limits == (1.0, 0.4, 0.8)


def test_getup_falls_from_its_height_and_parts_meet_but_for_those_that_touch_at_home(four_feet: str) -> None:
    task = Getup(GetupConfig(robot=four_feet))
    model = task.model
    robot = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] and model.geom_conaffinity[geom]]
    assert robot
    assert all(model.geom_contype[geom] for geom in robot)
    assert not touching(model)
    assert task.drop == pytest.approx(0.5 * task.robot.height / 0.278)
    stiffness = model.actuator_gainprm[task.layout.actuators, 0]
    np.testing.assert_allclose(task.lead * stiffness, 1.2 * 30.0, rtol=1e-5)


def test_bodies_that_overlap_at_home_do_not_push_each_other(tmp_path: Path) -> None:
    (tmp_path / "q.urdf").write_text(quadruped().replace('radius=".02"', 'radius=".3"'))  # feet as large as the robot
    model = Getup(GetupConfig(robot=str(tmp_path / "q.urdf"))).model
    assert model.nexclude
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_forward(model, data)
    assert all(0 in model.geom_bodyid[contact.geom] for contact in data.contact)


@pytest.fixture(scope="module")
def reach(four_feet: str) -> Reach:
    return Reach(ReachConfig(robot=four_feet, froude=False))


def test_commands_lead_to_the_target(reach: Reach) -> None:
    """A point that moves exactly as told arrives, from any side, and stops there."""
    guide, target = jax.jit(reach._guide), np.array([3.0, -2.0], np.float32)
    for yaw in (0.0, 2.0, -2.5):
        place, heading = np.zeros(2), yaw
        for _ in range(600):
            quat = np.array([np.cos(heading / 2), 0.0, 0.0, np.sin(heading / 2)], np.float32)
            command = np.asarray(guide(np.array([*place, 0.3], np.float32), quat, target))
            assert (np.abs(command) <= np.array(reach.velocities.limits) + 1e-5).all()
            cos, sin = np.cos(heading), np.sin(heading)
            place = place + 0.02 * np.array([cos * command[0] - sin * command[1], sin * command[0] + cos * command[1]])
            heading += 0.02 * command[2]
        assert np.linalg.norm(place - target) < 0.05


def test_a_reached_target_is_replaced_and_counted(reach: Reach) -> None:
    world, state = at_home(reach), blank(reach).task_state
    place = np.asarray(world["position"][:2])
    there, away = (dataclasses.replace(state, target=place + np.float32(off)) for off in (0.1, 3.0))
    step = partly(
        lambda now: reach.post_step(world, now, jnp.zeros(reach.action_size), KEY),
        lambda after: (after.reached, after.target, after.command),
    )
    reached, target, command = step(there)
    assert float(reached) == 1.0
    assert 2.0 <= float(np.linalg.norm(target - place)) <= 6.0
    assert not np.allclose(command, there.command)
    reached, target, _ = step(away)
    assert float(reached) == 0.0
    np.testing.assert_array_equal(target, away.target)


def test_files_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(arm())
    with pytest.raises(EmbodiedError, match=r"arm.urdf is understood as an arm; expected a legged robot"):
        embodied.make("locomotion/velocity", 1, engine="mujoco", robot=str(file))
    with pytest.raises(EmbodiedError, match=r"none.urdf does not exist"):
        embodied.make("locomotion/velocity", 1, engine="mujoco", robot=str(tmp_path / "none.urdf"))


def test_a_relative_path_is_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "q.urdf").write_text(quadruped())
    monkeypatch.chdir(tmp_path)
    assert JoystickConfig(robot="q.urdf").robot == str(tmp_path / "q.urdf")


@pytest.mark.parametrize(("kind", "name"), [(Joystick, "four_feet"), (HumanoidJoystick, "two_feet")])
def test_made_again_from_its_config_it_is_the_same_task(
    kind: type[Any], name: str, request: pytest.FixtureRequest
) -> None:
    """Commands of a lower robot are slower, once."""
    config = kind.config_type(robot=request.getfixturevalue(name))
    task = kind(config)
    again = task.rebuilt()
    assert again.config == task.config == config
    assert again.velocities == task.velocities
