"""`Task`, the base class of every task, and `TaskWrapper`, a task around a task.

A wrapper changes some hooks of the task within and forwards all others. Initial-state buffers, automatic domain
randomisation and calibrations are wrappers. Single terms can be added and removed without a new class:

    task = Hover().with_rewards(low=(-0.1, lambda world, state, action: world["position"][2]))
    task = task.with_variations(randomization.scale_bodies("payload", 1.0, 1.3, [1]))
    task = task.without(rewards=["spin"], observations=["critic/latency"], variations=["mass"])
    task.unwrapped                               # Hover
"""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core import randomization
from embodied.core.facets import FACETS
from embodied.core.hooks import Changes, Observation, TaskHooks, Timing
from embodied.core.randomization import Term
from embodied.core.world import ResetState, StateT, World
from embodied.errors import EmbodiedError, UnknownNameError, listing

Hook = TypeVar("Hook", bound=Callable[..., Any])
RewardTerm: TypeAlias = tuple[float, Callable[[World, Any, Array], Array]]
"""Weight, and a function of world, state and action to the unweighted term, as `TaskHooks.rewards` has them."""
KEPT = 8  # tasks whose compiled programs stay in a process, for callers that make them again
ADDED = 0x5EED  # folded into an episode's key, for draws beside the task's own
ObservedTerm: TypeAlias = Callable[[World, Any], Array]
"""Function of world and state to an observed term."""


