"""From a config to the two parts of its algorithm: what learns values, and what makes a policy of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from policies.networks.ensemble import CriticEnsemble
from policies.networks.squashed import SquashedActor
from policies.off_policy.actor_critics import OffPolicyConfig, TD3Config
from policies.off_policy.config import MemoryConfig
from policies.off_policy.cqn.config import CQNConfig
from policies.off_policy.cqn.learner import make_coarse_to_fine
from policies.off_policy.critics import ValueLearner, make_head
from policies.off_policy.idql.config import IDQLConfig
from policies.off_policy.idql.learner import make_idql
from policies.off_policy.q_transformer.config import QTransformerConfig
from policies.off_policy.q_transformer.learner import make_q_transformer
from policies.off_policy.replay_buffer import Batch
from policies.off_policy.sizes import Extent
from policies.off_policy.svea import SVEAConfig, make_svea
from policies.off_policy.update_rules import UpdateRule, make_rule


class ValuePart(Protocol):
    """What learns values; observations are normalised."""

    def learn(
        self,
        batch: Batch,
        obs: Tensor,
        next_obs: Tensor,
        next_action: Tensor,
        bonus: Tensor | float,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """Take one step, see `ValueLearner.learn`; returns measures."""
        ...

    def climbed(self, obs: Tensor, action: Tensor) -> Tensor:
        """(B,) values of actions, as a policy climbs them."""
        ...

    def track(self, tau: float) -> None:
        """Mix that share of what was learned into target networks."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything learned."""
        ...

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        ...


Parts = tuple[UpdateRule, ValuePart]


def make_actor_critic(config: OffPolicyConfig, extent: Extent, weights: Generator) -> Parts:
    """A policy with a network of its own, and critics of its actions."""
    stochastic = not isinstance(config, TD3Config)
    actor = SquashedActor(extent.policy, extent.action, config.actor, stochastic=stochastic, generator=weights)
    rule = make_rule(actor.to(extent.device), config, extent.num_envs)
    head = make_head(config, extent.device)
    inputs, outputs = extent.critic + extent.action, head.outputs
    critics = CriticEnsemble(
        config.critics, inputs, outputs, config.critic, layer_norm=config.layer_norm, generator=weights
    )
    return rule, ValueLearner(critics.to(extent.device), head, config)


PARTS: dict[type[MemoryConfig], Callable[[Any, Extent, Generator], Parts]] = {
    OffPolicyConfig: make_actor_critic,
    CQNConfig: make_coarse_to_fine,
    QTransformerConfig: make_q_transformer,
    IDQLConfig: make_idql,
    SVEAConfig: make_svea,
}
"""Type of config, which stands for those derived from it, to what builds its parts."""


def make_parts(config: MemoryConfig, extent: Extent, weights: Generator) -> Parts:
    """Both parts, on their device.

    Args:
        config: Settings, whose type says which algorithm.
        extent: Sizes.
        weights: Makes the initial weights reproducible; on the CPU.

    Raises:
        TypeError: The config belongs to no algorithm.
    """
    for kind in type(config).__mro__:
        if kind in PARTS:
            return PARTS[kind](config, extent, weights)
    known = ", ".join(kind.__name__ for kind in PARTS)
    raise TypeError(f"{type(config).__name__} belongs to no algorithm; expected one derived from {known}")
