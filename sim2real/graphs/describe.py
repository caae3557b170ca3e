"""The contract of a task's policy: its control step as a graph; actuators, joints and rotors from the task's model."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.facets import Operator, TermDescription
from embodied.core.randomization import Distribution
from embodied.core.task import Task
from embodied.core.world import World
from embodied.env.vec_env import POLICY
from embodied.storage.configs import to_json
from sim2real.contract import model_files
from sim2real.contract.contract import COMMAND, Actuator, Command, Contract, Joint, Number, Place, Step, Term
from sim2real.contract.limits import home_of
from sim2real.contract.planner import Planner
from sim2real.contract.rotors import rotors_of
from sim2real.contract.speeds import top_speeds
from sim2real.graphs.action_map import ActionMap
from sim2real.graphs.control import ControlGraph, FirstTrace, Policy, draws_of, first_draw, setpoints_of
from sim2real.graphs.graph import Graph, GraphError
from sim2real.graphs.tracing.sources import Sources

AXES = ("x", "y", "z")


@dataclasses.dataclass(frozen=True)
class Described:
    """A contract, and the computation that it describes."""

    contract: Contract
    graph: Graph
    task: Task[Any]
    """With its variations left out, as the graph computes it."""
    start: Mapping[str, np.ndarray]
    """Inputs of the first step of an episode, but for its state: sources in simulation, and the commands' examples."""


def describe(
    task: Task[Any], name: str, policy: Policy | None = None, group: str = POLICY, planner: Planner | None = None
) -> Described:
    """The contract of a task registered under `name`, and its control step.

    Args:
        task: With or without variations.
        name: Under which it is registered.
        policy: Put into the step; None: its action is an input.
        group: Observation group that the policy reads.
        planner: Planner that gives that input, if there is one.

    Raises:
        GraphError: something in the task or the policy has no translation.
    """
    _refuse(task, name)
    try:
        first = FirstTrace.of(task, group)
        plain = first.task
        actuators = actuators_of(plain, first.action_map)
        driven = [actuator.joint for actuator in actuators if actuator.joint]
        limits = np.array([[actuator.lower, actuator.upper] for actuator in actuators]).T
        control = ControlGraph.of(plain, policy, driven, (limits[0], limits[1]), group, first)
    except GraphError as error:
        raise GraphError(f"'{name}' cannot be deployed: {error}") from None
    deployment = (plain.operator or Operator()).deployment
    commands = tuple(_within(one, deployment.workspace) for one in control.commands)
    step = Step(control.sources, commands, control.remembered, plain.action_size, *_base(plain.model, driven), planner)
    file = model_files.of_task(task)
    robot = model_files.name_of(task) or robot_of(name) if file is None else file.stem
    contract = Contract(
        task=name,
        robot=robot,
        control_hz=1 / plain.timing.control_dt,
        physics_hz=1 / plain.timing.physics_dt,
        actuators=actuators,
        joints=_joints(plain, control.joints, robot),
        terms=_terms(task, group),
        step=step,
        latency=_latency(task),
        workspace=deployment.workspace,
        mass=_mass(plain.model, driven),
        rotors=rotors_of(plain),
        imu=place_of(plain.model, "gyro"),
        max_tilt=deployment.max_tilt,
        model=None if file is None else model_files.recorded(file),
        config=changed_options(task),
    )
    return Described(contract, control.graph, plain, _start(plain, contract))


def _start(task: Task[Any], contract: Contract) -> dict[str, np.ndarray]:
    """Sources where an episode begins, and the commands' examples."""
    reset = first_draw(task)
    world = World.posed(task.model, reset.qpos, reset.qvel, reset.mocap_pos)
    parts = (np.asarray(part, float) for part in (world.qpos, world.qvel, world.sensordata))
    commands = {f"{COMMAND}{one.name}": np.array(one.example) for one in contract.step.commands}
    return {**Sources(task.model, [joint.name for joint in contract.joints]).values(*parts), **commands}


def _refuse(task: Task[Any], name: str) -> None:
    """Raise where it is undefined what a robot is sent, before anything is traced."""
    setpoints = setpoints_of(task)
    if not (setpoints or task.model.nu):
        raise GraphError(f"'{name}' cannot be deployed: its bodies are moved by forces, and it names no `setpoints`")
    if task.team and task.team.agents > 1 and not setpoints:
        raise GraphError(
            f"'{name}' cannot be deployed: its {task.team.agents} agents move one model, and the task names no "
            "`setpoints` that a single robot is sent; a team whose robots are sent setpoints can be deployed"
        )


