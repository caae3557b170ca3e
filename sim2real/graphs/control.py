"""`ControlGraph`: a control step of a task, from what is measured to what is sent, as the task itself computes it.

    sources, commands, state -> post_step, observe -> policy -> process_action, apply_action -> targets, state

The task's own functions are traced, with all its variations left out and random draws at their average: nothing about
observations or actions is written a second time, and a new task is deployable without code for it: it only names its
commands. For a team it is the step of one robot.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import jax
import mujoco
import numpy as np

from embodied.core.episode import flatten_observation
from embodied.core.facets import Operator
from embodied.core.task import Task
from embodied.core.world import ResetState, World
from embodied.env.vec_env import POLICY
from embodied.env.wrappers.steering import with_default
from embodied.errors import listing
from sim2real.contract.contract import COMMAND, NEXT, STATE, Command, Measured, Number, Remembered, Source
from sim2real.contract.limits import home_of
from sim2real.contract.planner import PLANNED
from sim2real.graphs.action_map import ActionMap
from sim2real.graphs.graph import Builder, Graph, GraphError
from sim2real.graphs.tracing.from_jax import Argument, inline
from sim2real.graphs.tracing.sources import JOINT_POS, JOINT_VEL, Sources

DRAWS = 64  # episodes that are compared
ALIKE = 1e-5  # between a number of the state and what is measured when the episode begins
BEGUN = "deployment.begun"
"""Name of a number of the memory: 0 in the first step, 1 after."""
PREVIOUS = "deployment.last_action"
"""Name of the policy's last action in the memory."""
MEMORY = "deployment.memory"
"""Name of a recurrent policy's hidden state in the memory; zero before the first step."""
ACTION, OBSERVATION, TARGET = "action", "observation", "target"
MOVED = 0.02  # of the larger of 1 and a number: by which measurements and state are moved to see what a target needs


class Policy(Protocol):
    """Translation of a policy into nodes of a graph."""

    @property
    def memory(self) -> int:
        """Numbers that it remembers from step to step; 0: none."""
        ...

    def __call__(self, build: Builder, given: Sequence[int], /) -> Sequence[int]:
        """From the nodes of an observation and of the memory to those of the action in [-1, 1] and the next memory."""
        ...


@dataclasses.dataclass(frozen=True)
class ControlGraph:
    """The step of one robot.

    Inputs of the graph are `sources` by their names, `command.NAME` and `state.NAME` of commands and of what is
    remembered, and `planned.action` where no policy was put in; outputs `target`, `observation`, `action` and
    `state.NAME:next`, as the next step takes it.
    """

    graph: Graph
    sources: tuple[Source, ...]
    joints: tuple[str, ...]
    """Of the sources `joint_pos` and `joint_vel`."""
    commands: tuple[Command, ...]
    remembered: tuple[Remembered, ...]

    @classmethod
    def of(
        cls,
        task: Task[Any],
        policy: Policy | None = None,
        joints: Sequence[str] = (),
        limits: tuple[np.ndarray, np.ndarray] | None = None,
        group: str = POLICY,
        first: FirstTrace | None = None,
    ) -> ControlGraph:
        """Trace a task.

        Args:
            task: With or without variations.
            policy: Put in between; None: the action is an input of the graph.
            joints: Hinges and slides to measure though nothing is computed of them; they come first.
            limits: (A,) and (A,), smallest and largest target; MuJoCo clips them likewise.
            group: Observation group that the policy reads.
            first: Of this task and group, if it has been traced before.

        Raises:
            GraphError: something in it has no translation, or differs between episodes without being an input.
        """
        first = first or FirstTrace.of(task, group)
        task = first.task
        known = Sources(task.model, [*dict.fromkeys([*joints, *first.joints])])
        return _Step(task, policy, known, first.fixed, limits, group).result()


