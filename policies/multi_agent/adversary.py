"""Adversaries among many agents: how they learn, and how the others learn beside them.

After the minority attacks of Li et al. ("Attacking cooperative multi-agent reinforcement learning by adversarial
minority influence", arXiv:2302.03322): a few agents of a team whose policy stays as it is learn what makes the rest
fail, through what the rest see of them only. Here they are paid what the others lose; that paper's terms for influence
on the others' actions are left out: they gained nothing where they were tried (docs/swarm.md). A team defends itself by
learning among adversaries in a share of its worlds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from embodied.env.multi_agent import AgentsEnv
from embodied.env.vec_env import PolicyFunction, StepData
from embodied.errors import EmbodiedError

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.step import Step


def check_minority(adversaries: int, agents: int | None) -> None:
    """Refuse numbers of adversaries with which there is nothing to attack.

    Raises:
        EmbodiedError: the task has no agents, or all of them would be adversaries.
    """
    if agents is None:
        raise EmbodiedError(f"--adversaries {adversaries}: this task has one robot; expected a task of many agents")
    if not 0 < adversaries < agents:
        raise EmbodiedError(f"--adversaries {adversaries}: expected 1 to {agents - 1} of the task's {agents} agents")


class BesideOthersEnv(AgentsEnv):
    """A `VecEnv` whose rows are some of the agents of an `Env`; the others follow a policy that stays."""

    def __init__(self, env: Env, others: PolicyFunction, adversaries: int, rows: int) -> None:
        """Take an environment, which goes on belonging to the caller; the last agents of a world are the adversaries.

        The last `rows` agents of every world are rows; those that do not learn follow `others`, for all agents.

        Raises:
            EmbodiedError: the task has no agents, or none would be left to attack.
        """
        check_minority(adversaries, env.agents)
        self._take(env, rows)
        self.others, self.adversaries = others, adversaries
        self._told = torch.empty(0)
        """(worlds, agents, A) next actions of those."""

    def reset(self) -> dict[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        obs = self.env.reset()
        self._told = self.others(obs)
        return self._rows(obs)

    def _stepped(self, action: Tensor) -> Step:
        """Apply the (worlds, agents, A) actions of all, and compute the next ones of the others."""
        step = self.env.step(action)
        self._told = self.others(step.obs)
        return step

    def state(self) -> dict[str, Any]:
        """The worlds' state, and the others' next actions."""
        return {"env": super().state(), "told": self._told.clone()}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        super().load_state(state["env"])
        self._told = state["told"].to(self.device)


class AdversaryEnv(BesideOthersEnv):
    """A `VecEnv` of worlds x adversaries rows, over an `Env` whose other agents, the team, follow a policy that stays.

    Adversaries earn what the team loses: minus the mean of its rewards.
    """

    def __init__(self, env: Env, team: PolicyFunction, adversaries: int) -> None:
        """Take an environment, which goes on belonging to the caller; raises as `BesideOthersEnv`."""
        super().__init__(env, team, adversaries, adversaries)

    def step(self, action: Tensor, /) -> StepData:
        """Apply the adversaries' (N, action_size) actions, and the team's own."""
        team = self._told[:, : -self.adversaries]
        own = action.unflatten(0, (self.env.num_envs, self.adversaries))
        step = self._stepped(torch.cat([team, own.to(team.dtype)], 1))
        return self._data(step, self._each(-step.reward[:, : -self.adversaries].mean(1)))


class AttackedEnv(BesideOthersEnv):
    """A `VecEnv` of a team's agents; in a share of the worlds the last ones are adversaries, which have no rows.

    The first worlds are attacked, always; in the others all agents are rows. So a team learns to do well among
    adversaries whose policy stays without forgetting what to do where there are none. Without rows of the adversaries
    nothing is masked, and no learner knows of them.
    """

    def __init__(self, env: Env, adversary: PolicyFunction, adversaries: int, share: float) -> None:
        """Take an environment, which goes on belonging to the caller; raises as `BesideOthersEnv`."""
        super().__init__(env, adversary, adversaries, env.agents or 0)
        learns = torch.ones(env.num_envs, self.agents, dtype=torch.bool, device=env.device)
        learns[: round(share * env.num_envs), -self.adversaries :] = False
        self._own = learns.flatten().nonzero()[:, 0]
        self.num_envs = len(self._own)

    def step(self, action: Tensor, /) -> StepData:
        """Apply the (N, action_size) actions of the agents that learn, and the adversaries' own."""
        done = self._told.flatten(0, 1).index_copy(0, self._own, action.to(self._told.dtype))
        step = self._stepped(done.unflatten(0, (self.env.num_envs, self.agents)))
        return self._data(step, step.reward.flatten()[self._own])

    def _rows(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {group: values[self._own] for group, values in super()._rows(observation).items()}

    def _each(self, of_world: Tensor) -> Tensor:
        return super()._each(of_world)[self._own]
