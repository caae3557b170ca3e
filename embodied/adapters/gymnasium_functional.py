"""A task as Gymnasium's functional environment (`gymnasium.experimental.functional.FuncEnv`), in pure JAX.

    env = FunctionalJaxEnv(FunctionalGymnasiumEnv("swarm/hover"))            # gymnasium.envs.functional_jax_env
    envs = FunctionalJaxVectorEnv(FunctionalGymnasiumEnv("swarm/hover"), num_envs=64, max_episode_steps=400)

Gymnasium calls this interface experimental. `embodied.functional` is the same with fewer layers; most libraries of
reinforcement learning expect `GymnasiumVectorEnv`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.spaces import Box
from jax import Array

from embodied.adapters.tensors import shown_groups
from embodied.core.episode import team_mean
from embodied.env.factory import functional
from embodied.env.functional import EnvState, FunctionalEnv, check_action, set_rows
from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FuncState:
    """State of one environment, with the results of the step to it: Gymnasium reads them one by one."""

    env: EnvState[Any]
    observation: Array
    """(size,)."""
    reward: Array
    """() of the step that led here, 0 at the start."""
    terminated: Array
    """() bool, the episode failed."""
    success: Array
    """() bool, solved at this instant."""
    diverged: Array
    """() bool, the physics left the finite numbers."""

    @property
    def at(self) -> RowsAt:
        """`state.at[ids].set(rows)` of a batch, as of an array: Gymnasium's vector environment treats it as one."""
        return RowsAt(self)


@dataclasses.dataclass(frozen=True)
class RowsAt:
    """Rows of a batch of states, to be set."""

    state: FuncState
    ids: Any = None

    def __getitem__(self, ids: Any) -> RowsAt:
        return dataclasses.replace(self, ids=ids)

    def set(self, rows: FuncState) -> FuncState:
        """The batch with `rows` in place of these."""
        return set_rows(self.state, self.ids, rows)


class FunctionalGymnasiumEnv(FuncEnv[FuncState, Array, Array, Array, Array, Any, Any]):
    """One environment of a task as the functions `initial`, `transition`, `observation`, `reward` and `terminal`.

    Task, engine and options are those of `embodied.functional`. An environment's draws come from the key that `initial`
    was given; other functions do not use theirs. Time limits are the caller's: `max_episode_steps` of Gymnasium's
    wrappers, for which `episode_length` is the task's own.
    """

    def __init__(self, name: str, engine: str | None = None, group: str = POLICY, **options: Any) -> None:
        super().__init__()
        self.functional: FunctionalEnv = functional(name, engine, **options)
        shapes = self.functional.observation_shapes
        team = self.functional.task.team
        (self._group,) = shown_groups(group, shapes, team and team.agents, "Gymnasium")
        self.observation_space = Box(-np.inf, np.inf, shapes[group][-1:], np.float32)
        self.action_space = Box(-1.0, 1.0, (self.functional.task.action_size,), np.float32)

    @property
    def episode_length(self) -> int:
        """Steps until the task's time limit."""
        return self.functional.max_episode_steps

    def initial(self, rng: Array, params: Any = None) -> FuncState:
        """The state at the start of an episode, drawn with the random key `rng`.

        Raises:
            EmbodiedError: `rng` is no key, or several.
        """
        del params
        state, observation = self.functional.reset(rng)
        no = jnp.zeros((), bool)
        return FuncState(state, self._shown(observation), jnp.zeros(()), no, no, no)

    def transition(self, state: FuncState, action: Array, rng: Array, params: Any = None) -> FuncState:
        """The state after a control step under `action` (action_size,), clipped to [-1, 1].

        Raises:
            EmbodiedError: `state` or `action` is none, as of `FunctionalEnv.step`.
        """
        del rng, params
        before = _checked(state).env
        check_action(action, (self.functional.task.action_size,))
        following, brought = self.functional.step(before, action.reshape(self.functional.action_shape))
        reward = team_mean(brought.reward)
        seen = self._shown(brought.observation)
        return FuncState(following, seen, reward, brought.terminated, brought.success, brought.diverged)

    def observation(self, state: FuncState, rng: Array, params: Any = None) -> Array:
        """(size,) of the group."""
        del rng, params
        return _checked(state).observation

    def reward(self, state: FuncState, action: Array, next_state: FuncState, rng: Array, params: Any = None) -> Array:
        """() of the step from `state` to `next_state`."""
        del state, action, rng, params
        return _checked(next_state).reward

    def terminal(self, state: FuncState, rng: Array, params: Any = None) -> Array:
        """() bool, whether the episode failed."""
        del rng, params
        return _checked(state).terminated

    def transition_info(
        self, state: FuncState, action: Array, next_state: FuncState, params: Any = None
    ) -> dict[str, Array]:
        """`success` and `diverged`, () bool each."""
        del state, action, params
        following = _checked(next_state)
        return {"success": following.success, "diverged": following.diverged}

    def _shown(self, observation: dict[str, Array]) -> Array:
        return observation[self._group].ravel()


def _checked(state: Any) -> FuncState:
    """`state`, if it is one.

    Raises:
        EmbodiedError: it is none.
    """
    if not isinstance(state, FuncState):
        told = type(state).__name__
        raise EmbodiedError(f"state is of type {told}; expected a FuncState, as initial or transition returns it")
    return state
