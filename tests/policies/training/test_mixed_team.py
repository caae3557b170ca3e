"""Teams of members who follow different policies: who acts for whom, and how words say it."""

from __future__ import annotations

import pytest
import torch

from embodied.env.vec_env import POLICY
from embodied.errors import EmbodiedError
from policies.training.mixed_team import Members, MixedTeam, parse_team

SIDES = {"predators": (0, 1, 2), "prey": (3,)}


def constant(value: float):
    return lambda obs: torch.full((*obs[POLICY].shape[:-1], 2), value)


def test_every_agent_follows_its_own_policy_whatever_the_order():
    team = MixedTeam([Members((3, 1), constant(0.3)), Members((), constant(9.0)), Members((0, 2), constant(-0.2))])
    action = team({POLICY: torch.zeros(5, 4, 7)})
    assert action.shape == (5, 4, 2)
    torch.testing.assert_close(action[0, :, 0], torch.tensor([-0.2, 0.3, -0.2, 0.3]))


@pytest.mark.parametrize("agents", [((0, 1), (1, 2)), ((0, 2),), ((1,), (2,))])
def test_agents_are_each_there_once(agents: tuple[tuple[int, ...], ...]):
    with pytest.raises(ValueError, match="expected each of 0 to"):
        MixedTeam([Members(some, constant(0.0)) for some in agents])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["predators=runs/a", "prey=expert"], {"runs/a": (0, 1, 2), "expert": (3,)}),
        (["0,2=random", "rest=zero"], {"random": (0, 2), "zero": (1, 3)}),
        (["1-2=random", "0=zero", "3=zero"], {"random": (1, 2), "zero": (0, 3)}),
        (["rest=shipped"], {"shipped": (0, 1, 2, 3)}),
    ],
)
def test_words_say_who_follows_which_policy(words: list[str], expected: dict[str, tuple[int, ...]]):
    assert parse_team(words, 4, SIDES) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wolves=expert"], "there is no 'wolves'; there are predators, prey, agents 0 to 3, rest"),
        (["4=expert"], "there is no '4'; there are predators, prey, agents 0 to 3, rest"),
        (["prey=expert"], "nobody acts for agents 0, 1, 2; expected rest=POLICY too"),
        (["0-3=zero", "prey=expert"], "agents 3 have a policy already"),
        (["expert"], "expected WHO=POLICY, as in 0-2=shipped or rest=expert"),
    ],
)
def test_words_that_describe_no_team_are_refused_in_one_line(words: list[str], message: str):
    with pytest.raises(EmbodiedError) as caught:
        parse_team(words, 4, SIDES)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_task_of_one_robot_has_no_team():
    with pytest.raises(EmbodiedError, match="this task has one robot"):
        parse_team(["0=zero"], None, {})
