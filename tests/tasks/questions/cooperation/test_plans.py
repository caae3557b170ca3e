"""Who is needed agrees with trying everything; shortest plans reach the goal and cannot be shortened."""

import itertools

import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from tasks.questions.cooperation.actions import Action, InfeasibleAction, State, Verb, apply_step, check
from tasks.questions.cooperation.facts import Facts, Goal, is_feasible, smallest_teams
from tasks.questions.cooperation.plans import length, of_rows, rows, search, shortest
from tasks.questions.cooperation.robots import Team
from tasks.questions.cooperation.scenes import CooperationScene, SceneConfig, cooperation_scene, instruction


@pytest.fixture(scope="module")
def scenes() -> list[CooperationScene]:
    """Of every team and every number of robots that are needed."""
    needs = (2, 1, 0, 2, None, 1, 0, 2)
    return [cooperation_scene(seed, SceneConfig(need=need)) for seed, need in enumerate(needs)] + [
        cooperation_scene(50, SceneConfig(Team.ALL, need=3))
    ]


def test_the_same_seed_gives_the_same_scene(scenes: list[CooperationScene]) -> None:
    again = cooperation_scene(0, SceneConfig(need=2))
    assert again == scenes[0]
    assert again.facts == scenes[0].facts
    assert instruction(again) == instruction(scenes[0])
    assert cooperation_scene(1, SceneConfig(need=2)) != again


def test_who_is_needed_agrees_with_trying_every_team(scenes: list[CooperationScene]) -> None:
    for scene in scenes:
        facts, goal = scene.facts, scene.goal
        everybody = [frozenset(t) for n in range(4) for t in itertools.combinations(facts.robots, n)]
        works = [team for team in everybody if search(facts, goal, team) is not None]
        assert works == [team for team in everybody if is_feasible(facts, goal, team)]
        least = min(map(len, works), default=0)
        assert {frozenset(team) for team in smallest_teams(facts, goal)} == {
            team for team in works if len(team) == least
        }


def test_shortest_plans_reach_the_goal_and_lose_it_with_any_part(scenes: list[CooperationScene]) -> None:
    planned = 0
    for scene in scenes:
        plan = shortest(scene.facts, scene.goal)
        assert (plan is None) == (not smallest_teams(scene.facts, scene.goal))
        if plan is None:
            continue
        planned += 1
        assert check(scene.facts, scene.goal, plan).reached
        assert of_rows(rows(plan)) == plan
        for number, step in enumerate(plan):
            assert not check(scene.facts, scene.goal, plan[:number] + plan[number + 1 :]).reached
            for name in step:
                less = {robot: action for robot, action in step.items() if robot != name}
                assert not check(scene.facts, scene.goal, (*plan[:number], less, *plan[number + 1 :])).reached
    assert planned >= 5


def facts(**changes: object) -> Facts:
    """Two arms that meet, a drone; the left arm takes object 1, the right one serves the bin."""
    plain = {
        "robots": ("left", "right", "drone"),
        "objects": (1, 2),
        "places": ("bin", "tray", "shelf"),
        "takes": frozenset({("left", 1), ("right", 2)}),
        "holds": frozenset({("left", 1), ("left", 2), ("right", 1), ("right", 2)}),
        "serves": frozenset({("right", "bin")}),
        "inspects": frozenset({("drone", "shelf"), ("drone", "bin")}),
        "meets": frozenset({"left", "right"}),
        "flat": frozenset({"tray"}),
    }
    return Facts(**{**plain, **changes})  # pyright: ignore[reportArgumentType]


def test_hands_meet_or_pass_things_over_a_tray() -> None:
    goal = Goal(((1, "bin"),))
    handed = shortest(facts(), goal)
    assert handed is not None
    assert length(handed) == (6, 7)
    both = frozenset({("right", "bin"), ("right", "tray"), ("left", "tray")})
    laid = shortest(facts(meets=frozenset(), serves=both), goal)
    assert laid is not None
    # One more action than eight: the left arm leaves the tray.
    assert length(laid) == (8, 9)
    assert shortest(facts(meets=frozenset()), goal) is None


