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
DRESSED = (*OURS, *(f"robots/{name}/{name}.xml" for name in ("panda", "allegro", "leap", "shadow")))
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


@pytest.mark.parametrize("robot", ROBOTS)
def test_robot_compiles_alone_and_is_made_of_primitives(robot):
    model = mujoco.MjModel.from_xml_path(str(ASSETS / robot))
    assert model.nmesh == 0
    assert {mujoco.mjtGeom(kind) for kind in model.geom_type} <= PRIMITIVES
    assert model.nlight == 0, "a robot brings no light"


@pytest.mark.parametrize("robot", ROBOTS)
def test_robot_is_accepted_by_mjx(robot):
    assert contacts_in_mjx(on_floor(robot, discard_visual=True)) >= 0


@pytest.mark.parametrize("robot", DRESSED)
def test_visual_shapes_do_not_touch_the_physics(robot):
    full, bare = on_floor(robot), on_floor(robot, discard_visual=True)
    assert bare.ngeom < (full.ngeom / 4 if robot in OURS else full.ngeom)
    np.testing.assert_array_equal(bare.body_mass, full.body_mass)
    np.testing.assert_array_equal(bare.body_inertia, full.body_inertia)
    data = []
    for model in (full, bare):
        data.append(mujoco.MjData(model))
        if model.nkey:
            mujoco.mj_resetDataKeyframe(model, data[-1], model.key("home").id)
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
