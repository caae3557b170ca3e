"""An adviser: some policy says what it would do, and the learner imitates that where its own critics agree.

After VARL (arXiv:2509.21126), whose adviser is a model of vision and language. The reward is left alone, and advice
that critics value less than the policy's own action has no influence: the best policy stays what it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError
from policies.off_policy.actor_critics import ClimbingConfig
from policies.off_policy.config import MemoryConfig
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.update_rules import Penalty, Values

ADVICE = "advice"
"""Under which advice lies beside remembered observations: (A,) what was advised, then 1 where something was, else 0."""


class Advice:
    """Asks a policy at every `advice_interval`-th control step, until `advice_until` actions are given.

    Without an adviser in the config it notes nothing and penalises nothing.
    """

    def __init__(self, config: MemoryConfig, action_size: int) -> None:
        """Begin without the policy, which `OffPolicy.advise` gives."""
        self.config = config if isinstance(config, ClimbingConfig) and config.adviser is not None else None
        self.notes = {} if self.config is None else {ADVICE: action_size + 1}
        self.rule: PolicyFunction | None = None
        self._given, self._step = 0, 0

    def give(self, rule: PolicyFunction) -> None:
        """Ask this policy.

        Raises:
            EmbodiedError: The config announced none.
        """
        if self.config is None:
            raise EmbodiedError("advice was offered to a learner without adviser; expected a config with adviser=NAME")
        self.rule = rule

    def note(self, obs: Mapping[str, Tensor], like: Tensor) -> dict[str, Tensor]:
        """What is remembered beside raw observations; `like` has the actions' shape (N, A).

        Raises:
            EmbodiedError: The config announced an adviser that was not given.
        """
        if self.config is None:
            return {}
        if self.rule is None:
            raise EmbodiedError(f"adviser='{self.config.adviser}' is announced; give its policy to OffPolicy.advise")
        due = self._step % self.config.advice_interval == 0 and self._given < self.config.advice_until
        self._step += 1
        if not due:
            return {ADVICE: torch.cat([torch.zeros_like(like), torch.zeros_like(like[:, :1])], -1)}
        self._given += len(like)
        advised = self.rule(obs).clamp(-1.0, 1.0).to(like.device)
        return {ADVICE: torch.cat([advised, torch.ones_like(like[:, :1])], -1)}

    def penalty(self, batch: Batch, values: Values) -> Penalty | None:
        """What advice adds to the policy's loss."""
        if self.config is None:
            return None
        weight, advice = self.config.advice_weight, batch.obs[ADVICE]
        return lambda action: weight * advice_loss(action, advice, values)

    def state(self) -> dict[str, int]:
        """How often it was asked."""
        return {"given": self._given, "step": self._step}

    def load_state(self, tree: Mapping[str, int]) -> None:
        """Continue from what `state` returned."""
        self._given, self._step = int(tree.get("given", 0)), int(tree.get("step", 0))


def advice_loss(own: Tensor, advice: Tensor, values: Values) -> Tensor:
    """Squared distance of the policy's actions from advice that critics prefer, shape ().

    Args:
        own: (B, A) the policy's actions.
        advice: (B, A + 1).
        values: What critics say of actions.
    """
    advised, given = advice[:, :-1], advice[:, -1] > 0
    with torch.no_grad():
        preferred = given & (values(advised) > values(own))
    return ((own - advised).square().mean(-1) * preferred).mean()
