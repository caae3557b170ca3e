"""A team whose members follow different policies: scripts, random ones, other runs, all in one world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, listing
from policies.training.loading import load_policy

REST = "rest"
"""The agents that no other word names."""


@dataclass(frozen=True)
class Members:
    """Some agents of a team, and what they follow."""

    agents: tuple[int, ...]
    policy: PolicyFunction


class MixedTeam:
    """A `PolicyFunction` of a whole team, put together from those of its members."""

    def __init__(self, members: Sequence[Members]) -> None:
        """Take policies of whole teams, of each of which some agents' actions are used.

        Raises:
            ValueError: the agents are not 0, 1, 2 ... once each.
        """
        order = [agent for some in members for agent in some.agents]
        if sorted(order) != list(range(len(order))):
            raise ValueError(f"agents {order}: expected each of 0 to {len(order) - 1} once")
        self.members = tuple(some for some in members if some.agents)
        self._place = torch.argsort(torch.tensor([agent for some in self.members for agent in some.agents]))

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(worlds, agents, size) observations to (worlds, agents, A) actions in [-1, 1]."""
        parts = [some.policy(obs)[:, list(some.agents)] for some in self.members]
        return torch.cat([part.to(parts[0].dtype) for part in parts], 1)[:, self._place]


def infiltrated(team: PolicyFunction, adversary: PolicyFunction, agents: int, adversaries: int) -> MixedTeam:
    """A team in which the last `adversaries` of its agents follow another policy."""
    own = agents - adversaries
    return MixedTeam([Members(tuple(range(own)), team), Members(tuple(range(own, agents)), adversary)])


def load_team(words: Sequence[str], env: Env, seed: int = 0) -> MixedTeam:
    """The team that `WHO=POLICY` words describe (`parse_team`); policies are named as `load_policy` has them.

    Raises:
        EmbodiedError: the words describe no team, or there is no such policy.
    """
    team = env.task.team
    found = parse_team(words, env.agents, team.sides if team else {})
    return MixedTeam([Members(agents, load_policy(name, env, seed)) for name, agents in found.items()])


def parse_team(
    words: Sequence[str], agents: int | None, sides: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Parse words `WHO=POLICY`: policy -> its agents.

    WHO is a side of the task's team, agents as in `0`, `0-2` or `0,3`, or `rest`.

    Raises:
        EmbodiedError: the task has one robot, or WHO is no agent, or an agent has two policies or none.
    """
    if agents is None:
        raise EmbodiedError("--team: this task has one robot; expected a task of many agents")
    found: dict[str, tuple[int, ...]] = {}
    for word in words:
        who, equals, policy = word.partition("=")
        if not (who and equals and policy):
            raise EmbodiedError(f"--team {word}: expected WHO=POLICY, as in 0-2=shipped or rest=expert")
        taken = {agent for some in found.values() for agent in some}
        own = (
            tuple(agent for agent in range(agents) if agent not in taken)
            if who == REST
            else sides.get(who) or _numbered(who, word, agents, sides)
        )
        if twice := sorted(taken & set(own)):
            raise EmbodiedError(f"--team {word}: agents {listing(map(str, twice))} have a policy already")
        found[policy] = tuple(sorted((*found.get(policy, ()), *own)))
    if missing := sorted(set(range(agents)) - {agent for some in found.values() for agent in some}):
        raise EmbodiedError(f"--team: nobody acts for agents {listing(map(str, missing))}; expected {REST}=POLICY too")
    return found


def _numbered(who: str, word: str, agents: int, sides: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    known = [*sides, f"agents 0 to {agents - 1}", REST]
    own: list[int] = []
    for part in who.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise EmbodiedError(f"--team {word}: there is no {who!r}; there are {listing(known)}")
        own += range(int(first), int(last or first) + 1)
    if not own or max(own) >= agents:
        raise EmbodiedError(f"--team {word}: there is no {who!r}; there are {listing(known)}")
    return tuple(sorted(set(own)))
