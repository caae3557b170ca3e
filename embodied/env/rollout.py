"""Rollouts as one program: the actor's network as arrays, and the data of T steps of N environments.

The network runs in the same `scan` as task, physics and restarts, and only the finished rollout crosses to torch. With
1,024 drones this is 2.9 times as fast as steps one by one (step_profile.json). PPO with a perceptron uses it; teams,
cameras, host engines and other learners step.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

ACTIVATIONS = {"elu": jax.nn.elu, "tanh": jnp.tanh, "relu": jax.nn.relu, "silu": jax.nn.silu}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PerceptronActor:
    """A Gaussian actor's numbers: a multilayer perceptron behind normalised observations.

    Its leaves are JAX arrays within a program, and torch tensors on the way there.
    """

    weights: tuple[Any, ...]
    """(outputs, inputs) of each layer."""
    biases: tuple[Any, ...]
    """(outputs,) of each layer."""
    log_std: Any
    """(A,) natural logarithm of the actions' standard deviation."""
    observation_mean: Any
    """(size,) subtracted from an observation."""
    observation_scale: Any
    """(size,) by which the difference is multiplied."""
    observation_clip: float = dataclasses.field(metadata={"static": True})
    """Bound on the result."""
    activation: str = dataclasses.field(metadata={"static": True})
    """Nonlinearity between layers: elu, tanh, relu or silu."""

    def mean(self, observation: Array) -> Array:
        """(N, A) mean actions for raw observations (N, size)."""
        bound, between = self.observation_clip, ACTIVATIONS[self.activation]
        hidden = jnp.clip((observation - self.observation_mean) * self.observation_scale, -bound, bound)
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = hidden @ weight.T + bias
            hidden = between(hidden) if index < len(self.weights) - 1 else hidden
        return hidden


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RolloutData:
    """T control steps of N environments; its leaves are JAX arrays within a program, and torch tensors behind it."""

    observation: dict[str, Any]
    """Group -> (T, N, size), what was acted on."""
    final_observation: dict[str, Any]
    """Group -> (T, N, size), what the step led to, before any restart."""
    action: Any
    """(T, N, A) as sampled: the environment clips it to [-1, 1]."""
    mean: Any
    """(T, N, A) mean of the distribution it was sampled from."""
    reward: Any
    """(T, N)."""
    terminated: Any
    """(T, N) bool."""
    truncated: Any
    """(T, N) bool."""