def changed_options(task: Task[Any]) -> str:
    """A task's options where they differ from the defaults, as JSON; a model file is recorded elsewhere."""
    config = task.unwrapped.config
    default, elsewhere = to_json(type(config)()), {"robot"} if model_files.of_task(task) else set()
    changed = {name: v for name, v in to_json(config).items() if v != default[name] and name not in elsewhere}
    return json.dumps(changed, sort_keys=True)


def _within(command: Command, workspace: tuple[tuple[float, float], ...]) -> Command:
    """A commanded place may lie anywhere in the workspace, since only its offset is observed."""
    if tuple(number.name for number in command.numbers) != AXES or not workspace:
        return command
    numbers = (Number(axis, "m", *ends) for axis, ends in zip(AXES, workspace, strict=True))
    return dataclasses.replace(command, numbers=tuple(numbers))


def _terms(task: Task[Any], group: str) -> tuple[Term, ...]:
    """Observed terms that have numbers, with the task's descriptions."""
    described, noise = (task.operator or Operator()).deployment.terms, _noise(task)
    rows = []
    for name, shape in task.observation_terms[group].items():
        if size := math.prod(shape):
            known = described.get(name, TermDescription("", ""))
            rows.append(Term(name, size, known.unit, known.meaning, noise.get(name, 0.0), known.sensor))
    return tuple(rows)


def _noise(task: Task[Any]) -> Mapping[str, float]:
    """Observed term -> standard deviation of its uniform noise."""
    return {
        one.quantity: (one.high - one.low) / math.sqrt(12)
        for term in task.terms
        if term.name == "observation_noise"
        for one in term.ranges
        if one.distribution is Distribution.UNIFORM
    }


def _latency(task: Task[Any]) -> tuple[float, float]:
    """s, range of the delay of commands that episodes draw."""
    ranges = [one for term in task.terms if term.name == "latency" for one in term.ranges if one.unit == "s"]
    return (ranges[0].low, ranges[0].high) if ranges else (0.0, 0.0)


def _mass(model: mujoco.MjModel, driven: Sequence[str]) -> float:
    """kg of the tree of bodies that holds the first driven joint, else the first joint; 0 without joints."""
    if not model.njnt:
        return 0.0
    joint = int(model.joint(driven[0]).id) if driven else 0
    return float(model.body_subtreemass[model.body_rootid[model.jnt_bodyid[joint]]])


def robot_contract(task: Task[Any], bundle: Contract) -> Contract:
    """The contract of a bundle with joints, actuators and rate as a task's robot has them.

    Args:
        task: Without variations.
        bundle: Of a policy; of the robot's joints those are listed that it names or that an actuator drives.
    """
    _refuse(task, bundle.task)
    model = task.model
    actuators = _setpoints(task) if setpoints_of(task) else _actuators(task, _first_target(task))
    driven = [actuator.joint for actuator in actuators if actuator.joint]
    named = {joint.name for joint in bundle.joints}
    every = (model.joint(number).name for number in range(model.njnt))
    known = [*dict.fromkeys([*driven, *(name for name in every if name in named)])]
    return dataclasses.replace(
        bundle,
        control_hz=1 / task.timing.control_dt,
        actuators=actuators,
        joints=_joints(task, known, robot_of(bundle.task)),
    )


def _base(model: mujoco.MjModel, driven: Sequence[str]) -> tuple[tuple[float, ...], str]:
    """Pose of the body below the first driven joint, and its name; empty where it is not fixed to the world."""
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


def actuators_of(task: Task[Any], action_map: ActionMap) -> tuple[Actuator, ...]:
    """One row for each of the model's actuators, in its order, or for each setpoint."""
    rows = _setpoints(task) if setpoints_of(task) else _actuators(task, action_map.offset)
    lower, upper = (np.array([getattr(row, end) for row in rows]) for end in ("lower", "upper"))
    holds, found = action_map.holds(lower, upper), []
    for number, row in enumerate(rows):
        if action_map.fixed[number]:
            row = dataclasses.replace(row, offset=float(np.clip(action_map.offset[number], row.lower, row.upper)))
        if holds[number]:
            up, down = float(action_map.up[number]), float(action_map.down[number])
            # From one end of the range of actions to the other in one step: more cannot come from the policy.
            rate = (abs(up) + abs(down)) / task.timing.control_dt
            row = dataclasses.replace(row, up=up, down=down, max_rate=rate)
        found.append(row)
    return tuple(found)


