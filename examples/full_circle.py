"""From simulation to a robot and back: train, export, deploy, calibrate, train again.

    python examples/full_circle.py

The robot is simulated: a Crazyflie in PyBullet that is heavier and weaker than its model and reacts 10 ms late, which
nobody tells the policy. It is weighed, as anybody can do; everything else is found in the log of its first flight.
Each step is the command that one would type, and prints it. To fly your own drone, change `--robot` (see `python -m
sim2real.deploy --help`) and begin at step 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import tyro

from embodied.train import main as train
from sim2real.calibrate import main as calibrate
from sim2real.deploy import main as deploy
from sim2real.export import main as export

TASK = "swarm/hover"
MASS = 0.0318  # kg, the nominal drone's
HEAVIER, WEAKER = 1.08, 0.9  # the simulated drone's mass and thrust over the model's
ROBOT = ("--robot", "pybullet", "--no-realtime", "--mass", str(HEAVIER), "--motor-strength", str(WEAKER),
         "--latency", "0.01")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Settings:
    """Train, export, deploy, calibrate, train on the calibrated robot, export, deploy."""

    out: Path = Path("runs/full_circle")
    """Folder for everything; must not be there."""
    steps: int = 5_000_000
    """Of each training."""
    first: str = ""
    """Policy of the first flight instead of one trained here: a run, or a task with a shipped policy."""
    seed: int = 0
    """Of trainings and flights."""


def main(arguments: list[str] | None = None) -> int:
    """Go round once; the exit code is the last flight's: 0 for a whole one."""
    settings = tyro.cli(Settings, args=arguments, description=__doc__)
    out, seed = settings.out, ("--seed", str(settings.seed))
    out.mkdir(parents=True)
    steps = ("--steps", str(settings.steps))
    first = settings.first or str(out / "nominal")

    if not settings.first:
        step("1. Train on the nominal drone", train, TASK, "--out", first, *steps, *seed)
    step("2. Export", export, first, "--out", str(out / "nominal-bundle"))
    log = str(out / "flight.mcap")
    step("3. Fly, and log", deploy, str(out / "nominal-bundle"), *ROBOT, *seed, "--seconds", "8", "--log", log)
    twin = str(out / "twin")
    # At the step of the training that follows, so that the parameters make up for what that step gets wrong.
    weighed = ("--known", "drone_mass", str(MASS * HEAVIER), "--timestep", "0.002")
    step("4. Calibrate by that log", calibrate, log, "--robot", "crazyflie", "--out", twin, *weighed)
    again = str(out / "calibrated")
    step("5. Train on the calibrated drone", train, TASK, "--out", again, "--calibration", twin,
         "--calibration-width", "3", *steps, *seed)  # fmt: skip
    step("6. Export again", export, again, "--out", str(out / "calibrated-bundle"))
    return step("7. Fly again", deploy, str(out / "calibrated-bundle"), *ROBOT, *seed, "--seconds", "8")


def step(title: str, command: Callable[[list[str]], int], *words: str) -> int:
    """Run one command in this process, and show how it is typed; returns its exit code if it is a flight's.

    Raises:
        SystemExit: another command failed.
    """
    print(f"\n{title}\n    python -m {command.__module__} {' '.join(words)}\n", flush=True)
    code = command(list(words))
    if code and command is not deploy:
        raise SystemExit(code)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
