"""Primitive actions of robots, and a simulation that reports what fails at which step of a plan.

A plan is a list of steps; in a step each robot does one thing or waits, all at once. Conditions are those before the
step.

| action | needs | then |
|---|---|---|
| `move` PLACE, "meeting", "home" | it serves or inspects the place; its hand gets to the meeting point | it is there |
| `reach` OBJECT | empty hand; the object within reach: where it stood at first, or on a flat place | it is there |
| `grasp` OBJECT | it has reached it | it holds it |
| `place` OBJECT PLACE | it holds it, and is at the place, which it can serve | it lies there |
| `handover` OBJECT ROBOT | both are at the meeting point; the other's hand is empty and wide enough | it has it |
| `inspect` PLACE | it is there and can look into it | it is inspected, until something is put there |

No two robots touch the same object in a step, or are at one place after it (the meeting point aside); a robot that is
handed something does nothing else; none looks into a place while something is put there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from tasks.questions.cooperation.facts import Facts, Goal

HOME, MEETING = "home", "meeting"
START = "start"  # where an object is before it is moved
Spot = str | int
"""A place, `MEETING` or `HOME`; or the object that a hand has reached."""


class Verb(StrEnum):
    """Type of an action."""

    MOVE = "move"
    REACH = "reach"
    GRASP = "grasp"
    PLACE = "place"
    HANDOVER = "handover"
    INSPECT = "inspect"


@dataclasses.dataclass(frozen=True)
class Action:
    """One robot's part of a step."""

    verb: Verb
    object: int | None = None
    spot: str | None = None
    """A place, or where to move."""
    robot: str | None = None
    """Receiver of the object."""

    def row(self) -> list[str | int]:
        """As JSON holds it: ["place", 3, "tray"]."""
        return [self.verb.value, *(part for part in (self.object, self.spot, self.robot) if part is not None)]


Step = Mapping[str, Action]
"""Robot -> action; robots not in it wait."""
Plan = tuple[Step, ...]


@dataclasses.dataclass(frozen=True)
class State:
    """Places of robots and objects."""

    at: tuple[Spot, ...]
    """Place of each robot."""
    held: tuple[int | None, ...]
    """Object that each robot holds."""
    lies: tuple[str | None, ...]
    """Each object: `START`, a place; None while it is held."""
    inspected: frozenset[str] = frozenset()

    @classmethod
    def first(cls, facts: Facts) -> State:
        none = (None,) * len(facts.robots)
        return cls((HOME,) * len(facts.robots), none, (START,) * len(facts.objects))


class InfeasibleAction(Exception):
    """An action whose conditions do not hold; names them."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Result of a plan."""

    reached: bool
    """All steps were possible, and the goal holds after the last."""
    possible: int
    """Steps before the first that fails."""
    reason: str = ""
    """In words; empty where the goal is reached."""


def goal_holds(facts: Facts, goal: Goal, state: State) -> bool:
    lies = dict(zip(facts.objects, state.lies, strict=True))
    return set(goal.inspections) <= state.inspected and all(lies[number] == place for number, place in goal.deliveries)


def check(facts: Facts, goal: Goal, plan: Sequence[Step]) -> Verdict:
    """Simulate a plan."""
    state = State.first(facts)
    for number, step in enumerate(plan):
        try:
            state = apply_step(facts, state, step)
        except InfeasibleAction as trouble:
            return Verdict(False, number, f"step {number + 1}: {trouble}")
    if goal_holds(facts, goal, state):
        return Verdict(True, len(plan))
    return Verdict(False, len(plan), "the goal does not hold after the last step")


def apply_step(facts: Facts, state: State, step: Step) -> State:
    """The state after one step.

    Raises:
        InfeasibleAction: an action's conditions do not hold, or two actions do not go together; says which.
    """
    for name, action in step.items():
        if name not in facts.robots:
            raise InfeasibleAction(f"there is no {name!r}, only {', '.join(facts.robots)}")
        if action.object is not None and action.object not in facts.objects:
            raise InfeasibleAction(f"there is no object {action.object}")
    _expect_compatible(facts, step)
    result = state
    for name, action in step.items():
        robot = facts.robots.index(name)
        RULES[action.verb][0](facts, state, robot, action)
        result = RULES[action.verb][1](facts, result, robot, action)
    spots = [_site(facts, result, spot) for spot in result.at if spot not in (HOME, MEETING)]
    if len(set(spots)) < len(spots):
        raise InfeasibleAction(f"two robots at once at {next(spot for spot in spots if spots.count(spot) > 1)!r}")
    return result


def _site(facts: Facts, state: State, spot: Spot) -> Spot:
    """Place of a robot: that on which the object lies that it has reached."""
    lies = state.lies[facts.objects.index(spot)] if isinstance(spot, int) else None
    return spot if lies in (None, START) else lies


