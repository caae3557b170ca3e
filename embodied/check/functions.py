"""Checks of a task's functions by tracing them: nothing is compiled or simulated."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from embodied.check.findings import Finding, place_of
from embodied.core import randomization
from embodied.core.facets import Pictures
from embodied.core.hooks import unchecked
from embodied.core.task import Task
from embodied.core.world import ResetState, World
from embodied.env.vec_env import POLICY
from embodied.errors import listing
from embodied.storage.trees import path_name

KEYPOINTS = "keypoints"
KEY = jax.ShapeDtypeStruct((2,), np.uint32)


@dataclasses.dataclass(frozen=True)
class Trace:
    """A hook as JAX sees it."""

    result: Any
    """Shapes and dtypes of what it returns, in its structure."""
    text: str
    """The program, without addresses of objects."""
    constants: list[bytes]
    """Arrays that stand in it."""

    @property
    def program(self) -> tuple[str, list[bytes]]:
        """Parts that are the same in two traces of a pure function."""
        return self.text, self.constants


class Traces:
    """A task's hooks, each traced once for all checks; the arguments of one hook are the results of another."""

    def __init__(self, task: Task[Any]) -> None:
        """Nothing is traced before it is requested."""
        self.task = task
        self._known: dict[str, Trace] = {}

    def __getitem__(self, hook: str) -> Trace:
        if hook not in self._known:
            self._known[hook] = self.anew(hook)
        return self._known[hook]

    def anew(self, hook: str) -> Trace:
        """Trace a hook, whether or not it was before."""
        pictures = self.task.pictures or Pictures()
        function: Callable[..., Any] = pictures.keypoints if hook == KEYPOINTS else getattr(self.task, hook)
        given = self._given(hook)
        closed: Any
        with unchecked():  # the checks say more
            closed, result = jax.make_jaxpr(lambda *values: function(*values), return_shape=True)(*given)
        constants = [np.asarray(constant).tobytes() for constant in closed.consts if _is_number(constant)]
        return Trace(result, re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr)), constants)

    @functools.cached_property
    def world(self) -> World:
        return jax.eval_shape(lambda: World.zeros(self.task.model))

    @property
    def state(self) -> Any:
        return self["reset"].result.task_state

    @property
    def command(self) -> Any:
        """Command that `process_action` returns beside the state."""
        return self["process_action"].result[0]

    def _given(self, hook: str) -> tuple[Any, ...]:
        """Shapes of what an episode hands to a hook."""
        if hook == "reset":
            return (KEY,)
        if hook == "restart":
            return (KEY, self.state)
        action = jax.ShapeDtypeStruct(self.task.action_shape, np.float32)
        further = {
            "process_action": lambda: (action, KEY),
            "apply_action": lambda: (self.command,),
            "post_step": lambda: (action, KEY),
            "rewards": lambda: (action,),
            "observe": lambda: (KEY,),
        }
        return (self.world, self.state, *further.get(hook, tuple)())


HOOKS = (
    "reset", "restart", "process_action", "apply_action", "post_step", "rewards", "outcome", "metrics", "observe",
    KEYPOINTS,
)  # fmt: skip
"""Hooks that are traced, in the order of a control step."""


@functools.lru_cache(maxsize=4)
def traces(task: Task[Any]) -> Traces:
    """The traces of a task, kept for the checks that follow."""
    return Traces(task)


def state_keeps_its_structure(task: Task[Any]) -> Iterator[Finding]:
    """Every hook that returns the task's state returns it with the fields, shapes and dtypes of the reset state."""
    seen = traces(task)
    reset = seen["reset"].result
    yield from _reset_fits(task, reset)
    for hook in ("restart", "process_action", "apply_action", "post_step"):
        result = seen[hook].result
        state = result.task_state if hook == "restart" else result if hook == "post_step" else result[1]
        yield from _same_tree(task, hook, state, reset.task_state)
    observed = seen["observe"].result
    if POLICY not in observed:
        yield Finding(
            "observation",
            f"there are the groups {listing(observed) or 'none'}",
            f"a group `{POLICY}`",
            place_of(task, "observe"),
        )


