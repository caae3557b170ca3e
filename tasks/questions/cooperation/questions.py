"""Questions about a scene's picture, in words, and their exact answers.

Three levels after VIKI (arXiv:2506.09049): `who` acts, in what `order`, along which `path`. Two after Ask-to-Clarify
(arXiv:2509.15061): whether to `ask`, and which object, once the user has `answered`. Objects are numbers of marks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np

from tasks.questions.ambiguity import NOUNS, ObjectDescription, answer, describe_objects, question, referents, resolved
from tasks.questions.cooperation.facts import smallest_teams
from tasks.questions.cooperation.paths import FEELERS, HAND, LEVEL, PALM, SLACK, PathTask
from tasks.questions.cooperation.pictures import pixels_of
from tasks.questions.cooperation.plans import length, rows, shortest
from tasks.questions.cooperation.robots import LOOK, OPENING, RELEASE, half_view, ring
from tasks.questions.cooperation.scenes import CooperationScene, instruction


class Kind(StrEnum):
    """Kind of question."""

    WHO = "who"
    ORDER = "order"
    PATH = "path"
    ASK = "ask"
    ANSWERED = "answered"


FORMATS = {
    Kind.WHO: '["ROBOT", ...], the smallest team; [] if not even all together can do it',
    Kind.ORDER: '[{"ROBOT": ["ACTION", ...], ...}, ...], a step each; robots that wait are left out',
    Kind.PATH: "[[X, Y], ...], pixels from the picture's left and top",
    Kind.ASK: '{"ask": true} or {"take": NUMBER}',
    Kind.ANSWERED: "NUMBER",
}
"""Format of an answer, in JSON."""
CASES = {0: "nobody", 1: "one", 2: "two", 3: "three"}
"""Robots that a goal needs, as the case of a question is called."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One question, and its answer."""

    id: str
    kind: Kind
    scene: str
    case: str
    """Groups questions of a kind: robots that are needed; bends of a path; clear, ambiguous, absent."""
    text: str
    answer: Any
    """In the format of `FORMATS`."""
    truth: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Other data for judging, in JSON's types."""


def questions(
    scene: CooperationScene, name: str, path: PathTask | None, random: np.random.Generator
) -> Iterator[Question]:
    """The questions about one scene, whose folder is called `name`; `path` is one of its paths, if it has one."""
    yield from _cooperation(scene, name)
    if path is not None:
        yield _path(scene, name, path)
    seen = describe_objects(scene.objects)
    for case, said in _instructions(seen, random):
        yield from _dialogue(seen, name, case, said, random)


def _abilities(scene: CooperationScene) -> str:
    """Robots and their abilities, with the numbers that the answers come from."""
    low, high = (ring(height) for height in (0.1, 0.3))
    robots = " ".join(f"The {robot.name} is {robot.words}." for robot in scene.robots)
    return (
        f"{robots} An arm's foot stays where it is, {scene.distance:.2f} m from the table's middle, and its hand "
        f"always points straight down: its fingertips get {low[0]:.2f} to {low[1]:.2f} m from the foot's axis near the "
        f"table, {high[0]:.2f} to {high[1]:.2f} m at a height of 0.3 m. It takes objects whose narrower side is at "
        f"most {100 * OPENING:.1f} cm. To put something into a place it must get {100 * RELEASE:.0f} cm above the "
        f"middle of its rim, to look into it {100 * LOOK:.0f} cm; the shelf is open to the front only. A drone "
        f"sees the middle of a place's floor if the rim lets it look at less than {np.degrees(half_view()):.0f} "
        "degrees below the horizon. "
        "Two arms can hand over an object 0.3 m above the table's middle if both get there."
    )


RULES = (
    'Actions: ["move", PLACE], also to "meeting" and "home"; ["reach", OBJECT]; ["grasp", OBJECT]; ["place", OBJECT, '
    'PLACE]; ["handover", OBJECT, ROBOT]; ["inspect", PLACE]. A robot reaches an object before it grasps it, with an '
    "empty hand, and moves to a place before it puts something there or looks into it; for a handover both are at the "
    "meeting point and the one who is given waits. What was put into a bin cannot be taken out again, from the tray it "
    "can. No two robots may be at one place, the meeting point aside. In one step each robot does one action or waits. "
    "Looking counts after the last thing was put there. All robots begin at home."
)


