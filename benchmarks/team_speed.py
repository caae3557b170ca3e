"""Every task of several agents by speed, beside what is like it in JaxMARL and VMAS on the same cores.

Steps of a world per second, in which each of its agents acts once, under random actions and with restarts included. All
take turns, so that a machine whose speed drifts slows all; medians count. Each is run as its own learners run it: ours
step by step through `Env.step`, VMAS likewise, JaxMARL in compiled programs of 32 steps. What is simulated differs: our
drones have rotors, attitude controllers and 240 physics steps a second, discs in a plane have velocities.

    python3 -m venv .venv-vmas && .venv-vmas/bin/pip install vmas==1.5.2
    python3 -m venv .venv-jaxmarl && .venv-jaxmarl/bin/pip install 'jaxmarl[mabrax]==0.2.0'
    python -m benchmarks.team_speed --json FILE
"""

from __future__ import annotations

import dataclasses
import statistics
import subprocess
import time
from pathlib import Path
from typing import IO, Any, cast

import torch
import tyro

import embodied
from embodied import cli
from embodied.env.env import Env
from embodied.env.registry import join_content

WORKERS = Path(__file__).parent / "reference" / "others"
OTHERS = {
    "swarm/tag": ("jaxmarl MPE_simple_tag_v3", "vmas simple_tag"),
    "swarm/navigation": ("jaxmarl MPE_simple_spread_v3", "vmas navigation"),
    "swarm/flock": ("vmas flocking",),
    "locomotion/ant-4x2": ("jaxmarl ant_4x2",),
}
"""Task -> environments about the same problem, as `SUITE NAME`."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    tasks: tuple[str, ...] = ()
    """Which tasks; none: all that have several agents."""
    jaxmarl: Path = Path(".venv-jaxmarl/bin/python")
    """Python that has JaxMARL."""
    vmas: Path = Path(".venv-vmas/bin/python")
    """Python that has VMAS."""
    num_envs: int = 1024
    """Worlds of each."""
    turns: int = 3
    """Number of turns of each."""
    seconds: float = 2.0
    """Time of a turn."""
    json: Path | None = None
    """File for the results."""


class Other:
    """A process that measures an environment of another suite on request, and waits otherwise."""

    def __init__(self, title: str, settings: Settings) -> None:
        suite, self.name = title.split()
        command = [str(getattr(settings, suite).absolute()), str(WORKERS / f"{suite}_rate.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._job = f"{self.name} {settings.num_envs} {settings.seconds}\n"

    def rate(self) -> tuple[float, int]:
        """Steps of a world per second, and how many agents it has."""
        stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        stdin.write(self._job)
        stdin.flush()
        line = stdout.readline()
        while line and not line[0].isdigit():  # what a library prints when it is imported
            line = stdout.readline()
        rate, agents = line.split()
        return float(rate), int(agents)

    def close(self) -> None:
        cast("IO[str]", self._process.stdin).close()
        self._process.wait()


class Ours:
    """Worlds of a task under random actions, whose episodes end at different times."""

    def __init__(self, task: str, settings: Settings) -> None:
        self.env: Env = embodied.make(task, settings.num_envs)
        self.env.reset()
        self.env.episode_length = torch.arange(settings.num_envs) % self.env.max_episode_steps
        generator = torch.Generator().manual_seed(0)
        self._drawn = 2 * torch.rand(16, *self.env.action_shape, generator=generator) - 1
        self._seconds = settings.seconds
        for step in range(8):
            self.env.step(self._drawn[step])

    def rate(self) -> tuple[float, int]:
        """Steps of a world per second, and how many agents it has."""
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < self._seconds:
            self.env.step(self._drawn[steps % 16])
            steps += 1
        return self.env.num_envs * steps / (time.perf_counter() - begin), self.env.agents or 1


def main(settings: Settings) -> None:
    """Measure and print."""
    tasks, rows = settings.tasks or teams(), []
    with cli.Line("teams", len(tasks)) as line:
        for number, task in enumerate(tasks):
            measured = measure(task, settings)
            rows += measured
            line.update(
                number + 1, ", ".join(f"{row['what']}: {cli.number(row['steps_per_second'])}" for row in measured)
            )
    for row in rows:
        cli.show(cli.table(str(row["what"]), {key: cli.number(row[key]) for key in list(row)[1:]}))
    result = {"num_envs": settings.num_envs, "turns": settings.turns, "results": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.team_speed"), result)


def teams() -> tuple[str, ...]:
    """Every task of several agents."""
    known = join_content()
    return tuple(name for name in known if (team := known[name].load()().team) and team.agents > 1)


def measure(task: str, settings: Settings) -> list[dict[str, Any]]:
    """Median rates of a task and of what is like it."""
    others = {title: Other(title, settings) for title in OTHERS.get(task, ())}
    measured = {task: Ours(task, settings), **others}
    rates: dict[str, list[float]] = {title: [] for title in measured}
    agents = dict[str, int]()
    for _ in range(settings.turns):
        for title, one in measured.items():
            rate, agents[title] = one.rate()
            rates[title].append(rate)
    for other in others.values():
        other.close()
    return [
        {
            "what": title,
            "agents": agents[title],
            "steps_per_second": statistics.median(values),
            "agent_steps_per_second": agents[title] * statistics.median(values),
        }
        for title, values in rates.items()
    ]


if __name__ == "__main__":
    main(tyro.cli(Settings))
