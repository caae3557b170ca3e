"""`python -m embodied.ladder`: every policy plays every side of a game against every other, and is rated."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
import tyro

from embodied import cli
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.registry import Suite, TaskEntry, join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard, listing
from embodied.evaluation.aggregate import Interval
from embodied.evaluation.learning_curves import called
from embodied.evaluation.rates import wilson
from embodied.evaluation.ratings import DRAWS, RESAMPLES, Ratings, rate
from embodied.evaluation.rollouts import evaluate
from embodied.ladder.picture import draw
from embodied.storage import task_names
from policies.training.loading import load_policy
from policies.training.mixed_team import load_team

C = TypeVar("C")
START = "start"
"""Name of the values that number the start of an episode."""
WINS = "success_any"
"""Of an episode, whether the first side won it, as `Team.sides` has it."""


@dataclasses.dataclass(frozen=True)
class Settings(Generic[C]):
    """Rate policies that play the sides of a game, such as the predators and the prey of swarm/tag.

    Every policy plays each side against every policy on the other side, itself too, from the same starts. The first
    side wins an episode in which the task's success holds at any step, the second side all others. Prints how often
    the first side wins each pairing, and a rating of each policy on each side: Elo points (400: odds of 10 to 1) by
    Bradley and Terry's model, with 95 % intervals of a bootstrap over starts. Ratings compare policies of one side,
    whose mean is 0; how much stronger the first side is stands in a line of its own. Each pairing counts one virtual
    draw, so that who never wins has a rating, too. Examples:

        python -m embodied.ladder swarm/tag --policies expert shipped random zero
        python -m embodied.ladder swarm/tag --policies expert runs/tag --episodes 256 --out ladder.png
    """

    task: tyro.conf.Positional[str]
    """Task to play, one with two sides. Or a task of your own, FILE.py:CLASS."""
    policies: tuple[str, ...] = ("shipped", "expert", "random", "zero")
    """Policies: two or more, each a run folder or checkpoint, or: shipped, expert, random, zero. Or one of your own,
    FILE.py:FUNCTION."""
    episodes: int = 64
    """Number for each pairing, each in an environment of its own; there are as many pairings as policies, squared."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 1000
    """Seed of the starts, by default those of embodied.evaluate; training seeds are small numbers."""
    device: str | None = None
    """Device of the policies: cpu, cuda or cuda:N; by default with the engine."""
    out: Path | None = None
    """Also draw pairings and ratings to this file: PNG, SVG or PDF."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""
    config: C = None  # type: ignore[assignment]
    """The task's own options."""

    def __post_init__(self) -> None:
        if len(self.policies) < 2:
            raise EmbodiedError(f"--policies {' '.join(self.policies)}: expected two or more, as in expert random")
        if len(set(self.policies)) < len(self.policies):
            raise EmbodiedError(f"--policies {' '.join(self.policies)}: expected each of them once")
        if self.episodes < 2:
            raise EmbodiedError(f"--episodes {self.episodes}: expected at least 2, which an interval needs")


@guard
def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    registry = join_content()
    entry = registry.find(cli.required_task(words, registry, "ladder", Settings))
    if isinstance(entry, Suite):
        raise EmbodiedError(f"{entry.name} is a suite; expected one task with two sides, such as swarm/tag")
    run(parse(entry, words))
    return 0


def parse(entry: TaskEntry, words: list[str]) -> Settings[Any]:
    """Parse a command line whose flags include the fields of the task's config."""
    defaults = Settings(tyro.MISSING, config=entry.load().config_type())
    kind = Settings[type(defaults.config)]  # type: ignore[misc]
    return dataclasses.replace(cli.parse(kind, words, "ladder", defaults), task=entry.name)


def run(settings: Settings[Any]) -> None:
    """Play, rate, print, draw, write JSON."""
    env = make(settings.task, settings.episodes, settings.engine, settings.seed, device=settings.device,
               config=settings.config)  # fmt: skip
    sides = sides_of(env)
    for name in settings.policies:  # what does not exist or fit is refused before play
        load_policy(name, env)
    wins = play(env, settings, sides)
    ratings, names = rate(wins), called([Path(name) for name in settings.policies])
    task = task_names.label(settings.task)
    title = f"{task} on {env.engine_name}: episodes of {settings.episodes} that the {sides[0]} win, % (95 %)"
    cli.show(pairing_table(title, sides, names, wins), rating_table(sides, names, wins, ratings),
             *remarks(sides, names, wins, ratings))  # fmt: skip
    if settings.out is not None:
        draw(settings.out, f"{task}, {settings.episodes} episodes of each pairing", sides, names, wins.mean(0), ratings)
    result = {"task": task, "engine": env.engine_name, "seed": settings.seed, "episodes": settings.episodes,
              "sides": sides, "policies": names, "virtual_draws": DRAWS, "resamples": RESAMPLES}  # fmt: skip
    cli.write_result(settings.json, cli.command_line("embodied.ladder"), result | values(sides, names, wins, ratings))


def sides_of(env: Env) -> tuple[str, str]:
    """The names of both sides of a game; the first wins an episode that succeeds.

    Raises:
        EmbodiedError: the task has another number of sides.
    """
    sides = tuple(env.task.team.sides if env.task.team else ())
    if len(sides) != 2:
        has = f"{len(sides)} sides ({listing(sides)})" if sides else "no sides"
        raise EmbodiedError(f"{task_names.label(env.name)} has {has}; expected a game of two, such as swarm/tag")
    return sides