def _cooperation(scene: CooperationScene, name: str) -> Iterator[Question]:
    facts, goal = scene.facts, scene.goal
    found = smallest_teams(facts, goal)
    case = CASES[len(found[0]) if found else 0]
    begin = f"{_abilities(scene)} The goal: {instruction(scene)}"
    yield Question(
        id=f"{name}-who",
        kind=Kind.WHO,
        scene=name,
        case=case,
        text=f"{begin} Which robots are needed? Name the smallest team that can do it.",
        answer=list(found[0]) if found else [],
        truth={"teams": [list(team) for team in found], "robots": list(facts.robots)},
    )
    plan = shortest(facts, goal)
    if plan is None:
        return
    steps, actions = length(plan)
    yield Question(
        id=f"{name}-order",
        kind=Kind.ORDER,
        scene=name,
        case=case,
        text=f"{begin} {RULES} Give a plan with as few steps as possible, and of those one with as few actions as "
        "possible.",
        answer=rows(plan),
        truth={"facts": facts.document(), "goal": goal.document(), "steps": steps, "actions": actions},
    )


def _path(scene: CooperationScene, name: str, path: PathTask) -> Question:
    pixels = pixels_of(path.path)
    bends = len(path.path) - 2
    return Question(
        id=f"{name}-path",
        kind=Kind.PATH,
        scene=name,
        case="one bend" if bends == 1 else "more bends",
        text=f"The {path.arm} moves the point between its fingertips from S to E, {100 * LEVEL:.0f} cm above the "
        f"table all the way, its hand straight down. That point must stay {100 * HAND:.0f} cm away from the sides of "
        f"whatever is taller than {100 * (LEVEL + PALM - SLACK):.0f} cm, {100 * FEELERS:.0f} cm from what is taller "
        f"than {100 * (LEVEL - SLACK):.0f} cm, and may pass over the rest. Along which way is that shortest? Give the "
        "corners of the way in the picture, S and E included.",
        answer=[[round(float(x), 1), round(float(y), 1)] for x, y in pixels],
        truth={"path": path.path.tolist(), "obstacles": [polygon.tolist() for polygon in path.obstacles]},
    )


def _instructions(seen: tuple[ObjectDescription, ...], random: np.random.Generator) -> Iterator[tuple[str, str]]:
    """An instruction that fits one object, one that fits several, one that fits none; each if there is one."""
    clear = [sight.full for sight in seen if len(referents(seen, f"pick up the {sight.full}")) == 1]
    shared = sorted({s.noun for s in seen if len(referents(seen, f"pick up the {s.noun}")) > 1})
    absent = sorted(noun for noun in NOUNS if not referents(seen, f"pick up the {noun}"))
    # A colour that is there on something else: only both words together show that it is absent.
    mixed = sorted({f"{a.colour} {b.noun}" for a in seen for b in seen})
    absent = [phrase for phrase in mixed if not referents(seen, f"pick up the {phrase}")] or absent
    for case, phrases in (("clear", clear), ("ambiguous", shared), ("absent", absent)):
        if phrases:
            yield case, f"pick up the {random.choice(phrases)}"


def _dialogue(
    seen: tuple[ObjectDescription, ...], name: str, case: str, said: str, random: np.random.Generator
) -> Iterator[Question]:
    found = referents(seen, said)
    asked = question(seen, said)
    yield Question(
        id=f"{name}-ask-{case}",
        kind=Kind.ASK,
        scene=name,
        case=case,
        text=f'The user says: "{said}". If exactly one object is meant, give its number; if the instruction '
        "fits several objects or none, ask first.",
        answer={"ask": True} if asked else {"take": found[0]},
    )
    if asked is None:
        return
    wanted = int(random.choice(found or [sight.mark for sight in seen]))
    reply = answer(seen, said, wanted)
    yield Question(
        id=f"{name}-answered-{case}",
        kind=Kind.ANSWERED,
        scene=name,
        case=case,
        text=f'The user says: "{said}". The robot asks: "{asked}" The user answers: "{reply}" Which object is meant?',
        answer=resolved(seen, said, reply),
    )
