"""Speed of the learner alone: acting and updating on random transitions, without an environment.

python -m benchmarks.ppo --num-envs 4096 --json FILE
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import tyro

from embodied.cli.results import describe, write_json
from embodied.env.vec_env import ObservationSpec
from embodied.storage.configs import to_json
from policies import PPO, PPOConfig


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    num_envs: int = 4096
    """Environments."""
    observation_size: int = 20
    """Length of an observation."""
    action_size: int = 4
    """Length of an action."""
    ppo: PPOConfig = field(default_factory=lambda: PPOConfig(unroll=32, epochs=4, minibatches=4))
    """Settings of the learner."""
    device: str = "cpu"
    """Where it runs."""
    repeats: int = 8
    """Rollouts; the fastest counts, as other programs only ever slow it down."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    n, device, config = settings.num_envs, settings.device, settings.ppo
    spec = {"policy": ObservationSpec((settings.observation_size,))}
    learner = PPO(spec, settings.action_size, n, config, device=device)
    obs = {"policy": torch.randn(n, settings.observation_size, device=device)}
    ends = torch.rand(2, n, device=device) < 0.01
    step: Any = SimpleNamespace(
        reward=torch.randn(n, device=device), terminated=ends[0], truncated=ends[1], final_obs=obs
    )
    act, update = [], []
    for _ in range(settings.repeats):
        start = time.perf_counter()
        for _ in range(config.unroll):
            learner.act(obs)
            learner.record(step)
        float(learner.rollout.action.sum())  # waits for a GPU
        collected = time.perf_counter()
        learner.update(obs)
        act.append(collected - start)
        update.append(time.perf_counter() - collected)
    transitions = n * config.unroll
    result = {
        "act_per_second": transitions / min(act),
        "update_seconds": min(update),
        "update_transitions_per_second": transitions / min(update),
        "gradient_samples_per_second": transitions * config.epochs / min(update),
    }
    for name, value in result.items():
        print(f"{name:32} {value:14,.3f}")
    if settings.json is not None:
        write_json(settings.json, result | {"hardware": describe(), "settings": to_json(settings)})


if __name__ == "__main__":
    main(tyro.cli(Settings, config=(tyro.conf.EnumChoicesFromValues,)))
