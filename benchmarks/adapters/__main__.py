"""`swarm/hover` learned by other libraries through their adapters, each with its own PPO: steps, seconds, success.

Each library runs where it is installed (`pip install "embodied-sim[adapters]"`). The policy is evaluated by ours: whole
episodes with fresh starts, mean actions.

python -m benchmarks.adapters rsl_rl --json benchmarks/results/engines/hover/adapters-rsl-rl.json   # skrl, torchrl ...
"""

import importlib
import importlib.metadata
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

import embodied
from embodied import cli
from embodied.evaluation.rollouts import evaluate

DISTRIBUTIONS = {
    "rsl_rl": "rsl-rl-lib",
    "skrl": "skrl",
    "torchrl": "torchrl",
    "stable_baselines3": "stable-baselines3",
}
EVALUATION_SEED = 1000  # as `python -m embodied.evaluate` takes for single tasks


@dataclass(frozen=True)
class Settings:
    """Settings of the training."""

    library: Annotated[Literal["rsl_rl", "skrl", "torchrl", "stable_baselines3"], tyro.conf.Positional]
    """Whose PPO learns."""
    steps: int = 3_600_000
    """Environment steps, as many as `python -m embodied.train swarm/hover` takes."""
    num_envs: int = 1024
    """Environments that step together."""
    seed: int = 0
    """Seed of environments and networks."""
    episodes: int = 512
    """Whole episodes of the evaluation."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Train, evaluate, print."""
    result = measure(settings)
    shown = {key: cli.number(value) if isinstance(value, float) else str(value) for key, value in result.items()}
    cli.show(cli.table(f"swarm/hover by {settings.library}", shown))
    cli.write_result(settings.json, cli.command_line("benchmarks.adapters"), result)


def measure(settings: Settings) -> dict[str, float | int | str]:
    """The figures of one training."""
    learner = importlib.import_module(f"benchmarks.adapters.{settings.library}")
    env = embodied.make("swarm/hover", settings.num_envs, seed=settings.seed)
    begin = time.perf_counter()
    policy = learner.train(env, settings.steps, settings.seed)
    seconds = time.perf_counter() - begin
    with embodied.make("swarm/hover", min(settings.episodes, settings.num_envs)) as fresh:
        summary = evaluate(fresh, policy, settings.episodes, seed=EVALUATION_SEED).summary()
    return {
        "library": settings.library,
        "algorithm": f"ppo of {settings.library}",
        "version": importlib.metadata.version(DISTRIBUTIONS[settings.library]),
        "task": "swarm/hover",
        "engine": env.engine_name,
        "num_envs": settings.num_envs,
        "seed": settings.seed,
        "steps": settings.steps,
        "train_seconds": seconds,
        "train_env_steps_per_second": settings.steps / seconds,
        **summary,
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
