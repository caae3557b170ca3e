"""Two views of environments with many agents: every agent as an environment of its own, or a team as one.

`AgentsEnv` has a row for each agent, which learns from what it did itself. With one policy for all of them this is
parameter-shared PPO (IPPO, de Witt et al. 2020); with a critic that reads the group `critic`, in which a task may put
what no single agent sees, it is MAPPO (Yu et al. 2022). `TeamEnv` has a row for each team, for algorithms whose critics
see and value what all agents do (`policies.multi_agent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from embodied.core.facets import Team
from embodied.env.vec_env import Around, ObservationSpec, PolicyFunction, StepData
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.step import Step


class AgentsEnv(Around):
    """A `VecEnv` of worlds x agents rows, world by world, over an `Env` of worlds with agents.

    Its mirror is the environment's; its statistics are means over worlds, of rewards and metrics also over agents.
    """

    env: Env

    def __init__(self, env: Env) -> None:
        """Take an environment, which goes on belonging to the caller.

        Raises:
            ValueError: its task has no agents.
        """
        if env.agents is None:
            raise ValueError("this task has one robot and no axis of agents; train on the environment itself")
        self._take(env, env.agents)

    def _take(self, env: Env, agents: int) -> None:
        """Let the last `agents` agents of every world be the rows."""
        self.env, self.agents = env, agents
        self.num_envs = env.num_envs * agents
        self.observation_spec = {
            group: ObservationSpec(spec.shape[1:], spec.dtype)
            for group, spec in env.observation_spec.items()
            if spec.shape[0] == env.agents  # cameras that no agent carries are left out
        }
        self.action_size, self.max_episode_steps, self.device = env.action_size, env.max_episode_steps, env.device

    def reset(self) -> dict[str, Tensor]:
        return self._rows(self.env.reset())

    def step(self, action: Tensor, /) -> StepData:
        step = self.env.step(action.unflatten(0, (self.env.num_envs, self.agents)))
        return self._data(step, step.reward.flatten())

    def _data(self, step: Step, reward: Tensor) -> StepData:
        """A step of the worlds as one of the rows, which earn `reward` (N,)."""
        return StepData(
            obs=self._rows(step.obs),
            reward=reward,
            terminated=self._each(step.terminated),
            truncated=self._each(step.truncated),
            success=self._each(step.success),
            final_obs=self._rows(step.final_obs),
        )

    def acting(self, policy: PolicyFunction) -> PolicyFunction:
        """A policy of the worlds, which may know what no single agent sees, as one of these rows."""
        worlds = (self.env.num_envs, self.agents)

        def act(rows: Mapping[str, Tensor]) -> Tensor:
            return policy({group: values.unflatten(0, worlds) for group, values in rows.items()}).flatten(0, 1)

        return act

    def _rows(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """(worlds, agents, size) to (N, size), of the last `self.agents` agents."""
        return {group: observation[group][:, -self.agents :].flatten(0, 1) for group in self.observation_spec}

    def _each(self, of_world: Tensor) -> Tensor:
        """(worlds,) to (N,)."""
        return torch.repeat_interleave(of_world, self.agents)


class TeamEnv(AgentsEnv):
    """A `VecEnv` of N teams: the vectors of a team's agents one after the other, and so their actions.

    A group of size numbers for each agent is (N, agents size), an action (N, agents A), a reward (N, agents). So
    off-policy learners, replay buffers and PPO's rollouts serve teams unchanged; only the actor differs, which has a
    network for each agent (`policies.networks.structured.team`).
    """

    def _take(self, env: Env, agents: int) -> None:
        super()._take(env, agents)
        self.num_envs, self.team_size = env.num_envs, agents
        self.observation_spec = {
            group: ObservationSpec((agents * spec.shape[0],), spec.dtype)
            for group, spec in self.observation_spec.items()
            if len(spec.shape) == 1
        }
        self.action_size = agents * env.action_size

    def mirror(self) -> Mirror:
        """None: in the mirror agents may change places.

        Raises:
            EmbodiedError: always.
        """
        raise EmbodiedError("a team that learns as a whole has no mirror; expected an algorithm without symmetry")

    def step(self, action: Tensor, /) -> StepData:
        step = self.env.step(action.unflatten(1, (self.agents, -1)))
        return self._data(step, step.reward)

    def _rows(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {group: observation[group].flatten(1) for group in self.observation_spec}

    def _each(self, of_world: Tensor) -> Tensor:
        return of_world


def of_team(reward: Tensor) -> Tensor:
    """(N,) rewards of rows; of teams, (N, agents), the mean of their agents."""
    return reward if reward.dim() == 1 else reward.mean(1)


def agent_names(team: Team) -> list[str]:
    """Name of each agent, in order: its side and its number there; `agent` where there are no sides."""
    sides = team.sides or {"agent": tuple(range(team.agents))}
    names = {agent: f"{side}_{number}" for side, members in sides.items() for number, agent in enumerate(members)}
    return [names[agent] for agent in range(team.agents)]
