"""The contract of a policy, from the task that it was trained on.

Two families of tasks, legged robots that follow velocities and hovering drones, register a function each, with terms and
actions in words; any other is described by its whole control step, `sim2real.contract.describe_step`. What MuJoCo's models have no field for, the
motors' top speeds, stands in `sim2real.contract.speeds`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import mujoco
import numpy as np

from embodied.core.task import Task, TaskWrapper
from sim2real.contract import model_files
from sim2real.contract.contract import Actuator, Contract, Joint, Term
from sim2real.contract.describe_step import describe_step, target_range
from sim2real.contract.speeds import top_speeds
from tasks.locomotion.humanoid_joystick import HumanoidJoystick
from tasks.locomotion.joystick import FALLEN, Joystick
from tasks.swarm.hover import NOISE, REACH, Hover

LEGGED = {
    "gyro": ("gyro", "rad/s"),
    "gravity": ("gravity", "1"),
    "linvel": ("linvel", "m/s"),
    "joint_pos": ("joint_offset", "rad"),
    "joint_vel": ("joint_vel", "rad/s"),
    "last_action": ("last_action", "1"),
    "command": ("command", "m/s, m/s, rad/s"),
    "phase": ("clock", "1"),
}
"""Term of a legged robot's observation -> its source and unit."""


@functools.singledispatch
def describe(task: Task[Any], name: str) -> Contract:
    """The contract of a policy for `task`, registered under `name`.

    Of tasks that have no description here it is that of their whole control step, see `describe_step`.

    Raises:
        EmbodiedError: this task cannot be deployed: something in its actions or observations has no translation.
    """
    return describe_step(task, name).contract


def is_whole_step(task: Task[Any]) -> bool:
    """Whether a task's contract is that of its whole control step."""
    return describe.dispatch(type(task.unwrapped)) is describe.dispatch(Task)


@describe.register
def _wrapped(task: TaskWrapper, name: str) -> Contract:
    return describe(task.task, name)


@describe.register
def _joystick(task: Joystick, name: str) -> Contract:
    """Joint targets as offsets from a stance; the operator commands velocities."""
    model, layout, robot = task.model, task.layout, task.robot
    scales = np.broadcast_to(task.action_scale, len(robot.joint_names))
    file = model_files.of_task(task)
    speeds = top_speeds(robot.name, robot.joint_names, file)
    actuators, joints = [], []
    for i, joint in enumerate(robot.joint_names):
        actuator = layout.actuators[i]
        lower, upper = target_range(model, actuator, float(layout.stance[i]))
        actuators.append(
            Actuator(
                name=joint,
                unit="m" if model.joint(joint).type[0] == mujoco.mjtJoint.mjJNT_SLIDE else "rad",
                offset=float(layout.stance[i]),
                up=float(scales[i]),
                down=float(scales[i]),
                lower=lower,
                upper=upper,
                # From one end of what an action can say to the other in one step: more cannot come from the policy.
                max_rate=2 * float(scales[i]) / task.timing.control_dt,
                stiffness=float(model.actuator_gainprm[actuator, 0]),
                damping=-float(model.actuator_biasprm[actuator, 2]),
                max_effort=float(model.actuator_forcerange[actuator, 1]),
                joint=joint,
            )
        )
        low, high = (float(limit) for limit in layout.limits[i])
        joints.append(Joint(joint, float(layout.home[i]), low, high, speeds[joint]))
    noise = task.config.noise
    terms = tuple(
        Term(term, LEGGED[term][0], size, LEGGED[term][1], float(getattr(noise, term, 0.0)) / math.sqrt(3))
        for term, size in _sizes(task)
    )
    return Contract(
        task=name,
        robot=robot.name,
        control_hz=1 / task.timing.control_dt,
        physics_hz=1 / task.timing.physics_dt,
        actuators=tuple(actuators),
        joints=tuple(joints),
        terms=terms,
        command=("forward m/s", "left m/s", "turn left rad/s"),
        command_limits=tuple(task.config.command.limits),
        latency=task.config.vary.latency,
        max_tilt=math.acos(FALLEN),
        gait_hz=task.step_rate if isinstance(task, HumanoidJoystick) else 0.0,
        model=None if file is None else model_files.recorded(file),
    )


@describe.register
def _hover(task: Hover, name: str) -> Contract:
    """Rotor thrusts; the operator commands a point."""
    drone, height = task.drone, float(task.target[2])
    each = [np.broadcast_to(part, drone.count).tolist() for part in (drone.hover_fraction, drone.max_thrust)]
    rotors = tuple(
        Actuator(
            name=f"rotor{number}",
            unit="N",
            offset=fraction * most,
            up=most - fraction * most,
            down=fraction * most,
            lower=0.0,
            upper=most,
            max_rate=math.inf,
            max_effort=most,
        )
        for number, (fraction, most) in enumerate(zip(*each, strict=True), 1)
    )
    known = {
        "position": ("to_command", "m"),
        "up": ("up", "1"),
        "velocity": ("linvel", "m/s"),
        "gyro": ("gyro", "rad/s"),
        "action": ("last_action", "1"),
    }
    terms = tuple(Term(term, known[term][0], size, known[term][1], NOISE.get(term, 0.0)) for term, size in _sizes(task))
    return Contract(
        task=name,
        robot=task.robot_name,
        control_hz=1 / task.timing.control_dt,
        physics_hz=1 / task.timing.physics_dt,
        actuators=rotors,
        joints=(),
        terms=terms,
        command=("x m", "y m", "z m"),
        command_limits=(REACH, REACH, height + REACH),
        latency=task.config.latency,
        workspace=((-REACH, REACH), (-REACH, REACH), (0.0, height + REACH)),
        max_tilt=math.pi,
    )


def _sizes(task: Task[Any]) -> list[tuple[str, int]]:
    """Terms of the group `policy` with their sizes, in their order."""
    return [(term, math.prod(shape)) for term, shape in task.observation_terms["policy"].items()]