@dataclasses.dataclass(frozen=True)
class FirstTrace:
    """Facts about a task's control step that its graph and its contract are made from."""

    task: Task[Any]
    """Without variations."""
    fixed: Mapping[str, np.ndarray]
    """Fields of the state that no step changes and that are alike in every episode."""
    joints: tuple[str, ...]
    """Hinges and slides that something is computed from, in the model's order."""
    action_map: ActionMap

    @classmethod
    def of(cls, task: Task[Any], group: str = POLICY) -> FirstTrace:
        """Trace a task without a policy: its constants and its joints are the same whatever acts.

        Raises:
            GraphError: something in it has no translation.
        """
        plain = nominal(task)
        step = _Step(plain, None, Sources(plain.model), {}, None, group)
        used = step.closed(whole=())[0].kept
        names = step.sources.joints
        places = {int(place) for name in (JOINT_POS, JOINT_VEL) for place in used.get(name, ())}
        joints = tuple(names[place] for place in sorted(places))
        return cls(plain, step.constants(), joints, step.action_map())


def nominal(task: Task[Any]) -> Task[Any]:
    """A task of which nothing optional varies, as a robot runs it."""
    task = task.deployed
    optional = any(term.optional for term in task.terms)
    return task.rebuilt(left_out=("all",)) if optional else task


@functools.lru_cache(maxsize=2)
def jitted_reset(task: Task[Any]) -> Callable[[Any], ResetState[Any]]:
    """`task.reset` of a `PRNGKey`, compiled once; commands that the task leaves out have their default."""

    def reset(key: Any) -> ResetState[Any]:
        start = task.reset(key)
        return dataclasses.replace(start, task_state=with_commands(task, start.task_state))

    return jax.jit(reset)


def setpoints_of(task: Task[Any]) -> tuple[str, ...]:
    """Names and units of what a robot with its own controllers is sent; empty: it is sent the actuators' controls."""
    return task.operator.setpoints if task.operator else ()


def with_commands(task: Task[Any], state: Any) -> Any:
    """A state in which commands that are None have the default of their ranges."""
    operator = task.operator or Operator()
    for field in operator.commands:
        if ranges := [command for command in operator.ranges if command.field == field]:
            state = with_default(state, field, ranges)
    return state


@functools.lru_cache(maxsize=2)
def draws_of(task: Task[Any]) -> list[ResetState[Any]]:
    """First states of `DRAWS` episodes, the one whose joints are nearest to the home pose first.

    Cached, since a task's description and its check both read them.
    """
    reset = jitted_reset(task)
    draws = [jax.device_get(reset(key)) for key in jax.random.split(jax.random.PRNGKey(0), DRAWS)]
    home, places = home_of(task.model), angles_of(task.model)
    away = (lambda draw: 0.0) if home is None else lambda draw: float(np.abs(draw.qpos - home)[places].max())
    return sorted(draws, key=away)


def first_draw(task: Task[Any]) -> ResetState[Any]:
    """The first of them, whose numbers are the examples: of a robot at home, where some episodes begin there."""
    return draws_of(task)[0]


def angles_of(model: mujoco.MjModel) -> np.ndarray:
    """Places of hinges (rad) and slides (m) in `qpos`."""
    return model.jnt_qposadr[np.isin(model.jnt_type, (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE))]


