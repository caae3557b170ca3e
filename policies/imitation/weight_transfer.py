"""Weight transfer: a learner begins with another policy's network."""

from __future__ import annotations

import torch

from policies.algorithm import MismatchError
from policies.policy import Policy


@torch.no_grad()
def transfer_weights(source: Policy, target: Policy) -> None:
    """Copy the weights of a policy into a learner's, in place: its parameters are views into an optimiser's vector.

    Raises:
        MismatchError: Its network is of another kind or shape; says both.
    """
    shapes = [
        {name: tuple(tensor.shape) for name, tensor in policy.network.actor.named_parameters()}
        for policy in (target, source)
    ]
    if shapes[0] != shapes[1] or source.config.activation is not target.config.activation:
        raise MismatchError(
            f"cannot start from a policy of kind '{source.kind}' with hidden={source.config.hidden} "
            f"{source.config.activation} for {source.observation_size} observations and {source.action_size} actions; "
            f"this learner's is of kind '{target.kind}' with hidden={target.config.hidden} "
            f"{target.config.activation} for {target.network.actor.sizes}"
        )
    for own, given in zip(target.network.actor.parameters(), source.network.actor.parameters(), strict=True):
        own.copy_(given)