class Task(TaskHooks[StateT]):
    """A task: the hooks of `TaskHooks`, of which a child implements those it needs, and what is derived from them."""

    def __repr__(self) -> str:
        return type(self).__name__

    @property
    def unwrapped(self) -> Task[Any]:
        """The task itself, below all wrappers."""
        return self

    @property
    def deployed(self) -> Task[Any]:
        """The task from which a robot's control step is computed: this one, without stand-ins for the robot."""
        return self

    @property
    def restarts_alike(self) -> bool:
        """Whether the episodes that follow are drawn as the first ones are: `restart` is the default one."""
        return type(self).restart is TaskHooks.restart

    @property
    def action_shape(self) -> tuple[int, ...]:
        """(action_size,), or (agents, action_size)."""
        return (self.action_size,) if self.team is None else (self.team.agents, self.action_size)

    @functools.cached_property
    def observation_terms(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """Group -> term -> shape (of one agent's) of the observation, in the order of concatenation."""
        shapes: dict[str, dict[str, tuple[int, ...]]] = {}

        def record(key: Array) -> None:
            # Noted while tracing: JAX would hand the terms back in alphabetical order.
            terms = self.observe(World.zeros(self.model), self.reset(key).task_state, key)
            axes = 0 if self.team is None else 1
            shapes.update(
                {
                    group: {name: jnp.shape(term)[axes:] for name, term in named.items()}
                    for group, named in terms.items()
                }
            )

        jax.eval_shape(record, jax.ShapeDtypeStruct((2,), np.uint32))
        return shapes

    @property
    def variations(self) -> Mapping[str, str]:
        """Name -> description and range, of `terms`."""
        return {term.name: term.summary for term in self.terms}

    def rebuilt(
        self, spec_edits: Iterable[Callable[[mujoco.MjSpec], None]] = (), left_out: Iterable[str] = ()
    ) -> Task[StateT]:
        """The task made again from its config, with an edited scene or with variations left out.

        Raises:
            UnknownNameError: `left_out` names no variation of this task.
            EmbodiedError: an edit is no function, or the class of the task has a constructor that takes no changes.
        """
        before, spec_edits = self.changes, tuple(spec_edits)
        for edit in spec_edits:
            if not callable(edit):
                raise EmbodiedError(f"an edit of the scene is {edit!r:.80}; expected a function of a mujoco.MjSpec")
        changes = Changes((*before.spec_edits, *spec_edits), (*before.left_out, *left_out))
        try:
            inspect.signature(type(self)).bind(self.config, changes=changes)
        except TypeError:
            raise EmbodiedError(
                f"{type(self).__name__}.__init__ takes no changes, which calibrations and omitted variations need; "
                "expected __init__(self, config=None, changes=UNCHANGED), which hands both to super().__init__"
            ) from None
        task = type(self)(self.config, changes=changes)
        _ = task.terms  # refuses unknown names
        return task

    def with_rewards(self, **terms: RewardTerm) -> Task[StateT]:
        """The same task with further reward terms: name -> weight per control step, and function.

        Raises:
            EmbodiedError: the task has a term of that name already, or one is no finite weight with a function.
        """
        return EditedTerms(self, rewards=terms)

    def with_observations(self, group: str, **terms: ObservedTerm) -> Task[StateT]:
        """The same task with further observed terms, which follow those of the group; a new group is made.

        Raises:
            EmbodiedError: the group has a term of that name already, or one is no function.
        """
        return EditedTerms(self, observations={group: terms})

    def with_variations(self, *terms: Term) -> Task[StateT]:
        """The same task with further variations of model fields, such as `randomization.scale(...)` makes.

        They are drawn after the task's own, which stay as they were, and are listed and left out like those.

        Raises:
            EmbodiedError: the task has a variation of that name already, or one is none, or draws no model field.
        """
        return AddedVariations(self, terms)

    def without(
        self, *, rewards: Iterable[str] = (), observations: Iterable[str] = (), variations: Iterable[str] = ()
    ) -> Task[StateT]:
        """The same task less some terms.

        Args:
            rewards: Names of reward terms.
            observations: `group/term` of observed terms.
            variations: Names of variations between episodes; "all" stands for every one.

        Raises:
            UnknownNameError: the task has no such term; says which it has.
        """
        task = self.rebuilt(left_out=variations) if (variations := tuple(variations)) else self
        removed, unobserved = frozenset(rewards), frozenset(observations)
        return EditedTerms(task, without=removed, unobserved=unobserved) if removed or unobserved else task


def has_expert(task: Task[Any] | type[Task[Any]]) -> bool:
    """Whether a task, or a class of tasks, has a scripted expert."""
    kind = task if isinstance(task, type) else type(task.unwrapped)
    return kind.expert is not Task.expert


def forwarded(hook: Hook) -> Hook:
    """A method that calls the hook of the task within.

    The hook's annotations show where the task's state is among its arguments and in its result: there, the wrapper's
    state is unwrapped and wrapped again, see `TaskWrapper.inner_state` and `TaskWrapper.outer_state`.

    Raises:
        TypeError: the hook returns the state in a way that is not known here.
    """
    signature, hints = inspect.signature(hook), get_type_hints(hook)
    stateful = [name for name in signature.parameters if hints.get(name) is StateT]
    returned = hints["return"]
    if returned is StateT:
        rewrap: Callable[..., Any] = lambda self, result, before: self.outer_state(result, before)  # noqa: E731
    elif get_origin(returned) is tuple and get_args(returned)[-1] is StateT:
        rewrap = lambda self, result, before: (*result[:-1], self.outer_state(result[-1], before))  # noqa: E731
    elif get_origin(returned) is ResetState:
        # The state of the episode before ends with it.
        rewrap = lambda self, result, before: dataclasses.replace(  # noqa: E731
            result, task_state=self.outer_state(result.task_state, None)
        )
    elif StateT in getattr(returned, "__parameters__", ()):
        raise TypeError(
            f"{hook.__qualname__} returns {returned}; expected the state, a tuple that ends with it, or none"
        )
    else:
        rewrap = lambda self, result, before: result  # noqa: E731

    @functools.wraps(hook)
    def method(self: TaskWrapper[Any], *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs)
        outer = [given.arguments[name] for name in stateful]
        given.arguments.update(zip(stateful, map(self.inner_state, outer), strict=True))
        result = getattr(self.task, hook.__name__)(*given.args[1:], **given.kwargs)
        return rewrap(self, result, outer[0] if outer else None)

    method.__isabstractmethod__ = False  # type: ignore[attr-defined]
    return method  # type: ignore[return-value]  # of the same signature, as bound


class TaskWrapper(Task[StateT]):
    """A task that forwards every hook that a subclass does not override to the task within.

    Numbers and random draws stay the same. Hooks call each other in the task within: a wrapper that changes `reset`
    must change `restart`, too, where it is to hold there. All other attributes of the task within can be read from the
    wrapper. A wrapper with state of its own along an episode overrides `inner_state` and `outer_state`; one that
    changes a function of a facet replaces it there (`dataclasses.replace`).
    """

    def __init__(self, task: Task[Any]) -> None:
        self.task = task

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task":  # which a copy does not have yet
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.task, name)

    @property
    def unwrapped(self) -> Task[Any]:
        return self.task.unwrapped

    @property
    def deployed(self) -> Task[Any]:
        within = self.task.deployed
        return self if within is self.task else self.around(within)

    @property
    def restarts_alike(self) -> bool:
        kind = type(self)
        return kind.reset is TaskWrapper.reset and kind.restart is TaskWrapper.restart and self.task.restarts_alike

    def inner_state(self, state: StateT) -> Any:
        """The state of the task within, from the wrapper's."""
        return state

    def outer_state(self, inner: Any, before: StateT | None) -> StateT:
        """The wrapper's state around a new state of the task within; `before` is None where an episode begins."""
        del before
        return inner

    def rebuilt(
        self, spec_edits: Iterable[Callable[[mujoco.MjSpec], None]] = (), left_out: Iterable[str] = ()
    ) -> Task[StateT]:
        return self.around(self.task.rebuilt(spec_edits, left_out))

    def around(self, task: Task[Any]) -> Task[StateT]:
        """The same wrapper around another task."""
        other = copy.copy(self)
        for name in ("observation_terms", "terms", *FACETS):  # computed from the task before
            vars(other).pop(name, None)
        other.task = task
        return other

    # For type checkers, which miss them otherwise; all other hooks follow below.
    build_spec = forwarded(TaskHooks.build_spec)
    reset = forwarded(TaskHooks.reset)
    observe = forwarded(TaskHooks.observe)
    rewards = forwarded(TaskHooks.rewards)
    outcome = forwarded(TaskHooks.outcome)


