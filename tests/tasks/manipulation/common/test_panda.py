"""The Panda: published constants, kinematics against MuJoCo, following, servos, grasping."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import load_spec
from embodied.robot.prepared.arm import HAND_ABOVE_TCP
from tasks.manipulation.common import panda
from tasks.manipulation.common.panda import CONTROL_DT, HAND_DOWN, HOME, JOINT_LIMITS, SPEED_LIMITS
from tasks.manipulation.common.robots import SERVED, slim_panda

SUBSTEPS = 2  # of 6.25 ms
FAR = np.array([0.3, -0.8, 0.1, 0.2, 1.0, -0.4, 0.2])  # rad/s
LIMITS = {"joint2": (-1.7628, 1.7628), "joint4": (-3.0718, -0.0698), "joint6": (-0.0175, 3.7525)}  # rad
OPEN, CLOSED = -1.0, 1.0
CUBE = 0.02  # m, half an edge

# Names are kept unchanged on purpose: the empty prefix is only unsafe for saving the composed XML again.
pytestmark = pytest.mark.filterwarnings("ignore:Attaching a spec with an empty prefix")

follow = jax.jit(panda.follow)
eased = jax.jit(slim_panda().eased)
tcp_poses = jax.jit(jax.vmap(panda.tcp_pose))


def build(discard_visual: bool = True) -> mujoco.MjModel:
    """Robot, table and a cube of 100 g and 4 cm, with the options that the tasks are meant to use."""
    spec = mujoco.MjSpec()
    frame = spec.worldbody.add_frame(pos=panda.BASE_POS, quat=panda.BASE_QUAT)
    spec.attach(load_spec(panda.ASSET), frame=frame, prefix="")
    box = mujoco.mjtGeom.mjGEOM_BOX
    spec.worldbody.add_geom(name="table", type=box, size=[0.7, 0.4, 0.05], pos=[0, 0.65, -0.05])
    cube = spec.worldbody.add_body(name="cube", pos=[0, 0.6, CUBE])
    cube.add_freejoint(name="cube")
    cube.add_geom(name="cube", type=box, size=[CUBE] * 3, mass=0.1)
    spec.compiler.discardvisual = discard_visual
    spec.option.timestep = CONTROL_DT / SUBSTEPS
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10
    return spec.compile()


@functools.cache
def model() -> mujoco.MjModel:
    return build()


class Arm:
    """The simulated arm, its hand led along by `follow` at the control rate."""

    def __init__(self, joints: np.ndarray = HOME) -> None:
        self.data = mujoco.MjData(model())
        self.targets = np.asarray(joints)
        self.data.qpos[:9] = (*self.targets, 0.04, 0.04)
        self.data.ctrl[:] = (*self.targets, OPEN)
        mujoco.mj_forward(model(), self.data)

    def step(self, target: np.ndarray, grip: float = OPEN) -> np.ndarray:
        """One control step; returns the tcp's position (3,) m."""
        self.targets = np.asarray(follow(self.targets, np.asarray(target)))
        self.data.ctrl[:] = (*self.targets, grip)
        mujoco.mj_step(model(), self.data, nstep=SUBSTEPS)
        return self.tcp

    @property
    def tcp(self) -> np.ndarray:
        return self.data.site("tcp").xpos.copy()

    @property
    def tilt(self) -> float:
        """Degrees between the hand's z axis and the vertical."""
        return float(np.degrees(np.arccos(min(1.0, -self.data.site("tcp").xmat[8]))))


def random_joints(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(JOINT_LIMITS[:, 0], JOINT_LIMITS[:, 1], (count, 7))


ROWS = 300  # at once, so that one program serves all tests


def in_rows(program: Any, *arrays: np.ndarray) -> Any:
    """What a program of `ROWS` rows gives for fewer."""
    count = len(arrays[0])
    padded = (np.asarray(array, np.float32)[np.arange(ROWS) % count] for array in arrays)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], program(*padded))


@functools.cache
def following() -> Any:
    move = jax.vmap(lambda joints, target: panda.follow(joints, target))
    return jax.jit(lambda q, goals, steps: jax.lax.fori_loop(0, steps, lambda _, joints: move(joints, goals), q))


