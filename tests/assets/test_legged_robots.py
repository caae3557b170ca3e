"""The Go1, Go2 and G1 under assets/: constants, symmetry, standing, sensors, and the Go1's task on the Go2."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compose
from embodied.core.world import World
from embodied.robot.prepared.legged import legged_of
from tasks.locomotion.joystick import Joystick, JoystickConfig
from tests.kit.hooks import blank

LEGS = ("FR", "FL", "RR", "RL")
SIDES = ("left", "right")
LEG_JOINTS = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
ARM_JOINTS = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")
G1_JOINTS = (
    *(f"{side}_{joint}" for side in SIDES for joint in LEG_JOINTS),
    *WAIST,
    *(f"{side}_{joint}" for side in SIDES for joint in ARM_JOINTS),
)
OPPOSITE = {"FR": "FL", "FL": "FR", "RR": "RL", "RL": "RR", "left": "right", "right": "left"}
PHYSICS_DT = {"go1": 0.004, "go2": 0.004, "g1": 0.002}  # s
MIRROR = np.array([1, -1, 1])


def on_floor(robot: str) -> mujoco.MjModel:
    """A robot on the floor scene, with the options of the joystick task."""
    spec = compose("scenes/floor.xml", f"robots/{robot}/{robot}.xml")
    spec.option.timestep = PHYSICS_DT[robot]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.iterations, spec.option.ls_iterations = 4, 6
    return spec.compile()


def at_home(model: mujoco.MjModel) -> mujoco.MjData:
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    return data


def opposite(name: str) -> str:
    """The name of the part on the other side; a middle part's own."""
    side, _, rest = name.partition("_")
    return f"{OPPOSITE.get(side, side)}_{rest}" if rest else OPPOSITE.get(name, name)


