"""Multirotors prepared for tasks: one free body at its centre of mass, sensors, cameras, no actuators."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.robot.files import compiled
from embodied.robot.picture import shown_groups
from embodied.robot.robot import Kind, Robot, require_kind
from embodied.robot.rotors import Airframe
from embodied.robot.tree import is_below, mesh_vertices, posed

PROPELLER = 0.45  # of the distance to the nearest other rotor: radius of the disc that is drawn for a propeller
DISC = (0.10, 0.12, 0.16, 0.25)  # RGBA
BEHIND = (-4.8, -2.0, 2.2)  # of the size: where the camera that follows stands, as the Crazyflie's
LOOKING = ((0.37, -0.93, 0.0), (0.37, 0.15, 0.92))  # x and y axes of that camera
S = mujoco.mjtSensor


def prepare_multirotor(robot: Robot, name: str) -> str:
    """The MJCF of a multirotor, as tasks of drones read it.

    One body `name` whose frame lies at the centre of mass along the trunk's axes, with the shapes of the home pose for
    the eye; names of sensors and cameras as in `assets/robots/crazyflie/crazyflie.xml`. The task computes the
    rotors' effects.

    Raises:
        ModelError: the robot is of another kind.
    """
    require_kind(robot, Kind.MULTIROTOR)
    airframe = robot.airframe
    assert airframe is not None
    spec = mujoco.MjSpec()
    spec.modelname = robot.file.stem
    body = spec.worldbody.add_body(name=name)
    body.add_freejoint(name="root")
    body.mass, body.inertia, body.explicitinertial = airframe.mass, airframe.inertia, True
    body.ipos, body.iquat = np.zeros(3), [1.0, 0.0, 0.0, 0.0]
    _shapes(spec, body, robot)
    _discs(body, airframe)
    _sense(spec, body, name)
    size = reach(airframe)
    track = mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
    body.add_camera(name="front", pos=[0.6 * size, 0, 0.1 * size], xyaxes=[0, -1, 0, 0, 0, 1], fovy=80.0)
    axes = np.ravel(LOOKING)
    body.add_camera(name="track", mode=track, pos=np.multiply(size, BEHIND), xyaxes=axes, fovy=45.0)
    compiled(robot.file, spec)
    return spec.to_xml()


def reach(airframe: Airframe) -> float:
    """m from the centre of mass to the farthest rotor."""
    return max(float(np.linalg.norm(rotor.position)) for rotor in airframe.rotors)


def _shapes(spec: mujoco.MjSpec, body: mujoco.MjsBody, robot: Robot) -> None:
    """The robot's shapes where they are in the home pose, for the eye alone."""
    model, data = robot.model, posed(robot.model, robot.home)
    trunk = data.body(robot.trunk)
    turn = trunk.xmat.reshape(3, 3)
    assert robot.airframe is not None
    centre = trunk.xpos + turn @ np.array(robot.airframe.centre)
    shown = shown_groups(model)
    meshes: set[int] = set()
    for geom in range(model.ngeom):
        if not shown[model.geom_group[geom]] or not is_below(model, int(model.geom_bodyid[geom]), int(trunk.id)):
            continue
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, (turn.T @ data.geom_xmat[geom].reshape(3, 3)).ravel())
        part = body.add_geom(
            type=int(model.geom_type[geom]), size=model.geom_size[geom], pos=turn.T @ (data.geom_xpos[geom] - centre),
            quat=quat, rgba=_colour(model, geom), mass=0.0, group=2, contype=0, conaffinity=0,
        )  # fmt: skip
        if (mesh := int(model.geom_dataid[geom])) >= 0 and part.type == mujoco.mjtGeom.mjGEOM_MESH:
            part.meshname = f"mesh{mesh}"
            if mesh not in meshes:
                meshes.add(mesh)
                _add_mesh(spec, model, mesh)


def _add_mesh(spec: mujoco.MjSpec, model: mujoco.MjModel, mesh: int) -> None:
    """A compiled mesh once more; as a shell, which needs no volume."""
    face, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    spec.add_mesh(
        name=f"mesh{mesh}",
        uservert=mesh_vertices(model, mesh).ravel(),
        userface=model.mesh_face[face : face + faces].ravel(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )


def _colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """(4,) RGBA of a geom, or of its material."""
    material = int(model.geom_matid[geom])
    return model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]


def _discs(body: mujoco.MjsBody, airframe: Airframe) -> None:
    """Discs of the propellers, for the eye."""
    places = np.array([rotor.position for rotor in airframe.rotors])
    gaps = np.linalg.norm(places[:, None] - places, axis=-1) + 1e9 * np.eye(len(places))
    radius = PROPELLER * float(np.clip(gaps.min(), 0.2 * reach(airframe) + 1e-3, 2.0 * reach(airframe) + 1e-3))
    for rotor in airframe.rotors:
        quat = np.zeros(4)
        mujoco.mju_quatZ2Vec(quat, np.array(rotor.axis))
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[radius, 0.01 * radius, 0], pos=rotor.position, quat=quat,
            rgba=DISC, mass=0.0, group=2, contype=0, conaffinity=0,
        )  # fmt: skip


def _sense(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str) -> None:
    """Position, orientation and velocity in the world, and an IMU in the centre of mass."""
    body.add_site(name="imu")
    for sensor, kind in (
        ("position", S.mjSENS_FRAMEPOS),
        ("orientation", S.mjSENS_FRAMEQUAT),
        ("linvel_w", S.mjSENS_FRAMELINVEL),
    ):
        spec.add_sensor(name=sensor, type=kind, objtype=mujoco.mjtObj.mjOBJ_XBODY, objname=name)
    for sensor, kind in (("gyro", S.mjSENS_GYRO), ("accelerometer", S.mjSENS_ACCELEROMETER)):
        spec.add_sensor(name=sensor, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")
