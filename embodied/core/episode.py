"""The life of an episode as pure functions of one environment: begin, before the physics, after it.

Both kinds of engine share them: a fused engine compiles them together with its physics, a host engine calls
them before and after its own. Nothing here knows how many environments there are.

Each environment has one raw random key: step k draws with `fold_in(key, 3 k + 2)` and the two that follow, and a
restart splits the key. So a batch of environments equals a loop over single ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.facets import Team
from embodied.core.hooks import place_of
from embodied.core.task import Task
from embodied.core.world import Control, ResetState, StateT, World
from embodied.errors import ActionError, EmbodiedError, whole_number
from embodied.math.rewards import weigh

T = TypeVar("T")
SEEDS = 1 << 32  # random keys differ by 32 bits of a seed
MOST_STEPS = (1 << 31) - 1  # of an episode, which int32 counts
LARGEST_STATE = 1e10  # MuJoCo's mjMAXVAL: beyond it a state counts as diverged


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Episode(Generic[StateT]):
    """One running episode: the task's state and what has been counted so far."""

    task_state: StateT
    key: Array
    """(2,) uint32 random key of this environment; every episode and step derives its own from it."""
    steps: Array
    """() int32 control steps taken in this episode."""
    total: Array
    """() sum of rewards so far (the return); of several agents their mean, as in the two below."""
    terms: dict[str, Array]
    """Sum of each weighted reward term so far."""
    metrics: dict[str, Array]
    """Sum of each of the task's own metrics so far."""
    success_any: Array
    """() bool, whether the task was solved at any step so far."""
    team_totals: dict[str, Array] = dataclasses.field(default_factory=dict)
    """The return so far of each side of the task's team, the mean of its agents."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Transition:
    """Result of one control step, before any reset."""

    reward: Array
    """() sum of the weighted terms; (agents,) where the task has agents."""
    terminated: Array
    """() bool, the episode failed, or diverged, or was won (`ends_when_solved`), and ends without bootstrapping."""
    failed: Array
    """() bool, the same without those that were won."""
    truncated: Array
    """() bool, the time limit ended an episode that had not failed."""
    success: Array
    """() bool, solved at this instant."""
    diverged: Array
    """() bool, the physics left the finite numbers; this step's reward is zero."""
    observation: dict[str, Array]
    """Group -> flat observation after the step."""


def flatten_observation(observation: Any, team: Team | None = None) -> dict[str, Array]:
    """Join each group's terms to one vector, or to one for each agent, in the order the task lists them."""
    shape = (-1,) if team is None else (team.agents, -1)
    return {
        group: jnp.concatenate([jnp.reshape(term, shape) for term in terms.values()], axis=-1)
        for group, terms in observation.items()
    }


def team_mean(value: Array) -> Array:
    """() from what is () or (agents,)."""
    return value if jnp.ndim(value) == 0 else jnp.mean(value)


def environment_keys(seed: int, num_envs: int) -> Array:
    """(num_envs, 2) one random key each; the key of environment i does not depend on how many there are.

    Raises:
        EmbodiedError: `seed` is not a whole number from 0 to 2**32 - 1, the seeds that JAX tells apart.
    """
    seed = whole_number("seed", seed, 0, SEEDS - 1)
    return jax.random.split(jax.random.PRNGKey(seed), num_envs)


def keys_of(seeds: Sequence[int] | np.ndarray) -> Array:
    """(n, 2) the key of environment 0 under each of n seeds.

    Raises:
        EmbodiedError: as of `environment_keys`.
    """
    whole = np.array([whole_number("seed", seed, 0, SEEDS - 1) for seed in seeds], np.uint32)
    return jax.vmap(lambda seed: jax.random.split(jax.random.PRNGKey(seed), 1)[0])(whole)


def first_keys(seed: int, count: int) -> Array:
    """(count, 2) keys with which tasks draw their first reset states in environments 0 to count - 1, after a seed."""
    return jax.vmap(jax.random.split)(environment_keys(seed, count))[:, 0]


def begin(task: Task[StateT], key: Array) -> tuple[ResetState[StateT], Array]:
    """Draw a fresh reset state; returns it and the key the environment goes on with."""
    own, following = jax.random.split(key)
    return strongly_typed(task.reset(own)), following


def begin_again(task: Task[StateT], key: Array, state: StateT) -> tuple[ResetState[StateT], Array]:
    """Draw the reset state that follows an episode which ended with `state`; otherwise as `begin`."""
    own, following = jax.random.split(key)
    return strongly_typed(task.restart(own, state)), following