def _forwarded_facet(name: str) -> functools.cached_property[Any]:
    def facet(self: TaskWrapper[Any]) -> Any:
        within = getattr(self.task, name)
        return None if within is None else within.of_wrapper(self.inner_state, self.outer_state)

    found = functools.cached_property(facet)
    found.__set_name__(TaskWrapper, name)
    return found


for _name in FACETS:
    setattr(TaskWrapper, _name, _forwarded_facet(_name))
for _name, _declared in (dict.fromkeys(TaskHooks.__annotations__) | vars(TaskHooks)).items():
    if not _name.startswith("_") and _name not in vars(TaskWrapper):
        _get = functools.partial(lambda name, self: getattr(self.task, name), _name)
        setattr(TaskWrapper, _name, forwarded(_declared) if inspect.isfunction(_declared) else property(_get))
abc.update_abstractmethods(TaskWrapper)


class EditedTerms(TaskWrapper[StateT]):
    """A task with some more and some fewer terms of its reward and its observation."""

    def __init__(
        self,
        task: Task[StateT],
        *,
        rewards: Mapping[str, RewardTerm] | None = None,
        observations: Mapping[str, Mapping[str, ObservedTerm]] | None = None,
        without: frozenset[str] = frozenset(),
        unobserved: frozenset[str] = frozenset(),
    ) -> None:
        """See `Task.with_rewards`, `Task.with_observations` and `Task.without`; `unobserved`: as `group/term`.

        Raises:
            EmbodiedError: a term that is added exists, or one that is removed does not.
        """
        super().__init__(task)
        self.added_rewards, self.added_observations = rewards or {}, observations or {}
        self.removed_rewards, self.removed_observations = without, unobserved
        for name, term in self.added_rewards.items():
            if not (isinstance(term, tuple) and len(term) == 2 and _is_finite(term[0]) and callable(term[1])):
                raise EmbodiedError(f"reward term {name!r} is {term!r:.80}; expected a finite weight and a function")
        for name, function in ((n, one) for terms in self.added_observations.values() for n, one in terms.items()):
            if not callable(function):
                raise EmbodiedError(f"observed term {name!r} is {function!r:.80}; expected a function")
        observed = [f"{group}/{term}" for group, terms in task.observation_terms.items() for term in terms]
        added = [f"{group}/{term}" for group, terms in self.added_observations.items() for term in terms]
        _check("reward term", tuple(task.reward_weights), self.added_rewards, without)
        _check("observed term", observed, added, unobserved)

    @property
    def reward_weights(self) -> Mapping[str, float]:
        added = {name: weight for name, (weight, _) in self.added_rewards.items()}
        return self._kept({**super().reward_weights, **added})

    def rewards(self, world: World, state: StateT, action: Array) -> Mapping[str, Array]:
        added = {name: function(world, state, action) for name, (_, function) in self.added_rewards.items()}
        return self._kept({**super().rewards(world, state, action), **added})

    def observe(self, world: World, state: StateT, key: Array) -> Observation:
        groups = {group: dict(terms) for group, terms in super().observe(world, state, key).items()}
        for group, functions in self.added_observations.items():
            groups.setdefault(group, {}).update({name: function(world, state) for name, function in functions.items()})
        for place in self.removed_observations:
            group, _, name = place.partition("/")
            del groups[group][name]
        return {group: terms for group, terms in groups.items() if terms}

    def _kept(self, terms: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in terms.items() if name not in self.removed_rewards}


