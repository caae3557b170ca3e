"""The whole loop: look, reason, grasp what must go first, put it aside, look again, until the target is held up.

    cell = Cell(hand_named("leap"), scene)
    outcome = retrieve(cell, Strategy.GRAPH)

The Panda with a hand at its table, one scene on `mujoco.MjData`, moved by servos all the way. The camera is the
scene's, over the arm's shoulder; it looks while the arm is swung aside. Objects put aside are taken off the table.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from enum import StrEnum

import numpy as np

from embodied.errors import EmbodiedError
from tasks.grasping.clutter.cell import Cell
from tasks.grasping.clutter.graph import ObstructionGraph
from tasks.grasping.clutter.ray_casting import depth_images
from tasks.grasping.clutter.scenes import in_view, look
from tasks.grasping.objects.pointclouds import DepthNoise, PlacedObject
from tasks.grasping.planner.planner import Plan, PlanningResult

MOST_ATTEMPTS = 20  # grasps tried in a scene before giving up
TRIES = 4  # grasps tried of one object until another one gets its turn


class Strategy(StrEnum):
    """Choice of the next object."""

    GRAPH = "graph"
    """The removable object (by the graph) around which there is most room; the target once it is free."""
    RANDOM = "random"
    """Any object, the target among them."""
    TARGET_FIRST = "target-first"
    """Always the target."""


class End(StrEnum):
    """End of a retrieval."""

    RETRIEVED = "retrieved"
    """The target was raised by 10 cm and held for 1 s."""
    NO_GRASP = "no grasp"
    """There is no grasp, neither of the target nor of anything that obstructs it; `Result.reason` explains."""
    GAVE_UP = "gave up"
    """After `MOST_ATTEMPTS` grasps."""
    LOST = "lost"
    """The target left the camera's view."""


@dataclasses.dataclass(frozen=True)
class Result:
    """Result of a retrieval."""

    end: End
    removed: tuple[str, ...]
    """Objects put aside, in order."""
    attempts: int
    """Grasps tried, that of the target included."""
    reason: str = ""
    """In words, where it was not retrieved."""
    seconds: float = 0.0
    """s of simulated time."""

    @property
    def retrieved(self) -> bool:
        return self.end is End.RETRIEVED

    def __str__(self) -> str:
        if self.retrieved and not self.removed:
            return "retrieved at once" if self.attempts == 1 else "retrieved without removing anything"
        if self.retrieved:
            return f"retrieved after removing {', '.join(self.removed)}"
        return f"{self.end.value}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Seen:
    """Result of one look at the table."""

    graph: ObstructionGraph
    clouds: dict[str, np.ndarray]
    """Object -> (n, 3) m, its visible points, in the world."""


def retrieve(cell: Cell, strategy: Strategy = Strategy.GRAPH, attempts: int = MOST_ATTEMPTS, seed: int = 0) -> Result:
    """Run the loop.

    Args:
        cell: A scene with the arm, as `Cell` built it or as an earlier attempt left it.
        strategy: Choice of the next object.
        attempts: Grasps tried at most.
        seed: Seed of the camera's noise and of random choices.

    Raises:
        EmbodiedError: `attempts` is not positive.
    """
    if attempts < 1:
        raise EmbodiedError(f"attempts={attempts}; expected at least 1")
    random = np.random.default_rng([seed, 0x9E7])
    removed: list[str] = []
    failures: collections.Counter[str] = collections.Counter()
    why: dict[str, str] = {}
    for done in range(attempts):
        cell.park()
        seen = observe(cell, random)
        if cell.target not in seen.graph.names:
            return Result(End.LOST, tuple(removed), done, f"{cell.target} is out of view", cell.time)
        chosen = _choose(cell, seen, strategy, failures, why, random)
        if chosen is None and failures:
            # Everything moved a little by being tried: all of it gets another turn.
            failures.clear()
            chosen = _choose(cell, seen, strategy, failures, why, random)
        if chosen is None:
            return Result(End.NO_GRASP, tuple(removed), done, _reasons(why), cell.time)
        name, plan = chosen
        if not cell.grasp(name, plan):
            failures[name] += 1
        elif name == cell.target:
            return Result(End.RETRIEVED, tuple(removed), done + 1, "", cell.time)
        elif cell.put_aside(name):
            removed.append(name)
            failures.clear()
        else:
            failures[name] += 1
    return Result(End.GAVE_UP, tuple(removed), attempts, f"after {attempts} grasps", cell.time)


def observe(cell: Cell, random: np.random.Generator) -> Seen:
    """The graph of what is on the table, and a depth camera's points of each object."""
    placed = [(name, entry) for name, entry in cell.objects().items() if in_view(entry, cell.camera)]
    entries = tuple(entry for _, entry in placed)
    if not entries:
        return Seen(ObstructionGraph((), np.zeros((0, 0))), {})
    graph = look(entries, cell.camera)
    return Seen(graph, dict(zip(graph.names, _clouds(entries, cell, random), strict=True)))


def _clouds(objects: tuple[PlacedObject, ...], cell: Cell, random: np.random.Generator) -> Iterator[np.ndarray]:
    depths = depth_images(objects, cell.camera).reshape(len(objects), -1)
    first, noise, eye = depths.min(axis=0), DepthNoise(), np.array(cell.camera.pos)
    rays = cell.camera.rays
    for depth in depths:
        pixels = np.flatnonzero(np.isfinite(depth) & (depth == first))
        off = noise.deviation(depth[pixels]) * random.normal(size=len(pixels))
        yield eye + (depth[pixels] + off)[:, None] * rays[pixels]


def _choose(
    cell: Cell,
    seen: Seen,
    strategy: Strategy,
    failures: collections.Counter[str],
    why: dict[str, str],
    random: np.random.Generator,
) -> tuple[str, Plan] | None:
    """The next object and how to grasp it; None where nothing that helps can be grasped."""
    for group in _groups(seen.graph, cell.target, strategy, random):
        plans: dict[str, Plan] = {}
        for name in group:
            planned = cell.plan(seen.clouds[name], name) if failures[name] < TRIES else PlanningResult(())
            if len(planned.plans) > failures[name]:
                plans[name] = planned.plans[failures[name]]
            else:
                why[name] = planned.reason or f"{failures[name]} grasps failed"
        if plans:
            # Objects that failed before wait until the others had their turn.
            return min(plans.items(), key=lambda entry: (failures[entry[0]], *_hardness(cell, *entry)))
    return None


def _hardness(cell: Cell, name: str, plan: Plan) -> tuple[int, float]:
    """Less is better: objects in the hand's way first, then how bad the grasp looks."""
    return cell.crowd(plan, name), -plan.grasp.score


def _groups(
    graph: ObstructionGraph, target: str, strategy: Strategy, random: np.random.Generator
) -> Iterator[list[str]]:
    """Objects to try; the next group only where nothing in the one before can be grasped."""
    match strategy:
        case Strategy.TARGET_FIRST:
            yield [target]
        case Strategy.RANDOM:
            yield from ([str(name)] for name in random.permutation(graph.names))
        case Strategy.GRAPH:
            free = graph.removable(target)
            yield sorted(free)
            # An object that cannot be grasped, or a knot, blocks the way: try all others, at last the target itself.
            yield sorted(graph.reachable(target) - free)
            yield [target]
            # If none of this helps, more room does.
            yield sorted(set(graph.names) - graph.reachable(target) - {target})


def _reasons(why: dict[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in sorted(why.items()))
