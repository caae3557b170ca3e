"""Shipped policies of the classic bodies in Gymnasium's own environments, beside the same policies here.

They were trained here, and Gymnasium's code knows nothing of this suite: models, observations, rewards and limits are
its own. An action of 1 is the motors' limit, as in the tasks.

python -m benchmarks.gymnasium_transfer --json FILE
"""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro

import embodied
from embodied import cli
from embodied.evaluation.rollouts import evaluate
from policies.policy import Policy
from policies.training.loading import load_policy

BODIES = {  # tasks by the environments whose bodies they have
    "ant": "Ant-v5",
    "half-cheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
    "humanoid": "Humanoid-v5",
    "walker2d": "Walker2d-v5",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    bodies: tuple[str, ...] = tuple(BODIES)
    """Which of the tasks."""
    policy: str = "shipped"
    """Their policies: shipped, or of one body a run."""
    episodes: int = 20
    """Of each, there and here."""
    json: Path | None = None
    """File for the results."""


def main(settings: Settings) -> None:
    """Measure and print."""
    rows = []
    with cli.Line("gymnasium", len(settings.bodies)) as line:
        for number, body in enumerate(settings.bodies):
            rows.append(measure(body, settings))
            line.update(number + 1, body)
    for row in rows:
        cli.show(cli.table(row["body"], {key: cli.number(row[key]) for key in list(row)[1:]}))
    result = {"episodes": settings.episodes, "gymnasium": gymnasium.__version__, "results": rows}
    cli.write_result(settings.json, cli.command_line("benchmarks.gymnasium_transfer"), result)


def measure(body: str, settings: Settings) -> dict[str, Any]:
    """Mean return and length of a body's episodes there and here."""
    with embodied.make(f"locomotion/{body}", settings.episodes, "mujoco", seed=1000) as env:
        policy = load_policy(settings.policy, env)
        assert isinstance(policy, Policy)
        ours = evaluate(env, policy.acting_in(env), settings.episodes).summary()
    episodes = [episode(BODIES[body], policy, seed) for seed in range(settings.episodes)]
    returns, lengths = zip(*episodes, strict=True)
    return {
        "body": body,
        "return_there": statistics.mean(returns),
        "return_there_least": min(returns),
        "return_here": ours["return"],
        "length_there": statistics.mean(lengths),
        "length_here": ours["length"],
        "full_length_there": sum(length == 1000 for length in lengths) / len(lengths),
    }


def episode(name: str, policy: Policy, seed: int) -> tuple[float, int]:
    """Return and length of an episode of Gymnasium's environment."""
    env = gymnasium.make(name)
    limit = env.action_space.high  # pyright: ignore[reportAttributeAccessIssue] - a box, says the environment
    obs, _ = env.reset(seed=seed)
    total, length, over = 0.0, 0, False
    while not over:
        seen = torch.as_tensor(obs, dtype=torch.float32)[None]
        action = policy({policy.group: seen})[0].numpy().astype(np.float64)
        obs, reward, terminated, truncated, _ = env.step(limit * action)
        total, length, over = total + float(reward), length + 1, terminated or truncated
    env.close()
    return total, length


if __name__ == "__main__":
    main(tyro.cli(Settings))
