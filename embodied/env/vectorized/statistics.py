"""Statistics of ended episodes: sums on the device, and their means on the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from embodied.core.episode import Episode, Transition


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EpisodeTotals:
    """Sums over the episodes that ended, and what went wrong, on the device of the physics."""

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
    """Per metric, the sum of its mean over an episode, over the episodes in which it is a number."""
    measured: dict[str, Array]
    """Per metric, the number of these episodes."""
    team_returns: dict[str, Array]
    """Per side, the sum over episodes of the return of its agents."""


def zero_totals(episode: Episode[Any]) -> EpisodeTotals:
    """Totals of no episode, for the terms and metrics that `episode` counts."""
    count = lambda: jnp.zeros((), jnp.int32)  # noqa: E731  Each field has its own buffer: they are donated.
    return EpisodeTotals(
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
        measured={name: count() for name in episode.metrics},
        team_returns={name: jnp.zeros(()) for name in episode.team_totals},
    )


def zeros_like_totals(totals: EpisodeTotals) -> EpisodeTotals:
    """Zeros in place of every sum."""
    return jax.tree.map(jnp.zeros_like, totals)


def add_totals(totals: EpisodeTotals, transition: Transition, episode: Episode[Any], overflow: Array) -> EpisodeTotals:
    """`totals` with the episodes that `transition` ended; all arguments batched on axis 0."""
    done = transition.terminated | transition.truncated
    count = lambda mask: jnp.sum(mask, dtype=jnp.int32)  # noqa: E731
    length = jnp.maximum(episode.steps, 1)
    return EpisodeTotals(
        episodes=totals.episodes + count(done),
        length=totals.length + jnp.sum(jnp.where(done, episode.steps, 0), dtype=jnp.int32),
        returns=totals.returns + jnp.sum(jnp.where(done, episode.total, 0.0)),
        success=totals.success + count(done & transition.success),
        success_any=totals.success_any + count(done & episode.success_any),
        failure=totals.failure + count(transition.failed),
        diverged=totals.diverged + count(transition.diverged),
        overflow=totals.overflow + count(overflow),
        terms={k: v + jnp.sum(jnp.where(done, episode.terms[k], 0.0)) for k, v in totals.terms.items()},
        metrics={
            k: v + jnp.nansum(jnp.where(done, episode.metrics[k] / length, 0.0)) for k, v in totals.metrics.items()
        },
        measured={k: v + count(done & ~jnp.isnan(episode.metrics[k])) for k, v in totals.measured.items()},
        team_returns={
            k: v + jnp.sum(jnp.where(done, episode.team_totals[k], 0.0)) for k, v in totals.team_returns.items()
        },
    )


@dataclasses.dataclass(frozen=True)
class EpisodeStatistics:
    """Sums over ended episodes on the host, in double precision."""

    sums: dict[str, float] = dataclasses.field(default_factory=dict)
    measured: dict[str, float] = dataclasses.field(default_factory=dict)
    """Per metric, the number of episodes in which it is a number."""

    def plus(self, totals: EpisodeTotals) -> EpisodeStatistics:
        """These statistics with a simulator's totals added."""
        flat = {
            "episodes": totals.episodes,
            "length": totals.length,
            "return": totals.returns,
            "success": totals.success,
            "success_any": totals.success_any,
            "failure": totals.failure,
            "diverged": totals.diverged,
            **{f"reward/{name}": value for name, value in totals.terms.items()},
            **{f"return/{name}": value for name, value in totals.team_returns.items()},
            **totals.metrics,
        }
        return EpisodeStatistics(_added(self.sums, flat), _added(self.measured, totals.measured))

    def means(self) -> dict[str, float]:
        """Means per episode; `episodes` and `diverged` stay counts, and stand alone where no episode ended.

        A metric's mean is over the episodes in which it is a number, and missing where there is none.
        """
        counts = {name: self.sums.get(name, 0.0) for name in ("episodes", "diverged")}
        episodes = {name: self.measured.get(name, counts["episodes"]) for name in self.sums if name not in counts}
        return counts | {name: self.sums[name] / count for name, count in episodes.items() if count}


def _added(sums: Mapping[str, float], values: Mapping[str, Array]) -> dict[str, float]:
    return {name: sums.get(name, 0.0) + float(value) for name, value in values.items()}
