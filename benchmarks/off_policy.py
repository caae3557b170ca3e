"""What off-policy algorithms reach on a task in so many environment steps, beside PPO: return, success, CPU time.

CPU time counts, besides wall time, because other programs on the machine do not change it.

python -m benchmarks.off_policy --task swarm/hover --steps 300000 --json FILE
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

from embodied import cli  # isort: skip  (before jax, whose environment variables the package sets)

import tyro

from embodied.evaluation.rollouts import evaluate
from embodied.factory import make
from embodied.storage.configs import to_json
from policies.networks.mlp import Activation, NetworkConfig
from policies.off_policy.ddpg import DDPGConfig
from policies.off_policy.fast_td3 import FastTD3Config
from policies.off_policy.sac import SACConfig
from policies.off_policy.td3 import TD3Config
from policies.training.loop import Trainer
from policies.training.settings import default_settings

ACTOR = NetworkConfig((64, 64), Activation.RELU)
CRITIC = NetworkConfig((128, 128), Activation.RELU)
SMALL: dict[str, Any] = {"actor": ACTOR, "critic": CRITIC, "gamma": 0.98, "n_step": 3, "tau": 0.01, "batch_size": 256,
         "actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3}  # fmt: skip
RECIPES: dict[str, Any] = {
    "sac": SACConfig(**SMALL, temperature_learning_rate=1e-3, initial_temperature=0.05),
    "td3": TD3Config(**SMALL, noise_min=0.05, noise_max=0.5),
    "ddpg": DDPGConfig(**SMALL, noise_min=0.05, noise_max=0.5),
    "fast-td3": FastTD3Config(**{**SMALL, "tau": 0.05}, critic_updates=1.0, atoms=51, value_low=-30.0, value_high=70.0,
                              weight_decay=0.0, noise_min=0.05, noise_max=0.5, target_noise=0.1),
}  # fmt: skip
"""Settings that one core can afford. PPO has the task's own."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    task: str = "swarm/hover"
    """Task to learn."""
    algorithms: tuple[str, ...] = ("sac", "td3", "fast-td3", "ppo")
    """Which of ppo, sac, td3, ddpg, fast-td3."""
    steps: int = 300_000
    """Environment steps of each."""
    num_envs: int = 16
    """Environments that step together."""
    engine: str | None = None
    """Physics engine; by default the best that runs the task on this machine."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of algorithm and environment."""
    episodes: int = 128
    """Fresh episodes to evaluate over at the end."""
    points: int = 20
    """Points of the learning curves."""
    json: Path | None = None
    """File for the results, rewritten after each algorithm."""


def main(settings: Settings) -> None:
    """Train, evaluate, print."""
    from embodied.registry import join_content

    entry = join_content().find(settings.task)
    rows: list[dict[str, Any]] = []
    for seed in settings.seeds:
        for name in settings.algorithms:
            config = default_settings(entry, name).algorithm_config if name not in RECIPES else RECIPES[name]
            rows.append({"algorithm": name, "seed": seed} | measure(settings, config, seed))
            shown = {key: rows[-1][key] for key in ("return", "success", "cpu_seconds", "seconds")}
            print(f"{name:10} seed {seed}  " + "  ".join(f"{key} {value:9.3f}" for key, value in shown.items()))
            cli.write_result(settings.json, cli.command_line("benchmarks.off_policy"), {"results": rows})


def measure(settings: Settings, config: Any, seed: int) -> dict[str, Any]:
    """One algorithm's learning curve, and its evaluation at the end."""
    env = make(settings.task, settings.num_envs, settings.engine, seed)
    trainer = Trainer(env, config, total_steps=settings.steps, seed=seed)
    trainer.iterate()  # compiles
    curve: list[dict[str, float]] = []
    started, cpu, first = time.perf_counter(), time.process_time(), trainer.steps
    while not trainer.done:
        metrics = trainer.iterate()
        if "return" in metrics and trainer.steps * settings.points >= (len(curve) + 1) * settings.steps:
            known = {key: metrics[key] for key in ("return", "success", "length")}
            spent = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - started}
            curve.append({"env_steps": float(trainer.steps)} | known | spent)
            print(
                f"  {trainer.steps:>9,} steps  {spent['cpu_seconds']:6.1f} CPU s  {metrics['return']:8.2f}", flush=True
            )
    spent = {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - started}
    count = min(settings.episodes, 128)
    reached = evaluate(make(settings.task, count, settings.engine, 10_000 + seed), trainer.policy, settings.episodes)
    steps = trainer.steps - first
    return {
        **{key: value for key, value in reached.summary().items() if not key.endswith("seconds")},
        **spent,
        "env_steps_per_cpu_second": steps / spent["cpu_seconds"],
        "env_steps": float(trainer.steps),
        "num_envs": settings.num_envs,
        "curve": curve,
        "config": to_json(config),
    }


if __name__ == "__main__":
    main(tyro.cli(Settings))
