"""A robot on a floor, as a user's task builds its model: servos, sensors, a camera."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec, compose
from embodied.robot.prepared.legged import bare_spec, drive, legged_model
from embodied.robot.robot import Kind, Robot

FLOOR = "scenes/floor.xml"
VIEW = (-0.2, -0.55, 0.22)  # in multiples of the robot's size from its middle: where the camera `track` stands
SIZE = 5.0  # of that size from the middle, so that a wide lens is not needed
MIDDLE = 0.7  # of each joint's range in which tips are looked for
LOWEST = 0.05  # m above the floor, below which a point is no goal


def robot_scene(robot: Robot) -> mujoco.MjSpec:
    """The robot on a floor, for `Task.build_spec`.

    Every actuated joint of a legged robot or an arm has a position servo of its name, in the order of
    `Robot.joints`, whose control is the joint's target in rad or m. An arm bears its own weight and touches nothing; a
    multirotor has no motors, and is moved by `Control.wrench` on the body `Robot.trunk`. Sensors:

    - legged: `gyro`, `accelerometer`, `linvel` in the trunk's frame, `upvector`, `orientation` wxyz, `position` m,
      `linvel_w`, `angvel_w` in the world's; of each foot `foot_<name>_pos`, `_linvel_w`, `_touch`; of each joint
      `<name>_torque`.
    - arm: `tip` (3) m, `tip_quat` (4) wxyz, in the world frame.

    The key `home` holds the home pose, but for multirotors, whose joints stay where the file has them.

    Raises:
        ModelError: the robot cannot stand, or MuJoCo refuses the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        spec = compose(FLOOR, _written(robot, Path(folder)))
    if robot.kind is Kind.LEGGED:
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        spec.option.iterations, spec.option.ls_iterations = 4, 6
    else:
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return spec


def joint_places(model: mujoco.MjModel, robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """(n,) addresses in qpos and in qvel of the robot's actuated joints, in the order of actions."""
    joints = [model.joint(joint.name) for joint in robot.joints]
    return np.array([joint.qposadr[0] for joint in joints]), np.array([joint.dofadr[0] for joint in joints])


def reachable_points(model: mujoco.MjModel, robot: Robot, count: int = 1000, seed: int = 0) -> np.ndarray:
    """(count, 3) m, world frame: where an arm's tip is in random poses of the middle of its joints' ranges."""
    rng, data = np.random.default_rng(seed), mujoco.MjData(model)
    places, _ = joint_places(model, robot)
    home = np.array([joint.home for joint in robot.joints])
    low = np.array([max(joint.low, joint.home - np.pi) for joint in robot.joints])
    high = np.array([min(joint.high, joint.home + np.pi) for joint in robot.joints])
    middle, half = (low + high) / 2, MIDDLE * (high - low) / 2
    found: list[np.ndarray] = []
    for _ in range(20 * count):
        data.qpos[places] = rng.uniform(middle - half, middle + half)
        mujoco.mj_forward(model, data)
        tip = data.sensor("tip").data.copy()
        if tip[2] > LOWEST:
            found.append(tip)
        if len(found) == count:
            break
    if not found:  # an arm that hangs from a ceiling at zero height
        data.qpos[places] = home
        mujoco.mj_forward(model, data)
        found.append(data.sensor("tip").data.copy())
    return np.resize(np.array(found, np.float32), (count, 3))


def _written(robot: Robot, folder: Path) -> Path:
    """The MJCF file of the robot alone."""
    if robot.kind is Kind.LEGGED:
        return _legged(robot).written(folder).resolve()
    file = folder / f"{robot.file.stem}.xml"
    file.write_text(_xml(robot), encoding="utf-8")
    return file


_legged = functools.lru_cache(maxsize=8)(legged_model)


@functools.lru_cache(maxsize=8)
def _xml(robot: Robot) -> str:
    """A robot without legs, alone, as MJCF."""
    spec = bare_spec(robot)
    root = spec.body(robot.trunk)
    if robot.free and not any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in root.joints):
        root.add_freejoint(name="root")
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    _see(spec, robot)
    if robot.kind is not Kind.MULTIROTOR:
        for body in spec.bodies[1:]:
            body.gravcomp = 1
        drive(spec, robot)
        _sense_tip(spec, robot)
        key = spec.add_key(name="home")
        key.qpos, key.ctrl = robot.home, [joint.home for joint in robot.joints]
    compile_spec(spec)
    return spec.to_xml()


def _see(spec: mujoco.MjSpec, robot: Robot) -> None:
    """A camera that sees the whole robot; it follows one that floats."""
    size = max(float(robot.model.stat.extent), 0.1)
    where = SIZE * size * np.array(VIEW)
    mode = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM if robot.free else mujoco.mjtCamLight.mjCAMLIGHT_FIXED
    parent = spec.body(robot.trunk) if robot.free else spec.worldbody
    centre = np.zeros(3) if robot.free else np.asarray(robot.model.stat.center, float)
    right = np.cross(-where, [0, 0, 1])
    parent.add_camera(name="track", mode=mode, pos=centre + where, xyaxes=[*right, *np.cross(right, -where)])


def _sense_tip(spec: mujoco.MjSpec, robot: Robot) -> None:
    if robot.tip is None:
        return
    is_site = any(site.name == robot.tip for site in spec.sites)
    kind = mujoco.mjtObj.mjOBJ_SITE if is_site else mujoco.mjtObj.mjOBJ_XBODY
    spec.add_sensor(name="tip", type=mujoco.mjtSensor.mjSENS_FRAMEPOS, objtype=kind, objname=robot.tip)
    spec.add_sensor(name="tip_quat", type=mujoco.mjtSensor.mjSENS_FRAMEQUAT, objtype=kind, objname=robot.tip)
