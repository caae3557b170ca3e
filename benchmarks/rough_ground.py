"""Falls of legged robots on rough ground: share of episodes with a fall, by kind of ground and its difficulty.

Every kind and level of the task's tiles has as many robots, which begin there and may walk on to others; the first
episode of each counts.

    python -m benchmarks.rough_ground locomotion/go1-joystick-rough --json FILE
    python -m benchmarks.rough_ground locomotion/g1-joystick-rough --policy runs/g1 --json FILE
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import numpy as np
import tyro

from embodied.env.env import Env
from embodied.env.factory import make
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from tasks.locomotion.ground import KINDS, Rough
from tasks.locomotion.legged import LeggedTask


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    task: tyro.conf.Positional[str]
    """A task on rough ground."""
    policy: str = "shipped"
    """A run folder or checkpoint, or: shipped, zero."""
    num_envs: int = 512
    """Robots; starts are drawn, so that each tile has about a 32nd of them."""
    seed: int = 1_000
    """Of the starts."""
    json: Path | None = None
    """File for the results."""


@dataclasses.dataclass(frozen=True)
class Falls:
    """The first episode of each environment."""

    kind: np.ndarray
    """(N,) index into `KINDS` of the tile where it began."""
    level: np.ndarray
    """(N,) of that tile."""
    seconds: np.ndarray
    """(N,) s until the fall; infinite where there was none."""

    def share(self, chosen: np.ndarray) -> float | None:
        """Of the chosen (N,) episodes, None without any."""
        return float(np.isfinite(self.seconds[chosen]).mean()) if chosen.any() else None


def first_episodes(env: Env, policy: PolicyFunction, ground: Rough) -> Falls:
    """Run every environment to the end of its first episode."""
    observation = env.reset()
    tile = np.asarray(env.world().qpos)[:, :2] / ground.tile + np.array([ground.levels, len(KINDS)]) / 2
    level, kind = np.floor(tile).astype(int).T
    seconds, going = np.full(env.num_envs, np.inf), np.ones(env.num_envs, bool)
    with cli.Line("walking", env.max_episode_steps) as line:
        for step in range(1, env.max_episode_steps + 1):
            result = env.step(policy(observation))
            observation = result.obs
            fell = result.terminated.cpu().numpy() & going
            seconds[fell] = step * env.control_dt
            going &= ~(result.terminated | result.truncated).cpu().numpy()
            line.update(step, f"{int(np.isfinite(seconds).sum())} fell")
    return Falls(kind, level, seconds)


def main(settings: Settings) -> None:
    """Measure, and print a row for each kind of ground."""
    env = make(settings.task, settings.num_envs, seed=settings.seed)
    if not isinstance(env.task, LeggedTask) or not isinstance(ground := env.task.ground, Rough):
        raise EmbodiedError(f"'{settings.task}' is not on rough ground; expected locomotion/ROBOT-joystick-rough")
    falls = first_episodes(env, load_policy(settings.policy, env), ground)
    kinds = {
        name: [falls.share((falls.kind == number) & (falls.level == level)) for level in range(ground.levels)]
        for number, name in enumerate(KINDS)
    }
    for name, shares in kinds.items():
        cli.show(f"{name}\t" + " ".join("-" if share is None else f"{share:.0%}" for share in shares))
    everyone = np.ones(env.num_envs, bool)
    values = {
        "task": settings.task,
        "policy": Path(settings.policy).name,
        "seed": settings.seed,
        "episodes": env.num_envs,
        "fall": falls.share(everyone),
        "fall_by_kind": {name: falls.share(falls.kind == number) for number, name in enumerate(KINDS)},
        "fall_by_level": [falls.share(falls.level == level) for level in range(ground.levels)],
        "fall_by_kind_and_level": kinds,
        "fall_in_first_second": float((falls.seconds <= 1.0).mean()),
    }
    cli.write_result(settings.json, cli.command_line("benchmarks.rough_ground"), values)


if __name__ == "__main__":
    main(tyro.cli(Settings))