def reward_terms_are_the_weighted_ones(task: Task[Any]) -> Iterator[Finding]:
    """`rewards` returns exactly the terms that `reward_weights` names, each a number (for each agent)."""
    weights, terms = dict(task.reward_weights), traces(task)["rewards"].result
    look = place_of(task, "rewards")
    for name in sorted(set(terms) - set(weights)):
        yield Finding(f"reward term {name!r}", "it has no weight", f"one of {listing(weights)}", look)
    for name in sorted(set(weights) - set(terms)):
        yield Finding(f"weight of {name!r}", "no reward term has its name", f"one of {listing(terms)}", look)
    shapes = {(), task.action_shape[:-1]}
    for name, term in terms.items():
        if jnp.shape(term) not in shapes:
            yield Finding(
                f"reward term {name!r}", f"its shape is {jnp.shape(term)}", " or ".join(map(str, sorted(shapes))), look
            )
    for name, weight in weights.items():
        if not np.isfinite(weight):
            yield Finding(f"weight of {name!r}", f"it is {weight}", "a finite number", place_of(task, "reward_weights"))


def every_agent_is_on_one_side(task: Task[Any]) -> Iterator[Finding]:
    """Each agent of a team with `sides` is in one of them."""
    if (team := task.team) is None or not team.sides:
        return
    members = sorted(agent for side in team.sides.values() for agent in side)
    if members != list(range(team.agents)):
        look = place_of(task, "team")
        yield Finding("team: sides", f"their agents are {members}", f"each of the {team.agents} agents once", look)


def keypoints_are_places(task: Task[Any]) -> Iterator[Finding]:
    """Each keypoint of the instruction is a single place, for cameras to look for."""
    for name, place in traces(task)[KEYPOINTS].result.items():
        if place.shape != (3,):
            look = place_of(task, "pictures")
            yield Finding(f"keypoint {name!r}", f"its shape is {place.shape}", "(3,), m in the world frame", look)


def commands_are_fields_of_the_state(task: Task[Any]) -> Iterator[Finding]:
    """Commands, of a deployment or of a person who steers, are in the task's state, or None where ranges have their
    defaults, and are measured number by number; setpoints are as many as there are names."""
    if (operator := task.operator) is None:
        return
    given, look = traces(task), place_of(task, "operator")
    flat = jax.tree_util.tree_flatten_with_path(given.state)[0]
    fields = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]
    ranged = {one.field for one in operator.ranges}
    known = f"one of {listing(fields)}"
    for kind, names in (("commands", operator.commands), ("first_commands", operator.first_commands)):
        for name in names:
            by_default = name in ranged and getattr(given.state, name, fields) is None
            if name not in fields and not by_default:
                yield Finding(f"{kind}: {name!r}", "the state has no such field", known, look)
    for one in operator.ranges:
        if one.field not in fields and getattr(given.state, one.field, fields) is not None:
            yield Finding(f"ranges: {one.field!r}", "the state has no such field", known, look)
    measured = jax.eval_shape(operator.measured_command, given.world, given.state).shape
    if measured != (len(operator.ranges),):
        yield Finding("measured", f"its shape is {measured}", f"{(len(operator.ranges),)}", look)
    sent = int(np.prod(jnp.shape(given.command))) // (task.team.agents if task.team else 1)
    if operator.setpoints and len(operator.setpoints) != sent:
        found = f"there are {len(operator.setpoints)} names"
        yield Finding("setpoints", found, f"{sent}, as process_action gives", look)


def outcomes_are_flags(task: Task[Any]) -> Iterator[Finding]:
    """Success and failure are one bool each."""
    outcome = traces(task)["outcome"].result
    for name in ("success", "failure"):
        flag = getattr(outcome, name)
        if (flag.shape, flag.dtype) != ((), np.dtype(bool)):
            yield Finding(
                name, f"it is {flag.dtype} of shape {flag.shape}", "bool of shape ()", place_of(task, "outcome")
            )