def mirrored(model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The state that a mirror in the plane y = 0 shows."""
    qpos, qvel, out_pos, out_vel = qpos.copy(), qvel.copy(), qpos.copy(), qvel.copy()
    out_pos[:7] = qpos[:7] * (1, -1, 1, 1, -1, 1, -1)
    out_vel[:6] = qvel[:6] * (1, -1, 1, -1, 1, -1)
    for j in range(1, model.njnt):
        joint = model.joint(opposite(model.joint(j).name))
        sign = 1 if joint.axis[1] else -1
        out_pos[joint.qposadr[0]] = sign * qpos[model.jnt_qposadr[j]]
        out_vel[joint.dofadr[0]] = sign * qvel[model.jnt_dofadr[j]]
    return out_pos, out_vel


def stand(model: mujoco.MjModel, seconds: float) -> tuple[mujoco.MjData, float]:
    """Hold the home pose; returns the end and the deepest penetration in m."""
    data, deepest = at_home(model), 0.0
    for _ in range(round(seconds / model.opt.timestep)):
        mujoco.mj_step(model, data)
        deepest = min([deepest, *(contact.dist for contact in data.contact)])
    return data, deepest


@pytest.fixture(scope="module")
def g1() -> mujoco.MjModel:
    return on_floor("g1")


@pytest.mark.parametrize("robot", ["go1", "go2", "g1"])
def test_the_mirror_image_of_a_motion_is_a_motion_of_the_same_energy(robot: str) -> None:
    model = on_floor(robot)
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    first, second = mujoco.MjData(model), mujoco.MjData(model)
    rng = np.random.default_rng(0)
    first.qpos[:] = at_home(model).qpos
    first.qpos[3:] += 0.3 * rng.normal(size=model.nq - 3)
    first.qpos[3:7] /= np.linalg.norm(first.qpos[3:7])
    first.qvel[:] = rng.normal(size=model.nv)
    second.qpos[:], second.qvel[:] = mirrored(model, first.qpos, first.qvel)
    for data in (first, second):
        mujoco.mj_forward(model, data)
    np.testing.assert_allclose(second.energy, first.energy, rtol=1e-9)
    for body in range(1, model.nbody):
        other = model.body(opposite(model.body(body).name)).id
        np.testing.assert_allclose(second.xipos[other], first.xipos[body] * MIRROR, atol=1e-9)
        here, there = (first.geom_xpos[model.geom_bodyid == body], second.geom_xpos[model.geom_bodyid == other])
        order = [np.abs(there - p * MIRROR).sum(axis=1).min() for p in here]
        np.testing.assert_allclose(order, 0, atol=1e-5)


@pytest.mark.parametrize("robot", ["go2", "g1"])
def test_limits_of_the_two_sides_mirror_each_other(robot: str) -> None:
    model = on_floor(robot)
    for j in range(1, model.njnt):
        joint, other = model.joint(j), model.joint(opposite(model.joint(j).name))
        expected = joint.range if joint.axis[1] else -joint.range[::-1]
        np.testing.assert_allclose(other.range, expected)
        np.testing.assert_allclose(model.actuator(joint.name).ctrlrange, joint.range)


@pytest.mark.parametrize("robot", ["go1", "go2", "g1"])
def test_stands_still_at_home_for_five_seconds(robot: str) -> None:
    model = on_floor(robot)
    start = at_home(model).qpos[2]
    data, deepest = stand(model, 5)
    assert abs(data.qpos[2] - start) < 1e-3
    assert np.linalg.norm(data.qpos[:2]) < (2e-3 if robot == "go1" else 1e-3)
    assert data.sensor("upvector").data[2] > 0.9999
    assert np.abs(data.qvel).max() < 1e-3
    assert deepest > -1e-3
    touch = [i for i in range(model.nsensor) if model.sensor_type[i] == mujoco.mjtSensor.mjSENS_TOUCH]
    weight = sum(data.sensordata[model.sensor_adr[i]] for i in touch)
    assert weight == pytest.approx(model.body_mass.sum() * 9.81, rel=0.01)


@pytest.mark.parametrize("robot", ["go2", "g1"])
def test_soles_just_touch_the_floor_at_home(robot: str) -> None:
    model = on_floor(robot)
    data = at_home(model)
    feet = [i for i in range(model.ngeom) if model.geom_group[i] == 3 and "collision" not in model.geom(i).name]
    heights = [data.geom_xpos[i][2] - model.geom_size[i][0] for i in feet]
    np.testing.assert_allclose(heights, 0, atol=1e-4)
    assert len(feet) == {"go2": 4, "g1": 8}[robot]


@pytest.mark.parametrize(("robot", "base"), [("go1", "trunk"), ("go2", "trunk"), ("g1", "pelvis")])
def test_sensors_agree_with_the_state(robot: str, base: str) -> None:
    model = on_floor(robot)
    data = at_home(model)
    rng = np.random.default_rng(0)
    data.qpos[3:7] = rng.normal(size=4)
    data.qpos[3:7] /= np.linalg.norm(data.qpos[3:7])
    data.qvel[:] = rng.normal(size=model.nv)
    mujoco.mj_forward(model, data)
    rotation = data.body(base).xmat.reshape(3, 3)
    np.testing.assert_allclose(data.sensor("position").data, data.qpos[:3])
    np.testing.assert_allclose(data.sensor("orientation").data, data.qpos[3:7])
    np.testing.assert_allclose(data.sensor("linvel_w").data, data.qvel[:3], atol=1e-12)
    np.testing.assert_allclose(data.sensor("gyro").data, data.qvel[3:6], atol=1e-12)
    np.testing.assert_allclose(data.sensor("angvel_w").data, rotation @ data.qvel[3:6], atol=1e-12)
    np.testing.assert_allclose(data.sensor("upvector").data, rotation[:, 2], atol=1e-12)
    at_imu = rotation.T @ data.qvel[:3] + np.cross(data.qvel[3:6], model.site("imu").pos)
    np.testing.assert_allclose(data.sensor("linvel").data, at_imu, atol=1e-12)
    assert data.sensor("accelerometer").data.shape == (3,)
    for i in range(model.nu):
        name = model.actuator(i).name
        assert data.sensor(f"{name}_torque").data[0] == pytest.approx(data.actuator(name).force[0])
    feet = [name for i in range(model.nsite) if (name := model.site(i).name).endswith("_foot")]
    assert len(feet) == (2 if robot == "g1" else 4)
    for foot in feet:
        np.testing.assert_allclose(data.sensor(f"{foot}_pos").data, data.site(foot).xpos)
        assert data.sensor(f"{foot}_linvel_w").data.shape == (3,)


QUADRUPEDS = {  # whole kg; N m/rad; kg m^2, N m s/rad; of each link kg, range rad (front), torque and friction N m
    "go1": (12.743, 35, 0.005, 0.0, {
        "hip": (0.680, (-0.863, 0.863), 23.7, 0.3),
        "thigh": (1.009, (-0.686, 4.501), 23.7, 0.3),
        "calf": (0.196, (-2.818, -0.888), 35.55, 1.0),
    }),
    "go2": (15.2064, 50, 0.01, 2.0, {
        "hip": (0.678, (-1.0472, 1.0472), 23.7, 0.2),
        "thigh": (1.152, (-1.5708, 3.4907), 23.7, 0.2),
        "calf": (0.241352, (-2.7227, -0.83776), 45.43, 0.2),
    }),
}  # fmt: skip


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_constants_of_quadrupeds_are_the_published_ones(robot: str) -> None:
    model, (whole, stiffness, armature, damping, published) = on_floor(robot), QUADRUPEDS[robot]
    assert model.body_mass.sum() == pytest.approx(whole, abs=1e-3)
    names = [f"{leg}_{link}" for leg in LEGS for link in published]
    assert [model.joint(i).name for i in range(model.njnt)] == ["root", *names]
    assert [model.actuator(i).name for i in range(model.nu)] == names
    for name in names:
        mass, limits, torque, friction = published[name.split("_")[1]]
        if robot == "go2" and name.startswith("R") and name.endswith("thigh"):
            limits = (-0.5236, 4.5379)
        joint, actuator = model.joint(name), model.actuator(name)
        assert model.body(name).mass == pytest.approx(mass, abs=5e-4)
        assert actuator.trnid[0] == joint.id
        np.testing.assert_allclose(joint.range, limits)
        np.testing.assert_allclose(actuator.ctrlrange, limits)
        np.testing.assert_allclose(actuator.forcerange, (-torque, torque))
        np.testing.assert_allclose([actuator.gainprm[0], *actuator.biasprm[:3]], (stiffness, 0, -stiffness, -0.5))
        found = (joint.armature[0], joint.damping[0], joint.frictionloss[0])
        assert found == pytest.approx((armature, damping, friction))


def test_trunks_of_quadrupeds_are_the_published_ones() -> None:
    trunk = on_floor("go1").body("trunk")
    assert trunk.mass == pytest.approx(5.204)
    np.testing.assert_allclose(trunk.inertia, (0.01681, 0.06301, 0.07166))
    assert on_floor("go2").body("trunk").mass == pytest.approx(6.921)


@pytest.mark.parametrize(
    ("robot", "hip", "thigh"), [("go1", (0.1881, 0.04675), 0.08), ("go2", (0.1934, 0.0465), 0.0955)]
)
def test_lengths_of_quadrupeds_are_the_published_ones(robot: str, hip: tuple[float, float], thigh: float) -> None:
    model = on_floor(robot)
    for leg in LEGS:
        front, left = (1 if leg[0] == "F" else -1), (1 if leg[1] == "L" else -1)
        np.testing.assert_allclose(model.body(f"{leg}_hip").pos, (hip[0] * front, hip[1] * left, 0))
        np.testing.assert_allclose(model.body(f"{leg}_thigh").pos, (0, thigh * left, 0))
        np.testing.assert_allclose(model.body(f"{leg}_calf").pos, (0, 0, -0.213))
        np.testing.assert_allclose(model.geom(leg).pos, (0, 0, -0.213))
        np.testing.assert_allclose(model.site(f"{leg}_foot").pos, model.geom(leg).pos)
        assert model.geom(leg).size[0] == pytest.approx(legged_of(robot).foot_radius)
    assert legged_of("go1").foot_radius == pytest.approx(0.023)
    assert at_home(model).qpos[2] == pytest.approx(legged_of(robot).height)


def test_go1_home_splays_the_legs_outwards() -> None:
    data = at_home(on_floor("go1"))
    for leg in LEGS:
        foot, thigh = data.site(f"{leg}_foot").xpos, data.body(f"{leg}_thigh").xpos
        assert abs(foot[1]) > abs(thigh[1])
        assert foot[0] == pytest.approx(thigh[0], abs=1e-3)


def test_go2_offers_what_the_go1_offers() -> None:
    go1, go2 = on_floor("go1"), on_floor("go2")
    for model_names in (
        lambda model: [model.sensor(i).name for i in range(model.nsensor)],
        lambda model: [model.site(i).name for i in range(model.nsite)],
        lambda model: [model.body(i).name for i in range(model.nbody)],
        lambda model: [model.joint(i).name for i in range(model.njnt)],
        lambda model: [model.actuator(i).name for i in range(model.nu)],
        lambda model: [model.geom(i).name for i in range(model.ngeom) if model.geom(i).name],
        lambda model: [model.camera(i).name for i in range(model.ncam)],
    ):
        assert model_names(go2) == model_names(go1)


def test_the_joystick_task_holds_the_go2_at_home_under_zero_actions() -> None:
    task = Joystick(JoystickConfig("go2", without=("all",)))
    assert task.mass == pytest.approx(15.2064, abs=1e-3)
    state, key, data = blank(task).task_state, jax.random.PRNGKey(0), at_home(task.model)

    def act(world: Any) -> Any:
        command, following = task.process_action(world, state, jnp.zeros(12), key)
        return task.apply_action(world, following, command)[0].ctrl

    data.ctrl = jax.jit(act)(World.posed(task.model, data.qpos, data.qvel))
    mujoco.mj_step(task.model, data, round(0.5 / task.timing.physics_dt))
    after = World.posed(task.model, data.qpos, data.qvel)
    assert not jax.jit(task.outcome)(after, state).failure
    assert data.qpos[2] == pytest.approx(task.robot.height, abs=0.03)


def test_g1_masses_are_the_published_ones(g1: mujoco.MjModel) -> None:
    published = {
        "pelvis": 3.814,
        "torso": 7.817,
        **{"waist_yaw": 0.214, "waist_roll": 0.086},
        **{"left_hip_pitch": 1.35, "left_hip_roll": 1.52, "left_hip_yaw": 1.702, "left_knee": 1.932},
        **{"left_ankle_pitch": 0.074, "left_ankle_roll": 0.608},
        **{"left_shoulder_pitch": 0.718, "left_shoulder_roll": 0.643, "left_shoulder_yaw": 0.734, "left_elbow": 0.6},
        **{"left_wrist_roll": 0.085445, "left_wrist_pitch": 0.48405, "left_wrist_yaw": 0.254576},
    }
    for name, mass in published.items():
        assert g1.body(name).mass == pytest.approx(mass)
    assert g1.nbody == 2 + 29
    assert g1.body_mass.sum() == pytest.approx(33.341, abs=1e-3)


def test_g1_limits_and_torques_are_the_published_ones(g1: mujoco.MjModel) -> None:
    published = {  # range rad (left), torque N m
        "hip_pitch": ((-2.5307, 2.8798), 88),
        "hip_roll": ((-0.5236, 2.9671), 139),
        "hip_yaw": ((-2.7576, 2.7576), 88),
        "knee": ((-0.087267, 2.8798), 139),
        "ankle_pitch": ((-0.87267, 0.5236), 50),
        "ankle_roll": ((-0.2618, 0.2618), 50),
        "waist_yaw": ((-2.618, 2.618), 88),
        "waist_roll": ((-0.52, 0.52), 50),
        "waist_pitch": ((-0.52, 0.52), 50),
        "shoulder_pitch": ((-3.0892, 2.6704), 25),
        "shoulder_roll": ((-1.5882, 2.2515), 25),
        "shoulder_yaw": ((-2.618, 2.618), 25),
        "elbow": ((-1.0472, 2.0944), 25),
        "wrist_roll": ((-1.97222, 1.97222), 25),
        "wrist_pitch": ((-1.61443, 1.61443), 5),
        "wrist_yaw": ((-1.61443, 1.61443), 5),
    }
    assert [g1.actuator(i).name for i in range(g1.nu)] == list(G1_JOINTS)
    assert [g1.joint(i).name for i in range(g1.njnt)] == ["root", *G1_JOINTS]
    for name in G1_JOINTS:
        limits, torque = published[name.removeprefix("left_").removeprefix("right_")]
        actuator = g1.actuator(name)
        np.testing.assert_allclose(actuator.forcerange, (-torque, torque))
        assert -actuator.biasprm[1] == actuator.gainprm[0] > 0
        assert g1.joint(name).armature[0] > 0
        if not name.startswith("right"):
            np.testing.assert_allclose(g1.joint(name).range, limits)


def test_g1_lengths_are_the_published_ones(g1: mujoco.MjModel) -> None:
    data = mujoco.MjData(g1)
    mujoco.mj_kinematics(g1, data)
    for side in SIDES:
        hip, knee, ankle = (data.body(f"{side}_{joint}").xpos for joint in ("hip_roll", "knee", "ankle_pitch"))
        assert np.linalg.norm((knee - hip)[[0, 2]]) == pytest.approx(0.3062, abs=1e-3)
        assert np.linalg.norm(ankle - knee) == pytest.approx(0.30001, abs=1e-4)
        np.testing.assert_allclose(ankle[0], hip[0], atol=1e-3)  # at zero the leg is straight
        sole = data.site(f"{side}_foot")
        assert ankle[2] - sole.xpos[2] == pytest.approx(0.017558 + 0.035, abs=1e-4)
        np.testing.assert_allclose(sole.xmat.reshape(3, 3), np.eye(3), atol=1e-4)
    assert data.body("left_hip_pitch").xpos[1] == pytest.approx(0.064452)


def test_g1_feet_bear_their_sensors(g1: mujoco.MjModel) -> None:
    data = at_home(g1)
    for side in SIDES:
        site = data.site(f"{side}_foot")
        np.testing.assert_allclose(data.sensor(f"{side}_foot_upvector").data, site.xmat.reshape(3, 3)[:, 2])
        np.testing.assert_allclose(np.abs(data.sensor(f"{side}_foot_orientation").data), (1, 0, 0, 0), atol=1e-4)
        assert data.sensor(f"{side}_foot_touch").data.shape == (1,)
    np.testing.assert_allclose(data.sensor("torso_upvector").data, (0, 0, 1), atol=1e-9)


def test_g1_touch_counts_the_contacts_of_its_own_foot_only(g1: mujoco.MjModel) -> None:
    data, _ = stand(g1, 0.5)
    data.qpos[2] += 0.5
    mujoco.mj_forward(g1, data)
    assert data.sensor("left_foot_touch").data[0] == data.sensor("right_foot_touch").data[0] == 0
