"""A user's multirotor, read from its model file for the tasks of drones."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path

import mujoco
import numpy as np

from embodied.core.scenes import compose
from embodied.robot import Robot
from embodied.robot.option import by_file
from embodied.robot.prepared.multirotor import prepare_multirotor, reach
from tasks.swarm.dynamics.multirotor import Multirotor
from tasks.swarm.dynamics.quadrotor import GRAVITY, QUADROTORS, Preset

BODY = "cf"  # name of a drone's body in the tasks
PROPELLERS = 1.5  # of the farthest rotor's distance: where its propeller ends, as on the Crazyflie


@dataclasses.dataclass(frozen=True, eq=False)
class OwnDrone:
    """A user's multirotor."""

    name: str
    """The file's, without its ending."""
    drone: Multirotor
    xml: str
    """MJCF of the robot alone, its body called `BODY`."""
    radius: float
    """m, of the sphere around it."""
    below: float
    """m from the centre of mass down to its lowest point."""
    turning: float
    """rad/s^2 that it reaches about x and about y from hover."""
    lift: float
    """Largest thrust over weight."""

    @property
    def agility(self) -> float:
        """Turn rate over a Crazyflie's, at most 1. Rates scale with the root of angular accelerations."""
        return min(1.0, math.sqrt(self.turning / crazyflie_turning()))

    def falls_further(self, tilt: float, speed: float) -> float:
        """Height in m that it loses more than a Crazyflie until it is upright and stopped; at least 0.

        Args:
            tilt: rad that it rights itself by, speeding up half the way and slowing down the other half.
            speed: m/s downwards at the start.
        """
        crazyflie = QUADROTORS[Preset.P250]
        usual = falls(crazyflie_turning(), 1 / crazyflie.hover_fraction, tilt, speed)
        return max(0.0, falls(self.turning, self.lift, tilt, speed) - usual)


def own_drone(file: str) -> OwnDrone:
    """Read a robot's file and the description beside it, again once either has changed.

    Raises:
        ModelError: the file cannot be read or is no multirotor, or its rotors cannot hold it in the air.
    """
    return drone_of(Path(file))


def _drone(robot: Robot) -> OwnDrone:
    xml = prepare_multirotor(robot, BODY)
    assert robot.airframe is not None
    drone = Multirotor.of(robot.airframe, robot.file)
    return OwnDrone(
        name=robot.file.stem,
        drone=drone,
        xml=xml,
        radius=PROPELLERS * reach(robot.airframe),
        below=_below(xml),
        turning=float(drone.turning[:2].min()),
        lift=robot.airframe.thrust_to_weight,
    )


drone_of = by_file(_drone)


def falls(turning: float, lift: float, tilt: float, speed: float) -> float:
    """Height in m that a drone loses while it turns upright without thrust and stops at full thrust; see `OwnDrone`."""
    seconds = 2 * math.sqrt(tilt / turning)
    fastest = speed + GRAVITY * seconds
    return speed * seconds + GRAVITY * seconds**2 / 2 + fastest**2 / (2 * GRAVITY * (lift - 1))


def crazyflie_turning() -> float:
    """rad/s^2 that a Crazyflie reaches about x from hover."""
    drone = QUADROTORS[Preset.P250]
    room = min(drone.hover_thrust, drone.max_thrust - drone.hover_thrust)
    return 4 * drone.lever * room / drone.inertia[0]


def composed(xml: str) -> mujoco.MjSpec:
    """One robot over a floor."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        file.write_text(xml)
        return compose("scenes/floor.xml", file)


def _below(xml: str) -> float:
    """m from the origin down to the lowest shape, by the boxes around the shapes."""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    down = data.geom_xmat.reshape(-1, 3, 3)[:, 2]
    middle, half = model.geom_aabb[:, :3], model.geom_aabb[:, 3:]
    bottoms = data.geom_xpos[:, 2] + np.sum(down * middle, 1) - np.sum(np.abs(down) * half, 1)
    return float(data.qpos[2] - min(bottoms.min(), data.qpos[2]))
