"""Initial states from which a policy fails: what distinguishes them, the risk of each, and a few to demonstrate.

Pure functions of numbers: (K, F) features of K starts and (K,) whether the policy failed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import mujoco
import numpy as np

from embodied.core.world import ResetState
from embodied.storage.trees import path_name

BINS = 5  # quantile bins of a feature, in which failures are counted
SHUFFLES = 200  # of the outcomes, to know what chance does
SIGNIFICANT = 0.01  # share of shuffles that may inform as much as the outcomes, corrected for the number of features
TELLING = 3  # features of which a map is made at most: neighbours in more dimensions are far away
NEIGHBOURS = 24  # starts over which a risk is averaged: at one half its standard error is 0.1

ONE = ("",)
COORDINATES = {
    "qpos": ((".x", ".y", ".z", ".qw", ".qx", ".qy", ".qz"), (".qw", ".qx", ".qy", ".qz"), ONE, ONE),
    "qvel": ((".vx", ".vy", ".vz", ".wx", ".wy", ".wz"), (".wx", ".wy", ".wz"), ONE, ONE),
}
"""Suffixes of the entries of a free joint, a ball, a slide and a hinge: MuJoCo's order of joint types."""
COORDINATE_UNITS = {
    "qpos": (("m",) * 3 + ("",) * 4, ("",) * 4, ("m",), ("rad",)),
    "qvel": (("m/s",) * 3 + ("rad/s",) * 3, ("rad/s",) * 3, ("m/s",), ("rad/s",)),
}
"""Their units, in the same order; none for quaternions."""


@dataclasses.dataclass(frozen=True)
class Features:
    """Numbers in which starts differ."""

    names: tuple[str, ...]
    """(F) as `qpos.FR_hip` or `task_state.command.0`."""
    values: np.ndarray
    """(K, F) in the start's own units."""
    units: tuple[str, ...] = ()
    """(F), empty where a number has none or only the task knows it."""

    def label(self, feature: int) -> str:
        """Name and unit."""
        unit = self.units[feature] if self.units else ""
        return f"{self.names[feature]}, {unit}" if unit else self.names[feature]

    def ranks(self) -> np.ndarray:
        """(K, F) in [0, 1]: how many starts lie lower. Makes units and outliers irrelevant."""
        order = self.values.argsort(0, kind="stable").argsort(0)
        return order / max(len(self.values) - 1, 1)


@dataclasses.dataclass(frozen=True)
class FailureMap:
    """Failures of a policy over its initial states."""

    features: Features
    failed: np.ndarray
    """(K,) bool."""
    information: np.ndarray
    """(F,) bits of information of a feature's bin about the outcome, less those by chance; not below 0."""
    telling: tuple[int, ...]
    """Features more informative than chance, the most informative first; at most `TELLING`."""
    risk: np.ndarray
    """(K,) estimated probability of failing from each start."""

    def rates(self, feature: int) -> list[tuple[float, float, float]]:
        """Lowest and highest value and failure rate in each quantile bin of a feature."""
        values, bins = self.features.values[:, feature], _bins(self.features.ranks()[:, feature])
        rows = [np.flatnonzero(bins == number) for number in range(BINS)]
        return [(values[row].min(), values[row].max(), float(self.failed[row].mean())) for row in rows if len(row)]


def features_of(starts: ResetState[Any], model: mujoco.MjModel) -> Features:
    """All numbers of the starts (K,) that vary, named; of those that always agree, the first."""
    names: list[str] = []
    units: list[str] = []
    columns: list[np.ndarray] = []
    for where, leaf in jax.tree_util.tree_leaves_with_path(starts):
        rows = np.asarray(leaf, float).reshape(len(leaf), -1)
        name = path_name(where)
        parts = _coordinates(model, name) or [(str(number), "") for number in range(rows.shape[1])]
        for (part, unit), column in zip(parts, rows.T, strict=True):
            spread = column.std()
            if spread > 1e-9 and not any(_same(column, other) for other in columns):
                names.append(name if rows.shape[1] == 1 else f"{name}.{part}")
                units.append(unit)
                columns.append(column)
    values = np.stack(columns, 1) if columns else np.zeros((len(starts.qpos), 0))
    return Features(tuple(names), values, tuple(units))


