"""Beginning with another policy's network."""

from __future__ import annotations

import torch

from policies.algorithm import MismatchError
from policies.policy import Policy


@torch.no_grad()
def adopt(own: Policy, given: Policy) -> None:
    """Copy the weights of a policy into a learner's own, in place: its parameters are views into an optimiser's vector.

    Raises:
        MismatchError: Its network is of another kind or shape; says both.
    """
    shapes = [
        {name: tuple(tensor.shape) for name, tensor in policy.network.actor.named_parameters()}
        for policy in (own, given)
    ]
    if shapes[0] != shapes[1] or given.config.activation is not own.config.activation:
        raise MismatchError(
            f"cannot start from a policy of kind '{given.kind}' with hidden={given.config.hidden} "
            f"{given.config.activation} for {given.observation_size} observations and {given.action_size} actions; "
            f"this learner's is of kind '{own.kind}' with hidden={own.config.hidden} {own.config.activation} for "
            f"{own.network.actor.sizes}"
        )
    for parameter, source in zip(own.network.actor.parameters(), given.network.actor.parameters(), strict=True):
        parameter.copy_(source)
