"""Questions about a scene's picture, in words, and their exact answers.

Four kinds. `reason` is UNOGrasp's: the paths from the target to what can be taken away now. `obstructors`: what stands
directly before an object. `order`: one way to free the target; whichever is possible counts. `severity`: how much of
one object another hides. Objects are the numbers of their marks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from tasks.grasping.clutter.graph import ObstructionGraph, Severity, removal_order, severity
from tasks.grasping.clutter.scenes import ClutterScene
from tasks.questions.object_names import object_phrases

MOST_PATHS = 200  # listed; scenes with more have no `reason`


class Kind(StrEnum):
    """Kind of question."""

    REASON = "reason"
    OBSTRUCTORS = "obstructors"
    ORDER = "order"
    SEVERITY = "severity"


FORMATS = {
    Kind.REASON: '{"paths": [[TARGET, ..., FREE], ...], "remove_now": [NUMBER, ...]}',
    Kind.OBSTRUCTORS: "[NUMBER, ...]",
    Kind.ORDER: "[NUMBER, ...]",
    Kind.SEVERITY: " or ".join(f'"{level.value}"' for level in Severity),
}
"""Format of an answer, in JSON."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One question, and its answer."""

    id: str
    kind: Kind
    scene: str
    difficulty: str
    text: str
    objects: tuple[str, ...]
    """Objects of the scene, in words, in the order of the marks."""
    answer: Any
    """In the format of `FORMATS`, with numbers of marks."""
    graph: tuple[tuple[int, int], ...] = ()
    """Edges (obstructed, obstructor) by which an order is judged."""


def questions(scene: ClutterScene, name: str, random: np.random.Generator) -> Iterator[Question]:
    """The questions about one scene, whose folder is called `name`."""
    graph, target = scene.graph, scene.target
    number = {item: mark for mark, item in enumerate(scene.names, 1)}
    words = object_phrases([entry.item for entry in scene.objects])
    called = dict(zip(scene.names, words, strict=True))
    common: dict[str, Any] = {"scene": name, "difficulty": scene.difficulty.value, "objects": words}

    def the(item: str) -> str:
        return f"the {called[item]}" if "(number" in called[item] else f"the {called[item]} (number {number[item]})"

    def numbers(items: Sequence[str]) -> list[int]:
        return sorted(number[item] for item in items)

    yield Question(
        id=f"{name}-obstructors",
        kind=Kind.OBSTRUCTORS,
        text=f"Which objects hide a part of {the(target)} from the camera? Give an empty list if none does.",
        answer=numbers(graph.obstructors(target)),
        **common,
    )
    paths = graph.paths(target)
    if len(paths) <= MOST_PATHS:
        yield Question(
            id=f"{name}-reason",
            kind=Kind.REASON,
            text=f"What must be taken away first to reach {the(target)}? Follow from it to each object that hides a "
            "part of it, from there to what hides a part of that, and so on, up to objects that nothing hides: each "
            "such chain is a path that begins with the target. The last objects of the paths can be removed now; if "
            "nothing hides the target, that is the target itself.",
            answer={
                "paths": [[number[item] for item in path] for path in paths],
                "remove_now": numbers(list(graph.removable(target))),
            },
            **common,
        )
    if graph.obstructors(target) and (order := removal_order(graph, target)):
        yield Question(
            id=f"{name}-order",
            kind=Kind.ORDER,
            text="In what order can objects be taken away, each when nothing hides any part of it, until nothing "
            f"hides {the(target)}? Take away no more than is needed.",
            answer=[number[item] for item in order],
            graph=_edges(graph, number),
            **common,
        )
    yield from _severities(graph, target, name, random, the, common)


def _severities(
    graph: ObstructionGraph, target: str, name: str, random: np.random.Generator, the: Any, common: dict[str, Any]
) -> Iterator[Question]:
    """Question of how much one of its obstructors hides the target."""
    worst = graph.obstructors(target)
    if not worst:
        return
    obstructor = str(random.choice(worst))
    share = float(graph.ratios[graph.index(target), graph.index(obstructor)])
    yield Question(
        id=f"{name}-severity",
        kind=Kind.SEVERITY,
        text=f"How much of {the(target)} would {the(obstructor)} hide if all else were gone: slightly (less than 10 "
        "%), partially (less than 40 %), mostly (less than 70 %) or heavily?",
        answer=severity(share).value,
        **common,
    )


def _edges(graph: ObstructionGraph, number: dict[str, int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((number[behind], number[before]) for behind, before in graph.edges))
