"""Advice: another policy's actions, which an off-policy learner imitates where its own critics prefer them.

After VARL (arXiv:2509.21126), whose adviser is a vision-language model. The reward is left alone, and advice that
critics value less than the policy's own action has no influence, so the optimal policy stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from embodied.env.vec_env import ObservationSpec, PolicyFunction
from embodied.errors import EmbodiedError

ADVICE = "advice"
"""Group of the replay buffer that holds advice: (A,) the advised action, then 1 where there is one, else 0."""
QFunction = Callable[[Tensor], Tensor]
"""Actions (B, A) to their Q-values (B,) in the states of a batch."""
Penalty = Callable[[Tensor], Tensor]
"""The policy's actions (B, A) to a further term of its loss, ()."""


class Advice:
    """Queries a policy for its actions at every `interval`-th control step, until `limit` actions are given."""

    def __init__(self, adviser: str, interval: int, limit: int, weight: float, action_size: int) -> None:
        """Begin without the policy, which `OffPolicyLearner.advise` gives; numbers as in `AdvisedConfig`."""
        self.name, self._interval, self._limit, self._weight = adviser, interval, limit, weight
        self.spec = {ADVICE: ObservationSpec((action_size + 1,))}
        self.rule: PolicyFunction | None = None
        self._given, self._step = 0, 0

    def observe(self, obs: Mapping[str, Tensor], like: Tensor) -> dict[str, Tensor]:
        """The group to store beside raw observations; `like` has the actions' shape (N, A).

        Raises:
            EmbodiedError: The config announced an adviser that was not given.
        """
        if self.rule is None:
            raise EmbodiedError(f"adviser='{self.name}' is announced; give its policy to OffPolicyLearner.advise")
        due = self._step % self._interval == 0 and self._given < self._limit
        self._step += 1
        if not due:
            return {ADVICE: torch.cat([torch.zeros_like(like), torch.zeros_like(like[:, :1])], -1)}
        self._given += len(like)
        advised = self.rule(obs).clamp(-1.0, 1.0).to(like.device)
        return {ADVICE: torch.cat([advised, torch.ones_like(like[:, :1])], -1)}

    def penalty(self, obs: Mapping[str, Tensor], q_value: QFunction) -> Penalty:
        """The advice's term of the policy's loss on a batch's observations."""
        advice = obs[ADVICE]
        return lambda action: self._weight * advice_loss(action, advice, q_value)

    def state(self) -> dict[str, int]:
        return {"given": self._given, "step": self._step}

    def load_state(self, tree: Mapping[str, int]) -> None:
        self._given, self._step = int(tree["given"]), int(tree["step"])


def advice_loss(own: Tensor, advice: Tensor, q_value: QFunction) -> Tensor:
    """Squared distance of the policy's actions (B, A) from `ADVICE` (B, A + 1) that critics prefer, shape ()."""
    advised, given = advice[:, :-1], advice[:, -1] > 0
    with torch.no_grad():
        preferred = given & (q_value(advised) > q_value(own))
    return ((own - advised).square().mean(-1) * preferred).mean()