def followed(joints: np.ndarray, targets: np.ndarray, steps: int) -> np.ndarray:
    """Joints (n, 7) after following fixed targets (n, 3)."""
    return in_rows(lambda q, goals: following()(q, goals, steps), joints, targets)


def reached(targets: np.ndarray) -> np.ndarray:
    """Joints (n, 7) after following fixed targets (n, 3) from home."""
    return followed(np.broadcast_to(HOME, (len(targets), 7)), targets, 250)


def poses(joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return in_rows(tcp_poses, joints)


def angles(rot: np.ndarray) -> np.ndarray:
    """Degrees (n,) between rotations (n, 3, 3) and the hand that points down."""
    return np.degrees(np.arccos(np.clip((np.einsum("nij,ij->n", rot, HAND_DOWN) - 1) / 2, -1, 1)))


def test_an_eased_arm_never_exceeds_its_makers_limits_and_comes_to_rest() -> None:
    generator = np.random.default_rng(0)
    start = jnp.asarray(np.broadcast_to(HOME, (16, 7)), jnp.float32)
    asked = np.repeat(generator.uniform(-1, 1, (20, 16, 7)), 20, axis=0) * SPEED_LIMITS * CONTROL_DT
    asked = jnp.asarray(np.concatenate([0.1 * asked, np.zeros((60, 16, 7))]), jnp.float32)

    def move(moving, step):
        joints, speeds = moving
        moving = jax.vmap(slim_panda().eased)(joints, speeds, joints + step)
        return moving, moving

    _, (joints, speeds) = jax.jit(lambda: jax.lax.scan(move, (start, jnp.zeros_like(start)), asked))()
    joints, speeds = (np.concatenate([first[None], rest]) for first, rest in ((start, joints), (0 * start, speeds)))
    assert np.abs(np.diff(joints, axis=0) / CONTROL_DT - speeds[1:]).max() < 1e-3
    assert (np.abs(speeds) / SPEED_LIMITS).max() < 1.0
    accelerations = np.abs(np.diff(speeds, axis=0)) / CONTROL_DT / panda.ACCELERATION_LIMITS
    assert SERVED - 0.01 < accelerations.max() < SERVED + 0.01, "to the limit, and no further"
    assert np.abs(speeds[-1]).max() == 0.0


def test_the_speeds_of_an_eased_arm_change_alike_so_that_its_hand_goes_straight() -> None:
    joints, speeds, asked = np.float32(HOME), np.zeros(7, np.float32), np.float32(FAR * CONTROL_DT)
    for number in range(40):
        joints, speeds = map(np.asarray, eased(joints, speeds, joints + asked))
        share = float(speeds[0] / FAR[0])
        np.testing.assert_allclose(speeds, share * FAR, atol=2e-3)
        assert share < 1.001
        assert number < 39 or share > 0.999


def test_constants_of_the_model_are_the_published_ones() -> None:
    published = {  # kg
        **{"link0": 0.629769, "link1": 4.970684, "link2": 0.646926, "link3": 3.228604, "link4": 3.587895},
        **{"link5": 1.225946, "link6": 1.666555, "link7": 0.735522, "hand": 0.73},
        **{"left_finger": 0.015, "right_finger": 0.015},
    }
    for name, mass in published.items():
        assert model().body(name).mass == pytest.approx(mass)
        assert model().body_gravcomp[model().body(name).id] == 1
    assert sum(published.values()) == pytest.approx(17.452, abs=1e-3)
    for i, name in enumerate(panda.ARM_JOINTS):
        joint, actuator = model().joint(name), model().actuator(name)
        torque = 87 if i < 4 else 12  # N m
        np.testing.assert_allclose(joint.range, LIMITS.get(name, (-2.8973, 2.8973)))
        np.testing.assert_allclose(actuator.ctrlrange, JOINT_LIMITS[i])
        np.testing.assert_allclose(actuator.forcerange, (-torque, torque))
        assert actuator.gainprm[0] == -actuator.biasprm[1] == (3000, 3000, 3000, 2500, 2500, 2000, 2000)[i]
        assert -actuator.biasprm[2] / actuator.gainprm[0] == pytest.approx(0.05), "one lag for all joints"
    for name in panda.FINGER_JOINTS:
        np.testing.assert_allclose(model().joint(name).range, (0.0, 0.04))
    np.testing.assert_allclose(SPEED_LIMITS, [2.175] * 4 + [2.61] * 3)
    np.testing.assert_allclose(panda.ACCELERATION_LIMITS, [15, 7.5, 10, 12.5, 15, 20, 20])


def test_collision_shapes_meet_objects_and_not_each_other() -> None:
    shapes = [i for i in range(model().ngeom) if model().geom_group[i] == 3]
    assert len(shapes) == 5
    simple = {mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_SPHERE}
    assert {mujoco.mjtGeom(model().geom_type[i]) for i in shapes} <= simple
    assert not model().geom_contype[shapes].any()
    assert model().geom_conaffinity[shapes].all()


def test_kinematics_agree_with_mujoco() -> None:
    joints = random_joints(50)
    pos, rot = poses(joints)
    data = mujoco.MjData(model())
    for i in range(len(joints)):
        data.qpos[:7] = joints[i]
        mujoco.mj_kinematics(model(), data)
        np.testing.assert_allclose(pos[i], data.site("tcp").xpos, atol=1e-5)
        np.testing.assert_allclose(rot[i], data.site("tcp").xmat.reshape(3, 3), atol=1e-5)


def test_home_holds_the_hand_down_and_open_where_tasks_begin() -> None:
    pos, rot = (part[0] for part in poses(np.array([HOME])))
    np.testing.assert_allclose(pos, (0, 0.6, 0.2), atol=1e-6)
    np.testing.assert_allclose(rot, HAND_DOWN, atol=1e-6)
    data = Arm().data
    np.testing.assert_allclose(data.sensor("tcp_pos").data, (0, 0.6, 0.2), atol=1e-6)
    np.testing.assert_allclose(data.sensor("hand_pos").data, (0, 0.6, 0.2 + HAND_ABOVE_TCP), atol=1e-6)
    left, right = data.sensor("left_pad_pos").data, data.sensor("right_pad_pos").data
    np.testing.assert_allclose(left - right, (0, 0.095, 0), atol=1e-6)  # Meta-World's: .0943 apart along y
    np.testing.assert_allclose((left + right) / 2, (0, 0.6, 0.2), atol=1e-6)


def test_following_reaches_random_targets() -> None:
    targets = np.random.default_rng(2).uniform((-0.3, 0.45, 0.02), (0.3, 0.8, 0.35), (200, 3))
    joints = reached(targets)
    pos, rot = poses(joints)
    assert np.linalg.norm(pos - targets, axis=1).max() < 1e-3
    assert angles(rot).max() < 1


def test_the_base_stands_where_the_tasks_are_within_reach() -> None:
    corners = np.array(
        [
            *((x, y, z) for x in (-0.1, 0.1) for y in (0.8, 0.9) for z in (0.15, 0.3)),  # reach, pick-place
            *((x, 0.9, 0.46) for x in (-0.1, 0.1)),  # shelf-place
            *((x, y, 0.02) for x in (-0.1, 0.1) for y in (0.4, 0.8)),  # hammer, push
            *((0.0, 0.4, 0.155), (0.0, 0.6, 0.155), (-0.5, 0.6, 0.155)),  # starts; door-close's
            *(
                (-0.35, 0.7, 0.02),
                (0.4, 0.45, 0.02),
                (0.22, 0.88, 0.42),
                (0.3, 0.75, 0.28),
            ),  # slide, stick, lever, door
        ]
    )
    pos, rot = poses(reached(corners))
    assert np.linalg.norm(pos - corners, axis=1).max() < 1e-3
    assert angles(rot).max() < 1
    # The farthest goals on the table itself are out of reach by less than any task's tolerance of 5 cm.
    far = np.array([(x, 0.9, z) for x in (-0.1, 0, 0.1) for z in (0.01, 0.05)])
    assert np.linalg.norm(poses(reached(far))[0] - far, axis=1).max() < 0.03


def test_following_respects_limits_of_position_and_speed() -> None:
    rng = np.random.default_rng(3)
    joints = random_joints(300, seed=4).astype(np.float32)
    targets = rng.uniform((-1, -1, -0.5), (1, 2, 1.5), (300, 3)).astype(np.float32)
    moved = followed(joints, targets, 1)
    assert np.isfinite(moved).all()
    assert (moved >= JOINT_LIMITS[:, 0] - 1e-6).all()
    assert (moved <= JOINT_LIMITS[:, 1] + 1e-6).all()
    speed = np.abs(moved - joints) / CONTROL_DT / SPEED_LIMITS
    assert speed.max() < 1 + 1e-3
    assert np.median(speed.max(axis=1)) == pytest.approx(1, abs=1e-3), "far targets are approached at full speed"


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["x", "y", "z"])
def test_servos_track_half_a_metre_per_second(axis: int) -> None:
    arm, speed, rows = Arm(), 0.5, []
    for i in range(120):
        target = np.array((0, 0.6, 0.2))
        target[axis] += min(max(speed * (i * CONTROL_DT - 0.1), 0), 0.2)
        tcp = arm.step(target)
        rows.append((*(target - tcp), arm.tilt))
    error, tilt = np.array(rows)[:, :3], np.array(rows)[:, 3]
    along, across = error[:, axis], np.delete(error, axis, axis=1)
    assert along[24:38].mean() < 0.028, "50 ms of servos and less than a control step: under 28 mm"
    assert along.min() > -3e-3, "overshoot"
    assert np.abs(across).max() < 5e-3
    assert tilt.max() < 1
    assert np.abs(error[-30:]).max() < 3e-4
    assert error[-30:].std(axis=0).max() < 1e-4, "oscillation"


