"""The contract of a policy of any task: its whole control step as a graph, its actuators from the task's model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.vec_env import POLICY
from sim2real.contract import model_files
from sim2real.contract.contract import Actuator, Contract, Joint, Place, Step, Term
from sim2real.contract.planner import Planner
from sim2real.contract.speeds import top_speeds
from sim2real.graphs.control import ControlGraph, Policy, draws_of, first_draw, nominal
from sim2real.graphs.graph import Graph, GraphError

STEP = "step"
"""Source of terms that the graph computes."""


@dataclasses.dataclass(frozen=True)
class Described:
    """A contract, and the computation that it describes."""

    contract: Contract
    graph: Graph
    task: Task[Any]
    """With its variations left out, as the graph computes it."""


def describe_step(
    task: Task[Any], name: str, policy: Policy | None = None, group: str = POLICY, planner: Planner | None = None
) -> Described:
    """The contract of a task registered under `name`, and its control step.

    Args:
        task: With or without variations.
        name: It is registered under.
        policy: Put into the step; None: its action is an input.
        group: Observation group that the policy reads.
        planner: What gives that input, if anything is said of it.

    Raises:
        GraphError: something in the task or the policy has no translation.
    """
    plain = nominal(task)
    actuators = _setpoints(plain) if plain.setpoints else _actuators(plain)
    driven = [actuator.joint for actuator in actuators if actuator.joint]
    limits = np.array([[actuator.lower, actuator.upper] for actuator in actuators]).T
    try:
        control = ControlGraph.of(plain, policy, driven, (limits[0], limits[1]), group)
    except GraphError as error:
        raise GraphError(f"'{name}' cannot be deployed: {error}") from None
    terms = tuple(
        Term(term, STEP, math.prod(shape), "")
        for term, shape in plain.observation_terms[group].items()
        if math.prod(shape)
    )
    file = model_files.of_task(task)
    contract = Contract(
        task=name,
        robot=robot_of(name) if file is None else file.stem,
        control_hz=1 / plain.timing.control_dt,
        physics_hz=1 / plain.timing.physics_dt,
        actuators=actuators,
        joints=_joints(plain, control.joints, robot_of(name)),
        terms=terms,
        model=None if file is None else model_files.recorded(file),
        step=Step(
            control.sources, control.told, control.remembered, plain.action_size, *_base(plain.model, driven), planner
        ),
    )
    return Described(contract, control.graph, plain)


def robot_contract(task: Task[Any], bundle: Contract) -> Contract:
    """The contract of a bundle with joints, actuators and rate as a task's robot has them.

    Args:
        task: Without variations.
        bundle: Of a policy; of the robot's joints those are listed that it names or that an actuator drives.
    """
    model = task.model
    actuators = _setpoints(task) if task.setpoints else _actuators(task)
    named = {*(joint.name for joint in bundle.joints), *(actuator.joint for actuator in actuators)}
    known = [name for name in (model.joint(number).name for number in range(model.njnt)) if name in named]
    return dataclasses.replace(
        bundle,
        control_hz=1 / task.timing.control_dt,
        actuators=actuators,
        joints=_joints(task, known, robot_of(bundle.task)),
    )


def _base(model: mujoco.MjModel, driven: Sequence[str]) -> tuple[tuple[float, ...], str]:
    """Where the body below the first driven joint stands, and its name; nothing where it is not fixed to the world."""
    body = int(model.joint(driven[0]).bodyid[0]) if driven else 0
    while body and int(model.body_parentid[body]):
        body = int(model.body_parentid[body])
    if not body or int(model.body_mocapid[body]) >= 0:
        return (), ""
    first = int(model.body_jntadr[body])
    if first >= 0 and int(model.jnt_type[first]) == int(mujoco.mjtJoint.mjJNT_FREE):
        return (), ""
    pose = (*model.body_pos[body], *model.body_quat[body])
    return tuple(float(value) for value in pose), model.body(body).name


def robot_of(name: str) -> str:
    """Name of a task's robot: the first word of the task's own name, unless its family has one robot."""
    family, _, own = name.partition("/")
    return {"manipulation": "panda", "swarm": "crazyflie"}.get(family, own.partition("-")[0] or family)


def _actuators(task: Task[Any]) -> tuple[Actuator, ...]:
    """One row for each of the model's actuators, in its order."""
    model = task.model
    start = np.asarray(first_draw(task).qpos)
    return tuple(_actuator(model, number, start) for number in range(model.nu))


