"""Tasks at a table without an environment: where they begin, what stays there, what counts as solved, what scripts do.

A task is named by its last part, `door-lock`. It has three programs, each compiled once a worker: one begins an
episode, one judges worlds, one also says what its script does there.

    task, start, data = begun("door-lock")                    # the draw of which Meta-World's is known
    task, start, data = begun("door-lock", corner=3)          # a corner of what is drawn
    idle(data, 1.0)                                           # let it be
    judged(begun("door-lock"), {"lever": [0.0, 1.3]}).success # with a joint elsewhere, in each of so many worlds
    played("door-lock", 200).success                          # its script
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.core.episode import flatten_observation
from embodied.core.world import Control, ResetState, SensorLayout, World
from embodied.engines import make_engine
from tasks.manipulation.common import panda
from tasks.manipulation.common.tabletop import Tabletop
from tests.kit.budget import sharing
from tests.kit.worlds import task_of

REFERENCE: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "benchmarks/reference/metaworld.json").read_text(encoding="utf-8")
)
FACTS: dict[str, Any] = REFERENCE["tasks"]
"""What was measured of Meta-World's tasks."""
CORNERS = (0, 3, 4, 7)
"""Those of a box's eight corners that differ in more than the height."""
ROWS = 500  # worlds that a program judges at once


class Begun(NamedTuple):
    """A task, how an episode of it begins, and the world there with the arm's servos at rest and the hand open."""

    task: Any
    start: Any
    data: mujoco.MjData


def tabletop(name: str) -> Any:
    """A task with its default options."""
    return task_of(f"manipulation/{name}")


@functools.cache
def _beginning(task: Any) -> Callable[..., ResetState[Any]]:
    return jax.jit(lambda start, goal: task.begin(task.place(start, goal)))


