"""`python -m sim2real.twin`: sweep a task's initial states in batch, map where a policy fails, and train from there.

The twin is the task itself, with what a calibration changed in it. One episode from each of many initial states; what
distinguishes the failed ones; a buffer of the same initial states, drawn as often as they are risky; the few that a
person should demonstrate. After TwinRL (arXiv:2602.09023), whose own sweep is unpublished.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from embodied import cli
from embodied.core.initial_states import InitialStateBuffer, first_reset_states, save
from embodied.env.env import Env
from embodied.env.options import EnvOptions, with_options
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import guard
from policies.training.loading import load_policy, with_needs
from sim2real.failures.failure_map import FailureMap, demonstrations, failure_map, features_of, resampling_weights
from sim2real.failures.failure_page import page

INITIAL_STATES, MAP, PAGE = "initial_states.safetensors", "map.json", "map.html"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Map where a policy fails, over many initial states of its task, and write these to train from.

    Writes OUT/map.html (look at it), OUT/map.json and OUT/initial_states.safetensors. Then train on:

        python -m sim2real.twin locomotion/go1-joystick-rough --policy shipped --out map
        python -m embodied.train locomotion/go1-joystick-rough --initial-states map/initial_states.safetensors
    """

    task: tyro.conf.Positional[str]
    """Task to sweep; python -m embodied.list names them all."""
    out: Path
    """Folder for the map."""
    policy: str = "shipped"
    """A run folder or checkpoint, or: shipped, expert, random, zero. Or one of your own, FILE.py:FUNCTION."""
    episodes: int = 1024
    """Number of episodes, each from an initial state of its own."""
    falls: bool = False
    """Count episodes that failed (fell, crashed) instead of all that ended without success."""
    demonstrate: int = 5
    """Number of initial states to propose for a demonstration."""
    robot: Path | None = None
    """Model file of the robot, for tasks that take one."""
    calibration: Path | None = None
    """Folder that python -m sim2real.calibrate wrote: sweep the robot that its log shows."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seed: int = 2000
    """Of the initial states."""


@guard
def main(arguments: list[str] | None = None) -> int:
    from embodied.env.factory import build

    settings = cli.parse(Settings, arguments, "sim2real.twin")
    env = build(options_of(settings))
    reset_states = first_reset_states(env.task, settings.seed, settings.episodes)
    with cli.Line(f"{settings.task} on {env.engine_name}", settings.episodes) as line:
        policy = load_policy(settings.policy, env)
        failed = sweep(env, policy, settings.falls, lambda done: line.update(done, f"{done} episodes"))
    found = failure_map(features_of(reset_states, env.task.model), failed)
    chosen = demonstrations(found, settings.demonstrate)
    settings.out.mkdir(parents=True, exist_ok=True)
    save(settings.out / INITIAL_STATES, InitialStateBuffer(reset_states, resampling_weights(found.risk)))
    document = summary(settings, found, chosen)
    (settings.out / MAP).write_text(json.dumps(document, indent=2) + "\n")
    title, command = f"{settings.task}, policy {settings.policy}", cli.command_line("sim2real.twin")
    (settings.out / PAGE).write_text(page(title, found, chosen, command), encoding="utf-8")
    _report(settings, document)
    return 0


def options_of(settings: Settings) -> EnvOptions[Any]:
    """The environments: those of the policy, with the robot and the calibration that are given."""
    entry = join_content()[settings.task]
    options = EnvOptions[Any](
        entry.name, settings.episodes, settings.engine, settings.seed, config=entry.load().config_type()
    )
    given = {name: value for name in ("robot", "calibration") if (value := getattr(settings, name)) is not None}
    given |= {"robot": str(settings.robot)} if settings.robot else {}
    return with_options(with_needs(options, settings.policy), given)


def sweep(
    env: Env, policy: PolicyFunction, falls: bool, on_step: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """(N,) bool, whether the first episode of each environment failed; unless `falls`, whether it missed success."""
    obs = env.reset()
    failed = torch.ones(env.num_envs, dtype=torch.bool)
    running = torch.ones(env.num_envs, dtype=torch.bool)
    while running.any():
        step = env.step(policy(obs))
        obs, done = step.obs, step.done.cpu()
        bad = step.terminated.cpu() if falls else ~step.success.cpu()
        failed = torch.where(running & done, bad, failed)
        running &= ~done
        on_step(int((~running).sum()))
    return failed.numpy()


def summary(settings: Settings, found: FailureMap, chosen: list[int]) -> dict[str, Any]:
    names = found.features.names
    telling = [
        {"feature": names[i], "bits": round(float(found.information[i]), 4), "rates": found.rates(i)}
        for i in found.telling
    ]
    proposals = [
        {"start": i, "risk": round(float(found.risk[i]), 3)}
        | {names[j]: round(float(found.features.values[i, j]), 4) for j in found.telling}
        for i in chosen
    ]
    return {
        "task": settings.task,
        "policy": settings.policy,
        "seed": settings.seed,
        "episodes": len(found.failed),
        "failed": int(found.failed.sum()),
        "telling": telling,
        "demonstrate": proposals,
    }


def _report(settings: Settings, document: dict[str, Any]) -> None:
    rate = document["failed"] / document["episodes"]
    rows = {"failed": f"{document['failed']} of {document['episodes']} ({100 * rate:.1f} %)"}
    for entry in document["telling"]:
        rates = ", ".join(f"{100 * rate:.0f}" for _, _, rate in entry["rates"])
        rows[entry["feature"]] = f"fails from low to high in {rates} %"
    if not document["telling"]:
        rows["what tells"] = "nothing more than chance: failures are everywhere, or too few"
    cli.show(cli.table(f"{settings.task}, policy {settings.policy}", rows))
    cli.show(f"Look at it:   {settings.out / PAGE}")
    begin = "" if settings.policy in ("expert", "random", "zero") else f" --start-from {settings.policy}"
    given = "".join(f" --{name} {value}" for name in ("robot", "calibration") if (value := getattr(settings, name)))
    flags = f"{begin}{given} --initial-states {settings.out / INITIAL_STATES}"
    cli.say(f"Train there:  python -m embodied.train {settings.task}{flags}")


if __name__ == "__main__":
    sys.exit(main())
