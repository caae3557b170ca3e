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

from embodied.errors import EmbodiedError
from policies.policy import ActionRule
from policies.vec_env import StepData

if TYPE_CHECKING:
    from embodied.env import Env


def check_minority(adversaries: int, agents: int | None) -> None:
    """Refuse numbers of adversaries with which there is nothing to attack.

    Raises:
        EmbodiedError: the task has no agents, or all of them would be adversaries.
    """
    if agents is None:
        raise EmbodiedError(f"--adversaries {adversaries}: this task has one robot; expected a task of many agents")
    if not 0 < adversaries < agents:
        raise EmbodiedError(f"--adversaries {adversaries}: expected 1 to {agents - 1} of the task's {agents} agents")


class Infiltrated:
    """A team's policy in which the last `adversaries` agents follow another."""

    def __init__(self, team: ActionRule, adversary: ActionRule, adversaries: int) -> None:
        """Take both policies; observations are (worlds, agents, size)."""
        self.team, self.adversary, self.adversaries = team, adversary, adversaries

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(worlds, agents, A) in [-1, 1]."""
        own = {group: values[:, -self.adversaries :] for group, values in obs.items()}
        return torch.cat([self.team(obs)[:, : -self.adversaries], self.adversary(own)], 1)


class AdversaryEnv:
    """A `VecEnv` of worlds x adversaries rows, over an `Env` whose other agents follow a policy that stays."""

    def __init__(self, env: Env, team: ActionRule, adversaries: int) -> None:
        """Take an environment, which goes on belonging to the caller.

        Raises:
            EmbodiedError: the task has no agents, or none would be left to attack.
        """
        check_minority(adversaries, env.agents)
        self.env, self.team, self.adversaries = env, team, adversaries
        self.num_envs = env.num_envs * adversaries
        self.observation_sizes, self.action_size = env.observation_sizes, env.action_size
        self.max_episode_steps, self.device = env.max_episode_steps, env.device
        self._obs: Mapping[str, Tensor] = {}

    def reset(self) -> dict[str, Tensor]:
        """Begin a fresh episode everywhere and return its first observation."""
        self._obs = self.env.reset()
        return self._rows(self._obs)

    def stagger(self) -> None:
        """Spread the ends of the running episodes over the time limit."""
        self.env.stagger()

    def step(self, action: Tensor, /) -> StepData:
        """Apply the adversaries' (N, action_size) actions, and the team's own."""
        team = self.team(self._obs)[:, : -self.adversaries]
        own = action.unflatten(0, (self.env.num_envs, self.adversaries))
        step = self.env.step(torch.cat([team, own.to(team.dtype)], 1))
        self._obs = step.obs
        lost = -step.reward[:, : -self.adversaries].mean(1)
        # An episode that the team fails is one that the adversaries win: there is nothing left to lose.
        return StepData(
            obs=self._rows(step.obs),
            reward=self._each(lost),
            terminated=self._each(step.terminated),
            truncated=self._each(step.truncated),
            success=self._each(step.success),
            final_obs=self._rows(step.final_obs),
        )

    def statistics(self) -> dict[str, float]:
        """Means over worlds, as the task counts them: the team's success is the adversaries' failure."""
        return self.env.statistics()

    def state(self) -> dict[str, Any]:
        """The worlds' state, and what the team sees."""
        return {"env": self.env.state(), "obs": {group: values.clone() for group, values in self._obs.items()}}

    def load_state(self, tree: Mapping[str, Any], /) -> None:
        """Continue from what `state` returned."""
        self.env.load_state(tree["env"])
        self._obs = {group: values.to(self.device) for group, values in tree["obs"].items()}

    def _rows(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """(worlds, agents, size) to (N, size) of the adversaries."""
        return {group: values[:, -self.adversaries :].flatten(0, 1) for group, values in observation.items()}

    def _each(self, of_world: Tensor) -> Tensor:
        """(worlds,) to (N,)."""
        return torch.repeat_interleave(of_world, self.adversaries)
