"""`ladder` on a small game of tag: who hunts ranks above who flies about, and what is no game is refused in a line."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from embodied.factory import make
from embodied.ladder import __main__ as ladder
from embodied.registry import join_content
from policies.multi_agent.mixed_team import load_team

TAG = ["swarm/tag", "--engine", "rigid", "--episodes", "8"]
pytestmark = pytest.mark.timeout(280)


def test_a_script_that_hunts_ranks_above_who_flies_at_random(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    written, picture = tmp_path / "ladder.json", tmp_path / "ladder.png"
    words = ["--policies", "random", "expert", "--json", str(written), "--out", str(picture)]
    assert ladder.main([*TAG, *words]) == 0
    result = json.loads(written.read_text())
    assert result["sides"] == ["predators", "prey"]
    predators, prey = result["ratings"]["predators"], result["ratings"]["prey"]
    assert predators["expert"]["rating"] > 0 > predators["random"]["rating"]
    for one, all_of in result["pairings"].items():
        assert predators[one]["wins"] == sum(pairing["wins"] for pairing in all_of.values())
        assert all(pairing["rate_low"] <= pairing["rate"] <= pairing["rate_high"] for pairing in all_of.values())
    caught = sum(one["wins"] for one in predators.values())
    assert caught + sum(one["wins"] for one in prey.values()) == 4 * 8  # somebody wins every episode
    said = capsys.readouterr().out
    assert said.index("predators\texpert") < said.index("predators\trandom") < said.index("prey\t")
    assert cv2.imread(str(picture)) is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swarm/swap", "--policies", "expert", "zero"], "swarm/swap has no sides; expected a game of two"),
        (["swarm/hover", "--policies", "random", "zero"], "swarm/hover has no sides; expected a game of two"),
        (["mt10", "--policies", "expert", "zero"], "mt10 is a suite; expected one task with two sides"),
        (["swarm/tag", "--policies", "expert"], "--policies expert: expected two or more"),
        (["swarm/tag", "--policies", "zero", "zero"], "--policies zero zero: expected each of them once"),
        (["swarm/tag", "--policies", "zero", "exprt"], "exprt"),
        (["swarm/tag", "--episodes", "1"], "--episodes 1: expected at least 2"),
        ([], "which task?"),
    ],
)
def test_what_is_no_ladder_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ladder.main(words if "--episodes" in words else [*words, "--episodes", "2"] if words else [])
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_pairing_that_is_played_again_has_the_same_episodes() -> None:
    settings = ladder.parse(join_content()["swarm/tag"], [*TAG, "--policies", "expert", "zero"])
    env = make("swarm/tag", 8, "rigid", settings.seed, config=settings.config)
    team = load_team(("predators=expert", "prey=expert"), env)
    once, again = (ladder.won(env, team, settings).tolist() for _ in range(2))
    assert once == again
