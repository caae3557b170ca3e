"""Episodes in which a policy draws its actions by their probability, recorded for what learns from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from embodied.core.task import PROPRIO
from policies.vla.fine_tuning.stopwatch import Part, Stopwatch
from policies.vla.model.precision import features, read
from policies.vla.model.tokens import TokenHead, decode
from policies.vla.policy import VLAPolicy
from policies.vla.reinforcement.experience import Experience
from policies.vla.reinforcement.rollout_envs import Arena


@dataclasses.dataclass(frozen=True)
class Sampler:
    """A policy that draws whole chunks, and remembers with what probability."""

    policy: VLAPolicy
    """What decides; its head is `tokens`."""
    temperature: float
    """By which logits are divided."""
    generator: torch.Generator
    """Of the draws, on the policy's device."""
    bfloat16: bool
    """Whether to compute in bfloat16."""

    def draw(self, pixels: Tensor, state: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions (k, chunk, A) in [-1, 1], their tokens, and the tokens' log-probabilities of the same shape."""
        head = token_head(self.policy)
        seen = features(self.policy, pixels, state, words, bfloat16=self.bfloat16)
        choice = head.choice(seen, self.temperature)
        tokens = choice.sample(self.generator)
        action = self.policy.statistics.action(decode(tokens, head.bins)).clamp(-1.0, 1.0)
        return action, tokens, choice.log_prob(tokens)


def token_head(policy: VLAPolicy) -> TokenHead:
    """The head of a policy whose actions have probabilities."""
    assert isinstance(policy.network.head, TokenHead)
    return policy.network.head


@torch.no_grad()
def roll_out(
    arena: Arena, sampler: Sampler, texts: Sequence[str], task: int, *, alike: int, seed: int, watch: Stopwatch
) -> Experience:
    """One episode in every environment of an arena, chunk by chunk; environments that are done are not drawn again.

    Args:
        arena: Where.
        sampler: Who decides.
        texts: What each environment is told, N, unless its episode has words of its own.
        task: Its number, for the record.
        alike: How many neighbours begin in the same state; they are a group.
        seed: Of the starts.
        watch: What counts the time.
    """
    policy, count = sampler.policy, arena.num_envs
    with watch.part(Part.PHYSICS):
        texts = arena.begin(seed, alike, texts)
    told = tuple(dict.fromkeys(texts))
    text = torch.tensor([told.index(one) for one in texts], device=policy.device)
    with watch.part(Part.INFERENCE):
        words = read(policy, told, bfloat16=sampler.bfloat16)[text]
    everyone = torch.arange(count, device=policy.device)
    running = torch.ones(count, dtype=torch.bool, device=policy.device)
    success, length, time, looks = torch.zeros_like(running), torch.zeros_like(everyone), 0, []
    progress = torch.zeros(count, device=policy.device)
    while time < arena.horizon and bool(running.any()):
        rows = everyone[running]
        with watch.part(Part.RENDERING):
            obs = arena.look(rows)
            pixels = policy.pixels(obs)
        with watch.part(Part.INFERENCE):
            chunk, tokens, log_prob = sampler.draw(pixels, obs[PROPRIO], words[rows])
        known, elapsed = arena.know(rows), torch.full((len(rows),), time / arena.horizon, device=policy.device)
        acted = torch.zeros(chunk.shape[:2], dtype=torch.bool, device=policy.device)
        for place in range(min(policy.execute, arena.horizon - time)):
            acted[:, place] = running[rows]
            action = torch.zeros(count, chunk.shape[-1], device=policy.device)
            action[rows] = chunk[:, place] * acted[:, place, None]
            with watch.part(Part.PHYSICS):
                solved, ended, now = arena.step(action)
            time += 1
            length += running
            success |= solved & running
            progress = torch.where(running, torch.maximum(progress, now), progress)
            running = running & ~(solved | ended)
            if not bool(running.any()):
                break
        looks.append((pixels, obs[PROPRIO], known, elapsed, tokens.short(), log_prob, acted, rows))
    names = ("pixels", "state", "knowledge", "elapsed", "tokens", "log_prob", "acted", "episode")
    decisions = {name: torch.cat(parts) for name, parts in zip(names, zip(*looks, strict=True), strict=True)}
    return Experience(
        **decisions,
        text=text,
        task=torch.full_like(everyone, task),
        group=everyone // alike,
        success=success,
        progress=progress,
        length=length,
        texts=told,
    )
