"""Flags as they are read off settings: names, values, texts; what an unknown one may have meant."""

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
import tyro

from embodied import cli, evaluate, play
from embodied.cli.flags import MEANT, Flag, field_texts, flags_of, groups_of, meant, metavar_of, unknown_flags
from embodied.env.registry import join_content
from policies.registry import ALGORITHMS
from policies.training.settings import default_settings, settings_type

C = TypeVar("C")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True)
class Network:
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of its layers."""


@dataclasses.dataclass(frozen=True)
class Learner:
    learning_rate: float = 1e-3
    """Step size."""
    actor: Network = dataclasses.field(default_factory=Network)
    """Chooses actions."""


@dataclasses.dataclass(frozen=True)
class Base:
    seed: cli.Rare[int] = 0
    """Seed
    of every draw."""


@dataclasses.dataclass(frozen=True)
class Settings(Base, Generic[C]):
    task: tyro.conf.Positional[str] = "hover"
    out: Path = dataclasses.field(kw_only=True)
    """Where to."""
    own: C = None  # type: ignore[assignment]
    """Its own options."""
    fast: bool = False
    named: Annotated[str | None, tyro.conf.arg(aliases=["-n"])] = None


KIND = Settings[Annotated[Learner, tyro.conf.arg(name="ppo")]]


def by_name(flags: list[Flag]) -> dict[str, Flag]:
    return {flag.names[0]: flag for flag in flags}


def test_names_groups_and_texts():
    flags = by_name(flags_of(KIND))
    assert list(flags) == [
        *("TASK", "--out", "--seed", "--fast", "--named", "--ppo.learning-rate", "--ppo.actor.hidden")
    ]
    assert groups_of(KIND) == {"--ppo": "Its own options.", "--ppo.actor": "Chooses actions."}
    assert flags["--ppo.actor.hidden"].group == "--ppo.actor"
    assert flags["--seed"].text == "Seed of every draw."
    assert flags["--seed"].rare
    assert not flags["--out"].rare
    assert flags["--out"].required
    assert flags["--named"].names == ("--named", "-n")
    assert flags["--fast"].accepted == ("--fast", "--no-fast")


def test_defaults_are_those_of_the_settings_that_are_given():
    given = Settings(task="swap", out=tyro.MISSING, own=Learner(0.5, Network((8,))))
    flags = by_name(flags_of(KIND, given))
    assert flags["TASK"].default == "swap"
    assert flags["--ppo.learning-rate"].default == 0.5
    assert flags["--ppo.actor.hidden"].default == (8,)
    assert flags["--out"].required


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (int, "INT"),
        (float | None, "FLOAT"),
        (bool | None, "{True,False}"),
        (Colour, "{red,blue}"),
        (Literal["a", "b"], "{a,b}"),
        (tuple[int, int], "INT INT"),
        (tuple[str, ...], "TEXT ..."),
        (Mapping[str, float], "TEXT FLOAT ..."),
        (int | str, "INT|TEXT"),
        (cli.Rare[Path | None], "PATH"),
    ],
)
def test_values(kind: Any, shown: str):
    assert metavar_of(kind) == shown


def test_texts_of_a_class_without_source_are_none():
    assert field_texts(dataclasses.make_dataclass("Made", [("x", int)])) == {}


def test_unknown_flags_are_those_that_no_form_accepts():
    flags = flags_of(KIND)
    known = ["hover", "--out=x", "--no-fast", "--ppo.learning_rate", "1", "-n", "-1", "--", "--tyro-print-completion"]
    assert unknown_flags(known, flags) == []
    assert unknown_flags(["--fsat", "--ppo.lr=1", "--seed"], flags) == ["--fsat", "--ppo.lr"]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("--lr", "--ppo.learning-rate"),
        ("--learning-rate", "--ppo.learning-rate"),
        ("--ppo.lr", "--ppo.learning-rate"),
        ("--hidden_sizes", "--ppo.actor.hidden"),
        ("--fsat", "--fast"),
        ("--output", "--out"),
        ("--rate", "--ppo.learning-rate"),
    ],
)
def test_what_was_meant(word: str, first: str):
    assert meant(word, flags_of(KIND))[0] == first


def test_nothing_is_better_than_a_wild_guess():
    assert meant("--zzzzzz", flags_of(KIND)) == []


def test_every_name_of_other_libraries_stands_for_one_of_ours():
    entry = join_content().find("swarm/hover")
    kinds = [(settings_type(defaults), defaults) for defaults in (default_settings(entry, name) for name in ALGORITHMS)]
    flags = [flag for kind in (*kinds, (play.Settings,), (evaluate.Settings[None],)) for flag in flags_of(*kind)]
    lasts = {name.rpartition(".")[2].removeprefix("--") for flag in flags for name in flag.names}
    assert [word for words in MEANT.values() for word in words if not any(last.endswith(word) for last in lasts)] == []
    assert [word for word in MEANT if word in lasts and word not in MEANT[word]] == []
