"""A conversation: what each episode's robot is told, after a question where an asker wants one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from embodied.env.dialogue import check_dialogue, dialogues_of
from embodied.env.env import Env
from policies.vla.asking.asker import Asker


class Conversation:
    """Tells policies what to do, as `embodied.env.dialogue.Tell`; the simulation plays the user, and answers questions."""

    def __init__(self, env: Env, asker: Asker) -> None:
        """Of the environments that `asker` speaks for.

        Raises:
            EmbodiedError: the task says the same in every episode.
        """
        check_dialogue(env)
        self.env, self.asker = env, asker
        self._asked, self._ambiguous = (torch.zeros(env.num_envs, dtype=torch.bool) for _ in range(2))

    def __call__(self, rows: Tensor, obs: Mapping[str, Tensor]) -> list[str]:
        """What the robots of some environments, (k,) int64, have heard before they act."""
        said = dialogues_of(self.env, rows.tolist())
        asked = self.asker(said, rows, obs)
        self._asked[rows.cpu()] = asked
        self._ambiguous[rows.cpu()] = torch.tensor([dialogue.ambiguous for dialogue in said])
        return [dialogue.full_instruction(bool(ask)) for dialogue, ask in zip(said, asked, strict=True)]

    def notes(self) -> dict[str, Tensor]:
        """Of the running episodes, (N,) bool: `asked`, and whether the instruction was `ambiguous`."""
        return {"asked": self._asked.to(self.env.device), "ambiguous": self._ambiguous.to(self.env.device)}
