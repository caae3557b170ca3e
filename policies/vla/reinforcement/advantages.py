"""Which decisions get the credit for how an episode ended: its score, 1 where the task was solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from policies.ppo.gae import gae
from policies.vla.reinforcement.config import Algorithm, ImprovementConfig
from policies.vla.reinforcement.critic import OutcomeCritic
from policies.vla.reinforcement.experience import Experience

EPSILON = 1e-6  # beside a group's standard deviation, SimpleVLA-RL


class Credit(NamedTuple):
    """What a policy learns from M decisions."""

    advantage: Tensor
    """(M,)."""
    weight: Tensor
    """(M,) of each number of each action."""
    measures: dict[str, float]
    """For the log."""
    ready: bool = True
    """Whether the policy is to learn from it; not while a critic warms up."""


class Judge(Protocol):
    """Gives credit to decisions."""

    alike: int
    """How many episodes it wants from each start."""

    def worth(self, experience: Experience) -> Tensor:
        """(E,) bool, from which episodes there is something to learn."""
        ...

    def judge(self, experience: Experience) -> Credit:
        """Credit for every decision."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides how it judges."""
        ...

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        ...


class GroupJudge:
    """GRPO: an episode is as good as it did beside the others of its group (Shao et al. 2024; SimpleVLA-RL, eq. 5-7).

    No critic, no KL term, no bonus for entropy. Groups whose scores are all alike teach nothing.
    """

    def __init__(self, config: ImprovementConfig, tasks: int, knowledge: int, device: torch.device, seed: int) -> None:
        """Of groups as the config sizes them."""
        del tasks, knowledge, device, seed
        self.alike, self._partial = config.group_size, config.partial_credit

    def worth(self, experience: Experience) -> Tensor:
        """Those of groups whose scores differ."""
        return spread(experience.score(self._partial), experience.group) > 0

    def judge(self, experience: Experience) -> Credit:
        """Every decision of an episode has its advantage; every episode weighs the same, however long it is."""
        advantage = group_advantage(experience.score(self._partial), experience.group)
        numbers = experience.actions * experience.tokens.shape[-1]
        weight = 1.0 / (len(experience) * numbers)
        return Credit(advantage[experience.episode], weight[experience.episode], {})

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Nothing."""


class CriticJudge:
    """PPO: a decision is as good as what followed it was better than a critic expected (Schulman et al. 2016, 2017)."""

    alike = 1

    def __init__(self, config: ImprovementConfig, tasks: int, knowledge: int, device: torch.device, seed: int) -> None:
        """With an untaught critic.

        Args:
            config: How.
            tasks: How many there are.
            knowledge: Length of what the critic is told.
            device: Where the experience is.
            seed: Of the critic's weights and minibatches.
        """
        self._config, self._judged = config, 0
        self.critic = OutcomeCritic(tasks, knowledge, config, device, seed)

    def worth(self, experience: Experience) -> Tensor:
        """All of them."""
        return torch.ones_like(experience.success)

    def judge(self, experience: Experience) -> Credit:
        """Advantages by GAE over an episode's decisions, standardised over all; every decision weighs the same."""
        value = self.critic(experience)
        score = experience.score(self._config.partial_credit)
        advantage, returns = outcome_gae(experience, score, value, self._config.gamma, self._config.lam)
        unexplained = (returns - value).var() / returns.var().clamp(min=1e-12)
        loss = self.critic.learn(experience, returns)
        self._judged += 1
        measures = {"critic_loss": loss, "explained_variance": 1 - unexplained.item(), "value": value.mean().item()}
        advantage = (advantage - advantage.mean()) / (advantage.std() + EPSILON)
        total = experience.acted.sum() * experience.tokens.shape[-1]
        return Credit(advantage, torch.ones_like(advantage) / total, measures, self._judged > self._config.warmup)

    def state(self) -> dict[str, Any]:
        """The critic, and how often it has judged."""
        return {"critic": self.critic.state(), "judged": self._judged}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.critic.load_state(tree["critic"])
        self._judged = int(tree["judged"])


JUDGES: dict[Algorithm, type[GroupJudge] | type[CriticJudge]] = {
    Algorithm.GRPO: GroupJudge,
    Algorithm.PPO: CriticJudge,
}


def group_advantage(score: Tensor, group: Tensor) -> Tensor:
    """(E,) (r - mean) / (std + 1e-6) within each group, with the unbiased standard deviation."""
    return (score - means(score, group)) / (spread(score, group) + EPSILON)


def means(score: Tensor, group: Tensor) -> Tensor:
    """(E,) the mean score of each episode's group."""
    count = torch.bincount(group).clamp(min=1)
    return (torch.bincount(group, score) / count)[group]


def spread(score: Tensor, group: Tensor) -> Tensor:
    """(E,) the unbiased standard deviation of scores within each episode's group; 0 where there is one."""
    count = torch.bincount(group)
    squares = torch.bincount(group, (score - means(score, group)).square())
    return (squares / (count - 1).clamp(min=1)).sqrt()[group]


def outcome_gae(
    experience: Experience, score: Tensor, value: Tensor, gamma: float, lam: float
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (M,) of decisions whose values are `value` (M,); the last of each earns the `score` (E,).

    What the horizon ends is over: the critic knows the time, so there is nothing to bootstrap from.
    """
    place, episode = experience.places, experience.episode
    steps = torch.bincount(episode, minlength=len(experience))
    shape = (int(steps.max()), len(experience))
    values = value.new_zeros(shape)
    values[place, episode] = value
    reward, last = torch.zeros_like(values), torch.zeros(shape, dtype=torch.bool, device=value.device)
    ends = (steps - 1, torch.arange(len(experience), device=value.device))
    last[ends], reward[ends] = True, score.to(value.dtype)
    nothing, never = torch.zeros_like(values), torch.zeros_like(last)
    advantage, returns = gae(reward, values, nothing[0], nothing, last, never, gamma=gamma, lam=lam)
    return advantage[place, episode], returns[place, episode]