class _Step:
    """One tracing of a control step."""

    def __init__(
        self,
        task: Task[Any],
        policy: Policy | None,
        sources: Sources,
        fixed: Mapping[str, np.ndarray],
        limits: tuple[np.ndarray, np.ndarray] | None,
        group: str,
    ) -> None:
        self.task, self.sources, self.draws, self.group = task, sources, draws_of(task), group
        self.operator = task.operator or Operator()
        self.build = Builder()
        flat, self.tree = jax.tree_util.tree_flatten_with_path(self.draws[0].task_state)
        self.names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]
        self.shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for _, leaf in flat]
        columns = zip(*(jax.tree.leaves(draw.task_state) for draw in self.draws), strict=True)
        self.drawn = {
            name: [np.asarray(value) for value in column] for name, column in zip(self.names, columns, strict=True)
        }
        if unknown := sorted(set(self.operator.commands) - set(self.names)):
            raise GraphError(f"{task}'s operator commands {listing(unknown)}; its state has {listing(self.names)}")
        self.begin = [self._leaf(name, fixed) for name in self.names]
        self._trace(policy, limits)

    def _leaf(self, name: str, fixed: Mapping[str, np.ndarray]) -> int:
        size = self.drawn[name][0].size
        if name in self.operator.commands:
            return self.build.input(COMMAND + name, size)
        return self.build.constant(fixed[name]) if name in fixed else self.build.input(STATE + name, size)

    def _trace(self, policy: Policy | None, limits: tuple[np.ndarray, np.ndarray] | None) -> None:
        task, build, key = self.task, self.build, jax.random.PRNGKey(0)
        world = self.sources.world(build)
        agents = task.team.agents if task.team else 1
        size = self.size = task.action_size
        shape = task.action_shape
        self.previous = build.input(STATE + PREVIOUS, size)
        before = self._of_team(self.previous, agents, shape)
        after = self._nodes(inline(build, task.post_step, world, self._state(self.begin), before, key))
        self.seen = self._first_step(after)

        def observe(world: World, state: Any) -> Any:
            read = {self.group: task.observe(world, state, key)[self.group]}
            return flatten_observation(read, task.team)[self.group]

        whole = inline(build, observe, world, self._state(self.seen))
        self.observation = build.take(whole, np.arange(build.size(whole) // agents))
        self.action, *self.memory = [build.input(PLANNED, size)] if policy is None else self._acted(policy)
        action = self._of_team(self.action, agents, shape)
        command, state = inline(build, task.process_action, world, self._state(self.seen), action, key)
        if self.operator.setpoints:
            target = command
        else:
            given = Argument(command, *self._shape_of(task.process_action, world, action, key))
            control, state = inline(build, task.apply_action, world, self._state(self._nodes(state)), given)
            target = control.ctrl
            if target is None:
                raise GraphError(f"{task} moves bodies by forces and names no setpoints, which a robot could be given")
        self.target = build.take(target, np.arange(build.size(target) // agents))
        if limits is not None:
            low, high = (build.constant(limit) for limit in limits)
            self.target = build.binary("min", build.binary("max", self.target, low), high)
        self.after = dict(zip(self.names, self._nodes(state), strict=True))

    def _acted(self, policy: Policy) -> Sequence[int]:
        """Nodes of a policy's action, and of what it then remembers if it does."""
        memory = [self.build.input(STATE + MEMORY, policy.memory)] if policy.memory else []
        return policy(self.build, [self.observation, *memory])

    def _shape_of(self, function: Callable[..., Any], world: World, action: Argument, key: Any) -> tuple[Any, Any]:
        """Shape and type of a command."""
        as_shape = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)  # noqa: E731
        is_argument = lambda leaf: isinstance(leaf, Argument)  # noqa: E731
        given = jax.tree.map(as_shape, (world, self._state(self.seen), action), is_leaf=is_argument)
        command, _ = jax.eval_shape(function, *given, key)
        return command.shape, command.dtype

    def _of_team(self, row: int, agents: int, shape: Sequence[int]) -> Argument:
        """Actions of all robots, of which one is known."""
        others = [self.build.failed("it needs what another robot of the team does", (agents - 1) * shape[-1])]
        return Argument(self.build.concat([row, *others[: agents - 1]]), shape)

    def _state(self, nodes: Sequence[int]) -> Any:
        leaves = [Argument(node, *shape) for node, shape in zip(nodes, self.shapes, strict=True)]
        return jax.tree.unflatten(self.tree, leaves)

    def _nodes(self, state: Any) -> list[int]:
        """Nodes of a state's leaves; commands stay as they were given."""
        leaves = jax.tree.leaves(state)
        return [
            own if name in self.operator.commands else leaf
            for name, own, leaf in zip(self.names, self.begin, leaves, strict=True)
        ]

    def _first_step(self, after: Sequence[int]) -> list[int]:
        """The state that is observed: before the first action nothing has passed.

        Fields that differ between episodes and do not depend on their former value are computed then, too.
        """
        build = self.build
        begun = build.input(STATE + BEGUN, 1)
        seen = []
        for name, old, new in zip(self.names, self.begin, after, strict=True):
            from_before = self.is_same(name) or name in self.operator.first_commands
            recomputed = not from_before and old not in build.needed([new])
            seen.append(new if recomputed or new == old else build.where(self._wide(begun, new), new, old))
        return seen

    def _wide(self, condition: int, like: int) -> int:
        return self.build.take(condition, np.zeros(self.build.size(like)))

    def is_same(self, name: str) -> bool:
        """Whether a field of the state begins every episode alike."""
        first, *others = self.drawn[name]
        return all(np.array_equal(first, other) for other in others)

    def constants(self) -> dict[str, np.ndarray]:
        """Fields of the state that no step changes and that are alike in every episode."""
        own = dict(zip(self.names, self.begin, strict=True))
        return {
            name: self.drawn[name][0]
            for name in self.names
            if name not in self.operator.commands and self.after[name] == own[name] and self.is_same(name)
        }

    def closed(self, whole: Iterable[str]) -> tuple[Graph, dict[str, np.ndarray]]:
        """The graph with all that it has to remember; and name -> places of what is left of each field.

        Inputs in `whole` stay as they are, if anything of them is needed.
        """
        build = self.build
        kept: dict[str, np.ndarray] = {}
        base = {TARGET: self.target, OBSERVATION: self.observation, ACTION: self.action}
        while True:
            outputs = base | {STATE + name + NEXT: self._next(name, places) for name, places in kept.items()}
            graph = build.graph(outputs, whole)
            now = {name.removeprefix(STATE): places for name, places in graph.kept.items() if name.startswith(STATE)}
            if all(np.array_equal(now.get(name, ()), kept.get(name, ())) for name in {*now, *kept}):
                return graph, kept
            kept = now

    def action_map(self) -> ActionMap:
        """Map from actions to targets, for a step without a policy."""
        graph = self.build.graph({TARGET: self.target})
        start = {**self._measured_in(self.draws[0]), STATE + PREVIOUS: np.zeros(self.task.action_size)}
        for name, values in self.drawn.items():
            start[COMMAND + name] = start[STATE + name] = values[0].reshape(-1)
        constants, rng = {STATE + name for name in self.constants()}, np.random.default_rng(0)
        inputs: list[dict[str, np.ndarray]] = [{}, {}]
        for name in graph.inputs.keys() - {PLANNED}:
            value = start.get(name, np.zeros(1))[graph.kept[name]].astype(float)
            moved = MOVED * np.maximum(1.0, np.abs(value)) * rng.standard_normal(value.shape)
            inputs[0][name], inputs[1][name] = value, value + (0.0 if name in constants else moved)
        used = graph.kept.get(PLANNED, np.zeros(0, int))

        def run(action: np.ndarray, row: Mapping[str, np.ndarray]) -> np.ndarray:
            planned = {PLANNED: action[used]} if len(used) else {}
            return graph.run(**row, **planned)[TARGET].astype(float)

        return ActionMap.of(functools.partial(run, row=inputs[0]), functools.partial(run, row=inputs[1]), self.size)

    def _next(self, name: str, places: np.ndarray) -> int:
        if name == BEGUN:
            return self.build.constant(1.0)
        own = {PREVIOUS: self.action} | ({MEMORY: self.memory[0]} if self.memory else {})
        return self.build.take((self.after | own)[name], places)

    def _reading(self, begin: np.ndarray) -> Measured | None:
        """Measured number that a number (draws,) of the state equals or depends on linearly; None: there is none."""
        same = np.flatnonzero(np.abs(self.measured - begin[:, None]).max(0) < ALIKE)
        if len(same):
            return Measured(*self.readings[same[0]])
        around, away = self.measured - self.measured.mean(0), begin - begin.mean()
        spread = (around**2).sum(0)
        scale = around.T @ away / np.maximum(spread, ALIKE**2)
        off = np.abs(around * scale - away[:, None]).max(0)
        off[spread < ALIKE] = np.inf
        best = int(off.argmin())
        if off[best] > ALIKE:
            return None
        offset = begin.mean() - scale[best] * self.measured[:, best].mean()
        return Measured(*self.readings[best], float(scale[best]), float(offset))

    @functools.cached_property
    def readings(self) -> list[tuple[str, int]]:
        """Source and place of every measured number."""
        return [(name, place) for name, source in self.sources.known.items() for place in range(source.size)]

    @functools.cached_property
    def measured(self) -> np.ndarray:
        """(draws, numbers) what is measured when episodes begin."""
        rows = [self._measured_in(draw) for draw in self.draws]
        return np.array([np.concatenate([values[name] for name in self.sources.known]) for values in rows])

    def _measured_in(self, draw: ResetState[Any]) -> dict[str, np.ndarray]:
        """Every source as an episode begins."""
        world = World.posed(self.task.model, draw.qpos, draw.qvel, draw.mocap_pos)
        return self.sources.values(*(np.asarray(part) for part in (world.qpos, world.qvel, world.sensordata)))

    def result(self) -> ControlGraph:
        graph, kept = self.closed(self.sources.known)
        commands = [
            self._command(name, graph.kept[COMMAND + name])
            for name in self.operator.commands
            if COMMAND + name in graph.inputs
        ]
        remembered = [self._remembered(name, places) for name, places in kept.items()]
        sources = [source for name, source in self.sources.known.items() if name in graph.inputs]
        missing = {part.source for one in remembered for part in one.measured} - {*graph.inputs}
        if missing:
            raise GraphError(f"{self.task}: its state begins with {listing(missing)}, which its steps do not measure")
        return ControlGraph(graph, tuple(sources), self.sources.joints, tuple(commands), tuple(remembered))

    def _command(self, name: str, places: np.ndarray) -> Command:
        example = self.drawn[name][0].reshape(-1)
        some = () if len(places) == example.size else tuple(places.tolist())
        begin = tuple(example[places].astype(float).tolist())
        return Command(name, len(places), self.operator.commands[name], begin, some, self._ranges(name))

    def _ranges(self, name: str) -> tuple[Number, ...]:
        """The numbers of a command, where the task states the range of each; none for a team."""
        shape = self.drawn[name][0].shape
        places = [command.index for command in self.operator.ranges if command.field == name]
        if self.task.team is not None or places != [*np.ndindex(*shape)]:
            return ()
        own = (command for command in self.operator.ranges if command.field == name and not command.rotation)
        return tuple(Number(command.name, command.unit, command.low, command.high) for command in own)

    def _remembered(self, name: str, places: np.ndarray) -> Remembered:
        size = len(places)
        if name in (BEGUN, PREVIOUS, MEMORY):
            return Remembered(name, size, (0.0,) * size)
        begin = [value.reshape(-1)[places].astype(float) for value in self.drawn[name]]
        first = tuple(begin[0].tolist())
        if name in self.operator.first_commands:
            return Remembered(name, size, first, given=self.operator.first_commands[name])
        if all(np.array_equal(begin[0], other) for other in begin):
            return Remembered(name, size, first)
        measured = [self._reading(column) for column in np.array(begin).T]
        if None in measured:
            raise GraphError(
                f"{self.task}: '{name}' of its state begins otherwise in every episode, and is neither a command nor "
                "measured; if an operator gives it, name it in the `commands` of the task's `operator`"
            )
        return Remembered(name, size, first, tuple(one for one in measured if one))
