"""Who decides whether to ask: nobody, always, an oracle, or a network that sees and reads.

To ask or to act is one more action, a number with two values: the signal token of Ask-to-Clarify (arXiv:2509.15061). So
the network that decides is a small vision-language-action policy, fitted as one. Its other numbers, as many as a task
has phrases to tell of, say what there is to see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import torch
from torch import Tensor

from embodied.core.instruction import Dialogue
from embodied.errors import EmbodiedError
from policies.vla.data.batches import Senses, difference
from policies.vla.model.config import VLAConfig
from policies.vla.policy import VLAPolicy

ACT, ASK = -1.0, 1.0  # the action's two values
ASKER = VLAConfig(
    width=96, layers=2, attention_heads=4, channels=(32, 64, 96), text_width=64, text_layers=1, text_buckets=512,
    chunk=1, bins=2,
)  # fmt: skip
"""A network of 0.6 M parameters that asks or acts."""

Asker: TypeAlias = Callable[[Sequence[Dialogue], Tensor, Mapping[str, Tensor]], Tensor]
"""Dialogues of k environments, which they are among all, (k,) int64, and what all observe, to (k,) bool: ask?"""


class By(StrEnum):
    """Who decides."""

    NEVER = "never"
    """Nobody: an unclear instruction is guessed at."""
    ALWAYS = "always"
    """Asks every time."""
    ORACLE = "oracle"
    """The simulation, which knows how many things an instruction fits."""
    LEARNED = "learned"
    """The network."""


def never(said: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Do not ask."""
    del rows, obs
    return torch.zeros(len(said), dtype=torch.bool)


def always(said: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Ask."""
    return ~never(said, rows, obs)


def oracle(said: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Ask where the instruction fits several things."""
    del rows, obs
    return torch.tensor([dialogue.ambiguous for dialogue in said])


RULES: Mapping[By, Asker] = {By.NEVER: never, By.ALWAYS: always, By.ORACLE: oracle}


def learned(policy: VLAPolicy) -> Asker:
    """Ask where a network that was fitted to scenes says so, from their pictures and the instruction."""

    @torch.no_grad()
    def ask(said: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
        words = policy.network.read([dialogue.instruction for dialogue in said])
        seen = {group: obs[group][rows.to(obs[group].device)] for group in policy.groups}
        return policy.plan(seen, words, 0.0)[:, 0, 0].cpu() > (ACT + ASK) / 2

    return ask


def check_asker(policy: object, senses: Senses, what: str) -> VLAPolicy:
    """The policy, if it decides about asking and sees what `senses` say.

    Raises:
        EmbodiedError: it acts instead, or sees something else.
    """
    if not isinstance(policy, VLAPolicy) or policy.network.config.bins != 2:
        raise EmbodiedError(
            f"{what} does not decide about asking; expected a run of python -m policies.vla.asking.train"
        )
    expected = dataclasses.replace(senses, action_size=policy.senses.action_size)
    if policy.senses != expected:
        raise EmbodiedError(f"{what} does not fit, it {difference(policy.senses, expected)}")
    return policy
