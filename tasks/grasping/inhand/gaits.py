"""`python -m tasks.grasping.inhand.gaits`: finger gaits that turn a cube, searched by CMA-ES; training begins with one.

Fingers that turn a cube swing for tenths of a second, which the noise of an untrained policy, drawn anew in every
control step, does not try. So waves are searched first, two harmonics per servo and one frequency for all, by how far
they turn cubes without seeing them (CMA-ES, Hansen 2016, arXiv:1604.00772); `--start-from expert` then has a policy
imitate them, and improve.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import torch
import tyro
from jax import Array
from jax.typing import ArrayLike

from embodied import cli
from embodied.errors import EmbodiedError, guard
from embodied.storage.paths import asset
from tasks.grasping.hands.hand import Hand
from tasks.grasping.hands.models import hand_named

if TYPE_CHECKING:
    from embodied.env.env import Env

HARMONICS = 2
SECONDS = 12.0  # that every trial lasts
REPEATS = 8  # trials of each gait, with cubes that lie and weigh differently
POPULATION = 32
SIGMA = 0.3  # first deviation of coefficients (in actions), and of the frequency's logarithm
FREQUENCY = 1.5  # Hz, where the search begins


@dataclasses.dataclass(frozen=True, eq=False)
class Gait:
    """Periodic motion of fingers: mean + sum of sine and cosine waves."""

    frequency: float
    """Hz."""
    mean: np.ndarray
    """(m,) action."""
    sine: np.ndarray
    """(harmonics, m) action."""
    cosine: np.ndarray
    """(harmonics, m) action."""

    def __call__(self, seconds: ArrayLike) -> Array:
        """(m,) the action at a time, in [-1, 1]."""
        phase = 2 * jnp.pi * self.frequency * jnp.asarray(seconds) * jnp.arange(1, len(self.sine) + 1)
        return jnp.clip(self.mean + jnp.sin(phase) @ self.sine + jnp.cos(phase) @ self.cosine, -1.0, 1.0)

    @classmethod
    def from_vector(cls, vector: np.ndarray) -> Gait:
        """From the numbers that are searched: coefficients, and the frequency's logarithm last."""
        waves = np.asarray(vector[:-1], np.float32).reshape(1 + 2 * HARMONICS, -1)
        return cls(float(np.exp(vector[-1])), waves[0], waves[1 : 1 + HARMONICS], waves[1 + HARMONICS :])


def file_of(hand: Hand) -> Path:
    """File of a hand's gait."""
    return asset("gaits") / f"{hand.name}.json"


@functools.cache
def gait_of(hand: Hand) -> Gait:
    """The gait that was found for a hand; an `EmbodiedError` where none was."""
    file = file_of(hand)
    if not file.exists():
        raise EmbodiedError(
            f"no gait of the hand {hand.name!r} in {file}: search one by python -m tasks.grasping.inhand.gaits "
            f"{hand.name}"
        )
    found = json.loads(file.read_text())["gait"]
    arrays = {name: np.asarray(found[name], np.float32) for name in ("mean", "sine", "cosine")}
    return Gait(float(found["frequency"]), **arrays)


@dataclasses.dataclass(frozen=True)
class Trials:
    """Results of gaits."""

    turned: np.ndarray
    """(gaits,) rad about the vertical, mean over trials; up to the loss where a cube was dropped."""
    dropped: np.ndarray
    """(gaits,) share of trials."""
    score: np.ndarray
    """(gaits,) the sum of rewards, mean over trials: the search's objective."""