def test_a_cube_is_grasped_lifted_and_held() -> None:
    arm, goal = Arm(), np.array((0, 0.6, 0.2))

    def go(height: float, grip: float, seconds: float) -> None:
        for _ in range(round(seconds / CONTROL_DT)):
            goal[2] += np.clip(height - goal[2], -0.005, 0.005)
            arm.step(goal, grip)

    go(0.02, OPEN, 0.8)
    go(0.02, CLOSED, 0.4)
    go(0.12, CLOSED, 0.6)
    start = arm.data.body("cube").xpos - arm.tcp
    assert arm.data.body("cube").xpos[2] == pytest.approx(CUBE + 0.1, abs=2e-3)
    go(0.12, CLOSED, 2.0)
    slip = arm.data.body("cube").xpos - arm.tcp - start
    assert np.linalg.norm(slip) < 5e-4
    for side in ("left", "right"):
        assert arm.data.sensor(f"{side}_pad_touch").data[0] == pytest.approx(70, abs=1)
    first, second = arm.data.qpos[7:9]
    assert first == pytest.approx(second, abs=1e-4)
    assert first == pytest.approx(CUBE, abs=1.5e-3)
    go(0.12, OPEN, 0.5)
    assert arm.data.body("cube").xpos[2] == pytest.approx(CUBE, abs=2e-3)


