"""The obstruction graph: which objects stand before which, as a camera sees them.

After UNOGrasp (arXiv:2511.23186): a directed graph with an edge from each object to every object that obstructs it,
weighted by how much of it that one hides. The nodes that the target reaches must be removed before it can be grasped;
those among them that nothing obstructs can be removed now.

Everything follows from one depth image of each object alone: object j hides object i in a pixel where both are and j is
nearer. That is the segmentation with and without j, without rendering every combination.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np

from embodied.errors import EmbodiedError, UnknownNameError

LEAST = 0.01  # share of an object's silhouette: what hides less is a pixel at the edge and obstructs nothing
LONGEST = 1000  # paths that are listed at most; a dense graph has factorially many


class Severity(StrEnum):
    """Share of an object that another one hides (UNOGrasp's classes)."""

    SLIGHTLY = "slightly"
    PARTIALLY = "partially"
    MOSTLY = "mostly"
    HEAVILY = "heavily"


SEVERITIES = ((0.1, Severity.SLIGHTLY), (0.4, Severity.PARTIALLY), (0.7, Severity.MOSTLY))
"""Share below which a severity holds; above all of them it is `HEAVILY`."""


class Difficulty(StrEnum):
    """Difficulty of freeing a target."""

    NONE = "none"
    """Nothing obstructs it."""
    EASY = "easy"
    """One removal frees it."""
    MEDIUM = "medium"
    """Two or three removals."""
    HARD = "hard"
    """More, or none that would do: what obstructs it obstructs itself in turn."""


MEDIUM_REMOVALS = 3  # removals up to which a target is of medium difficulty; our choice, UNOBench counts paths


def severity(ratio: float) -> Severity:
    return next((name for limit, name in SEVERITIES if ratio < limit), Severity.HEAVILY)


@dataclasses.dataclass(frozen=True)
class ObstructionGraph:
    """Which objects obstruct which."""

    names: tuple[str, ...]
    """Names of the n objects."""
    ratios: np.ndarray
    """(n, n): [i, j] is the share of i's silhouette that j hides; zero where that is less than `LEAST`."""

    def __post_init__(self) -> None:
        size = len(self.names)
        if self.ratios.shape != (size, size) or len(set(self.names)) != size:
            raise EmbodiedError(f"ratios of shape {self.ratios.shape} for objects {', '.join(self.names)}")
        if not ((self.ratios >= 0) & (self.ratios <= 1)).all() or self.ratios.diagonal().any():
            raise EmbodiedError("obstruction ratios must lie in [0, 1], and no object obstructs itself")

    @classmethod
    def of(cls, names: Sequence[str], ratios: np.ndarray, least: float = LEAST) -> ObstructionGraph:
        """The graph of hidden shares (n, n), those below `least` left out."""
        return cls(tuple(names), np.where(ratios < least, 0.0, ratios) * (1 - np.eye(len(names))))

    def index(self, name: str) -> int:
        if name not in self.names:
            raise UnknownNameError("object", name, self.names)
        return self.names.index(name)

    @property
    def edges(self) -> frozenset[tuple[str, str]]:
        """(obstructed, obstructor) pairs."""
        return frozenset((self.names[i], self.names[j]) for i, j in np.argwhere(self.ratios > 0))

    def obstructors(self, name: str) -> tuple[str, ...]:
        """Objects directly or indirectly on the same lines of sight before an object, the worst first."""
        row = self.ratios[self.index(name)]
        return tuple(self.names[j] for j in np.argsort(-row, kind="stable") if row[j] > 0)

    def reachable(self, target: str) -> frozenset[str]:
        """All that obstructs the target, or what obstructs it, and so on; the target itself is not among them."""
        found: set[str] = set()
        pending = [target]
        while pending:
            for name in self.obstructors(pending.pop()):
                if name not in found:
                    found.add(name)
                    pending.append(name)
        return frozenset(found - {target})

    def removable(self, target: str) -> frozenset[str]:
        """Objects that can be removed now on the way to the target: the target itself where nothing obstructs it.

        Empty where every object that obstructs it is obstructed in turn: such a scene cannot be freed from the top.
        """
        if not self.obstructors(target):
            return frozenset({target})
        return frozenset(name for name in self.reachable(target) if not self.obstructors(name))

    def paths(self, target: str) -> tuple[tuple[str, ...], ...]:
        """Simple paths from the target to objects that nothing obstructs, at most `LONGEST`, in order of the names."""
        found = []
        for path in self._walk((target,)):
            found.append(path)
            if len(found) == LONGEST:
                break
        return tuple(found)

    def difficulty(self, target: str) -> Difficulty:
        removals = len(self.reachable(target))
        if not removals:
            return Difficulty.NONE
        if not self.removable(target) or removals > MEDIUM_REMOVALS:
            return Difficulty.HARD
        return Difficulty.EASY if removals == 1 else Difficulty.MEDIUM

    def without(self, name: str) -> ObstructionGraph:
        """The graph once an object is gone; nothing else moves."""
        keep = [i for i in range(len(self.names)) if i != self.index(name)]
        return ObstructionGraph(tuple(self.names[i] for i in keep), self.ratios[np.ix_(keep, keep)])

    def _walk(self, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        onward = sorted(set(self.obstructors(path[-1])) - set(path))
        if not self.obstructors(path[-1]):
            yield path
        for name in onward:
            yield from self._walk((*path, name))


def graph_from_depths(names: Sequence[str], depths: np.ndarray, least: float = LEAST) -> ObstructionGraph:
    """The graph from a depth image of each object alone.

    Args:
        names: Names of the n objects.
        depths: (n, height, width) m along each pixel's ray; inf where the object is not.
        least: Share of an object's silhouette that must be hidden for an edge.

    Raises:
        EmbodiedError: an object is not in the picture at all, or the images do not fit the names.
    """
    return ObstructionGraph.of(names, ratios_of(names, depths), least)


def ratios_of(names: Sequence[str], depths: np.ndarray) -> np.ndarray:
    """(n, n): [i, j] is the share of i's silhouette that j hides, however small; arguments as `graph_from_depths`."""
    depths = np.asarray(depths, float)
    if depths.ndim != 3 or len(depths) != len(names):
        raise EmbodiedError(f"depth images of shape {depths.shape} for {len(names)} objects")
    flat = depths.reshape(len(names), -1)
    seen = np.isfinite(flat)
    sizes = seen.sum(1)
    if (sizes == 0).any():
        missing = [name for name, size in zip(names, sizes, strict=True) if not size]
        raise EmbodiedError(f"the camera does not see {', '.join(missing)}, even alone")
    return np.stack([(flat[:, seen[i]] < flat[i, seen[i]]).sum(1) / sizes[i] for i in range(len(names))])


def removal_order(graph: ObstructionGraph, target: str) -> tuple[str, ...]:
    """Objects to remove, one after the other, until nothing obstructs the target; empty where that cannot be.

    The removable object that hides most of what remains goes first.
    """
    order: list[str] = []
    while graph.obstructors(target):
        free = graph.removable(target)
        if not free:
            return ()
        first = max(sorted(free), key=lambda name: float(graph.ratios[:, graph.index(name)].sum()))
        order.append(first)
        graph = graph.without(first)
    return tuple(order)
