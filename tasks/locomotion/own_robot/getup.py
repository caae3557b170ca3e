"""`locomotion/getup`: a user's fallen robot rolls over and stands up."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.core.hooks import UNCHANGED, Changes
from embodied.robot.option import RobotFile
from tasks.locomotion.getup import DROP, Getup, GetupConfig, TaskState
from tasks.locomotion.own_robot.base import OwnLegged
from tasks.locomotion.own_robot.velocity import GO1_EFFORT, GO1_HEIGHT

LEAD = 1.2  # of a joint's largest torque that a moved target may command of its servo (Go1: 28 of 23.7 N m)


@dataclasses.dataclass(frozen=True)
class OwnGetupConfig(GetupConfig, RobotFile):
    """Options of `locomotion/getup`."""

    def __post_init__(self) -> None:
        GetupConfig.__post_init__(self)
        RobotFile.__post_init__(self)


class OwnGetup(OwnLegged[TaskState], Getup):
    """A user's robot, dropped in any orientation and pose, rolls over and stands.

    Task, actions, observations and success are those of Go1's getup task, with as many joints and feet as the robot
    has. The height of the drop goes with the robot's height; targets may be as far ahead of the joints as the motors
    have torque for. The robot's parts collide with each other, but for those that touch in the home pose.
    """

    config_type = OwnGetupConfig
    usual = "robots/go1/go1.xml"
    usual_effort = GO1_EFFORT

    def __init__(self, config: OwnGetupConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        rows = self.layout.actuators
        stiffness, effort = self.model.actuator_gainprm[rows, 0], self.model.actuator_forcerange[rows, 1]
        self.drop = DROP * self.robot.height / GO1_HEIGHT
        self.lead = (LEAD * effort / stiffness).astype(np.float32)

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        for pair in touching(spec.compile()):
            spec.add_exclude(bodyname1=pair[0], bodyname2=pair[1])
        return spec


def touching(model: mujoco.MjModel) -> list[tuple[str, str]]:
    """Pairs of bodies of the robot that are inside each other in the home pose."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_forward(model, data)
    pairs = {tuple(sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)) for contact in data.contact}
    return [(model.body(low).name, model.body(high).name) for low, high in sorted(pairs) if low != 0]