def _first_target(task: Task[Any]) -> np.ndarray:
    """(nu,) target of action 0 where an episode begins."""
    start = first_draw(task)

    def target(world: World, state: Any) -> Any:
        action, key = jnp.zeros(task.action_shape), jax.random.PRNGKey(0)
        command, state = task.process_action(world, state, action, key)
        return task.apply_action(world, state, command)[0].ctrl

    world = World.posed(task.model, start.qpos, start.qvel, start.mocap_pos)
    return np.asarray(jax.jit(target)(world, start.task_state), float)


def _actuators(task: Task[Any], stance: np.ndarray) -> tuple[Actuator, ...]:
    """One row for each actuator of the model, at rest in the home pose; limits hold the stance (nu,) too."""
    model = task.model
    start = _home(task)
    return tuple(_actuator(model, number, start, float(stance[number])) for number in range(model.nu))


def _actuator(model: mujoco.MjModel, number: int, start: np.ndarray, stance: float) -> Actuator:
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
        low, high = target_range(model, number, (rest, stance)) if is_servo else _range(model, number)
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


def target_range(model: mujoco.MjModel, actuator: int, held: tuple[float, float]) -> tuple[float, float]:
    """Smallest and largest target of a position servo: its own range, else its joint's, widened to hold two targets."""
    if model.actuator_ctrllimited[actuator]:
        low, high = model.actuator_ctrlrange[actuator]
    else:
        low, high = model.jnt_range[model.actuator_trnid[actuator, 0]]
    return min(float(low), *held), max(float(high), *held)


def _range(model: mujoco.MjModel, number: int) -> tuple[float, float]:
    """Smallest and largest input of an actuator."""
    if not model.actuator_ctrllimited[number]:
        return -math.inf, math.inf
    low, high = model.actuator_ctrlrange[number]
    return float(low), float(high)


def _setpoints(task: Task[Any]) -> tuple[Actuator, ...]:
    """One row for each number that a robot's own controllers are given."""
    setpoints = setpoints_of(task)
    names = [text.rpartition(", ")[0] for text in setpoints]
    alone = [names.count(name) == 1 for name in names]
    rows = []
    for number, (text, *ends) in enumerate(zip(setpoints, *_bounds(task), strict=True)):
        low, high = map(float, ends)
        rest = min(max(0.0, low), high)
        name = names[number] if alone[number] else text
        rows.append(Actuator(name, text.rpartition(", ")[2], rest, 0.0, 0.0, low, high, math.inf))
    return tuple(rows)


def _bounds(task: Task[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest of each setpoint; infinite where it depends on where the robot is."""
    shape, key, process = task.action_shape, jax.random.PRNGKey(0), jax.jit(task.process_action)
    given = []
    for reset in draws_of(task)[:2]:
        world = World.posed(task.model, reset.qpos, reset.qvel, reset.mocap_pos)
        for sign in (-1.0, 0.0, 1.0):
            command, _ = process(world, reset.task_state, sign * jnp.ones(shape), key)
            given.append(np.asarray(command, float).reshape(-1)[: len(setpoints_of(task))])
    here, there = np.split(np.array(given), 2)
    fixed = np.isclose(here, there).all(0)
    return np.where(fixed, here.min(0), -np.inf), np.where(fixed, here.max(0), np.inf)


def _joints(task: Task[Any], names: Sequence[str], robot: str) -> tuple[Joint, ...]:
    model = task.model
    start = _home(task)
    speeds = top_speeds(robot, names, model_files.of_task(task))
    rows = []
    for name in names:
        joint = model.joint(name)
        limited = bool(model.jnt_limited[joint.id])
        low, high = joint.range if limited else (-math.inf, math.inf)
        rows.append(joint_of(model, name, float(start[joint.qposadr[0]]), (float(low), float(high)), speeds[name]))
    return tuple(rows)


def _home(task: Task[Any]) -> np.ndarray:
    """(nq,) the model's keyframe `home`; where it has none, the start of an episode."""
    home = home_of(task.model)
    return np.asarray(first_draw(task).qpos) if home is None else home


def joint_of(model: mujoco.MjModel, name: str, default: float, limits: tuple[float, float], speed: float) -> Joint:
    """A joint with its data in training's model."""
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
    """Place of a sensor's site; None where the model has no such sensor."""
    names = [model.sensor(number).name for number in range(model.nsensor)]
    if sensor not in names or int(model.sensor(sensor).objtype[0]) != int(mujoco.mjtObj.mjOBJ_SITE):
        return None
    site = int(model.sensor(sensor).objid[0])
    body = model.body(int(model.site_bodyid[site])).name
    position, quaternion = (tuple(float(v) for v in part) for part in (model.site_pos[site], model.site_quat[site]))
    return Place(body, position, quaternion)  # type: ignore[arg-type]