def known_draw(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Start and goal (3) m of the draw of which Meta-World's is known; heights are ours where it draws in vain."""
    ranges, facts = tabletop(name).ranges, FACTS[name]
    drawn, axes = np.array(facts["canonical"]["draw"]), facts["draw"]
    start = drawn[axes["object"]]
    goal = drawn[axes["goal"]] if axes["goal"] else start.copy()
    start[2] = np.clip(start[2], ranges.start.low[2], ranges.start.high[2])
    if ranges.goal is not None:
        goal[2] = np.clip(goal[2], ranges.goal.low[2], ranges.goal.high[2])
    return start, goal


def corner_draw(task: Any, corner: int) -> tuple[np.ndarray, np.ndarray]:
    """A corner (3) m of where things start, and the farthest of where they go; without a drawn goal the start twice."""
    start = task.ranges.start.corners[corner]
    if task.ranges.goal is None:
        return start, start
    goals = task.ranges.goal.corners
    apart = np.linalg.norm((goals - start)[:, :2], axis=1)
    return start, goals[np.argmax(apart + 1e-6 * (np.arange(8) == 7 - corner))]


def begun(task: Any, corner: int | None = None, **joints: float) -> Begun:
    """A start from a corner of what is drawn, or else from the draw that is known; some joints (m, rad) elsewhere.

    `task`: a name, or a task that is none of the fifty, which has corners alone.
    """
    name, task = task, tabletop(task) if isinstance(task, str) else task
    draw = known_draw(name) if corner is None else corner_draw(task, corner)
    start = jax.tree.map(np.asarray, _beginning(task)(*(np.asarray(point, np.float32) for point in draw)))
    data = mujoco.MjData(task.model)
    data.qpos = start.qpos
    if start.mocap_pos is not None:
        data.mocap_pos = start.mocap_pos
    for joint, value in joints.items():
        data.joint(joint).qpos = value
    arm = len(start.task_state.joints)
    data.ctrl[:arm], data.ctrl[arm] = start.task_state.joints, -1.0
    mujoco.mj_forward(task.model, data)
    return Begun(task, start, data)


def idle(data: mujoco.MjData, seconds: float) -> None:
    """Let the world be."""
    mujoco.mj_step(data.model, data, round(seconds / data.model.opt.timestep))


# Judging worlds.


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a task says of n worlds."""

    success: np.ndarray
    """(n,) bool."""
    failure: np.ndarray
    """(n,) bool."""
    stages: Mapping[str, np.ndarray]
    """How far each stage has come, (n,) each, in the task's order."""
    worth: np.ndarray
    """(n,) all stages, weighted."""

    @property
    def last(self) -> np.ndarray:
        """(n,) how far the last stage has come."""
        return list(self.stages.values())[-1]


@functools.cache
def _judging(task: Any) -> Callable[..., Any]:
    layout = SensorLayout.from_model(task.model)

    def judge(qpos: Any, sensordata: Any, state: Any) -> Any:
        world = World(jnp.zeros(()), qpos, jnp.zeros(task.model.nv), sensordata, layout)
        outcome = task.outcome(world, state)
        return outcome.success, outcome.failure, task.progress(world, state)

    return jax.jit(jax.vmap(judge, (0, 0, None)))


def judged(
    at: Begun,
    joints: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    readings: Mapping[str, np.ndarray] | None = None,
) -> Judged:
    """What the task says of the world as it now is; in n worlds, where joints are elsewhere (n, size), or sensors read.

    Nothing moves.
    """
    task, start, data = at
    joints, readings = joints or {}, readings or {}
    count = len(next(iter([*joints.values(), *readings.values()]), [0]))
    layout = SensorLayout.from_model(task.model)
    posed = mujoco.MjData(task.model)
    qpos, sensed = np.empty((count, task.model.nq)), np.empty((count, task.model.nsensordata))
    for row in range(count if joints else 1):
        posed.qpos, posed.mocap_pos = data.qpos, data.mocap_pos
        for joint, values in joints.items():
            posed.joint(joint).qpos = values[row]
        mujoco.mj_forward(task.model, posed)
        # Without joints all rows are this one.
        qpos[row:], sensed[row:] = posed.qpos, posed.sensordata
    for sensor, values in readings.items():
        sensed[:, layout.slices[sensor]] = values
    judge, found = _judging(task), []
    for first in range(0, count, ROWS):
        rows = np.arange(first, first + ROWS) % count  # always as many, so that one program serves
        found.append(judge(qpos[rows].astype(np.float32), sensed[rows].astype(np.float32), start.task_state))
    success, failure, stages = jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *found)
    stages = {stage: stages[stage] for stage in task.stages}  # JAX sorts them
    return Judged(success, failure, stages, np.asarray(sum(task.stages[name] * stages[name] for name in stages)))


# The hand.


@functools.cache
def _led() -> Callable[..., Any]:
    return jax.jit(lambda target, joints: jax.lax.fori_loop(0, 300, lambda _, q: panda.follow(q, target), joints))


def lead_hand(data: mujoco.MjData, target: np.ndarray, finger: float) -> None:
    """Put the tcp at a point (3) m, the fingers at `finger` m."""
    joints = _led()(np.asarray(target, np.float32), np.asarray(data.ctrl[:7], np.float32))
    data.qpos[:9] = [*np.asarray(joints), finger, finger]
    mujoco.mj_forward(data.model, data)
    np.testing.assert_allclose(data.sensor("tcp_pos").data, target, atol=5e-3)


def touching(data: mujoco.MjData) -> set[frozenset[str]]:
    """Pairs of shapes in contact."""
    return {frozenset(data.model.geom(i).name for i in contact.geom) for contact in data.contact}


# Acting.


@dataclasses.dataclass(frozen=True)
class Played:
    """What became of some episodes, (steps, n, ...) each."""

    reward: np.ndarray
    success: np.ndarray
    worlds: World
    """The world after each step."""
    states: Any
    """The task's states."""


@functools.cache
def _answering(task: Any) -> Callable[..., Any]:
    """Reward, success, the script's action and where mocap bodies belong in n worlds."""

    def answer(world: World, state: Any) -> Any:
        terms = task.rewards(world, state, jnp.zeros(4))
        reward = sum(task.reward_weights[term] * value for term, value in terms.items())
        action = task.expert(flatten_observation(task.observe(world, state, jax.random.PRNGKey(0))), state)
        mocap = task.pictures.mocap_positions(state)
        return reward, task.outcome(world, state).success, jnp.clip(action, -1.0, 1.0), mocap

    return jax.jit(jax.vmap(answer))


