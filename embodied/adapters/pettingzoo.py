"""A task of many agents as a PettingZoo `ParallelEnv`: dictionaries of numpy arrays, one world at a time.

    env = embodied.adapters.pettingzoo.parallel_env("swarm/formation", seed=0)
    observations, infos = env.reset()
    observations, rewards, terminations, truncations, infos = env.step({agent: ... for agent in env.agents})

For training, `embodied.make` with many worlds is a thousand times faster; this is for the algorithms and the tools that
use PettingZoo.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from pettingzoo import ParallelEnv
from torch import Tensor

from embodied.adapters.gymnasium import as_array, as_tensor, check_options, check_render_mode, make_renderer, metadata
from embodied.adapters.tensors import require_env
from embodied.core.episode import SEEDS
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.multi_agent import agent_names
from embodied.env.vec_env import vector_sizes
from embodied.errors import ActionError, EmbodiedError, UnknownNameError, listing, whole_number

if TYPE_CHECKING:
    from embodied.rendering.pictures import Renderer

Arrays = dict[str, NDArray[np.float32]]


def parallel_env(name: str, *, seed: int = 0, render_mode: str | None = None, **options: Any) -> PettingZooEnv:
    """One world of a task with agents.

    Args:
        name: Task, `family/name`.
        seed: Seed of a first reset without one.
        render_mode: `rgb_array` where `render` will be called.
        **options: Further options of `embodied.make`: engine, config ...
    """
    return PettingZooEnv(make(name, 1, seed=seed, **options), render_mode)


class PettingZooEnv(ParallelEnv[str, NDArray[Any], NDArray[Any] | None]):
    """One world with its agents, which begin and end together.

    They are called `agent_0`, `agent_1` ... or, of a task with sides, by their side: `predators_0` ... `prey_0`.
    """

    def __init__(self, env: Env, render_mode: str | None = None) -> None:
        """Take over `env`.

        Raises:
            EmbodiedError: it has more than one world, or no agents.
        """
        require_env(env)
        if (team := env.task.team) is None:
            raise EmbodiedError(
                "this task has one robot and no agents; use embodied.adapters.gymnasium.GymnasiumEnv for it"
            )
        if env.num_envs != 1:
            raise EmbodiedError(f"num_envs={env.num_envs}: PettingZoo steps one world at a time, expected 1")
        self.env, self.render_mode = env, check_render_mode(render_mode)
        self.possible_agents = agent_names(team)
        self.agents: list[str] = []
        self.metadata = {**metadata(env), "name": env.name, "is_parallelizable": True}
        size = vector_sizes(env.observation_spec)["policy"]
        self._known_spaces = {
            agent: (Box(-np.inf, np.inf, (size,), np.float32), Box(-1.0, 1.0, (env.action_size,), np.float32))
            for agent in self.possible_agents
        }
        self._seed = env.seed
        self._observation: Mapping[str, Tensor] | None = None
        self._renderer: Renderer | None = None

    def observation_space(self, agent: str) -> Box:
        """(size,) float32 without bounds: the group `policy`."""
        return self._spaces(agent)[0]

    def action_space(self, agent: str) -> Box:
        """(action_size,) float32 in [-1, 1]."""
        return self._spaces(agent)[1]

    @property
    def state_space(self) -> Box:
        """(agents x size,) float32: what a central critic may see."""
        return Box(-np.inf, np.inf, self.state().shape, np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: The same seed gives the same episode. Without one, the first reset takes the seed the environment
                was made with and each later one the next.
            options: None exist; PettingZoo requires that a mapping is taken, and it changes nothing.

        Raises:
            EmbodiedError: the seed is no whole number of at least 0, or the options are no mapping.
        """
        check_options(options)
        if seed is not None:
            self._seed = whole_number("seed", seed, 0)
        self._observation = self.env.reset(self._seed % SEEDS)
        self._seed += 1
        self.agents = list(self.possible_agents)
        return self._of_agents(self._observation["policy"][0]), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, NDArray[np.float32] | None]
    ) -> tuple[Arrays, dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Advance by one control step; at the end of an episode `agents` becomes empty.

        Raises:
            ActionError: no episode is running, an agent is unknown, has no action, or one of the wrong size.
        """
        if not self.agents:
            raise ActionError("no agent is alive: call reset() to begin an episode")
        if not isinstance(actions, Mapping):
            raise ActionError(
                f"actions={actions!r:.80}; expected a mapping of actions by agents: {listing(self.agents)}"
            )
        if unknown := [agent for agent in actions if agent not in self.agents]:
            raise ActionError(f"an action of the unknown agent {unknown[0]!r:.80}; known: {listing(self.agents)}")
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise ActionError(f"no action for {missing[:4]}; expected one for each of the {len(self.agents)} agents")
        rows = [as_tensor(cast(Any, actions[agent])).numpy() for agent in self.agents]
        if wrong := [row.shape for row in rows if row.shape != (self.env.action_size,)]:
            raise ActionError(f"an action has shape {wrong[0]}; expected ({self.env.action_size},)")
        step = self.env.step(torch.from_numpy(np.stack(rows))[None])
        self._observation = step.final_obs
        living = self.agents
        terminated, truncated, success = bool(step.terminated), bool(step.truncated), bool(step.success)
        rewards = {agent: float(reward) for agent, reward in zip(living, step.reward[0], strict=True)}
        infos = {agent: {"success": success} for agent in living}
        observations = self._of_agents(step.final_obs["policy"][0])
        if terminated or truncated:
            self.agents = []
        return observations, rewards, dict.fromkeys(living, terminated), dict.fromkeys(living, truncated), infos

    def state(self) -> NDArray[np.float32]:
        """(agents x size,) what a central critic may see: the group `critic` of all agents, else `policy`."""
        group = "critic" if "critic" in self.env.observation_spec else "policy"
        if self._observation is None:
            return np.zeros(math.prod(self.env.observation_spec[group].shape), np.float32)
        return as_array(self._observation[group][0].flatten())

    def render(self) -> NDArray[np.uint8] | None:
        """A picture (height, width, 3), or None where no render mode was chosen."""
        if self.render_mode is None:
            return None
        self._renderer = self._renderer or make_renderer(self.env)
        return self._renderer.frame(0)

    def close(self) -> None:
        """Close the environment; safe to call again."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        self.env.close()

    def _of_agents(self, rows: Tensor) -> Arrays:
        """(agents, size) by the agents' names, copied."""
        return {agent: as_array(row) for agent, row in zip(self.possible_agents, rows, strict=True)}

    def _spaces(self, agent: str) -> tuple[Box, Box]:
        """An agent's spaces, the same objects each time.

        Raises:
            UnknownNameError: there is no such agent.
        """
        if agent not in self._known_spaces:
            raise UnknownNameError("agent", agent, self.possible_agents)
        return self._known_spaces[agent]
