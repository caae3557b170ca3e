"""The shortest joint plans, by exhaustive search.

A plan is shorter with fewer steps, and with as many steps with fewer actions; plans of the same length are equally
good. The search goes layer by layer, so the first layer that holds the goal is the fewest steps; in each layer it keeps
the fewest actions to every state. It leaves out only what cannot help: objects the goal does not name, hands that move
where there is nothing to do for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.questions.cooperation.actions import (
    HOME,
    MEETING,
    Action,
    InfeasibleAction,
    Plan,
    State,
    Step,
    Verb,
    apply_step,
    goal_holds,
)
from tasks.questions.cooperation.facts import Facts, Goal, check_goal, is_feasible

LONGEST = 100  # steps of an answer that are read; the shortest plans have a dozen


def shortest(facts: Facts, goal: Goal, team: frozenset[str] | None = None) -> Plan | None:
    """A shortest plan; None where there is none.

    Args:
        facts: Facts of the scene.
        goal: Goal to reach.
        team: Robots that may act; None: all.

    Raises:
        UnknownNameError: the goal names what is not there.
    """
    check_goal(facts, goal)
    team = frozenset(facts.robots) if team is None else team
    # Without this a search for the impossible would go through every state.
    return search(facts, goal, team) if is_feasible(facts, goal, team) else None


def search(facts: Facts, goal: Goal, team: frozenset[str]) -> Plan | None:
    """`shortest`, by search alone: impossible goals are found by trying everything."""
    begin = State.first(facts)
    layer: dict[State, int] = {begin: 0}
    came: dict[State, tuple[State, Step] | None] = {begin: None}
    while layer:
        done = [state for state in layer if goal_holds(facts, goal, state)]
        if done:
            return _back(came, min(done, key=layer.__getitem__))
        following: dict[State, int] = {}
        for state, cost in layer.items():
            for step, new in _following(facts, goal, state, team):
                known = following.get(new)
                if (known is None and new in came) or (known is not None and known <= cost + len(step)):
                    continue
                following[new] = cost + len(step)
                came[new] = (state, step)
        layer = following
    return None


def _back(came: Mapping[State, tuple[State, Step] | None], state: State) -> Plan:
    steps: list[Step] = []
    while (before := came[state]) is not None:
        state, step = before
        steps.append(step)
    return tuple(reversed(steps))


def possible_steps(facts: Facts, goal: Goal, state: State, team: frozenset[str]) -> Iterator[Step]:
    """All that some robots may do at once, without what cannot help; at least one acts."""
    return (step for step, _ in _following(facts, goal, state, team))


def _following(facts: Facts, goal: Goal, state: State, team: frozenset[str]) -> Iterator[tuple[Step, State]]:
    """Possible steps, and where they lead."""
    choices = [[None, *_options(facts, goal, state, r)] if n in team else [None] for r, n in enumerate(facts.robots)]
    for chosen in itertools.product(*choices):
        step = {name: action for name, action in zip(facts.robots, chosen, strict=True) if action is not None}
        if not step:
            continue
        try:
            yield step, apply_step(facts, state, step)
        except InfeasibleAction:
            continue


def _options(facts: Facts, goal: Goal, state: State, robot: int) -> Iterator[Action]:
    """Actions of one robot that can help; not all are possible."""
    name, spot, held = facts.robots[robot], state.at[robot], state.held[robot]
    wanted = dict(goal.deliveries)
    if spot != HOME:
        yield Action(Verb.MOVE, spot=HOME)
    if name in facts.meets and spot != MEETING:
        yield Action(Verb.MOVE, spot=MEETING)
    for place in goal.inspections:
        if (name, place) in facts.inspects:
            yield Action(Verb.INSPECT if spot == place else Verb.MOVE, spot=place)
    if held is None:
        for number, place in wanted.items():
            lies = state.lies[facts.objects.index(number)]
            if lies not in (None, place):
                yield Action(Verb.GRASP if spot == number else Verb.REACH, number)
        return
    for place in {wanted[held], *facts.flat}:
        if (name, place) in facts.serves:
            yield Action(Verb.PLACE, held, place) if spot == place else Action(Verb.MOVE, spot=place)
    if spot == MEETING:
        yield from (Action(Verb.HANDOVER, held, robot=other) for other in facts.robots if other != name)


def length(plan: Plan) -> tuple[int, int]:
    """Steps, and actions."""
    return len(plan), sum(len(step) for step in plan)


def rows(plan: Plan) -> list[dict[str, list[str | int]]]:
    """A plan as JSON holds it: [{"left arm": ["reach", 3], "drone": ["move", "shelf"]}, ...]."""
    return [{name: action.row() for name, action in step.items()} for step in plan]


def of_rows(value: Any) -> Plan:
    """The plan from JSON that `rows` wrote; a `ValueError` names the error."""
    if not isinstance(value, list) or len(value) > LONGEST:
        raise ValueError(f"the plan is not a list of up to {LONGEST} steps")
    return tuple(_step(step, number) for number, step in enumerate(value, 1))


PARTS: Mapping[Verb, tuple[str, ...]] = {
    Verb.MOVE: ("spot",),
    Verb.REACH: ("object",),
    Verb.GRASP: ("object",),
    Verb.PLACE: ("object", "spot"),
    Verb.HANDOVER: ("object", "robot"),
    Verb.INSPECT: ("spot",),
}
"""Fields of `Action` that follow each verb."""


def _step(step: Any, number: int) -> Step:
    if not isinstance(step, dict):
        raise ValueError(f"step {number} is not {{ROBOT: [ACTION, ...], ...}}")
    return {str(name): _action(row, number) for name, row in step.items() if row not in (None, [])}


def _action(row: Any, number: int) -> Action:
    expected = f"expected one of {', '.join(Verb)} with {{object number, place or robot}}"
    if not isinstance(row, list) or not row or row[0] not in list(Verb):
        raise ValueError(f"step {number} holds {str(row)[:40]!r}; {expected}")
    verb = Verb(row[0])
    if len(row) != 1 + len(PARTS[verb]):
        raise ValueError(f"step {number} holds {str(row)[:40]!r}; {verb} takes {' and '.join(PARTS[verb])}")
    found: dict[str, Any] = {}
    for part, value in zip(PARTS[verb], row[1:], strict=True):
        kind, words = (int, "number") if part == "object" else (str, "name")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"step {number} holds {str(value)[:40]!r} for the {part}; expected a {words}")
        found[part] = value
    return Action(verb, **found)
