"""Sums over the episodes that ended: what statistics are made of."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.episode import Episode, Transition


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums over the episodes that ended, and what went wrong. Read and cleared by `Env.statistics`."""

    episodes: Array
    length: Array
    returns: Array
    success: Array
    """Episodes that were solved at their last step."""
    success_any: Array
    """Episodes that were solved at any step."""
    failure: Array
    diverged: Array
    overflow: Array
    """() int32, environments whose engine ran out of buffer."""
    terms: dict[str, Array]
    """Per reward term, the sum over episodes of its weighted sum."""
    metrics: dict[str, Array]
    """Per metric, the sum over episodes of its mean over the episode."""


def no_totals(episode: Episode[Any]) -> Totals:
    """Totals of nothing, for the terms and metrics that `episode` counts."""
    count = lambda: jnp.zeros((), jnp.int32)  # noqa: E731  Each field has its own buffer: they are donated.
    return Totals(
        episodes=count(),
        length=count(),
        returns=jnp.zeros(()),
        success=count(),
        success_any=count(),
        failure=count(),
        diverged=count(),
        overflow=count(),
        terms={name: jnp.zeros(()) for name in episode.terms},
        metrics={name: jnp.zeros(()) for name in episode.metrics},
    )


def cleared(totals: Totals) -> Totals:
    """Zeros in place of every sum."""
    return jax.tree.map(jnp.zeros_like, totals)


def add_totals(totals: Totals, transition: Transition, episode: Episode[Any], overflow: Array) -> Totals:
    """`totals` with the episodes that `transition` ended; all arguments batched on axis 0."""
    done = transition.terminated | transition.truncated
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)  # noqa: E731
    length = jnp.maximum(episode.steps, 1)
    return Totals(
        episodes=totals.episodes + count(done),
        length=totals.length + jnp.sum(jnp.where(done, episode.steps, 0), dtype=jnp.int32),
        returns=totals.returns + jnp.sum(jnp.where(done, episode.total, 0.0)),
        success=totals.success + count(done & transition.success),
        success_any=totals.success_any + count(done & episode.success_any),
        failure=totals.failure + count(transition.terminated),
        diverged=totals.diverged + count(transition.diverged),
        overflow=totals.overflow + count(overflow),
        terms={k: v + jnp.sum(jnp.where(done, episode.terms[k], 0.0)) for k, v in totals.terms.items()},
        metrics={k: v + jnp.sum(jnp.where(done, episode.metrics[k] / length, 0.0)) for k, v in totals.metrics.items()},
    )
