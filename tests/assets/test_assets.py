"""The models under assets/: that they compile, weigh what they should, stand, and suit every engine."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from tests.kit.hooks import contacts_in_mjx

ASSETS = Path(__file__).resolve().parents[2] / "assets"
ROBOTS = sorted(path.relative_to(ASSETS).as_posix() for path in ASSETS.glob("robots/**/*.xml"))
GO1, CRAZYFLIE = "robots/go1/go1.xml", "robots/crazyflie/crazyflie.xml"
GO2, G1 = "robots/go2/go2.xml", "robots/g1/g1.xml"
OURS = (GO1, GO2, G1, CRAZYFLIE)
LEGS = ("FR", "FL", "RR", "RL")
PRIMITIVES = {  # without the plane: a robot brings no floor
    mujoco.mjtGeom.mjGEOM_SPHERE,
    mujoco.mjtGeom.mjGEOM_CAPSULE,
    mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    mujoco.mjtGeom.mjGEOM_CYLINDER,
    mujoco.mjtGeom.mjGEOM_BOX,
}

# Names are kept unchanged on purpose: the empty prefix is only unsafe for saving the composed XML again.
pytestmark = pytest.mark.filterwarnings("ignore:Attaching a spec with an empty prefix")


def on_floor(*robots: str, discard_visual: bool = False) -> mujoco.MjModel:
    """The floor scene with robots attached under their own names, at 4 ms with implicitfast."""
    spec = mujoco.MjSpec.from_file(str(ASSETS / "scenes/floor.xml"))
    for robot in robots:
        spec.attach(mujoco.MjSpec.from_file(str(ASSETS / robot)), frame=spec.worldbody.add_frame(), prefix="")
    spec.compiler.discardvisual = discard_visual
    spec.option.timestep = 0.004
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec.compile()


def at_home(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return data


def inertia_tensor(model: mujoco.MjModel, body: int) -> np.ndarray:
    """Inertia about the centre of mass in the body's own axes, (3, 3), kg m^2."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.body_iquat[body])
    rotation = rotation.reshape(3, 3)
    return rotation @ np.diag(model.body_inertia[body]) @ rotation.T


@pytest.fixture(scope="module")
def go1() -> mujoco.MjModel:
    return on_floor(GO1)


@pytest.mark.parametrize("robot", ROBOTS)
def test_robot_compiles_alone_and_is_made_of_primitives(robot):
    model = mujoco.MjModel.from_xml_path(str(ASSETS / robot))
    assert model.nmesh == 0
    assert {mujoco.mjtGeom(kind) for kind in model.geom_type} <= PRIMITIVES
    assert model.nlight == 0, "a robot brings no light"


@pytest.mark.parametrize("robot", ROBOTS)
def test_robot_is_accepted_by_mjx(robot):
    assert contacts_in_mjx(on_floor(robot, discard_visual=True)) >= 0


@pytest.mark.parametrize("robot", OURS)
def test_visual_shapes_do_not_touch_the_physics(robot):
    full, bare = on_floor(robot), on_floor(robot, discard_visual=True)
    assert bare.ngeom < full.ngeom / 4
    np.testing.assert_array_equal(bare.body_mass, full.body_mass)
    np.testing.assert_array_equal(bare.body_inertia, full.body_inertia)
    data = []
    for model in (full, bare):
        data.append(mujoco.MjData(model))
        mujoco.mj_step(model, data[-1], nstep=50)
    np.testing.assert_array_equal(data[0].qpos, data[1].qpos)
    np.testing.assert_array_equal(data[0].sensordata, data[1].sensordata)


@pytest.mark.parametrize("robot", OURS)
def test_collision_geoms_meet_the_floor_and_nothing_else(robot):
    model = on_floor(robot)
    floor = model.geom("floor").id
    for first in range(model.ngeom):
        for second in range(first):
            pair = (model.geom_contype[first] & model.geom_conaffinity[second]) or (
                model.geom_contype[second] & model.geom_conaffinity[first]
            )
            collision = any(model.geom_group[i] == 3 for i in (first, second))
            assert bool(pair) == (collision and floor in (first, second))


@pytest.mark.parametrize("robot", OURS)
def test_free_joint_stays_at_the_top_when_attached(robot):
    model = on_floor(robot)
    assert model.joint("root").type == mujoco.mjtJoint.mjJNT_FREE
    assert model.joint("root").qposadr == 0
    assert model.body_parentid[model.jnt_bodyid[0]] == 0