def strongly_typed(tree: T) -> T:
    """A tree of arrays without JAX's weak types, which numbers written in Python leave behind.

    A reset state of `jnp.full(4, 0.5)` would be of another type than the one that a step makes of it, and programs that
    take the state would compile twice, which took the first steps of most swarm tasks twice as long.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf, tree)


def first(task: Task[StateT], world: World, state: StateT, key: Array) -> tuple[Episode[StateT], dict[str, Array]]:
    """The episode at its start, and its first observation.

    Raises:
        EmbodiedError: the task's time limit is more steps than can be counted.
    """
    if (limit := task.timing.max_steps) > MOST_STEPS:
        raise EmbodiedError(
            f"the time limit of {task.unwrapped} is {limit} control steps, {task.timing}; expected at most {MOST_STEPS}"
        )
    key, noise = jax.random.split(key)
    zero = jnp.zeros((), jnp.float32)
    names = jax.eval_shape(task.metrics, world, state)
    episode = Episode(
        task_state=state,
        key=key,
        steps=jnp.zeros((), jnp.int32),
        total=zero,
        terms={name: zero for name in task.reward_weights},
        metrics={name: zero for name in names},
        success_any=jnp.zeros((), bool),
        team_totals={name: zero for name in (task.team.sides if task.team else ())},
    )
    return episode, flatten_observation(task.observe(world, state, noise), task.team)


def before(task: Task[StateT], world: World, episode: Episode[StateT], action: Array) -> tuple[Array, Episode[StateT]]:
    """Turn the clipped action into the command of this control step."""
    key = jax.random.fold_in(episode.key, 3 * episode.steps + 2)
    command, state = task.process_action(world, episode.task_state, action, key)
    return command, dataclasses.replace(episode, task_state=state)


def apply_action(
    task: Task[StateT], world: World, episode: Episode[StateT], command: Array
) -> tuple[Control, Episode[StateT]]:
    """The controls of one physics step.

    Raises:
        ActionError: an array of the task's `Control` has another shape than the model asks for.
    """
    control, state = task.apply_action(world, episode.task_state, command)
    _check_control(task, control)
    return control, dataclasses.replace(episode, task_state=state)


def _check_control(task: Task[Any], control: Control) -> None:
    """Raise for arrays that engines would read past the end of, or broadcast."""
    model = task.model
    expected = {
        "ctrl": (model.nu,),
        "wrench": (model.nbody, 6),
        "mocap_pos": (model.nmocap, 3),
        "mocap_quat": (model.nmocap, 4),
    }
    for name, shape in expected.items():
        given = getattr(control, name)
        if given is not None and jnp.shape(given) != shape:
            hook = f"{place_of(type(task.unwrapped).apply_action)}{type(task.unwrapped).__name__}.apply_action"
            raise ActionError(f"{hook} gives {name} {jnp.shape(given)}; expected {shape}")


def is_diverged(world: World) -> Array:
    """() bool, whether any joint or sensor is not a finite number of sane size."""
    state = jnp.concatenate([world.qpos, world.qvel, world.sensordata], axis=-1)
    return ~jnp.all(jnp.abs(state) < LARGEST_STATE)


def after(
    task: Task[StateT], world: World, episode: Episode[StateT], action: Array
) -> tuple[Transition, Episode[StateT]]:
    """Rewards, outcome and observation once the physics of a control step is done."""
    diverged = is_diverged(world)
    state = task.post_step(world, episode.task_state, action, jax.random.fold_in(episode.key, 3 * episode.steps + 3))
    terms = weigh(task.rewards(world, state, action), task.reward_weights)
    terms = {name: jnp.where(diverged, 0.0, value) for name, value in terms.items()}
    metrics = {name: jnp.where(diverged, 0.0, value) for name, value in task.metrics(world, state).items()}
    outcome = task.outcome(world, state)
    noise = jax.random.fold_in(episode.key, 3 * episode.steps + 4)
    observation = flatten_observation(task.observe(world, state, noise), task.team)

    reward = sum(terms.values(), start=jnp.zeros(() if task.team is None else task.team.agents))
    steps = episode.steps + 1
    success = outcome.success & ~diverged
    failed = outcome.failure | diverged
    terminated = failed | success if task.ends_when_solved else failed
    transition = Transition(
        reward=reward,
        terminated=terminated,
        failed=failed,
        truncated=~terminated & (steps >= task.timing.max_steps),
        success=success,
        diverged=diverged,
        observation={group: jnp.where(diverged, 0.0, value) for group, value in observation.items()},
    )
    episode = Episode(
        task_state=strongly_typed(state),
        key=episode.key,
        steps=steps,
        total=episode.total + team_mean(reward),
        terms={name: episode.terms[name] + team_mean(value) for name, value in terms.items()},
        metrics={name: episode.metrics[name] + team_mean(value) for name, value in metrics.items()},
        success_any=episode.success_any | success,
        team_totals={
            name: episode.team_totals[name] + jnp.mean(reward[jnp.asarray(agents)])
            for name, agents in (task.team.sides if task.team else {}).items()
        },
    )
    return transition, episode
