"""Robots of the drone tasks: a Crazyflie, or a multirotor read from its model file."""

from __future__ import annotations

import dataclasses
import math

import mujoco
import numpy as np

from embodied.robot import Robot, robot_file
from embodied.robot.option import by_file
from embodied.robot.prepared.multirotor import prepare_multirotor, reach
from embodied.robot.rotors import GRAVITY
from embodied.storage.paths import asset
from tasks.swarm.dynamics.crazyflie import CRAZYFLIES, RADIUS, Preset
from tasks.swarm.dynamics.multirotor import Multirotor

MODEL = "robots/crazyflie/crazyflie.xml"
BODY = "cf"  # name of a drone's body in the tasks
PROPELLERS = 1.5  # of the farthest rotor's distance: where its propeller ends, as on the Crazyflie


@dataclasses.dataclass(frozen=True, eq=False)
class DroneRobot:
    """A multirotor as the tasks step it."""

    name: str
    """The model file's, without its ending."""
    drone: Multirotor
    xml: str
    """MJCF of the robot alone, its body called `BODY`, without actuators."""
    radius: float
    """m, of the sphere around it."""

    @property
    def reference(self) -> Multirotor:
        """The Crazyflie whose starts are the measure: the robot itself if it is one."""
        return self.drone if self.drone.crazyflie else CRAZYFLIES[Preset.P250]

    @property
    def agility(self) -> float:
        """Turn rate over a Crazyflie's, at most 1. Rates scale with the root of angular accelerations."""
        return min(1.0, math.sqrt(tilting(self.drone) / tilting(self.reference)))

    def falls_further(self, tilt: float, speed: float) -> float:
        """Height in m that it loses more than a Crazyflie until it is upright and stopped; at least 0.

        Args:
            tilt: rad that it rights itself by, speeding up half the way and slowing down the other half.
            speed: m/s downwards at the start.
        """
        return max(0.0, falls(self.drone, tilt, speed) - falls(self.reference, tilt, speed))

    def below(self) -> float:
        """m from the centre of mass down to the lowest shape, by the boxes around the shapes."""
        model = mujoco.MjModel.from_xml_string(self.xml)
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        down = data.geom_xmat.reshape(-1, 3, 3)[:, 2]
        middle, half = model.geom_aabb[:, :3], model.geom_aabb[:, 3:]
        bottoms = data.geom_xpos[:, 2] + np.sum(down * middle, 1) - np.sum(np.abs(down) * half, 1)
        return float(data.qpos[2] - min(bottoms.min(), data.qpos[2]))


def drone_robot(robot: str = "", preset: Preset = Preset.P250) -> DroneRobot:
    """The robot of a name or a model file; by default the Crazyflie, with the constants of a preset.

    A file is read again once it or the description beside it has changed.

    Raises:
        UnknownNameError: no robot has this name.
        ModelError: the file cannot be read or is no multirotor, or its rotors cannot hold it in the air.
    """
    crazyflie = asset(MODEL)
    if not robot or robot_file(robot) == crazyflie:
        return DroneRobot(crazyflie.stem, CRAZYFLIES[preset], crazyflie.read_text(encoding="utf-8"), RADIUS)
    return from_file(robot)


def _prepared(robot: Robot) -> DroneRobot:
    xml = prepare_multirotor(robot, BODY)
    assert robot.airframe is not None
    drone = Multirotor.of(robot.airframe, robot.file)
    return DroneRobot(robot.file.stem, drone, xml, PROPELLERS * reach(robot.airframe))


from_file = by_file(_prepared)


def tilting(drone: Multirotor) -> float:
    """rad/s^2 that a drone reaches about x and about y from hover."""
    return float(drone.turning[:2].min())


def falls(drone: Multirotor, tilt: float, speed: float) -> float:
    """Height in m that a drone loses while it turns upright without thrust and stops at full thrust."""
    seconds = 2 * math.sqrt(tilt / tilting(drone))
    fastest = speed + GRAVITY * seconds
    stopping = fastest**2 / (2 * GRAVITY * (drone.thrust_to_weight - 1))
    return speed * seconds + GRAVITY * seconds**2 / 2 + stopping