@pytest.mark.parametrize("robot", OURS)
def test_floor_friction_decides(robot):
    model = on_floor(robot)
    model.geom("floor").friction[0] = 0.37
    data = at_home(model) if model.nkey else mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=50)
    assert data.ncon > 0
    for contact in data.contact:
        assert contact.friction[0] == pytest.approx(0.37)
        assert contact.dim == 3


def test_go1_masses_are_the_published_ones(go1):
    published = {"hip": 0.680, "thigh": 1.009, "calf": 0.196}  # kg
    assert go1.body("trunk").mass == pytest.approx(5.204)
    for leg in LEGS:
        for link, mass in published.items():
            assert go1.body(f"{leg}_{link}").mass == pytest.approx(mass, abs=5e-4)
    assert go1.body_mass.sum() == pytest.approx(12.743, abs=1e-3)
    np.testing.assert_allclose(go1.body("trunk").inertia, (0.01681, 0.06301, 0.07166))


def test_go1_limits_and_torques_are_the_published_ones(go1):
    published = {  # range rad, torque N m, friction N m
        "hip": ((-0.863, 0.863), 23.7, 0.3),
        "thigh": ((-0.686, 4.501), 23.7, 0.3),
        "calf": ((-2.818, -0.888), 35.55, 1.0),
    }
    names = [f"{leg}_{link}" for leg in LEGS for link in published]
    assert [go1.joint(i).name for i in range(go1.njnt)] == ["root", *names]
    assert [go1.actuator(i).name for i in range(go1.nu)] == names
    for name in names:
        limits, torque, friction = published[name.split("_")[1]]
        joint, actuator = go1.joint(name), go1.actuator(name)
        assert actuator.trnid[0] == joint.id
        np.testing.assert_allclose(joint.range, limits)
        np.testing.assert_allclose(actuator.ctrlrange, limits)
        np.testing.assert_allclose(actuator.forcerange, (-torque, torque))
        np.testing.assert_allclose(actuator.gainprm[0], 35)
        np.testing.assert_allclose(actuator.biasprm[:3], (0, -35, -0.5))
        assert joint.armature == pytest.approx(0.005)
        assert joint.frictionloss == pytest.approx(friction)
        assert joint.damping == 0


def test_go1_lengths_are_the_published_ones(go1):
    for leg in LEGS:
        front, left = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        np.testing.assert_allclose(go1.body(f"{leg}_hip").pos, (0.1881 * front, 0.04675 * left, 0))
        np.testing.assert_allclose(go1.body(f"{leg}_thigh").pos, (0, 0.08 * left, 0))
        np.testing.assert_allclose(go1.body(f"{leg}_calf").pos, (0, 0, -0.213))
        np.testing.assert_allclose(go1.geom(leg).pos, (0, 0, -0.213))
        assert go1.geom(leg).size[0] == pytest.approx(0.023)
        np.testing.assert_allclose(go1.site(f"{leg}_foot").pos, go1.geom(leg).pos)


def test_go1_is_mirror_symmetric(go1):
    mirror = np.array([1, -1, 1])
    trunk = go1.body("trunk").id
    assert go1.body_ipos[trunk][1] == 0
    for right, left in (("FR", "FL"), ("RR", "RL")):
        for link in ("hip", "thigh", "calf"):
            r, l = go1.body(f"{right}_{link}").id, go1.body(f"{left}_{link}").id  # noqa: E741
            assert go1.body_mass[r] == go1.body_mass[l]
            np.testing.assert_allclose(go1.body_pos[r], mirror * go1.body_pos[l])
            np.testing.assert_allclose(go1.body_ipos[r], mirror * go1.body_ipos[l])
            mirrored = np.diag(mirror) @ inertia_tensor(go1, l) @ np.diag(mirror)
            np.testing.assert_allclose(inertia_tensor(go1, r), mirrored, atol=1e-9)
            sides = [go1.geom_pos[go1.geom_bodyid == body] for body in (r, l)]
            np.testing.assert_allclose(sides[0], sides[1] * mirror, atol=1e-9)


def test_go1_home_splays_the_legs_outwards(go1):
    data = at_home(go1)
    for leg in LEGS:
        foot, thigh = data.site(f"{leg}_foot").xpos, data.body(f"{leg}_thigh").xpos
        assert abs(foot[1]) > abs(thigh[1])
        assert foot[0] == pytest.approx(thigh[0], abs=1e-3)