def _actuator(model: mujoco.MjModel, number: int, start: np.ndarray) -> Actuator:
    name = model.actuator(number).name or f"actuator{number}"
    on_joint = int(model.actuator_trntype[number]) == int(mujoco.mjtTrn.mjTRN_JOINT)
    joint = int(model.actuator_trnid[number, 0])
    slides = on_joint and int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_SLIDE)
    gain, bias = float(model.actuator_gainprm[number, 0]), model.actuator_biasprm[number]
    limited = bool(model.actuator_forcelimited[number])
    effort = float(np.abs(model.actuator_forcerange[number]).min()) if limited else math.inf
    if model.actuator_biastype[number] == mujoco.mjtBias.mjBIAS_AFFINE and bias[1] < 0:  # a position servo
        is_servo = on_joint and np.isclose(gain, -bias[1])
        rest = float(start[model.jnt_qposadr[joint]]) if is_servo else float(np.mean(model.actuator_ctrlrange[number]))
        low, high = target_range(model, number, rest) if is_servo else _range(model, number)
        return Actuator(
            name=name,
            unit="m" if slides else "rad",
            offset=min(max(rest, low), high),
            up=0.0,
            down=0.0,
            lower=low,
            upper=high,
            max_rate=math.inf,
            stiffness=gain if is_servo else 0.0,
            damping=-float(bias[2]) if is_servo else 0.0,
            max_effort=effort,
            joint=model.joint(joint).name if is_servo else "",
        )
    low, high = _range(model, number)
    unit = "N" if slides or not on_joint else "N m"
    unit = unit if gain == 1.0 else f"{gain:.6g} {unit}"
    return Actuator(name, unit, min(max(0.0, low), high), 0.0, 0.0, low, high, math.inf, max_effort=effort)


def target_range(model: mujoco.MjModel, actuator: int, stance: float) -> tuple[float, float]:
    """Smallest and largest target of a position servo: its own range, else its joint's, widened to hold the stance."""
    if model.actuator_ctrllimited[actuator]:
        low, high = model.actuator_ctrlrange[actuator]
    else:
        low, high = model.jnt_range[model.actuator_trnid[actuator, 0]]
    return min(float(low), stance), max(float(high), stance)


def _range(model: mujoco.MjModel, number: int) -> tuple[float, float]:
    """Smallest and largest input of an actuator."""
    if not model.actuator_ctrllimited[number]:
        return -math.inf, math.inf
    low, high = model.actuator_ctrlrange[number]
    return float(low), float(high)


def _setpoints(task: Task[Any]) -> tuple[Actuator, ...]:
    """One row for each number that a robot's own controllers are given."""
    names = [said.rpartition(", ")[0] for said in task.setpoints]
    alone = [names.count(name) == 1 for name in names]
    low, high = _bounds(task)
    rows = []
    for number, said in enumerate(task.setpoints):
        twice = task.setpoints.count(said) > 1
        name = names[number] if alone[number] else f"{said} {number + 1}" if twice else said
        limits = float(low[number]), float(high[number])
        rest = min(max(0.0, limits[0]), limits[1])
        rows.append(Actuator(name, said.rpartition(", ")[2], rest, 0.0, 0.0, *limits, math.inf))
    return tuple(rows)


def _bounds(task: Task[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest of each setpoint; infinite where it depends on where the robot is."""
    shape, key, process = task.action_shape, jax.random.PRNGKey(0), jax.jit(task.process_action)
    given = []
    for reset in draws_of(task)[:2]:
        world = World.posed(task.model, reset.qpos, reset.qvel, reset.mocap_pos)
        for sign in (-1.0, 0.0, 1.0):
            command, _ = process(world, reset.task_state, sign * jnp.ones(shape), key)
            given.append(np.asarray(command, float).reshape(-1)[: len(task.setpoints)])
    here, there = np.split(np.array(given), 2)
    fixed = np.isclose(here, there).all(0)
    return np.where(fixed, here.min(0), -np.inf), np.where(fixed, here.max(0), np.inf)


def _joints(task: Task[Any], names: Sequence[str], robot: str) -> tuple[Joint, ...]:
    model = task.model
    start = np.asarray(first_draw(task).qpos)
    speeds = top_speeds(robot, names, model_files.of_task(task))
    rows = []
    for name in names:
        joint = model.joint(name)
        limited = bool(model.jnt_limited[joint.id])
        low, high = joint.range if limited else (-math.inf, math.inf)
        rows.append(joint_of(model, name, float(start[joint.qposadr[0]]), (float(low), float(high)), speeds[name]))
    return tuple(rows)


def joint_of(model: mujoco.MjModel, name: str, default: float, limits: tuple[float, float], speed: float) -> Joint:
    """A joint with what training's model says of it."""
    joint = model.joint(name)
    dof = int(joint.dofadr[0])
    return Joint(
        name=name,
        default=default,
        lower=limits[0],
        upper=limits[1],
        max_velocity=speed,
        armature=float(model.dof_armature[dof]),
        friction=float(model.dof_frictionloss[dof]),
        axis=tuple(float(value) for value in joint.axis),
        body=model.body(int(joint.bodyid[0])).name,
    )


def place_of(model: mujoco.MjModel, sensor: str) -> Place | None:
    """Where a sensor's site sits; None where the model has no such sensor."""
    names = [model.sensor(number).name for number in range(model.nsensor)]
    if sensor not in names or int(model.sensor(sensor).objtype[0]) != int(mujoco.mjtObj.mjOBJ_SITE):
        return None
    site = int(model.sensor(sensor).objid[0])
    body = model.body(int(model.site_bodyid[site])).name
    position, quaternion = (tuple(float(v) for v in part) for part in (model.site_pos[site], model.site_quat[site]))
    return Place(body, position, quaternion)  # type: ignore[arg-type]
