"""The short films of README and documents: a walk, a swarm, a hand, an arm; each by a shipped policy or a script.

python -m benchmarks.films                  # all, to docs/films
python -m benchmarks.films walk arm
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import tyro

import embodied
from embodied.errors import UnknownNameError
from embodied.rendering.pictures import View
from embodied.viewer.film import record
from policies.training.loading import load_policy

SOFT = View(light_samples=6)
MOST = 300_000  # bytes of a film


@dataclasses.dataclass(frozen=True)
class Film:
    """Content of a film."""

    task: str
    policy: str = "shipped"
    seconds: float = 4.0
    camera: str | None = None
    view: View = SOFT
    seed: int = 0
    fps: float = 17.0
    goals: bool = True
    """Whether to show where robots and things are to go."""


FILMS: Mapping[str, Film] = {
    "walk": Film("locomotion/go1-joystick-flat", seconds=3.6, fps=14.0),
    "humanoid": Film("locomotion/g1-joystick-flat", seed=3),
    "swarm": Film(
        "swarm/formation",
        seconds=5.2,
        view=View(elevation=-35, filled=0.92, trail=1.2),
        goals=False,
        fps=10.0,
    ),
    "hand": Film("grasping/leap-rotate-z", seconds=5.0, view=View(("palm", "cube"), filled=0.9, light_samples=6)),
    "arm": Film(
        "manipulation/drawer-open",
        "expert",
        seconds=3.0,
        view=View(("link6", "drawer"), azimuth=141, elevation=-24, filled=0.9, light_samples=6),
    ),
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which films, and where to."""

    films: tyro.conf.Positional[tuple[str, ...]] = tuple(FILMS)
    """By name."""
    out: Path = Path("docs/films")
    """Folder."""
    size: tuple[int, int] = (480, 270)
    """Width and height in pixels."""


def main(settings: Settings) -> None:
    """Film, and print how large each is."""
    for name in settings.films:
        if name not in FILMS:
            raise UnknownNameError("film", name, FILMS)
        film, path = FILMS[name], settings.out / f"{name}.webp"
        env = embodied.make(film.task, 1, seed=film.seed)
        policy = load_policy(film.policy, env)
        record(
            env,
            policy,
            path,
            seconds=film.seconds,
            camera=film.camera,
            size=settings.size,
            view=film.view,
            debug_visualization=film.goals,
            most_fps=film.fps,
        )
        size = path.stat().st_size
        cli.console().print(f"{path}: {size / 1e3:.0f} kB" + (", too large" if size > MOST else ""))


if __name__ == "__main__":
    main(tyro.cli(Settings))
