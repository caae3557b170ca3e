"""Trials: several episodes of the same task with the same reset state, within which a policy is to adapt (RL²).

After Duan et al. ("RL²: Fast reinforcement learning via slow reinforcement learning", arXiv:1611.02779) and Wang et al.
("Learning to reinforcement learn", arXiv:1611.05763): a policy with memory observes, beside the task's observation, the
previous action, the previous reward and whether an episode just began; its hidden state lives through the whole trial,
whose return it learns to maximise. So it can find out in one episode what it is not shown, and use it in the next.

    env = embodied.make("manipulation/reach", 256, episodes_per_trial=3, hide_goal=True)   # task: `Trials`
    trials = TrialEnv(env)                             # a `VecEnv` whose episodes are the trials
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.core.episode import is_diverged
from embodied.core.facets import Operator
from embodied.core.hooks import Observation
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import ResetState, StateT, World
from embodied.env.env import Env
from embodied.env.step import Step
from embodied.env.vec_env import CRITIC, POLICY, Around, ObservationSpec, StepData
from embodied.errors import EmbodiedError, whole_number
from embodied.math.rewards import weigh

TERMS = ("previous_action", "previous_reward", "episode_begins")
"""Observed terms that a trial adds to the groups `policy` and `critic`."""
WITHIN = "task_state."
"""Prefix of fields of the state of the task within."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrialState(Generic[StateT]):
    """The state of the task within, and the progress of its trial."""

    task_state: StateT
    start: ResetState[StateT]
    """The reset state of every episode of the trial."""
    episode: Array
    """() int32, number of the episode in its trial, from 0."""
    steps: Array
    """() int32, control steps taken in the trial's episodes, this one's included."""
    begins: Array
    """() bool, no step of the episode is taken yet."""
    action: Array
    """(A,) the previous action, of the trial's previous episode where this one begins; zeros where a trial begins."""
    reward: Array
    """() the previous reward, likewise."""


class Trials(TaskWrapper[TrialState[Any]]):
    """A task whose episodes come in trials: each `episodes` of them begin at the same reset state.

    The groups `policy` and `critic` end in three more terms: `previous_action` (A), `previous_reward` (1) and
    `episode_begins` (1), 1 at the first observation of an episode, else 0. As terms of the observation they are the
    same in training, evaluation and viewer.

    The reset state is kept in the task's state and no random key is repeated. So trials work with numbered goals,
    curricula and initial states, resume with the simulator, and have fresh sensor noise in every episode.
    """

    def __init__(self, task: Task[Any], episodes: int) -> None:
        """Let trials have so many episodes.

        Raises:
            EmbodiedError: `episodes` is not a whole number of at least 1, the task has agents, or observes a term of
                one of these names.
        """
        episodes = whole_number("episodes_per_trial", episodes, 1)
        if task.team is not None:
            name = f"{task.unwrapped} is a team's, agents={task.team.agents}"
            raise EmbodiedError(f"episodes_per_trial={episodes}: {name}; expected a task without a team")
        super().__init__(task)
        self.episodes = episodes
        self._groups = tuple(group for group in (POLICY, CRITIC) if group in task.observation_terms)
        if taken := {term for group in self._groups for term in task.observation_terms[group]} & set(TERMS):
            raise EmbodiedError(f"{task.unwrapped} observes {', '.join(sorted(taken))}, which a trial would add")

    def inner_state(self, state: TrialState[Any]) -> Any:
        return state.task_state

    def outer_state(self, inner: Any, before: TrialState[Any] | None) -> TrialState[Any]:
        assert before is not None  # `reset` and `restart` are this class's own
        return dataclasses.replace(before, task_state=inner)

    @functools.cached_property
    def operator(self) -> Operator | None:
        if (operator := super().operator) is None:
            return None
        ranges = tuple(
            dataclasses.replace(
                command,
                field=f"{WITHIN}{command.field}",
                derivatives=tuple(f"{WITHIN}{field}" for field in command.derivatives),
            )
            for command in operator.ranges
        )
        return dataclasses.replace(operator, ranges=ranges)

    def reset(self, key: Array) -> ResetState[TrialState[Any]]:
        start = jax.tree.map(jnp.asarray, self.task.reset(key))
        return _begun(start, self._first(start))

    def restart(self, key: Array, state: TrialState[Any]) -> ResetState[TrialState[Any]]:
        """The reset state of the trial once more; after its last episode, that of the next trial."""
        again = state.episode + 1 < self.episodes
        following = self.task.restart(key, state.task_state)
        start = jax.tree.map(lambda own, other: jnp.where(again, own, other), state.start, following)
        on = dataclasses.replace(
            state, task_state=start.task_state, start=start, episode=state.episode + 1, begins=jnp.ones((), bool)
        )
        return _begun(start, jax.tree.map(lambda own, other: jnp.where(again, own, other), on, self._first(start)))

    def _first(self, start: ResetState[Any]) -> TrialState[Any]:
        """The state in which a trial begins."""
        return TrialState(
            task_state=start.task_state,
            start=start,
            episode=jnp.zeros((), jnp.int32),
            steps=jnp.zeros((), jnp.int32),
            begins=jnp.ones((), bool),
            action=jnp.zeros(self.action_size),
            reward=jnp.zeros(()),
        )

    def post_step(self, world: World, state: TrialState[Any], action: Array, key: Array) -> TrialState[Any]:
        inner = self.task.post_step(world, state.task_state, action, key)
        terms = weigh(self.task.rewards(world, inner, action), self.task.reward_weights)
        reward = sum(terms.values(), start=jnp.zeros(()))
        return dataclasses.replace(
            state,
            task_state=inner,
            steps=state.steps + 1,
            begins=jnp.zeros((), bool),
            action=action,
            reward=jnp.where(is_diverged(world), 0.0, reward),
        )

    def observe(self, world: World, state: TrialState[Any], key: Array) -> Observation:
        begins = state.begins.astype(jnp.float32)[None]
        added = dict(zip(TERMS, (state.action, state.reward[None], begins), strict=True))
        groups = {group: dict(terms) for group, terms in self.task.observe(world, state.task_state, key).items()}
        for group in self._groups:
            groups[group] |= added
        return groups

    def expert(self, observation: Mapping[str, Array], state: TrialState[Any]) -> Array:
        """The script of the task within, from what that task observes."""
        added = self.action_size + 2
        seen = {group: values[:-added] if group in self._groups else values for group, values in observation.items()}
        return self.task.expert(seen, state.task_state)