def test_go1_stands_still_at_home_for_two_seconds(go1):
    data = at_home(go1)
    start, deepest = data.qpos[2], 0.0
    for _ in range(500):
        mujoco.mj_step(go1, data)
        deepest = min([deepest, *(contact.dist for contact in data.contact)])
    assert abs(data.qpos[2] - start) < 0.02
    assert np.linalg.norm(data.qpos[:2]) < 0.01
    assert data.sensor("upvector").data[2] > 0.999
    assert np.abs(data.qvel).max() < 0.01
    assert deepest > -0.002
    weight = sum(data.sensor(f"{leg}_foot_touch").data[0] for leg in LEGS)
    assert weight == pytest.approx(go1.body_mass.sum() * 9.81, rel=0.01)


def test_go1_sensors_agree_with_the_state(go1):
    data = at_home(go1)
    rng = np.random.default_rng(0)
    data.qpos[3:7] = rng.normal(size=4)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qvel[:] = rng.normal(size=go1.nv)
    mujoco.mj_forward(go1, data)
    rotation = data.body("trunk").xmat.reshape(3, 3)
    np.testing.assert_allclose(data.sensor("position").data, data.qpos[:3])
    np.testing.assert_allclose(data.sensor("orientation").data, data.qpos[3:7])
    np.testing.assert_allclose(data.sensor("linvel_w").data, data.qvel[:3], atol=1e-12)
    np.testing.assert_allclose(data.sensor("gyro").data, data.qvel[3:6], atol=1e-12)
    np.testing.assert_allclose(data.sensor("angvel_w").data, rotation @ data.qvel[3:6], atol=1e-12)
    np.testing.assert_allclose(data.sensor("upvector").data, rotation[:, 2], atol=1e-12)
    at_imu = rotation.T @ data.qvel[:3] + np.cross(data.qvel[3:6], go1.site("imu").pos)
    np.testing.assert_allclose(data.sensor("linvel").data, at_imu, atol=1e-12)
    for leg in LEGS:
        np.testing.assert_allclose(data.sensor(f"{leg}_foot_pos").data, data.site(f"{leg}_foot").xpos)
        assert data.sensor(f"{leg}_foot_linvel_w").data.shape == (3,)
        for link in ("hip", "thigh", "calf"):
            torque = data.sensor(f"{leg}_{link}_torque").data[0]
            assert torque == pytest.approx(data.actuator(f"{leg}_{link}").force[0])


def test_crazyflie_body_is_the_published_one():
    model = on_floor(CRAZYFLIE)
    body = model.body("cf")
    assert model.body_mass.sum() == pytest.approx(0.0318)
    np.testing.assert_allclose(inertia_tensor(model, body.id), np.diag([16.8e-6, 16.8e-6, 29.8e-6]), atol=1e-12)
    np.testing.assert_array_equal(body.ipos, 0)
    signs = {1: (1, -1), 2: (-1, -1), 3: (-1, 1), 4: (1, 1)}  # front right, back right, back left, front left
    for rotor, sign in signs.items():
        np.testing.assert_allclose(model.site(f"rotor_{rotor}").pos[:2], np.multiply(0.03253, sign))
    assert model.nu == 0


def test_crazyflie_rests_on_the_floor_and_falls_freely():
    model = on_floor(CRAZYFLIE)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=500)
    assert data.sensor("position").data[2] == pytest.approx(0.0145, abs=5e-4)
    np.testing.assert_allclose(data.sensor("accelerometer").data, (0, 0, 9.81), atol=1e-2)
    data.qpos[2] = 1.0
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.sensor("accelerometer").data, 0, atol=1e-9)


def test_many_crazyflies_share_a_scene_under_prefixes():
    spec = mujoco.MjSpec.from_file(str(ASSETS / "scenes/floor.xml"))
    for i in range(3):
        frame = spec.worldbody.add_frame(pos=[i, 0, 1])
        spec.attach(mujoco.MjSpec.from_file(str(ASSETS / CRAZYFLIE)), frame=frame, prefix=f"cf{i}_")
    model = spec.compile()
    assert [model.joint(i).name for i in range(model.njnt)] == ["cf0_root", "cf1_root", "cf2_root"]
    np.testing.assert_allclose(model.qpos0.reshape(3, 7)[:, 0], (0, 1, 2))
