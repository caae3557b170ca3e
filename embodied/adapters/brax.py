"""A task as a Brax environment, for `brax.training` and whatever else takes Brax's functional form.

    env = BraxEnv("swarm/hover")
    ppo.train(env, episode_length=env.episode_length, wrap_env_fn=wrap, num_timesteps=4_000_000, num_envs=1024, ...)

This is about Brax's interface; the physics is that of any fused engine. `brax` is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from brax.envs.base import Env, State, Wrapper
from brax.envs.wrappers.training import EpisodeWrapper, VmapWrapper
from jax import Array

from embodied.adapters.tensors import shown_groups
from embodied.core.episode import MOST_STEPS, team_mean
from embodied.env.factory import functional
from embodied.env.functional import EnvState, FunctionalEnv, check_action, raw_key, restart_ended
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError, whole_number


class BraxEnv(Env):
    """One environment of a task with Brax's `reset(rng)` and `step(state, action)`.

    Task, engine and options are those of `embodied.functional`. `state.obs` is one observation group (size,), or of
    several, such as `("policy", "critic")`, a dictionary, from which `brax.training` selects by
    `policy_obs_key` and `value_obs_key`. `state.done` means that the episode failed; time limits are for Brax's
    `EpisodeWrapper`, with `episode_length`. `state.metrics` are the weighted reward terms, the task's own metrics,
    `diverged`, `overflow` (of the engine's buffers), and `success`: 1 in an episode's last step if the task is solved
    then, and 0 before, so that the sums which Brax takes over episodes are the success at the last step.
    """

    def __init__(
        self, name: str, engine: str | None = None, group: str | Sequence[str] = POLICY, **options: Any
    ) -> None:
        self.functional: FunctionalEnv = functional(name, engine, **options)
        self._single, self._shapes = isinstance(group, str), self.functional.observation_shapes
        team = self.functional.task.team
        self._groups = shown_groups(group, self._shapes, team and team.agents, "Brax")

    @property
    def observation_size(self) -> Any:
        """Size of the observation, or group -> (size,)."""
        sizes = {group: self._shapes[group][-1:] for group in self._groups}
        return sizes[self._groups[0]][0] if self._single else sizes

    @property
    def action_size(self) -> int:
        return self.functional.task.action_size

    @property
    def backend(self) -> str:
        """Name of the physics engine."""
        return self.functional.engine.name

    @property
    def episode_length(self) -> int:
        """Steps until the task's time limit."""
        return self.functional.max_episode_steps

    @property
    def dt(self) -> float:
        """s per step."""
        return self.functional.control_dt

    def reset(self, rng: Array) -> State:
        """Begin an episode with the random key `rng`.

        Raises:
            EmbodiedError: `rng` is no key, or several.
        """
        state: Any  # any pytree: Brax passes it on
        state, observation = self.functional.reset(rng)
        zero = jnp.zeros(())
        names = (*self.functional.task.reward_weights, *state.episode.metrics, "diverged", "overflow", "success")
        return State(state, self._shown(observation), zero, zero, {name: zero for name in names}, {})

    def step(self, state: State, action: Array) -> State:
        """Advance by one control step under `action` (action_size,), clipped to [-1, 1].

        Raises:
            EmbodiedError: `state` or `action` is none, as of `FunctionalEnv.step`.
        """
        before: Any = _checked(state).pipeline_state
        check_action(action, (self.action_size,))
        following, transition = self.functional.step(before, action.reshape(self.functional.action_shape))
        now, then = following.episode, before.episode
        metrics = {
            **{name: total - then.terms[name] for name, total in now.terms.items()},
            **{name: jnp.nan_to_num(total - then.metrics[name]) for name, total in now.metrics.items()},
            "diverged": transition.diverged,
            "overflow": self.functional.overflow(following),
            "success": transition.success & (transition.terminated | transition.truncated),
        }
        state.metrics.update({name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()})
        return state.replace(  # pyright: ignore[reportAttributeAccessIssue] - of flax's dataclass
            pipeline_state=following,
            obs=self._shown(transition.observation),
            reward=team_mean(transition.reward),
            done=jnp.asarray(transition.terminated, jnp.float32),
        )

    def restart(self, state: EnvState[Any]) -> tuple[EnvState[Any], Any]:
        """The episode that follows the one in `state`, a `pipeline_state`: its first state, and `State.obs`."""
        following, observation = self.functional.restart(state)
        return following, self._shown(observation)

    def _shown(self, observation: dict[str, Array]) -> Any:
        groups = {group: observation[group].ravel() for group in self._groups}
        return groups[self._groups[0]] if self._single else groups


def _checked(state: Any) -> State:
    """`state`, if it is one of Brax's.

    Raises:
        EmbodiedError: it is none.
    """
    if not isinstance(state, State):
        raise EmbodiedError(f"state is of type {type(state).__name__}; expected a State, as reset or step returns it")
    return state


class RestartWrapper(Wrapper):
    """Begins fresh episodes in the environments of a batch that are done.

    Brax's own `AutoResetWrapper` goes back to each environment's first state for ever; this one draws another with the
    environment's own random key, as everywhere here, and a task's curriculum goes on.
    """

    def reset(self, rng: Array) -> State:
        raw_key(rng, several=True)
        return self.env.reset(rng)

    def step(self, state: State, action: Array) -> State:
        check_action(action, (*jnp.shape(_checked(state).done), self.action_size))
        state.info["steps"] = jnp.where(state.done, 0.0, state.info["steps"])
        cleared: Any = state.replace(done=jnp.zeros_like(state.done))  # pyright: ignore[reportAttributeAccessIssue]
        after: Any = self.env.step(cleared, action)
        env: Any = self.unwrapped
        states, observations = restart_ended(env.restart, after.pipeline_state, after.obs, after.done > 0)
        return after.replace(pipeline_state=states, obs=observations)


def wrap(
    env: BraxEnv, episode_length: int, action_repeat: int = 1, randomization_fn: Callable[..., Any] | None = None
) -> Wrapper:
    """A batch of environments with time limits and fresh restarts, for `wrap_env_fn` of `brax.training`.

    Args:
        env: One environment.
        episode_length: Steps after which an episode ends: `env.episode_length`; with others `success` means nothing.
        action_repeat: How often each action is taken.
        randomization_fn: None; tasks randomise themselves, in every episode.

    Raises:
        EmbodiedError: `env` is no `BraxEnv`, a number is not whole or less than 1, or a randomisation of Brax's models
            was given.
    """
    if not isinstance(env, Env) or not isinstance(env.unwrapped, BraxEnv):
        raise EmbodiedError(f"env={env!r:.80}; expected a BraxEnv")
    episode_length = whole_number("episode_length", episode_length, 1, MOST_STEPS)
    action_repeat = whole_number("action_repeat", action_repeat, 1, MOST_STEPS)
    if randomization_fn is not None:
        raise EmbodiedError("randomization_fn changes models of Brax; a task of embodied draws its own variations")
    return RestartWrapper(EpisodeWrapper(VmapWrapper(env), episode_length, action_repeat))