def functions_are_pure(task: Task[Any]) -> Iterator[Finding]:
    """Traced twice, each hook is the same function, and the task keeps nothing of it: no clock, no numpy randomness."""
    seen = traces(task)
    first = {hook: seen[hook].program for hook in HOOKS}  # computes now what is computed once and kept
    before = dict(vars(task.unwrapped))
    for hook in HOOKS:
        if seen.anew(hook).program != first[hook]:
            yield Finding(
                hook,
                "it is another function each time it is traced: it reads a clock, numpy's or Python's random numbers, "
                "or what the task object counts",
                "a pure function, with random numbers by jax.random from its key",
                place_of(task, hook),
            )
    after = vars(task.unwrapped)
    for name in [name for name, value in before.items() if after.get(name) is not value]:
        yield Finding(f"self.{name}", "a hook writes to it", "what changes in an episode to be in the task's state")
    for name, value in after.items():
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
            yield Finding(f"self.{name}", "a hook keeps a traced number in it", "that number in the task's state")


def variations_are_real(task: Task[Any]) -> Iterator[Finding]:
    """Every declared variation states its range, or why it has none; those of the task's state have their field."""
    names = [term.name for term in task.terms]
    look = place_of(task, "declared_terms")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding(f"variation {name!r}", "it is declared twice", "names that differ", look)
    state = traces(task).state
    fields = {field.name for field in dataclasses.fields(state)} if state is not None else set()
    for term in task.terms:
        if not term.ranges and not term.no_range:
            yield Finding(
                f"variation {term.name!r}", "it states no range", "its `ranges`, or in `no_range` why it has none", look
            )
        if term.state_field is not None and term.state_field not in fields:
            yield Finding(
                f"variation {term.name!r}",
                f"the state has no field {term.state_field!r}",
                f"one of {listing(fields)}",
                look,
            )


def variations_have_an_effect(task: Task[Any]) -> Iterator[Finding]:
    """Two draws of model fields differ; without another variation that is optional some hook is another function."""
    look, drawn = place_of(task, "declared_terms"), dict[str, Array]()
    for term in task.terms:
        if term.apply is not None:
            draws = [randomization.draw(task.model, (term,), key, drawn) for key in map(jax.random.PRNGKey, range(2))]
            if all(np.array_equal(draws[0][field], draws[1][field]) for field in draws[0]):
                yield Finding(
                    f"variation {term.name!r}", "two draws of it are the same", "model fields that differ", look
                )
            drawn = draws[0]
        elif term.ranges and all(one.low == one.high for one in term.ranges):
            yield Finding(f"variation {term.name!r}", "its ranges are single numbers", "a smaller and a larger", look)
        elif term.optional and _same(traces(task), Traces(task.without(variations=[term.name]))):
            yield Finding(
                f"variation {term.name!r}",
                "every hook is the same function without it",
                "that a hook draws it where its name is in self.varied",
                look,
            )


def _same(one: Traces, other: Traces) -> bool:
    """Whether every hook is the same function."""
    return all(one[hook].program == other[hook].program for hook in HOOKS)


def _reset_fits(task: Task[Any], reset: ResetState[Any]) -> Iterator[Finding]:
    """The reset state has the model's sizes."""
    model, look = task.model, place_of(task, "reset")
    for name, size in (("qpos", model.nq), ("qvel", model.nv)):
        value = getattr(reset, name)
        if value.shape != (size,):
            yield Finding(f"reset's {name}", f"its shape is {value.shape}", f"({size},), as the model has it", look)
    for name, value in reset.model.items():
        own = np.asarray(getattr(model, name)).shape
        if value.shape != own:
            yield Finding(
                f"reset's model field {name}", f"its shape is {value.shape}", f"{own}, as the model has it", look
            )


def _same_tree(task: Task[Any], hook: str, state: Any, reset: Any) -> Iterator[Finding]:
    look = place_of(task, hook)
    if jax.tree.structure(state) != jax.tree.structure(reset):
        yield Finding(
            f"state that {hook} returns", f"it is a {type(state).__name__} of another structure", "that of reset", look
        )
        return
    leaves = jax.tree_util.tree_leaves_with_path(reset)
    for (where, one), other in zip(leaves, jax.tree.leaves(state), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            yield Finding(
                f"state's {path_name(where)}",
                f"{hook} makes it {other.dtype} of shape {other.shape}",
                f"{one.dtype} of shape {one.shape}, as at reset",
                look,
            )


def _is_number(constant: Any) -> bool:
    return isinstance(constant, Array | np.ndarray | np.generic) and not jnp.issubdtype(
        constant.dtype, jax.dtypes.prng_key
    )
