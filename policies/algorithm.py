"""The protocol of a training algorithm, its errors, and starting from another policy's network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from embodied.env.vec_env import POLICY, ObservationSpec, PolicyFunction, Step, VecEnv, vector_sizes
from embodied.errors import EmbodiedError
from policies.policy import Policy


class DivergedError(EmbodiedError):
    """Losses or weights that are not finite."""


class MismatchError(EmbodiedError, ValueError):
    """A policy whose network does not fit an algorithm's."""


class SettingsError(EmbodiedError, ValueError):
    """Settings that do not fit the environments."""


def require_finite(metrics: Mapping[str, float], remedy: str = "", when: str = "") -> None:
    """Refuse metrics of a training that are not finite numbers; the message says `when` it was, and a `remedy`.

    Raises:
        DivergedError: Some are infinite or NaN; names them.
    """
    if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
        helps = f"; {remedy} may help" if remedy else ""
        raise DivergedError(f"training diverged{when and f' {when}'}: {', '.join(broken)}{helps}")


def require_policy_group(spec: Mapping[str, ObservationSpec]) -> None:
    """Refuse environments whose observation groups have no vector `policy`.

    Raises:
        SettingsError: There is none; names the groups that there are.
    """
    if POLICY not in vector_sizes(spec):
        raise SettingsError(f"the environment lacks the observation group '{POLICY}'; it has {', '.join(spec)}")


@torch.no_grad()
def transfer_weights(source: Policy, target: Policy) -> None:
    """Copy the weights of a policy into a learner's, in place: its parameters are views into an optimiser's vector.

    Raises:
        MismatchError: Its network is of another kind or shape; names both.
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


class Algorithm(Protocol):
    """Trains a policy on N environments: `collect` (`act` and `record` `unroll` times), then `update`; again and again.

    Its constructor has the signature of `policies.registry.Build`. Classes derive from this one.
    """

    config: Any
    """Settings, with a field `unroll`."""

    @property
    def unroll(self) -> int:
        """Control steps of every environment per iteration."""
        return self.config.unroll

    @property
    def policy(self) -> Policy:
        """The present policy; it shares the algorithm's weights and goes on learning with it."""
        ...

    def start_from(self, policy: Policy) -> None:
        """Begin with another policy.

        Raises:
            MismatchError: its network is not of this algorithm's kind and shape.
        """
        ...

    def take_critic(self, state: Mapping[str, Any]) -> bool:
        """Begin with the critic of the initial policy's training, too.

        An untrained critic beside a policy that hardly ever fails learns the cost of failures only after the policy
        has forgotten how to avoid them.

        `state` is what that training's algorithm returned; returns whether there is a critic in it that fits.
        """
        del state
        return False

    def advise(self, rule: PolicyFunction) -> None:
        """Learn from the advice of another policy too, as the config's `adviser` announced.

        Raises:
            EmbodiedError: the algorithm takes no advice.
        """
        raise EmbodiedError(f"{type(self).__name__} takes no advice; dagger, sac, rlpd, svea and td3 do")

    def collect(self, env: VecEnv, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take `unroll` control steps from the present observations; returns those after the last one."""
        for _ in range(self.unroll):
            step = env.step(self.act(obs))
            self.record(step)
            obs = dict(step.obs)
        return dict(obs)

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Choose exploring actions (N, A) for raw observations, group to (N, size)."""
        ...

    def record(self, step: Step) -> None:
        """Take in the result of the last actions."""
        ...

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """End an iteration: learn from what was recorded.

        Args:
            obs: The observations after the iteration's last step.
            progress: Fraction of the training that is done, 0 to 1.

        Returns:
            Losses and other metrics by name.

        Raises:
            DivergedError: they are not finite.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on, as tensors and numbers; callable between iterations."""
        ...

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned, with random numbers of its own unless `explore_alike`."""
        ...