def play(env: Env, settings: Settings[Any], sides: tuple[str, str]) -> np.ndarray:
    """(episodes, policies, policies) bool, whether the first side won; the episodes of all pairings begin alike."""
    policies = settings.policies
    wins = np.zeros((settings.episodes, len(policies), len(policies)), bool)
    pairings = list(itertools.product(range(len(policies)), repeat=2))
    with cli.Line(f"{task_names.label(settings.task)} on {env.engine_name}", len(pairings)) as line:
        for done, (i, j) in enumerate(pairings, 1):
            words = (f"{sides[0]}={policies[i]}", f"{sides[1]}={policies[j]}")
            wins[:, i, j] = won(env, load_team(words, env), settings)
            line.update(done, f"{done} of {len(pairings)} pairings: {' '.join(words)}")
    return wins


def won(env: Env, team: PolicyFunction, settings: Settings[Any]) -> np.ndarray:
    """(episodes,) bool, whether the first side won, in the order of the starts: of each, one environment's first."""
    starts = {START: torch.arange(env.num_envs, device=env.device)}
    found = evaluate(env, team, env.num_envs, seed=settings.seed, notes=lambda: starts).values
    return (found[WINS][torch.argsort(found[START])] > 0).numpy()


def pairing_table(title: str, sides: tuple[str, str], names: Sequence[str], wins: np.ndarray) -> cli.Table:
    """A row for each policy of the first side, a column for each of the second: rates in percent, with intervals."""

    def cell(won: np.ndarray) -> str:
        low, high = wilson(int(won.sum()), len(won))
        return f"{100 * won.mean():.0f} ({100 * low:.0f} to {100 * high:.0f})"

    rows = [(name, *(cell(wins[:, i, j]) for j in range(len(names)))) for i, name in enumerate(names)]
    headings = (f"{sides[0]}, against {sides[1]}:", *names)
    return cli.Table(title, tuple(rows), headings, right=tuple(range(1, len(headings))))


def rating_table(sides: tuple[str, str], names: Sequence[str], wins: np.ndarray, ratings: Ratings) -> cli.Table:
    """The policies of each side, the best first, with how often they won of all their episodes."""
    rows: list[tuple[str, ...]] = []
    for side, own, won in standings(sides, wins, ratings):
        for i in sorted(range(len(names)), key=lambda i: -own[i].value):
            share = f"{100 * won[i] / (len(wins) * len(names)):.1f} %"
            rows.append((side, names[i], points(own[i]), share))
    title = "ratings in Elo points (95 %), of each side about its mean"
    return cli.Table(title, tuple(rows), ("side", "policy", "rating", "wins"), right=(2, 3), sections=(len(names),))


def remarks(sides: tuple[str, str], names: Sequence[str], wins: np.ndarray, ratings: Ratings) -> list[str]:
    """Remarks on the first side's advantage, and on policies whose ratings so few episodes bound."""
    said = [f"average {sides[0]} are rated {points(ratings.advantage)} above average {sides[1]}"]
    games = len(wins) * len(names)
    for side, _, count in standings(sides, wins, ratings):
        for how, bound in (("never", 0), ("always", games)):
            if alike := [name for name, number in zip(names, count, strict=True) if number == bound]:
                said.append(
                    f"note: as {side}, {listing(alike)} {how} won: the virtual draws set how far from the others"
                )
    return said


def standings(
    sides: tuple[str, str], wins: np.ndarray, ratings: Ratings
) -> tuple[tuple[str, tuple[Interval, ...], np.ndarray], ...]:
    """Name of each side, and rating and number of won episodes of each policy on it."""
    return (sides[0], ratings.first, wins.sum((0, 2))), (sides[1], ratings.second, (~wins).sum((0, 1)))


def points(rating: Interval) -> str:
    return f"{rating.value:+.0f} ({rating.low:+.0f} to {rating.high:+.0f})"


def values(sides: tuple[str, str], names: Sequence[str], wins: np.ndarray, ratings: Ratings) -> dict[str, Any]:
    """Values for the JSON: pairings by the first side's policy and the second's, ratings by side and policy."""

    def pairing(i: int, j: int) -> dict[str, float]:
        low, high = wilson(int(wins[:, i, j].sum()), len(wins))
        return {"rate": wins[:, i, j].mean().item(), "rate_low": low, "rate_high": high,
                "wins": int(wins[:, i, j].sum()), "expected": ratings.expected(i, j)}  # fmt: skip

    def rated(rating: Interval) -> dict[str, float]:
        return {"rating": rating.value, "rating_low": rating.low, "rating_high": rating.high}

    games = len(wins) * len(names)
    return {
        "pairings": {one: {two: pairing(i, j) for j, two in enumerate(names)} for i, one in enumerate(names)},
        "ratings": {
            side: {
                name: rated(rating) | {"wins": int(count), "episodes": games}
                for name, rating, count in zip(names, own, won, strict=True)
            }
            for side, own, won in standings(sides, wins, ratings)
        },
        "advantage": rated(ratings.advantage),
    }


if __name__ == "__main__":
    sys.exit(main())
