"""`python -m embodied.bench`: how fast a task runs, and how much of the bare engine's speed is left."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch
import tyro

from embodied import cli
from embodied.bench import speed
from embodied.env.env import Env
from embodied.env.factory import default_engine, make
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, guard
from embodied.storage import task_names
from embodied.storage.paths import shipped
from policies.registry import DEFAULT, TrainConfig, build_algorithm, default_config
from policies.training.loading import load_policy

DEFAULT_ENVS = {"mujoco": 2048, "rigid": 65536, "mjx": 4096}  # where each engine runs at full speed


@dataclasses.dataclass(frozen=True)
class Settings:
    """Measure environment steps per second with a policy in the loop, and the fraction of the bare engine's rate.

    Examples:

        python -m embodied.bench
        python -m embodied.bench swarm/hover --engine rigid --num-envs 65536 --json hover.json
    """

    tasks: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tasks to measure, or suites, or tasks of your own, FILE.py:CLASS; all registered tasks by default."""
    engine: str | None = None
    """Physics engine; by default the best that runs each task on this machine."""
    impl: str | None = None
    """Implementation of mjx: warp or jax; by default what fits the machine."""
    robot: Path | None = None
    """MJCF or URDF file, of a task that takes a robot from a file."""
    num_envs: int | None = None
    """Environments; by default 2,048 on mujoco, 65,536 on rigid, 4,096 on mjx; of many agents, fewer in proportion."""
    turns: int = 9
    """Number of alternations of environment and bare engine."""
    steps: int = 20
    """Control steps per turn."""
    policy: bool = True
    """Act by the shipped policy, or an untrained one of the default size; or else by actions drawn beforehand."""
    seed: int = 0
    """Seed of starts and actions."""
    json: Path | None = None
    """Also write the result, with hardware and command, to this file."""

    def __post_init__(self) -> None:
        if self.turns < 1 or self.steps < 1:
            raise EmbodiedError(f"--turns {self.turns} and --steps {self.steps}: expected at least 1 of each")


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "bench")
    registry = join_content()
    suites = registry.suites
    names = [task for name in settings.tasks for task in (suites[name].tasks if name in suites else (name,))]
    rows = [measure(name, settings) for name in names or registry]
    for row in rows:
        cli.show(cli.table(row["task"], {key: shown(value) for key, value in row.items() if key != "task"}))
    result = rows[0] if len(rows) == 1 else {"results": rows}
    cli.write_result(settings.json, cli.command_line("embodied.bench"), result)
    return 0


def shown(value: Any) -> str:
    return cli.number(value) if isinstance(value, float) else str(value)


def measure(name: str, settings: Settings) -> dict[str, Any]:
    """The figures of one task."""
    entry = join_content()[name]
    label = task_names.label(entry.name)
    engine = settings.engine or default_engine(entry)
    num_envs = settings.num_envs or max(
        1, DEFAULT_ENVS.get(engine, 1024) // getattr(entry.load().config_type(), "agents", 1)
    )
    options = {"impl": settings.impl} if settings.impl else {}
    own: dict[str, Any] = {} if settings.robot is None else {"robot": str(settings.robot)}
    env = make(name, num_envs, engine, settings.seed, engine_options=options, **own)
    act = acting(env, settings)
    with cli.Line(f"{label} on {engine}", settings.turns) as line:

        def show(turn: int, seconds: float) -> None:
            line.update(turn, f"{cli.number(num_envs / seconds)} env steps/s")

        speeds = speed.measure(env, act, turns=settings.turns, steps=settings.steps, on_turn=show)
    return {
        "task": label,
        "engine": engine,
        "impl": str(getattr(env.engine, "impl", "")) or None,
        "num_envs": num_envs,
        "substeps": env.task.timing.substeps,
        "policy": settings.policy,
        **speeds,
        "turns": settings.turns,
        "steps_per_turn": settings.steps,
    }


def acting(env: Env, settings: Settings) -> PolicyFunction:
    """The shipped policy, or the task's default one, untrained; or actions drawn beforehand.

    A trained policy keeps the robot in the states, and the episodes ending at the rate, of most of a training run.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    drawn = 0.2 * torch.randn(env.action_shape, generator=generator)
    if not settings.policy:
        drawn = drawn.to(env.device)
        return lambda obs: drawn
    if env.entry is not None and env.entry.name in shipped():
        return load_policy("shipped", env)
    training = env.entry.load_training() if env.entry and env.entry.training else TrainConfig()
    return build_algorithm(env, default_config(DEFAULT, training), settings.seed).policy


if __name__ == "__main__":
    sys.exit(main())
