"""Started by torchrun: train three iterations and write what this rank holds."""

import sys
from pathlib import Path

import torch

from policies import PPO, PPOConfig, Trainer
from policies.networks.mlp import NetworkConfig
from policies.optim import distributed
from tests.kit.learning import PointMass, algorithm_of


def main() -> None:
    distributed.init()
    rank = distributed.rank()
    small = NetworkConfig((16,))
    config = PPOConfig(unroll=8, epochs=2, minibatches=2, actor=small, critic=small)
    trainer = Trainer(PointMass(32, seed=rank), config, total_steps=10**6, seed=rank)  # seeds differ on purpose
    learner = algorithm_of(trainer, PPO)
    initial = learner.optimizer.vector.clone()
    observed = [trainer._obs["policy"].clone()]
    act = learner.act

    def spy(obs):
        observed.append(obs["policy"].clone())
        return act(obs)

    learner.act = spy
    for _ in range(3):
        trainer.iterate()
    result = {
        "initial": initial,
        "observed": torch.cat(observed[1:]),
        "steps": torch.tensor(trainer.steps),
        "parameters": learner.optimizer.vector,
        "rate": learner.learning_rate.value,
        "normalizer": learner.normalizers["policy"].state(),
        "noise": learner.noise_generator.get_state(),
        "stopped": torch.tensor(distributed.anyone(rank == 1)),
    }
    torch.save(result, Path(sys.argv[1]) / f"{rank}.pt")
    distributed.close()


main()
