"""`evaluate` of teams: members with different policies, and what each adds to the return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embodied import evaluate
from tests.kit.commands import refused
from tests.kit.pushers import TEAM

EVALUATED = [TEAM, "--episodes", "4", "--num-envs", "4"]
pytestmark = pytest.mark.timeout(280)


def evaluated(path: Path, *words: str) -> dict[str, object]:
    assert evaluate.main([*EVALUATED, *words, "--json", str(path)]) == 0
    return json.loads(path.read_text())


def test_agents_who_follow_one_policy_by_two_names_do_as_one_team(tmp_path: Path) -> None:
    whole = evaluated(tmp_path / "whole.json", "--policy", "zero")
    parts = evaluated(tmp_path / "parts.json", "--team", "0=zero", "rest=zero")
    assert parts["policy"] == "0=zero rest=zero"
    assert (parts["return"], parts["success"]) == (whole["return"], whole["success"])


def test_contributions_add_up_to_what_the_team_earns_beyond_idle_agents(tmp_path: Path) -> None:
    nobody = evaluated(tmp_path / "nobody.json", "--policy", "zero")
    result = evaluated(tmp_path / "team.json", "--policy", "random", "--contributions", "1")
    added = result["contributions"]
    assert isinstance(added, dict)
    assert set(added) == {"agent_0", "agent_1", "agent_2"}
    assert all(one["half"] == 0 for one in added.values())  # of few agents all orders are taken
    # The random policy draws on from evaluation to evaluation, so the whole team's return is only about the same.
    total, earned = sum(one["value"] for one in added.values()), float(str(result["return"]))
    assert total == pytest.approx(earned - float(str(nobody["return"])), abs=0.3 * abs(earned) + 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/tag", "--policy", "zero", "--contributions", "1"], "expected a task of many agents who earn together"),
        (["swarm/hover", "--policy", "zero", "--contributions", "1"], "this task has one robot"),
        (["swarm/swap", "--contributions", "-1"], "--contributions -1: expected 0 or more"),
        (["swarm/swap", "--team", "rest=zero", "--adversaries", "1"], "expected no --adversaries beside it"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words: list[str], message: str) -> None:
    assert message in refused(evaluate.main, *words, "--episodes", "1", "--num-envs", "1")