def _begun(start: ResetState[Any], state: TrialState[Any]) -> ResetState[TrialState[Any]]:
    return dataclasses.replace(start, task_state=state)


def episodes_per_trial(env: Env) -> int | None:
    """Number of episodes in a trial of an environment; None without trials."""
    found = _trials(env.task)
    return None if found is None else found.episodes


def ended_episode(env: Env) -> Tensor:
    """(N,) int64, number in its trial, from 0, of the episode that ended with the last step, where one did."""
    episodes = episodes_per_trial(env)
    assert episodes is not None
    return (_tensor(trial_state(env).episode).long() - 1) % episodes


def trial_state(env: Env) -> TrialState[Any]:
    """Trial states of an environment, every array with a leading axis (N,)."""
    task, state = env.task, env.task_state
    while not isinstance(task, Trials):
        assert isinstance(task, TaskWrapper)
        task, state = task.task, task.inner_state(state)
    return state


def _trials(task: Task[Any]) -> Trials | None:
    """The trials among a task's wrappers."""
    while isinstance(task, TaskWrapper) and not isinstance(task, Trials):
        task = task.task
    return task if isinstance(task, Trials) else None


class TrialEnv(Around):
    """A `VecEnv` whose episodes are the trials of an `Env`: the ends of episodes within them are no ends.

    Hiding those ends is all that PPO and a recurrent policy's hidden state need. Its mirror is that of the environment,
    which lacks the terms that a trial adds.
    """

    env: Env
    agents = None
    """There is one robot in each environment."""

    def __init__(self, env: Env) -> None:
        """Take an environment, which goes on belonging to the caller.

        Raises:
            ValueError: its task has no trials.
        """
        episodes = episodes_per_trial(env)
        if episodes is None:
            raise ValueError(f"{env.name} has no trials; expected embodied.make(..., episodes_per_trial=...)")
        self.env, self.episodes = env, episodes
        self.num_envs, self.action_size, self.device = env.num_envs, env.action_size, env.device
        self.observation_spec: Mapping[str, ObservationSpec] = env.observation_spec
        self.max_episode_steps = self.episodes * env.max_episode_steps
        self.engine_name, self.variations = env.engine_name, env.variations
        self._counts = torch.zeros(2, self.episodes)  # successes and episodes by number in the trial

    @property
    def episode_length(self) -> Tensor:
        """(N,) int32, control steps taken so far in the running trials."""
        return _tensor(trial_state(self.env).steps).to(self.device)

    def reset(self) -> Mapping[str, Tensor]:
        return self.env.reset()

    def spread_episode_lengths(self) -> None:
        """Spread the ends of the running trials: the episodes' ends, and each episode's number in its trial."""
        assert isinstance(self.env.task, Trials)  # nothing wraps the trials of what is learned from
        self.env.spread_episode_lengths()
        state = self.env.task_state
        episode = np.arange(self.num_envs, dtype=np.int32) % self.episodes
        steps = episode * self.env.max_episode_steps + np.asarray(self.env.episode.steps)
        self.env.task_state = dataclasses.replace(state, episode=jnp.asarray(episode), steps=jnp.asarray(steps))

    def step(self, action: Tensor, /) -> StepData:
        step = self.env.step(action)
        last = step.done & (_tensor(trial_state(self.env).episode) == 0).to(self.device)
        self._count(step)
        return StepData(
            obs=step.obs,
            reward=step.reward,
            terminated=step.terminated & last,
            truncated=step.truncated & last,
            success=step.success,
            final_obs=step.final_obs,
        )

    def statistics(self) -> dict[str, float]:
        """Means over episodes, and `success/episode_1` and so on: at the last step, by number in the trial."""
        successes, counts = self._counts.tolist()
        self._counts.zero_()
        numbered = enumerate(zip(successes, counts, strict=True), 1)
        each = {f"success/episode_{number}": solved / count for number, (solved, count) in numbered if count}
        return self.env.statistics() | each

    def _count(self, step: Step) -> None:
        if not bool(step.done.any()):
            return
        number = ended_episode(self.env)
        done = step.done.cpu()
        self._counts[1].index_add_(0, number[done], torch.ones(int(done.sum())))
        self._counts[0].index_add_(0, number[done], step.success.cpu()[done].float())


def by_trials(env: Env) -> Env | TrialEnv:
    """Environment for a learner with memory: a `TrialEnv` of one with trials, any other by itself."""
    return TrialEnv(env) if isinstance(env, Env) and episodes_per_trial(env) is not None else env


def _tensor(array: Array) -> Tensor:
    """A copy on the CPU."""
    return torch.from_numpy(np.array(array))