def try_gaits(env: Env, gaits: list[Gait], seconds: float = SECONDS) -> Trials:
    """Play gaits in a batch of the task rotate-z, each in as many environments."""
    repeats = env.num_envs // len(gaits)
    dt = env.task.timing.control_dt
    times = dt * jnp.arange(round(seconds / dt))
    actions = np.stack([np.asarray(jax.vmap(gait)(times)) for gait in gaits], 1)
    env.reset()
    alive, turned, rewards = np.ones(env.num_envs, bool), np.zeros(env.num_envs), np.zeros(env.num_envs)
    for action in actions:
        step = env.step(torch.as_tensor(np.repeat(action, repeats, 0)))
        here = dt * (step.info["spin"] * step.info["length"]).numpy()
        turned, rewards = np.where(alive, here, turned), rewards + alive * step.reward.numpy()
        alive &= ~step.done.numpy()
    grouped = lambda values: values.reshape(len(gaits), repeats).mean(1)  # noqa: E731
    return Trials(grouped(turned), grouped(~alive), grouped(rewards))


def search(env: Env, seed: int, minutes: float, progress: cli.Line | None = None) -> tuple[Gait, Trials]:
    """The best gait of the search's end (by the package cmaes): the mean of its distribution, and its results."""
    try:
        import cmaes
    except ImportError:
        raise EmbodiedError('the search needs the package cmaes: pip install "embodied-sim[sim2real]"') from None
    begin = np.zeros((1 + 2 * HARMONICS) * env.action_size + 1)
    begin[-1] = np.log(FREQUENCY)
    optimiser = cmaes.CMA(mean=begin, sigma=SIGMA, population_size=POPULATION, seed=seed)
    started, generation = time.monotonic(), 0
    while time.monotonic() - started < 60 * minutes:
        asked = [optimiser.ask() for _ in range(POPULATION)]
        trials = try_gaits(env, [Gait.from_vector(vector) for vector in asked])
        optimiser.tell([(vector, -float(score)) for vector, score in zip(asked, trials.score, strict=True)])
        generation += 1
        if progress:
            said = f"{trials.turned.mean():.2f} rad on average, {trials.turned.max():.2f} at best, "
            said += f"{trials.dropped.mean():.0%} dropped, return {trials.score.mean():.2f}, "
            said += f"{np.exp(optimiser.mean[-1]):.2f} Hz"
            progress.update(min(time.monotonic() - started, 60 * minutes), f"generation {generation}: {said}")
    best = Gait.from_vector(optimiser.mean)
    return best, try_gaits(env, [best])


@dataclasses.dataclass(frozen=True)
class Settings:
    """Search a finger gait that turns a cube about the vertical, and write it where the task rotate-z looks for it."""

    hand: tyro.conf.Positional[str]
    """Name of the hand."""
    out: Path | None = None
    """File to write; by default the one among the assets."""
    minutes: float = 15.0
    """Minutes to search."""
    seed: int = 0
    """Seed of the search and of the trials."""


@guard
def main(arguments: list[str] | None = None) -> int:
    from embodied.env.factory import make
    from embodied.env.registry import join_content

    settings = cli.parse(Settings, arguments, "tasks.grasping.inhand.gaits")
    hand = hand_named(settings.hand)
    join_content()
    env = make(f"grasping/{hand.name}-rotate-z", POPULATION * REPEATS, "mujoco", settings.seed)
    with cli.Line("seconds", round(60 * settings.minutes)) as line:
        gait, trials = search(env, settings.seed, settings.minutes, line)
    out = settings.out or file_of(hand)
    document = {
        "command": " ".join(["python -m tasks.grasping.inhand.gaits", *(arguments or sys.argv[1:])]),
        "turned": round(float(trials.turned[0]), 3),
        "dropped": round(float(trials.dropped[0]), 3),
        "seconds": SECONDS,
        "gait": {name: _rounded(value) for name, value in dataclasses.asdict(gait).items()},
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document) + "\n")
    cli.show(f"{trials.turned[0]:.2f} rad in {SECONDS:g} s, {trials.dropped[0]:.0%} dropped -> {out}")
    return 0


def _rounded(value: float | np.ndarray) -> object:
    """Four digits are plenty for fingers."""
    return np.round(np.asarray(value, float), 4).tolist()


if __name__ == "__main__":
    sys.exit(main())
