"""`ladder` on a small game of tag: who hunts ranks above who flies about, and what is no game is refused in a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.ladder import __main__ as ladder
from policies.training.mixed_team import load_team
from tests.kit.commands import refused, run

TAG = ["swarm/tag", "--engine", "rigid", "--episodes", "8"]
pytestmark = pytest.mark.timeout(280)


@pytest.fixture
def game(monkeypatch: pytest.MonkeyPatch) -> Env:
    """Games of tag, in which the ladder plays; nothing is compiled before they begin."""
    env = make("swarm/tag", 8, "rigid", 1000)
    monkeypatch.setattr(ladder, "make", lambda *_, **__: env)
    return env


def climb(folder: Path) -> tuple[dict[str, Any], str]:
    """What the ladder of a script and of who flies at random says, in JSON and in words; its picture is looked at."""
    pytest.importorskip("matplotlib")
    written, picture = folder / "ladder.json", folder / "ladder.png"
    done = run(ladder.main, *TAG, "--policies", "random", "expert", "--json", str(written), "--out", str(picture))
    assert done.code == 0
    assert cv2.imread(str(picture)) is not None
    return json.loads(written.read_text()), done.out


def test_who_wins_more_ranks_above(game: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expert predators win seven of eight, random ones one; on the other side who wins against whom is told apart."""
    del game
    teams: list[str] = []

    def load(words: tuple[str, ...], env: Env) -> str:
        del env
        teams.append(" ".join(words))
        return words[0]

    wins = {"predators=expert": np.arange(8) > 0, "predators=random": np.arange(8) == 0}
    monkeypatch.setattr(ladder, "load_team", load)
    monkeypatch.setattr(ladder, "won", lambda env, team, settings: wins[team])
    result, said = climb(tmp_path)
    assert sorted(teams) == [f"predators={one} prey={other}" for one in ("expert", "random") for other in
                             ("expert", "random")]  # fmt: skip
    assert result["pairings"]["expert"]["random"]["wins"] == 7
    assert [result["ratings"]["prey"][name]["wins"] for name in ("expert", "random")] == [8, 8]
    check_ranks(result, said)


@pytest.mark.slow
def test_a_script_that_hunts_ranks_above_who_flies_at_random(tmp_path: Path) -> None:
    check_ranks(*climb(tmp_path))


def check_ranks(result: dict[str, Any], said: str) -> None:
    assert result["sides"] == ["predators", "prey"]
    predators, prey = result["ratings"]["predators"], result["ratings"]["prey"]
    assert predators["expert"]["rating"] > 0 > predators["random"]["rating"]
    for one, all_of in result["pairings"].items():
        assert predators[one]["wins"] == sum(pairing["wins"] for pairing in all_of.values())
        assert all(pairing["rate_low"] <= pairing["rate"] <= pairing["rate_high"] for pairing in all_of.values())
    caught = sum(one["wins"] for one in predators.values())
    assert caught + sum(one["wins"] for one in prey.values()) == 4 * 8  # somebody wins every episode
    assert said.index("predators\texpert") < said.index("predators\trandom") < said.index("prey\t")


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
def test_what_is_no_ladder_is_refused_in_one_line(words: list[str], message: str) -> None:
    more = ["--episodes", "2"] if words and "--episodes" not in words else []
    assert message in refused(ladder.main, *words, *more)


@pytest.mark.slow
def test_a_pairing_that_is_played_again_has_the_same_episodes(game: Env) -> None:
    settings = ladder.parse(join_content()["swarm/tag"], [*TAG, "--policies", "expert", "zero"])
    team = load_team(("predators=expert", "prey=expert"), game)
    once, again = (ladder.won(game, team, settings).tolist() for _ in range(2))
    assert once == again


def test_pairings_begin_alike_and_their_episodes_are_told_apart_by_their_starts(
    game: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that end first come first, and go where they began."""
    asked: list[tuple[Any, ...]] = []

    def play(*given: Any, seed: int, notes: Callable[[], Mapping[str, torch.Tensor]]) -> SimpleNamespace:
        asked.append((*given, seed, notes()[ladder.START].tolist()))
        return SimpleNamespace(values={ladder.START: torch.tensor([2, 0, 1]), ladder.WINS: torch.tensor([1.0, 0, 1])})

    monkeypatch.setattr(ladder, "evaluate", play)
    settings = ladder.parse(join_content()["swarm/tag"], [*TAG, "--policies", "expert", "zero", "--seed", "7"])
    team = load_team(("predators=expert", "prey=expert"), game)
    assert ladder.won(game, team, settings).tolist() == [False, True, True]
    assert asked == [(game, team, 8, 7, list(range(8)))]
