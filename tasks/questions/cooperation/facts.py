"""The small symbolic model of a scene: what each robot can do where, and a goal. Everything here is plain data.

Objects are numbers of their marks; robots and places are names. The facts come from geometry (`facts_of`); plans
(`plans`), teams (`teams`) and checks read nothing else.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from embodied.errors import UnknownNameError
from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.questions.cooperation.places import Place
from tasks.questions.cooperation.robots import Robot


@dataclasses.dataclass(frozen=True)
class Facts:
    """Abilities of robots."""

    robots: tuple[str, ...]
    objects: tuple[int, ...]
    places: tuple[str, ...]
    takes: frozenset[tuple[str, int]]
    """(robot, object): it can grasp it where it stands at first."""
    holds: frozenset[tuple[str, int]]
    """(robot, object): its gripper is wide enough."""
    serves: frozenset[tuple[str, str]]
    """(robot, place): it can put something there."""
    inspects: frozenset[tuple[str, str]]
    """(robot, place): it can look into it."""
    meets: frozenset[str]
    """Robots whose hands get to the meeting point."""
    flat: frozenset[str]
    """Places from which what was put there can be taken again."""

    def document(self) -> dict[str, Any]:
        return {
            field.name: sorted(list(entry) if isinstance(entry, tuple) else entry for entry in value)
            if isinstance(value := getattr(self, field.name), frozenset)
            else list(value)
            for field in dataclasses.fields(self)
        }

    @classmethod
    def of_document(cls, row: Mapping[str, Any]) -> Facts:
        pairs = {name: frozenset((a, b) for a, b in row[name]) for name in ("takes", "holds", "serves", "inspects")}
        parts: dict[str, Any] = {name: tuple(row[name]) for name in ("robots", "objects", "places")}
        return cls(**{**parts, **pairs}, meets=frozenset(row["meets"]), flat=frozenset(row["flat"]))


@dataclasses.dataclass(frozen=True)
class Goal:
    """Deliveries and inspections."""

    deliveries: tuple[tuple[int, str], ...] = ()
    """(object, place): it lies there in the end."""
    inspections: tuple[str, ...] = ()
    """Places that a robot looked into since anything was put there."""

    def document(self) -> dict[str, Any]:
        return {"deliveries": [list(pair) for pair in self.deliveries], "inspections": list(self.inspections)}

    @classmethod
    def of_document(cls, row: Mapping[str, Any]) -> Goal:
        return cls(tuple((number, place) for number, place in row["deliveries"]), tuple(row["inspections"]))


def facts_of(robots: Sequence[Robot], objects: Sequence[PlacedObject], places: Sequence[Place]) -> Facts:
    """The facts of a scene, by each robot's kinematics and camera."""
    marked = dict(enumerate(objects, 1))
    return Facts(
        robots=tuple(robot.name for robot in robots),
        objects=tuple(marked),
        places=tuple(place.name for place in places),
        takes=frozenset((r.name, n) for r, (n, o) in itertools.product(robots, marked.items()) if r.takes(o)),
        holds=frozenset((r.name, n) for r, (n, o) in itertools.product(robots, marked.items()) if r.holds(o.item)),
        serves=frozenset((r.name, p.name) for r, p in itertools.product(robots, places) if r.serves(p)),
        inspects=frozenset((r.name, p.name) for r, p in itertools.product(robots, places) if r.inspects(p)),
        meets=frozenset(robot.name for robot in robots if robot.meets()),
        flat=frozenset(place.name for place in places if place.kind.flat),
    )


def check_goal(facts: Facts, goal: Goal) -> Goal:
    """The goal itself; an `UnknownNameError` where it names an object or a place that is not there."""
    for number, _ in goal.deliveries:
        if number not in facts.objects:
            raise UnknownNameError("object", str(number), [str(known) for known in facts.objects])
    for place in (*(place for _, place in goal.deliveries), *goal.inspections):
        if place not in facts.places:
            raise UnknownNameError("place", place, facts.places)
    return goal


def is_feasible(facts: Facts, goal: Goal, team: frozenset[str]) -> bool:
    """Whether some robots can do it among them, by what each reaches and sees."""
    looked = all(any((robot, place) in facts.inspects for robot in team) for place in goal.inspections)
    return looked and all(_deliverable(facts, number, place, team) for number, place in goal.deliveries)


def smallest_teams(facts: Facts, goal: Goal) -> tuple[tuple[str, ...], ...]:
    """The smallest teams that can do it, each in the robots' order; none where not even all together can."""
    check_goal(facts, goal)
    for size in range(len(facts.robots) + 1):
        found = tuple(t for t in itertools.combinations(facts.robots, size) if is_feasible(facts, goal, frozenset(t)))
        if found:
            return found
    return ()


def _deliverable(facts: Facts, number: int, place: str, team: frozenset[str]) -> bool:
    """Whether an object gets from hand to hand, or over flat places, to a place."""
    hands = {robot for robot in team if (robot, number) in facts.takes}
    while True:
        # Robots that meet a holder, or take it from a flat place that a holder serves.
        given = {robot for robot in facts.meets & team if hands & facts.meets}
        laid = {p for p in facts.flat if any((holder, p) in facts.serves for holder in hands)}
        taken = {robot for robot in team if any((robot, p) in facts.serves for p in laid)}
        more = {robot for robot in given | taken if (robot, number) in facts.holds} - hands
        if not more:
            return any((robot, place) in facts.serves for robot in hands)
        hands |= more