def test_what_was_seen_counts_until_something_is_put_there() -> None:
    goal = Goal(((2, "bin"),), ("bin",))
    plan = shortest(facts(), goal)
    assert plan is not None
    assert list(plan[-1].values()) == [Action(Verb.INSPECT, spot="bin")]
    early = (
        {"drone": Action(Verb.MOVE, spot="bin")},
        {"drone": Action(Verb.INSPECT, spot="bin"), "right": Action(Verb.REACH, 2)},
        {"drone": Action(Verb.MOVE, spot="home"), "right": Action(Verb.GRASP, 2)},
        {"right": Action(Verb.MOVE, spot="bin")},
    )
    state = State.first(facts())
    for step in early:
        state = apply_step(facts(), state, step)
    assert state.inspected == {"bin"}
    assert apply_step(facts(), state, {"right": Action(Verb.PLACE, 2, "bin")}).inspected == frozenset()


@pytest.mark.parametrize(
    ("step", "trouble"),
    [
        ({"cook": Action(Verb.MOVE, spot="bin")}, "there is no 'cook', only left, right, drone"),
        ({"left": Action(Verb.REACH, 9)}, "there is no object 9"),
        ({"left": Action(Verb.REACH, 2)}, "the left cannot take object 2"),
        ({"drone": Action(Verb.REACH, 1)}, "the drone cannot take object 1"),
        ({"left": Action(Verb.GRASP, 1)}, "the left has not reached object 1"),
        ({"left": Action(Verb.MOVE, spot="bin")}, "the left does not get to the bin"),
        ({"drone": Action(Verb.MOVE, spot="meeting")}, "the drone does not get to the meeting point"),
        ({"left": Action(Verb.MOVE, spot="home")}, "the left is at 'home' already"),
        ({"left": Action(Verb.PLACE, 1, "tray")}, "the left does not hold object 1"),
        ({"drone": Action(Verb.INSPECT, spot="shelf")}, "the drone is not at the shelf"),
        ({"right": Action(Verb.INSPECT, spot="shelf")}, "the right cannot look into the shelf"),
        ({"left": Action(Verb.HANDOVER, 1, robot="left")}, "hands something to 'left'"),
        ({"left": Action(Verb.REACH, 1), "right": Action(Verb.REACH, 1)}, "two robots touch the same object"),
        (
            {"right": Action(Verb.MOVE, spot="bin"), "drone": Action(Verb.MOVE, spot="bin")},
            "two robots at once at 'bin'",
        ),
    ],
)
def test_what_is_impossible_is_said(step: dict[str, Action], trouble: str) -> None:
    with pytest.raises(InfeasibleAction, match=trouble):
        apply_step(facts(), State.first(facts()), step)
    verdict = check(facts(), Goal(), ({}, step))
    assert not verdict.reached
    assert verdict.possible == 1
    assert verdict.reason.startswith("step 2: ")


@pytest.mark.parametrize(
    ("value", "trouble"),
    [
        ("reach", "is not a list of up to"),
        ([3], "step 1 is not"),
        ([{"left": "reach"}], "step 1 holds 'reach'"),
        ([{}, {"left": ["jump", 1]}], "step 2 holds .* expected one of move, reach"),
        ([{"left": ["reach"]}], "reach takes object"),
        ([{"left": ["reach", "one"]}], "'one' for the object; expected a number"),
    ],
)
def test_plans_that_cannot_be_read_say_where(value: object, trouble: str) -> None:
    with pytest.raises(ValueError, match=trouble):
        of_rows(value)


def test_facts_and_goals_survive_json(scenes: list[CooperationScene]) -> None:
    for scene in scenes:
        assert Facts.of_document(scene.facts.document()) == scene.facts
        assert Goal.of_document(scene.goal.document()) == scene.goal


def test_bad_input_is_refused() -> None:
    with pytest.raises(EmbodiedError, match="seed=-1"):
        cooperation_scene(-1)
    with pytest.raises(EmbodiedError, match="need=7"):
        SceneConfig(need=7)
    with pytest.raises(EmbodiedError, match="no scene of two arms whose goal needs 3 robots"):
        cooperation_scene(0, SceneConfig(Team.ARMS, need=3, tries=3))
    with pytest.raises(UnknownNameError, match="object '9'"):
        smallest_teams(facts(), Goal(((9, "bin"),)))
    with pytest.raises(UnknownNameError, match="place 'bni'"):
        shortest(facts(), Goal(inspections=("bni",)))