@functools.cache
def _leading(workspace: Any, config: Any) -> Callable[..., Any]:
    """How actions lead the hand of n worlds: a program for all tasks of a workspace, since it is dear to compile."""
    task = next(task for name in FACTS if (task := tabletop(name)).workspace == workspace)
    task = task if task.config == config else type(task)(config)

    def lead(world: World, state: Any, action: Any) -> Any:
        command, state = task.process_action(world, state, action, jax.random.PRNGKey(0))
        return task.apply_action(world, state, command)[0].ctrl, state

    return jax.jit(jax.vmap(lead))


def played(task: Any, steps: int, actions: np.ndarray | None = None) -> Played:
    """Episodes from four corners of what is drawn, in C MuJoCo: by the task's script, or by `actions` (steps, 4, 4).

    `task`: a name, or any task of the family.
    """
    task, count = tabletop(task) if isinstance(task, str) else task, len(CORNERS)
    assert (type(task).process_action, type(task).apply_action) == (Tabletop.process_action, Tabletop.apply_action)
    answer, lead = _answering(task), _leading(task.workspace, task.config)
    start = jax.tree.map(lambda *leaves: np.stack(leaves), *(begun(task, corner).start for corner in CORNERS))
    engine: Any = make_engine("mujoco", task, count, threads=1)
    engine.reset(np.arange(count), start)
    state, rows = start.task_state, []
    for step in range(steps + 1):
        world = jax.tree.map(np.array, engine.world())
        reward, success, scripted, mocap = answer(world, state)
        rows.append((reward, success, world, jax.tree.map(np.asarray, state)))
        command = scripted if actions is None else actions[min(step, steps - 1)]
        with sharing("leading the hand") if step == 0 else contextlib.nullcontext():  # where it is compiled
            ctrl, state = lead(robots_own(task, world), state, np.asarray(command, np.float32))
        engine.step(Control(ctrl=ctrl, mocap_pos=mocap), task.timing.substeps)
    engine.close()
    return Played(*jax.tree.map(lambda *leaves: np.stack(leaves), *rows[1:]))


def robots_own(task: Any, world: World) -> World:
    """What leading the hand reads of worlds, the same numbers in the same places for all tasks of a robot."""
    names = ("tcp_pos", "hand_pos", "object1_pos", "object1_quat", "object2_pos", "object2_quat")
    sizes = tuple(4 if name.endswith("quat") else 3 for name in names)
    absent, known = np.zeros((len(world.qpos), 4), np.float32), world.layout.names
    parts = [world[name] if name in known else absent[:, :size] for name, size in zip(names, sizes, strict=True)]
    layout = SensorLayout(names, tuple(np.cumsum((0, *sizes[:-1])).tolist()), sizes)
    joints = len(task.start_joints) + len(task.robot.gripper.joints)
    sensed: Any = np.concatenate(parts, 1)
    return World(world.time, world.qpos[:, :joints], world.qvel[:, :joints], sensed, layout)


def holds(term: Mapping[str, Any], points: Mapping[str, np.ndarray], goal: np.ndarray) -> np.ndarray:
    """Whether a term of Meta-World's success holds, for points (n, 3)."""
    goal = np.array([*goal[:2], term.get("goal_z", goal[2])])
    compare = {"<=": np.less_equal, "<": np.less, ">": np.greater, ">=": np.greater_equal}[term["op"]]
    if term["kind"] == "distance":
        missing = points[term["what"]] + np.array(term.get("offset", (0, 0, 0))) - goal
        return compare(np.linalg.norm(np.array(term["weights"]) * missing, axis=1), term["threshold"])
    axis = "xyz".index(term["axis"])
    reference = goal if term["reference"] == "goal" else points[term["reference"]]
    missing = points[term["what"]][:, axis] - np.atleast_2d(reference)[:, axis]
    return compare(np.abs(missing) if term["absolute"] else missing, term["threshold"])
