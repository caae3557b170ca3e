"""Rollouts of a stochastic policy: action chunks sampled by probability, recorded for policy-gradient updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Self, cast

import torch
from torch import Generator, Tensor

from embodied.core.hooks import PROPRIO
from embodied.env.env import Env
from embodied.env.vec_env import CRITIC, POLICY, SeededVecEnv, Step, vector_sizes
from embodied.env.wrappers.instructions import instructions_of
from embodied.errors import EmbodiedError
from policies.vla.action_chunks import select_rows
from policies.vla.model.token_head import TokenHead, detokenize
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.timing import Phase, PhaseTimer


@dataclasses.dataclass(frozen=True, eq=False)
class RolloutTask:
    """The environments of a task, and what rollouts need to know of it beside them."""

    name: str
    env: SeededVecEnv
    """N environments, with the policy's cameras."""
    instructions: tuple[str, ...]
    """Instructions that a policy may be given."""
    horizon: int
    """Control steps within which the task is to be solved."""
    hold: int = 1
    """Control steps in a row for which it is to stay solved."""
    max_reward: float | None = None
    """The reward of a step at which the task is solved; None where it is unknown."""
    episode_instructions: Callable[[], Sequence[str]] | None = None
    """Gives the instruction of each running episode, N, where episodes have instructions of their own."""

    @classmethod
    def of(cls, env: Env, policy: VLAPolicy, horizon: int = 0, hold: float = 0.0, what: str = "the policy") -> Self:
        """A task's environments, made with a policy's cameras, and checked for it; errors call the policy `what`.

        Episodes have `horizon` control steps; 0, or more than the task's own: the task's own. The task is to stay
        solved for `hold` s; 0: success counts at once.

        Raises:
            EmbodiedError: policy and environment do not fit, there is no instruction, or an episode is too short to
                hold anything for so long.
        """
        policy.require_fit(env, what)
        known, limit = policy.instructions(env, what), env.max_episode_steps

        def of_episodes() -> list[str]:
            return [instruction.paraphrases[0] for instruction in instructions_of(env)]

        horizon, steps = min(horizon or limit, limit), max(1, round(hold / env.control_dt))
        if steps > horizon:
            raise EmbodiedError(
                f"hold={hold} s are {steps} control steps of '{env.name}', and an episode has {horizon}; expected fewer"
            )
        own = of_episodes if env.task.language and env.task.language.varies else None
        return cls(env.name, cast("SeededVecEnv", env), known, horizon, steps, env.task.max_reward, own)

    @property
    def privileged_group(self) -> str:
        """The observation group of the simulation's critic: `critic`, or `policy` where there is none."""
        return CRITIC if CRITIC in self.env.observation_spec else POLICY

    @property
    def privileged_size(self) -> int:
        """Length of the critic's privileged observation."""
        return vector_sizes(self.env.observation_spec)[self.privileged_group]

    def progress(self, reward: Tensor) -> Tensor:
        """Share of the full reward, 0 to 1, of each reward (N,); 0 where the full reward is unknown."""
        return torch.zeros_like(reward) if self.max_reward is None else (reward / self.max_reward).clamp(0.0, 1.0)


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
    """(E,) bool, whether the task was solved, and stayed so, within the horizon."""
    progress: Tensor
    """(E,) from 0 to 1, the largest share of the task's full reward, mean of as many steps in a row as the task is to
    stay solved; 0 where it is unknown."""
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
    generator: Generator
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


class Outcomes:
    """Results of the running episodes of N environments: see `RolloutBatch`."""

    def __init__(self, task: RolloutTask, device: torch.device) -> None:
        count = task.env.num_envs
        self._task, self._solved = task, torch.zeros(count, dtype=torch.int64, device=device)  # steps in a row
        self._shares = torch.zeros(task.hold, count, device=device)  # of the full reward, of the latest steps
        self._steps = 0
        self.success = torch.zeros(count, dtype=torch.bool, device=device)
        self.length, self.progress = torch.zeros_like(self._solved), torch.zeros(count, device=device)

    def add(self, step: Step, running: Tensor) -> None:
        """Note a control step of the episodes that are `running` (N,) bool."""
        self.length += running
        self._solved = torch.where(step.success, self._solved + 1, 0)
        self.success |= (self._solved >= self._task.hold) & running
        self._shares[self._steps % self._task.hold] = self._task.progress(step.reward)
        self._steps += 1
        best = torch.maximum(self.progress, self._shares.mean(0))
        self.progress = torch.where(running, best, self.progress)


@torch.no_grad()
def collect_rollouts(
    task: RolloutTask,
    policy: StochasticPolicy,
    instructions: Sequence[str],
    number: int,
    *,
    group_size: int,
    seed: int,
    timer: PhaseTimer,
) -> RolloutBatch:
    """One episode in every environment, chunk by chunk; environments that are done are not rendered again.

    There is one of `instructions` for each environment, unless its episode has one of its own. `group_size` neighbours
    have the same initial state, by `seed`; they are a group. `number` is the task's in the record.
    """
    vla, env, count, device = policy.policy, task.env, task.env.num_envs, policy.policy.device
    with timer.phase(Phase.PHYSICS):
        obs = env.reset(seed, group_size=group_size)
    if task.episode_instructions is not None:
        instructions = task.episode_instructions()
    distinct = tuple(dict.fromkeys(instructions))
    instruction = torch.tensor([distinct.index(text) for text in instructions], device=device)
    with timer.phase(Phase.INFERENCE):
        text = vla.encode_instructions(distinct, bfloat16=policy.bfloat16)[instruction]
    everyone = torch.arange(count, device=device)
    running = torch.ones(count, dtype=torch.bool, device=device)
    outcomes, time, decisions = Outcomes(task, device), 0, []
    while time < task.horizon and bool(running.any()):
        rows = everyone[running]
        with timer.phase(Phase.RENDERING):
            seen = select_rows(obs, vla.groups, rows)
            pixels = vla.pixels(seen)
        with timer.phase(Phase.INFERENCE):
            chunk, tokens, log_prob = policy.sample(pixels, seen[PROPRIO], text[rows])
        privileged = obs[task.privileged_group][rows]
        elapsed = torch.full((len(rows),), time / task.horizon, device=device)
        executed = torch.zeros(chunk.shape[:2], dtype=torch.bool, device=device)
        for place in range(min(vla.execute, task.horizon - time)):
            executed[:, place] = running[rows]
            action = torch.zeros(count, chunk.shape[-1], device=device)
            action[rows] = chunk[:, place] * executed[:, place, None]
            with timer.phase(Phase.PHYSICS):
                step = env.step(action)
            obs, time = step.obs, time + 1
            outcomes.add(step, running)
            running = running & ~(outcomes.success | step.terminated | step.truncated)
            if not bool(running.any()):
                break
        decisions.append((pixels, seen[PROPRIO], privileged, elapsed, tokens.short(), log_prob, executed, rows))
    columns = zip(PER_DECISION, zip(*decisions, strict=True), strict=True)
    return RolloutBatch(
        **{name: torch.cat(parts) for name, parts in columns},
        instruction=instruction,
        task=torch.full_like(everyone, number),
        group=everyone // group_size,
        success=outcomes.success,
        progress=outcomes.progress,
        length=outcomes.length,
        instructions=distinct,
    )