def test_fingers_open_and_close_as_fast_as_meta_worlds() -> None:
    arm = Arm()
    for grip, end in ((CLOSED, 0.0), (OPEN, 0.04)):
        openings = []
        for _ in range(32):
            arm.step(np.array((0, 0.6, 0.2)), grip)
            openings.append(arm.data.qpos[7])
        assert openings[14] == pytest.approx(end, abs=4e-3), "40 mm in .19 s"
        assert openings[-1] == pytest.approx(end, abs=5e-4)
        assert -0.003 < min(openings) < max(openings) < 0.043, "the stops give way a little"


def test_sensors_agree_with_the_state() -> None:
    arm = Arm()
    for _ in range(5):
        arm.step(np.array((0.05, 0.65, 0.15)))
    data = arm.data
    mujoco.mj_forward(model(), data)
    np.testing.assert_allclose(data.sensor("tcp_pos").data, data.site("tcp").xpos)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, data.site("tcp").xmat)
    np.testing.assert_allclose(abs(data.sensor("tcp_orientation").data @ quat), 1)
    rows = np.zeros((3, model().nv))
    mujoco.mj_jacSite(model(), data, rows, None, model().site("tcp").id)
    np.testing.assert_allclose(data.sensor("tcp_linvel_w").data, rows @ data.qvel, atol=1e-9)
    for name in panda.ARM_JOINTS:
        assert data.sensor(f"{name}_torque").data[0] == pytest.approx(data.actuator(name).force[0])