def _expect_compatible(facts: Facts, step: Step) -> None:
    """Raise `InfeasibleAction` where actions of one step do not go together."""
    touched = [action.object for action in step.values() if action.object is not None]
    if len(set(touched)) < len(touched):
        raise InfeasibleAction("two robots touch the same object")
    filled = {action.spot for action in step.values() if action.verb is Verb.PLACE}
    if filled & {action.spot for action in step.values() if action.verb is Verb.INSPECT}:
        raise InfeasibleAction("a place is inspected while something is put there")
    for name, action in step.items():
        if action.verb is Verb.HANDOVER and (action.robot not in facts.robots or action.robot in (name, *step)):
            raise InfeasibleAction(f"the {name} hands something to {action.robot!r}, who is busy, itself or not there")


def _expect(holds: bool, trouble: str) -> None:
    if not holds:
        raise InfeasibleAction(trouble)


def _can_move(facts: Facts, state: State, robot: int, action: Action) -> None:
    name, spot = facts.robots[robot], action.spot
    if spot == MEETING:
        _expect(name in facts.meets, f"the {name} does not get to the meeting point")
    elif spot != HOME:
        near = (name, spot) in facts.serves | facts.inspects
        _expect(near, f"the {name} does not get to the {spot}")
    _expect(state.at[robot] != spot, f"the {name} is at {spot!r} already")


def _can_reach(facts: Facts, state: State, robot: int, action: Action) -> None:
    name, number = facts.robots[robot], action.object
    lies = state.lies[facts.objects.index(number)]  # pyright: ignore[reportArgumentType]
    _expect(state.held[robot] is None, f"the {name} holds object {state.held[robot]}")
    if lies == START:
        near = (name, number) in facts.takes
    else:
        near = lies in facts.flat and (name, lies) in facts.serves and (name, number) in facts.holds
    _expect(near, f"the {name} cannot take object {number}")
    _expect(state.at[robot] != number, f"the {name} has reached object {number} already")


def _can_grasp(facts: Facts, state: State, robot: int, action: Action) -> None:
    name = facts.robots[robot]
    _expect(state.held[robot] is None, f"the {name} holds object {state.held[robot]}")
    _expect(state.at[robot] == action.object, f"the {name} has not reached object {action.object}")


def _can_place(facts: Facts, state: State, robot: int, action: Action) -> None:
    name = facts.robots[robot]
    _expect(state.held[robot] == action.object, f"the {name} does not hold object {action.object}")
    _expect((name, action.spot) in facts.serves, f"the {name} cannot put anything at the {action.spot}")
    _expect(state.at[robot] == action.spot, f"the {name} is not at the {action.spot}")


def _can_hand_over(facts: Facts, state: State, robot: int, action: Action) -> None:
    name, other = facts.robots[robot], facts.robots.index(str(action.robot))
    _expect(state.held[robot] == action.object, f"the {name} does not hold object {action.object}")
    _expect(state.at[robot] == state.at[other] == MEETING, "both must be at the meeting point")
    _expect(state.held[other] is None, f"the {action.robot} holds object {state.held[other]}")
    _expect((str(action.robot), action.object) in facts.holds, f"the {action.robot} cannot hold it")


def _can_inspect(facts: Facts, state: State, robot: int, action: Action) -> None:
    name = facts.robots[robot]
    _expect((name, action.spot) in facts.inspects, f"the {name} cannot look into the {action.spot}")
    _expect(state.at[robot] == action.spot, f"the {name} is not at the {action.spot}")


def _moved(facts: Facts, state: State, robot: int, action: Action) -> State:
    del facts
    spot = action.object if action.verb is Verb.REACH else action.spot
    return dataclasses.replace(state, at=_with(state.at, robot, spot))


def _grasped(facts: Facts, state: State, robot: int, action: Action) -> State:
    lies = _with(state.lies, facts.objects.index(action.object), None)  # pyright: ignore[reportArgumentType]
    return dataclasses.replace(state, held=_with(state.held, robot, action.object), lies=lies)


def _placed(facts: Facts, state: State, robot: int, action: Action) -> State:
    lies = _with(state.lies, facts.objects.index(action.object), action.spot)  # pyright: ignore[reportArgumentType]
    held, seen = _with(state.held, robot, None), state.inspected - {str(action.spot)}
    return dataclasses.replace(state, held=held, lies=lies, inspected=seen)


def _handed_over(facts: Facts, state: State, robot: int, action: Action) -> State:
    held = _with(_with(state.held, robot, None), facts.robots.index(str(action.robot)), action.object)
    return dataclasses.replace(state, held=held)


def _inspected(facts: Facts, state: State, robot: int, action: Action) -> State:
    del facts, robot
    return dataclasses.replace(state, inspected=state.inspected | {str(action.spot)})


def _with(entries: tuple, index: int, value: object) -> tuple:
    return (*entries[:index], value, *entries[index + 1 :])


Check = Callable[[Facts, State, int, Action], None]
Effect = Callable[[Facts, State, int, Action], State]
RULES: Mapping[Verb, tuple[Check, Effect]] = {
    Verb.MOVE: (_can_move, _moved),
    Verb.REACH: (_can_reach, _moved),
    Verb.GRASP: (_can_grasp, _grasped),
    Verb.PLACE: (_can_place, _placed),
    Verb.HANDOVER: (_can_hand_over, _handed_over),
    Verb.INSPECT: (_can_inspect, _inspected),
}
"""Verb -> its conditions, its effect."""
