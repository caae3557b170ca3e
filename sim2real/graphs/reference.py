"""A control step by the task's own functions in JAX and the policy in torch: the reference for every translation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax.extend import core

from embodied.core.episode import flatten_observation
from embodied.core.task import Task
from embodied.core.world import SensorLayout, World
from embodied.env.vec_env import POLICY
from embodied.storage.trees import with_leaves
from sim2real.contract.contract import COMMAND, STATE, Step
from sim2real.graphs.control import BEGUN, MEMORY, PREVIOUS, draws_of, nominal, setpoints_of
from sim2real.graphs.golden import around
from sim2real.graphs.graph import Graph
from sim2real.graphs.tracing.sources import Sources

SPEEDS = 0.1  # rad/s or m/s, spread of joint velocities


@dataclasses.dataclass(frozen=True)
class Steps:
    """Control steps, one independent of the other."""

    worlds: tuple[np.ndarray, np.ndarray, np.ndarray]
    """qpos, qvel and sensordata, (count, ...) each."""
    given: Mapping[str, np.ndarray]
    """Every input of the step: name -> (count, size)."""


def averaged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in JAX whose random draws have their mean, as `from_jax` takes them."""

    def run(*arguments: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        leaves = _evaluated(closed.jaxpr, closed.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), leaves)

    return run


