"""The contract of a policy, from the task that it was trained on.

Two families of tasks, legged robots that follow velocities and hovering drones, register a function each, with terms
and actions in words; any other is described by its whole control step, `sim2real.graphs.describe_step`. What MuJoCo's
models have no field for, the motors' top speeds, stands in `sim2real.contract.speeds`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import mujoco
import numpy as np

from embodied.core.task import Task, TaskWrapper
from sim2real.contract import model_files
from sim2real.contract.contract import Actuator, Contract, Rotor, Term
from sim2real.contract.speeds import top_speeds
from sim2real.graphs.describe_step import describe_step, joint_of, place_of, target_range
from tasks.locomotion.humanoid_joystick import HumanoidJoystick
from tasks.locomotion.joystick import FALLEN, Joystick
from tasks.swarm.dynamics.multirotor import Multirotor
from tasks.swarm.dynamics.quadrotor import Quadrotor
from tasks.swarm.single.hover import NOISE, REACH, Hover

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

MEANINGS = {
    "gyro": "angular velocity of the body, body frame",
    "gravity": "direction of gravity in the body frame; (0, 0, -1) when level",
    "up": "direction of the world's z axis in the body frame; (0, 0, 1) when level",
    "linvel": "velocity of the body where its IMU sits, world frame turned into the body frame",
    "joint_offset": "measured angle minus default, in the order of the joints below",
    "joint_vel": "joint velocity, in the order of the joints below",
    "last_action": "what the policy gave one step before, in [-1, 1], as it gave it; zeros in the first step",
    "command": "what the operator sets, see Commands",
    "clock": "cosines of the phases of the left and the right foot, then sines; the right foot half a turn ahead, "
    "{gait_hz:g} turns a second since the start; phases 0 where the command is shorter than 0.05",
    "to_command": "commanded point minus position, world frame turned into the body frame",
}
"""Source of a term -> what it is, see `sim2real.deployment.terms`."""


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
        joints.append(joint_of(model, joint, float(layout.home[i]), (low, high), speeds[joint]))
    noise = task.config.noise
    gait = task.step_rate if isinstance(task, HumanoidJoystick) else 0.0
    terms = tuple(
        _term(term, *LEGGED[term], size, float(getattr(noise, term, 0.0)) / math.sqrt(3), gait)
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
        command_ranges=tuple((-limit, limit) for limit in task.config.command.limits),
        latency=task.config.vary.latency,
        max_tilt=math.acos(FALLEN),
        gait_hz=gait,
        mass=float(model.body_subtreemass[model.body(robot.trunk).id]),
        imu=place_of(model, "gyro"),
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
    terms = tuple(_term(term, *known[term], size, NOISE.get(term, 0.0)) for term, size in _sizes(task))
    return Contract(
        task=name,
        robot=task.robot_name,
        control_hz=1 / task.timing.control_dt,
        physics_hz=1 / task.timing.physics_dt,
        actuators=rotors,
        joints=(),
        terms=terms,
        command=("x m", "y m", "z m"),
        command_ranges=((-REACH, REACH), (-REACH, REACH), (0.0, height + REACH)),
        latency=task.config.latency,
        workspace=((-REACH, REACH), (-REACH, REACH), (0.0, height + REACH)),
        max_tilt=math.pi,
        mass=float(drone.mass),
        rotors=_rotors(drone),
        imu=place_of(task.model, "gyro"),
    )


def _rotors(drone: Quadrotor | Multirotor) -> tuple[Rotor, ...]:
    """In the order of actions."""
    if isinstance(drone, Multirotor):
        places, axes, spins = drone.position, drone.axis, drone.spin
    else:  # the signs of `quadrotor.rotor_wrench`
        places = drone.lever * np.array([[1, -1, 0], [-1, -1, 0], [-1, 1, 0], [1, 1, 0]])
        axes, spins = np.tile([0.0, 0.0, 1.0], (4, 1)), np.array([1, -1, 1, -1])
    thrust, torque = (
        np.array([np.broadcast_to(part, drone.count) for part in both]).T for both in (drone.thrust, drone.torque)
    )
    lags = tuple(map(float, drone.speed_up or ())), tuple(map(float, drone.speed_down or ()))
    return tuple(
        Rotor(_floats(places[i]), _floats(axes[i]), int(spins[i]), _floats(thrust[i]), _floats(torque[i]), *lags)
        for i in range(drone.count)
    )


def _floats(values: np.ndarray) -> Any:
    return tuple(float(value) for value in values)


def _term(name: str, source: str, unit: str, size: int, noise: float, gait_hz: float = 0.0) -> Term:
    return Term(name, source, size, unit, noise, meaning=MEANINGS[source].format(gait_hz=gait_hz))


def _sizes(task: Task[Any]) -> list[tuple[str, int]]:
    """Terms of the group `policy` with their sizes, in their order."""
    return [(term, math.prod(shape)) for term, shape in task.observation_terms["policy"].items()]
