"""Some of many agents turned against the others: how they learn it, and how the others are measured among them.

After the minority attacks of Li et al. ("Attacking cooperative multi-agent reinforcement learning by adversarial
minority influence", arXiv:2302.03322): a few agents of a team whose policy stays as it is learn what makes the rest
fail, through what the rest see of them only. Here they are paid what the others lose; that paper's terms for influence
on the others' actions are left out.
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


def check_minority(adversaries: int, agents: int | None) -> None:
    """Refuse numbers of adversaries with which there is nothing to attack.

    Raises:
        EmbodiedError: the task has no agents, or all of them would be adversaries.
    """
    if agents is None:
        raise EmbodiedError(f"--adversaries {adversaries}: this task has one robot; expected a task of many agents")
    if not 0 < adversaries < agents:
        raise EmbodiedError(f"--adversaries {adversaries}: expected 1 to {agents - 1} of the task's {agents} agents")


class AdversaryEnv(AgentsEnv):
    """A `VecEnv` of worlds x adversaries rows, over an `Env` whose other agents follow a policy that stays."""

    def __init__(self, env: Env, team: PolicyFunction, adversaries: int) -> None:
        """Take an environment, which goes on belonging to the caller.

        Raises:
            EmbodiedError: the task has no agents, or none would be left to attack.
        """
        check_minority(adversaries, env.agents)
        self._take(env, adversaries)
        self.team = team
        self._obs: Mapping[str, Tensor] = {}

    def reset(self) -> dict[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        self._obs = self.env.reset()
        return self._rows(self._obs)

    def step(self, action: Tensor, /) -> StepData:
        """Apply the adversaries' (N, action_size) actions, and the team's own."""
        team = self.team(self._obs)[:, : -self.agents]
        own = action.unflatten(0, (self.env.num_envs, self.agents))
        step = self.env.step(torch.cat([team, own.to(team.dtype)], 1))
        self._obs = step.obs
        lost = -step.reward[:, : -self.agents].mean(1)
        return self._data(step, self._each(lost))

    def state(self) -> dict[str, Any]:
        """The worlds' state, and what the team sees."""
        return {"env": super().state(), "obs": {group: values.clone() for group, values in self._obs.items()}}

    def load_state(self, tree: Mapping[str, Any], /) -> None:
        """Continue from what `state` returned."""
        super().load_state(tree["env"])
        self._obs = {group: values.to(self.device) for group, values in tree["obs"].items()}
