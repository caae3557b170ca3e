"""Asking before acting: who decides whether to ask, and the instruction of an episode after the answer.

To ask or to act is an action, a number with two values: the signal token of Ask-to-Clarify (arXiv:2509.15061). So the
network that decides is a small vision-language-action policy, trained as one. Its other numbers, two for each phrase of
a task, describe the scene.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import torch
from torch import Tensor

from embodied.core.instruction import Dialogue
from embodied.env.env import Env
from embodied.env.wrappers.instructions import dialogues_of, require_dialogues
from embodied.errors import EmbodiedError
from policies.vla.data.robot_spec import RobotSpec
from policies.vla.model.config import VLAConfig
from policies.vla.policy import VLAPolicy

ACT, ASK = -1.0, 1.0  # the action's two values
ASKER = VLAConfig(
    width=96, layers=2, attention_heads=4, channels=(32, 64, 96), text_width=64, text_layers=1, text_buckets=512,
    chunk=1, bins=2,
)  # fmt: skip
"""A network of 0.6 M parameters that asks or acts."""

Asker: TypeAlias = Callable[[Sequence[Dialogue], Tensor, Mapping[str, Tensor]], Tensor]
"""Dialogues of k environments, their indices (k,) int64 and the observation of all, to whether to ask, (k,) bool."""


class By(StrEnum):
    """Decision rule on whether to ask."""

    NEVER = "never"
    """None: an ambiguous instruction is guessed at."""
    ALWAYS = "always"
    """Asks every time."""
    ORACLE = "oracle"
    """The simulation, which knows how many objects an instruction fits."""
    LEARNED = "learned"
    """The network."""


def never(dialogues: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Do not ask."""
    del rows, obs
    return torch.zeros(len(dialogues), dtype=torch.bool)


def always(dialogues: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Ask every time."""
    return ~never(dialogues, rows, obs)


def oracle(dialogues: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
    """Ask where the instruction fits several objects."""
    del rows, obs
    return torch.tensor([dialogue.ambiguous for dialogue in dialogues])


ASKERS: Mapping[By, Asker] = {By.NEVER: never, By.ALWAYS: always, By.ORACLE: oracle}


def learned(policy: VLAPolicy) -> Asker:
    """Ask where a network that was trained on scenes decides so, from their images and the instruction."""

    @torch.no_grad()
    def ask(dialogues: Sequence[Dialogue], rows: Tensor, obs: Mapping[str, Tensor]) -> Tensor:
        text = policy.encode_instructions([dialogue.instruction for dialogue in dialogues])
        seen = {group: obs[group][rows.to(obs[group].device)] for group in policy.groups}
        return policy.plan(seen, text, 0.0)[:, 0, 0].cpu() > (ACT + ASK) / 2

    return ask


def require_asker(policy: object, spec: RobotSpec, what: str) -> VLAPolicy:
    """The policy, if it decides about asking and has the observations of `spec`.

    Raises:
        EmbodiedError: it is a policy that acts, or has others.
    """
    if not isinstance(policy, VLAPolicy) or policy.network.config.bins != 2:
        raise EmbodiedError(
            f"{what} does not decide about asking; expected a run of python -m policies.vla.asking.train"
        )
    expected = dataclasses.replace(spec, action_size=policy.action_size)
    if policy.spec != expected:
        raise EmbodiedError(f"{what} does not fit, it {policy.spec.difference(expected)}")
    return policy


class ClarifiedInstructions:
    """The instructions of episodes, with the user's answer where an asker asked; an `InstructionSource`.

    The simulation plays the user.
    """

    def __init__(self, env: Env, asker: Asker) -> None:
        """Check that there is something to ask.

        Raises:
            EmbodiedError: the task has the same instruction in every episode.
        """
        require_dialogues(env)
        self.env, self.asker = env, asker
        self._asked, self._ambiguous = (torch.zeros(env.num_envs, dtype=torch.bool) for _ in range(2))

    def __call__(self, rows: Tensor, obs: Mapping[str, Tensor]) -> list[str]:
        """The instructions of the environments `rows` (k,) int64, whose episodes begin."""
        dialogues = dialogues_of(self.env, rows.tolist())
        asked = self.asker(dialogues, rows, obs)
        self._asked[rows.cpu()] = asked
        self._ambiguous[rows.cpu()] = torch.tensor([dialogue.ambiguous for dialogue in dialogues])
        return [dialogue.full_instruction(bool(ask)) for dialogue, ask in zip(dialogues, asked, strict=True)]

    def notes(self) -> dict[str, Tensor]:
        """For the running episodes, (N,) bool: `asked`, and whether the instruction was `ambiguous`."""
        return {"asked": self._asked.to(self.env.device), "ambiguous": self._ambiguous.to(self.env.device)}
