"""What one of two processes that train together holds; started by itself, it writes that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from policies import PPO, PPOConfig, Trainer
from policies.networks.mlp import NetworkConfig
from policies.networks.optim import distributed
from tests.kit.learning import PointMass, algorithm_of


def train_rank() -> dict[str, Any]:
    """Train three iterations together with the other process; what this one holds then."""
    with distributed.joined():
        rank = distributed.rank()
        small = NetworkConfig((16,))
        config = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=small, critic=small)
        trainer = Trainer(PointMass(32, seed=rank), config, total_steps=10**6, seed=rank)  # seeds differ on purpose
        learner = algorithm_of(trainer, PPO)
        initial = learner.optimizer.vector.clone()
        observed: list[torch.Tensor] = []
        act = learner.act

        def spy(obs: Any) -> torch.Tensor:
            observed.append(obs["policy"].clone())
            return act(obs)

        learner.act = spy  # pyright: ignore[reportAttributeAccessIssue] - notes what was observed
        for _ in range(3):
            trainer.iterate()
        return {
            "initial": initial,
            "observed": torch.cat(observed),
            "steps": torch.tensor(trainer.steps),
            "parameters": learner.optimizer.vector,
            "rate": learner.learning_rate.value,
            "normalizer": learner.normalizers["policy"].state(),
            "noise": learner.noise_generator.get_state(),
            "stopped": torch.tensor(distributed.anyone(rank == 1)),
            "rank": rank,
            "compiler": "torch._dynamo" in sys.modules,
        }


if __name__ == "__main__":
    found = train_rank()
    torch.save(found, Path(sys.argv[1]) / f"{found['rank']}.pt")
