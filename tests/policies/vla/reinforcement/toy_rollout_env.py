"""A task small enough to be learned in seconds: a red picture says left, a blue one right."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from policies.vla.reinforcement.rollout_envs import StepResult
from policies.vla.reinforcement.rollouts import RolloutBatch, StochasticPolicy, collect_rollouts
from policies.vla.reinforcement.settings import RLConfig
from policies.vla.reinforcement.timing import PhaseTimer
from tests.policies.vla.toy_demonstrations import LEFT, RIGHT, SMALL, episode, shown, untrained

COARSE = dataclasses.replace(SMALL, width=16, layers=1, channels=(4, 8, 8), text_width=8, bins=4, chunk=4)
BRIEF = RLConfig(
    groups=8,
    group_size=4,
    rounds=2,
    horizon=8,
    partial_credit=0.0,
    temperature=1.0,
    learning_rate=5e-3,
    minibatch=64,
    epochs=2,
    critic_warmup=1,
    bfloat16=False,
)
DEMONSTRATIONS = shown([episode(0), episode(1)])


class ToyRolloutEnv:
    """Environments on a line, with the goal on one side or the other."""

    name = "toy/left"
    instructions = (LEFT, RIGHT)
    horizon = 8
    privileged_size = 2
    has_progress = True

    def __init__(self, num_envs: int = BRIEF.episodes, goal: float = 1.0) -> None:
        """The goal is `goal` away, and as far on the other side an episode fails."""
        self.num_envs, self.goal = num_envs, goal
        self.looked: list[list[int]] = []

    def reset(self, seed: int, group_size: int, instructions: Sequence[str]) -> Sequence[str]:
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(2, (self.num_envs // group_size,), generator=generator)
        self.side, self.place = drawn.repeat_interleave(group_size), torch.zeros(self.num_envs)
        return instructions

    def observe(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        self.looked.append(rows.tolist())
        front = torch.zeros(len(rows), 3, 32, 32, dtype=torch.uint8)
        front[torch.arange(len(rows)), 2 * self.side[rows]] = 255
        return {"pixels/front": front, "pixels/wrist": torch.zeros_like(front), "proprio": torch.zeros(len(rows), 3)}

    def privileged(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.side[rows].float(), self.place[rows]], -1)

    def step(self, action: torch.Tensor) -> StepResult:
        self.place = self.place + action[:, 0] * (2 * self.side - 1)
        progress = (self.place / self.goal).clamp(0.0, 1.0)
        return StepResult(self.place > self.goal, self.place < -self.goal, progress)


def fresh_policy(seed: int = 0, execute: int = 0):
    torch.manual_seed(seed)
    return untrained(DEMONSTRATIONS, COARSE, execute)


def toy_episodes(policy, env: ToyRolloutEnv, *, group_size: int = 4, seed: int = 0) -> RolloutBatch:
    """One in every environment of an env, half of the groups told to go to either side."""
    sampler = StochasticPolicy(policy, 1.0, torch.Generator().manual_seed(seed), bfloat16=False)
    texts = [(LEFT, RIGHT)[place // 4 % 2] for place in range(env.num_envs)]
    return collect_rollouts(env, sampler, texts, 0, group_size=group_size, seed=seed, timer=PhaseTimer())