def _evaluated(jaxpr: Any, constants: Any, arguments: Any) -> list[Any]:
    values = dict(zip(jaxpr.constvars, constants, strict=True)) | dict(zip(jaxpr.invars, arguments, strict=True))
    read = lambda atom: atom.val if isinstance(atom, core.Literal) else values[atom]  # noqa: E731
    for equation in jaxpr.eqns:
        given = [read(atom) for atom in equation.invars]
        called = str(equation.params.get("name", ""))
        shape = equation.outvars[0].aval.shape if equation.outvars else ()
        if called == "_uniform":
            made = [jnp.broadcast_to((given[1] + given[2]) / 2, shape)]
        elif called.startswith("_normal"):
            made = [jnp.zeros(shape)]
        elif equation.primitive.name in ("jit", "pjit"):
            inner = equation.params["jaxpr"]
            made = _evaluated(inner.jaxpr, inner.consts, given)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, params = bound if isinstance(bound, tuple) else ((), bound)  # a tuple before jax 0.9.2
            made = equation.primitive.bind(*functions, *given, **params)
            made = made if equation.primitive.multiple_results else [made]
        values |= dict(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def with_numbers(state: Any, values: Mapping[str, tuple[tuple[int, ...], Any]]) -> Any:
    """A task's state with other numbers: field, with dots -> places (all, where there are none), and numbers."""

    def written(places: tuple[int, ...], numbers: Any, leaf: Any) -> Any:
        where = jnp.asarray(places, int) if len(places) else jnp.arange(leaf.size)
        flatly = jnp.asarray(leaf).reshape(-1)
        return flatly.at[where].set(jnp.asarray(numbers).astype(flatly.dtype)).reshape(leaf.shape)

    return with_leaves(state, {name: functools.partial(written, *value) for name, value in values.items()})


class Reference:
    """Control steps of a task, one independent of the other."""

    def __init__(self, task: Task[Any], step: Step, joints: Sequence[str], graph: Graph) -> None:
        """Compile it.

        Args:
            task: Any.
            step: Its contract's.
            joints: Of the contract.
            graph: The step's.
        """
        kept = {
            name.partition(".")[2]: places for name, places in graph.kept.items() if name.startswith((STATE, COMMAND))
        }
        self.task, self.step = nominal(task), step
        self._places = {name: tuple(int(place) for place in places) for name, places in kept.items()}
        self._reset = draws_of(self.task)[0]
        self._base = self._reset.task_state
        self._sources = Sources(self.task.model, joints)
        self._layout = SensorLayout.from_model(self.task.model)
        self._sense = jax.jit(jax.vmap(averaged(self._sensed)))
        self._act = jax.jit(jax.vmap(averaged(self._acted)))

    def _is_whole(self, field: str) -> bool:
        """Whether a field of the task's state holds whole numbers or truth values."""
        value: Any = self._base
        for name in field.split("."):
            value = getattr(value, name, 0.0)
        return not np.issubdtype(np.asarray(value).dtype, np.floating)

    def steps(self, count: int, seed: int = 1) -> Steps:
        """Control steps around an episode's start; the first is that start, with what it remembers begun.

        Sources, commands and state lie within 2 % of the larger of 1 and the number (standard deviation),
        joint velocities within 0.1 rad/s or m/s.
        """
        rng, reset = np.random.default_rng(seed), self._reset
        qpos = around(rng, np.asarray(reset.qpos, float), count)
        qvel = np.asarray(reset.qvel, float) + SPEEDS * rng.standard_normal((count, self.task.model.nv))
        qvel[0] = reset.qvel
        worlds = sensed_worlds(self.task.model, qpos, qvel, reset.mocap_pos)
        values = self._sources.values(*worlds)
        given = {source.name: values[source.name] for source in self.step.sources}
        commands = {COMMAND + one.name: one.example for one in self.step.commands}
        kept = {STATE + one.name: one.begin for one in self.step.remembered}
        for name, values in {**commands, **kept}.items():
            fixed = self._is_whole(name.partition(".")[2])
            given[name] = np.tile(values, (count, 1)) if fixed else around(rng, np.array(values, float), count)
        if STATE + BEGUN in given:
            given[STATE + BEGUN] = (np.arange(count) > 0)[:, None]
        return Steps(worlds, {name: np.asarray(value, np.float32) for name, value in given.items()})

    def observe(self, steps: Steps) -> tuple[np.ndarray, Any]:
        """Observations (count, n), and the states that `act` takes."""
        count = len(steps.worlds[0])
        known = {name: jnp.asarray(value) for name, value in steps.given.items() if name.startswith((STATE, COMMAND))}
        known.setdefault(STATE + BEGUN, jnp.asarray(np.arange(count) > 0, jnp.float32)[:, None])
        observation, state = self._sense(*map(jnp.asarray, steps.worlds), known)
        return np.array(observation), state

    def act(self, steps: Steps, state: Any, action: np.ndarray) -> np.ndarray:
        """(count, A) targets, not yet kept within limits, of actions (count, k)."""
        return np.array(self._act(*map(jnp.asarray, steps.worlds), state, jnp.asarray(action)))

    @property
    def _agents(self) -> int:
        return self.task.team.agents if self.task.team else 1

    def _world(self, qpos: Any, qvel: Any, sensordata: Any) -> World:
        return World(jnp.zeros(()), qpos, qvel, sensordata, self._layout)

    def _given(self, given: Any, start: str) -> dict[str, tuple[tuple[int, ...], Any]]:
        fields = {name.removeprefix(start): value for name, value in given.items() if name.startswith(start)}
        own = {name: value for name, value in fields.items() if name not in (BEGUN, PREVIOUS, MEMORY)}
        return {name: (self._places[name], value) for name, value in own.items()}

    def _sensed(self, qpos: Any, qvel: Any, sensordata: Any, given: Any) -> tuple[Any, Any]:
        world, key = self._world(qpos, qvel, sensordata), jax.random.PRNGKey(0)
        commands = self._given(given, COMMAND)
        before = with_numbers(with_numbers(self._base, self._given(given, STATE)), commands)
        after = with_numbers(self.task.post_step(world, before, jnp.zeros(self.task.action_shape), key), commands)
        begun = given[STATE + BEGUN][0] > 0
        state = jax.tree.map(lambda old, new: jnp.where(begun, new, old), before, after)
        observed = flatten_observation({POLICY: self.task.observe(world, state, key)[POLICY]}, self.task.team)[POLICY]
        return observed.reshape(self._agents, -1)[0], state

    def _acted(self, qpos: Any, qvel: Any, sensordata: Any, state: Any, action: Any) -> Any:
        world, key = self._world(qpos, qvel, sensordata), jax.random.PRNGKey(0)
        actions = jnp.broadcast_to(action, self.task.action_shape)
        command, state = self.task.process_action(world, state, actions, key)
        target = command if setpoints_of(self.task) else self.task.apply_action(world, state, command)[0].ctrl
        assert target is not None
        return target.reshape(self._agents, -1)[0]


def sensed_worlds(
    model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray, mocap_pos: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """qpos, qvel and sensordata, (count, ...) float32 each, of joint positions and velocities (count, ...)."""
    data = mujoco.MjData(model)
    if mocap_pos is not None:
        data.mocap_pos = mocap_pos
    rows = []
    for pos, vel in zip(qpos, qvel, strict=True):
        data.qpos, data.qvel = pos, vel
        mujoco.mj_normalizeQuat(model, data.qpos)
        mujoco.mj_forward(model, data)
        rows.append((data.qpos.copy(), data.qvel.copy(), data.sensordata.copy()))
    pos, vel, sensed = (np.array(column, np.float32) for column in zip(*rows, strict=True))
    return pos, vel, sensed