class TimeLimit(TaskWrapper[StateT]):
    """A task whose episodes have another time limit."""

    def __init__(self, task: Task[StateT], steps: int) -> None:
        """Truncate episodes after so many control steps.

        Raises:
            EmbodiedError: `steps` is less than 1.
        """
        if steps < 1:
            raise EmbodiedError(f"episode_steps={steps}; expected at least 1 control step")
        super().__init__(task)
        self.steps = steps

    @property
    def timing(self) -> Timing:  # pyright: ignore[reportIncompatibleVariableOverride]
        own = self.task.timing
        return dataclasses.replace(own, episode_seconds=self.steps * own.control_dt)


class AddedVariations(TaskWrapper[StateT]):
    """A task with some more variations of model fields."""

    def __init__(self, task: Task[StateT], added: tuple[Term, ...]) -> None:
        """See `Task.with_variations`."""
        super().__init__(task)
        self.added = added
        if wrong := [term for term in added if not isinstance(term, Term)]:
            raise EmbodiedError(f"a variation is {wrong[0]!r:.80}; expected a term, as randomization.scale makes one")
        _check("variation", [term.name for term in task.declared_terms()], [term.name for term in added], ())
        for term in added:
            if term.apply is None:
                raise EmbodiedError(f"variation {term.name!r} draws no model field; only its task can draw it")

    def declared_terms(self) -> tuple[Term, ...]:
        return (*self.task.declared_terms(), *self.added)

    @functools.cached_property
    def terms(self) -> tuple[Term, ...]:
        return (*self.task.terms, *self.added)

    @functools.cached_property
    def varied(self) -> frozenset[str]:
        return frozenset(term.name for term in self.terms)

    def rebuilt(
        self, spec_edits: Iterable[Callable[[mujoco.MjSpec], None]] = (), left_out: Iterable[str] = ()
    ) -> Task[StateT]:
        names = tuple(left_out)
        added = randomization.without(self.added, [name for name in names if name == "all" or self._adds(name)])
        task = self.task.rebuilt(spec_edits, [name for name in names if not self._adds(name)])
        return AddedVariations(task, added) if added else task

    def reset(self, key: Array) -> ResetState[StateT]:
        return self._drawn(key, self.task.reset(key))

    def restart(self, key: Array, state: StateT) -> ResetState[StateT]:
        return self._drawn(key, self.task.restart(key, state))

    def _adds(self, name: str) -> bool:
        return any(term.name == name for term in self.added)

    def _drawn(self, key: Array, reset_state: ResetState[StateT]) -> ResetState[StateT]:
        own = jax.random.fold_in(key, ADDED)
        model = randomization.draw(self.task.model, self.added, own, dict(reset_state.model))
        return dataclasses.replace(reset_state, model=model)


def _is_finite(value: object) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


def _check(what: str, known: Iterable[str], added: Iterable[str], removed: Iterable[str]) -> None:
    known = list(known)
    if twice := sorted(set(added) & set(known)):
        raise EmbodiedError(
            f"there is a {what} {twice[0]!r} already; expected a new name, the task has {listing(known)}"
        )
    for name in sorted(set(removed) - set(known)):
        raise UnknownNameError(what, name, known)
