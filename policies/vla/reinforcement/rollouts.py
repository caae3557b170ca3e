"""Rollouts of a stochastic policy: action chunks sampled by probability, recorded for policy-gradient updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from embodied.core.hooks import PROPRIO
from policies.vla.model.token_head import TokenHead, detokenize
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.rollout_envs import RolloutEnv
from policies.vla.reinforcement.timing import Phase, PhaseTimer


@dataclasses.dataclass(frozen=True, eq=False)
class RolloutBatch:
    """M decisions, an action chunk each, of E episodes; only decisions that were executed."""

    pixels: Tensor
    """(M, cameras, height, width, 3) uint8."""
    state: Tensor
    """(M, S) in the task's units."""
    privileged: Tensor
    """(M, K) privileged observation of the critic; shorter ones are padded with zeros."""
    elapsed: Tensor
    """(M,) share of the horizon that had passed."""
    tokens: Tensor
    """(M, chunk, A) int16, sampled action tokens."""
    log_prob: Tensor
    """(M, chunk, A) of the tokens when they were sampled, nats."""
    executed: Tensor
    """(M, chunk) bool, whether the action was executed before the episode was over."""
    episode: Tensor
    """(M,) int64, index of the episode; decisions of an episode are in their order."""
    instruction: Tensor
    """(E,) int64, index into `instructions`."""
    task: Tensor
    """(E,) int64, number of the task."""
    group: Tensor
    """(E,) int64; episodes of a group have the same initial state and instruction."""
    success: Tensor
    """(E,) bool, whether the task was solved within the horizon."""
    progress: Tensor
    """(E,) from 0 to 1, the largest share of the task's full reward; 0 where it is unknown."""
    length: Tensor
    """(E,) int64, control steps until success or the end."""
    instructions: tuple[str, ...]
    """Every different instruction."""

    def __len__(self) -> int:
        """E."""
        return len(self.success)

    def score(self, partial_credit: float) -> Tensor:
        """(E,) the episode's return: 1 for success, else its progress times `partial_credit`."""
        return torch.where(self.success, 1.0, partial_credit * self.progress)

    @property
    def decision_index(self) -> Tensor:
        """(M,) int64, each decision's place in its episode, from 0."""
        order = torch.argsort(self.episode, stable=True)
        counts = torch.bincount(self.episode, minlength=len(self))
        first = counts.cumsum(0) - counts
        ranks = torch.arange(len(order), device=order.device) - first[self.episode[order]]
        return torch.empty_like(ranks).index_copy_(0, order, ranks)

    @property
    def action_counts(self) -> Tensor:
        """(E,) executed actions of each episode."""
        counts = self.executed.sum(1)
        return torch.zeros(len(self), dtype=counts.dtype, device=counts.device).index_add_(0, self.episode, counts)

    def select(self, keep: Tensor) -> RolloutBatch:
        """The episodes `keep` (E,) bool."""
        decisions = keep[self.episode]
        renumbered = keep.cumsum(0) - 1
        parts = {name: getattr(self, name)[decisions] for name in PER_DECISION}
        parts["episode"] = renumbered[parts["episode"]]
        return RolloutBatch(
            **parts, **{name: getattr(self, name)[keep] for name in PER_EPISODE}, instructions=self.instructions
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> RolloutBatch:
        """Several batches, whose groups stay apart."""
        instructions = tuple(dict.fromkeys(text for part in parts for text in part.instructions))
        size = max(part.privileged.shape[1] for part in parts)
        moved, episodes, groups = [], 0, 0
        for part in parts:
            index = torch.tensor([instructions.index(text) for text in part.instructions], device=part.task.device)
            moved.append(
                dataclasses.replace(
                    part,
                    privileged=torch.nn.functional.pad(part.privileged, (0, size - part.privileged.shape[1])),
                    episode=part.episode + episodes,
                    group=part.group + groups,
                    instruction=index[part.instruction],
                )
            )
            episodes += len(part)
            groups += int(part.group.max()) + 1 if len(part) else 0
        names = (*PER_DECISION, *PER_EPISODE)
        joined = {name: torch.cat([getattr(part, name) for part in moved]) for name in names}
        return RolloutBatch(**joined, instructions=instructions)


PER_DECISION = ("pixels", "state", "privileged", "elapsed", "tokens", "log_prob", "executed", "episode")
PER_EPISODE = ("instruction", "task", "group", "success", "progress", "length")


@dataclasses.dataclass(frozen=True)
class StochasticPolicy:
    """A policy with token head that samples action chunks, and their log-probabilities."""

    policy: VLAPolicy
    temperature: float
    """Divides the logits."""
    generator: torch.Generator
    """On the policy's device."""
    bfloat16: bool
    """Compute in bfloat16."""

    def sample(self, pixels: Tensor, state: Tensor, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions (k, chunk, A) in [-1, 1], their tokens, and the tokens' log-probabilities of the same shape."""
        head = token_head(self.policy)
        features = self.policy.features(pixels, state, text, bfloat16=self.bfloat16)
        distribution = head.distribution(features, self.temperature)
        tokens = distribution.sample(self.generator)
        action = self.policy.normalization.denormalize_action(detokenize(tokens, head.bins)).clamp(-1.0, 1.0)
        return action, tokens, distribution.log_prob(tokens)


def token_head(policy: VLAPolicy) -> TokenHead:
    """The head of a policy that has action tokens."""
    assert isinstance(policy.network.head, TokenHead)
    return policy.network.head


@torch.no_grad()
def collect_rollouts(
    env: RolloutEnv,
    policy: StochasticPolicy,
    instructions: Sequence[str],
    task: int,
    *,
    group_size: int,
    seed: int,
    timer: PhaseTimer,
) -> RolloutBatch:
    """One episode in every environment, chunk by chunk; environments that are done are not rendered again.

    Args:
        env: N environments of a task.
        policy: What samples actions.
        instructions: One for each environment, N, unless its episode has an instruction of its own.
        task: Its number, for the record.
        group_size: How many neighbours have the same initial state; they are a group.
        seed: Of the initial states.
        timer: What counts the time.
    """
    vla, count, device = policy.policy, env.num_envs, policy.policy.device
    with timer.phase(Phase.PHYSICS):
        instructions = env.reset(seed, group_size, instructions)
    distinct = tuple(dict.fromkeys(instructions))
    instruction = torch.tensor([distinct.index(text) for text in instructions], device=device)
    with timer.phase(Phase.INFERENCE):
        text = vla.encode_instructions(distinct, bfloat16=policy.bfloat16)[instruction]
    everyone = torch.arange(count, device=device)
    running = torch.ones(count, dtype=torch.bool, device=device)
    success, length, time, decisions = torch.zeros_like(running), torch.zeros_like(everyone), 0, []
    progress = torch.zeros(count, device=device)
    while time < env.horizon and bool(running.any()):
        rows = everyone[running]
        with timer.phase(Phase.RENDERING):
            obs = env.observe(rows)
            pixels = vla.pixels(obs)
        with timer.phase(Phase.INFERENCE):
            chunk, tokens, log_prob = policy.sample(pixels, obs[PROPRIO], text[rows])
        privileged, elapsed = env.privileged(rows), torch.full((len(rows),), time / env.horizon, device=device)
        executed = torch.zeros(chunk.shape[:2], dtype=torch.bool, device=device)
        for place in range(min(vla.execute, env.horizon - time)):
            executed[:, place] = running[rows]
            action = torch.zeros(count, chunk.shape[-1], device=device)
            action[rows] = chunk[:, place] * executed[:, place, None]
            with timer.phase(Phase.PHYSICS):
                solved, ended, now = env.step(action)
            time += 1
            length += running
            success |= solved & running
            progress = torch.where(running, torch.maximum(progress, now), progress)
            running = running & ~(solved | ended)
            if not bool(running.any()):
                break
        decisions.append((pixels, obs[PROPRIO], privileged, elapsed, tokens.short(), log_prob, executed, rows))
    columns = zip(PER_DECISION, zip(*decisions, strict=True), strict=True)
    return RolloutBatch(
        **{name: torch.cat(parts) for name, parts in columns},
        instruction=instruction,
        task=torch.full_like(everyone, task),
        group=everyone // group_size,
        success=success,
        progress=progress,
        length=length,
        instructions=distinct,
    )