def failure_map(features: Features, failed: np.ndarray, seed: int = 0) -> FailureMap:
    """Find the features that separate failures from successes, and smooth the outcomes over it.

    Args:
        features: Of K starts.
        failed: (K,) bool.
        seed: Of the shuffles.
    """
    ranks = features.ranks()
    bins = np.stack([_bins(column) for column in ranks.T], 1) if ranks.shape[1] else np.zeros((len(failed), 0), int)
    told = _information(bins, failed)
    rng = np.random.default_rng(seed)
    chance = np.stack([_information(bins, rng.permutation(failed)) for _ in range(SHUFFLES)])
    # Some of many features are informative by chance: the most informative one of each shuffle is the bar for all.
    bar = np.quantile(chance.max(1), 1 - SIGNIFICANT) if ranks.shape[1] else np.inf
    order = np.argsort(-told)
    telling = tuple(int(i) for i in order[:TELLING] if told[i] > bar)
    excess = np.maximum(told - chance.mean(0), 0.0)
    return FailureMap(features, np.asarray(failed, bool), excess, telling, _risk(ranks[:, list(telling)], failed))


def resampling_weights(risk: np.ndarray, floor: float = 0.05) -> np.ndarray:
    """(K,) how often to begin at each start: in proportion to the risk, with a floor so that nothing is forgotten."""
    return (risk + floor) / (risk + floor).sum()


def demonstrations(found: FailureMap, count: int) -> list[int]:
    """Starts worth a demonstration: each covers as much risk among its neighbours as those before it have left.

    Greedy maximum coverage (Nemhauser, Wolsey and Fisher 1978: at least 63 % of the best choice).

    Returns:
        At most `count` indices of failed starts, the most useful first; fewer where they cover all failures.
    """
    near = _neighbours(found.features.ranks()[:, list(found.telling)])
    open_risk = np.where(found.failed, found.risk, 0.0)
    chosen: list[int] = []
    for _ in range(count):
        gain = np.where(found.failed, open_risk[near].sum(1), -1.0)
        gain[chosen] = -1.0
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        chosen.append(best)
        open_risk[near[best]] = 0.0
    return chosen


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two columns always agree but for their scale."""
    return abs(float(np.corrcoef(a, b)[0, 1])) > 1 - 1e-9


def _coordinates(model: mujoco.MjModel, name: str) -> list[tuple[str, str]] | None:
    """Names and units of the entries of qpos or qvel by their joints."""
    if name not in COORDINATES:
        return None
    found = []
    for joint in range(model.njnt):
        label, kind = model.joint(joint).name or f"joint{joint}", model.jnt_type[joint]
        parts = zip(COORDINATES[name][kind], COORDINATE_UNITS[name][kind], strict=True)
        found += [(f"{label}{part}", unit) for part, unit in parts]
    return found


def _bins(ranks: np.ndarray) -> np.ndarray:
    return np.minimum((ranks * BINS).astype(int), BINS - 1)


def _information(bins: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """(F,) mutual information in bits between a feature's bin (K, F) and the outcome (K,)."""
    share = np.stack([bins == number for number in range(BINS)]).mean(1)
    both = np.stack([(bins == number) & failed[:, None] for number in range(BINS)]).mean(1)
    rate = np.divide(both, share, out=np.zeros_like(both), where=share > 0)
    return _entropy(np.asarray(failed.mean())) - (share * _entropy(rate)).sum(0)


def _entropy(rate: np.ndarray) -> np.ndarray:
    inner = np.clip(rate, 1e-12, 1 - 1e-12)
    return -inner * np.log2(inner) - (1 - inner) * np.log2(1 - inner)


def _neighbours(points: np.ndarray) -> np.ndarray:
    """(K, n) indices of the nearest starts, itself first; all of them where no feature is informative."""
    count = len(points)
    if not points.shape[1]:
        return np.tile(np.arange(count), (count, 1))
    from scipy.spatial import KDTree

    return KDTree(points).query(points, min(NEIGHBOURS, count))[1].reshape(count, -1)


def _risk(points: np.ndarray, failed: np.ndarray) -> np.ndarray:
    """(K,) failure rate among each start's neighbours, with one success and one failure added (Laplace)."""
    if not points.shape[1]:
        return np.full(len(failed), (failed.sum() + 1) / (len(failed) + 2))
    near = failed[_neighbours(points)]
    return (near.sum(1) + 1) / (near.shape[1] + 2)
