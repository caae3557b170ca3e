"""Train a policy from Python or a notebook, look at its curve, compare it with another, and use it.

    python examples/train_in_python.py
    python examples/train_in_python.py --steps 60000 --out runs/two-rates

In a notebook the same lines show a line of progress below the cell; interrupting the cell saves and stops.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import embodied
from embodied.evaluation.learning_curves import Across, curve
from embodied.runs.comparison import Comparison, Training
from embodied.runs.page import page

RATES = {"usual": 8e-3, "gentle": 1e-3}  # of learning


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Train hover at two learning rates and compare them.")
    parser.add_argument("--steps", type=int, default=1_000_000, help="environment steps of each")
    parser.add_argument("--num-envs", type=int, default=1024, help="environments that step together")
    parser.add_argument("--out", type=Path, default=Path("runs/two-rates"), help="folder of both runs and the page")
    asked = parser.parse_args(words)

    trained = {
        name: embodied.train_policy(
            "swarm/hover",
            steps=asked.steps,
            seed=0,
            num_envs=asked.num_envs,
            evaluate_episodes=64,
            algorithm_config={"learning_rate": rate},  # or a whole PPOConfig
            config={"latency": (0.0, 0.0)},  # options of the task
            out=asked.out / name,
        )
        for name, rate in RATES.items()
    }
    for name, one in trained.items():
        returns = curve(one.run.metrics(), "return", Across.STEPS, 5)
        print(f"{name}: success {one.result['success']:.1%}, return over steps {[round(y) for _, y in returns]}")

    comparison = Comparison(tuple(Training(name, (one.run,)) for name, one in trained.items()))
    print(f"they differ in {comparison.settings}")
    (asked.out / "two-rates.html").write_text(page(comparison, "Two learning rates", ""), encoding="utf-8")

    best = max(trained.values(), key=lambda one: one.result["return"])
    env = embodied.make("swarm/hover", 4)
    with torch.no_grad():
        step = env.step(best.policy(env.reset()))
    print(f"rewards of its first step: {step.reward.tolist()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
