"""SAC of stable-baselines3 on a task of metaworld 3.1.1, saved as a perceptron: for a Python that has both.

    METAWORLD/bin/python benchmarks/reference/others/metaworld_sac.py reach 60000 reach.npz

Every episode has a start and a goal of its own, which the policy sees; episodes of 500 steps are never ended early. The
file is for `metaworld_perceptron.py` and `benchmarks.metaworld_transfer`.
"""

import sys
from typing import Any

import gymnasium
import numpy as np
from metaworld_perceptron import fresh  # pyright: ignore[reportMissingImports] - beside this file
from stable_baselines3 import SAC

REWARD_SCALE = 0.1


def main(task: str, steps: int, file: str) -> None:
    """Train and save."""
    env = gymnasium.wrappers.TransformReward(fresh(task, 0), lambda reward: REWARD_SCALE * float(reward))
    model: Any = SAC("MlpPolicy", env, seed=0, learning_starts=2_000, policy_kwargs={"net_arch": [256, 256]}, verbose=0)
    model.learn(steps, log_interval=None)
    layers = [part for part in model.actor.latent_pi if hasattr(part, "weight")] + [model.actor.mu]
    arrays = {}
    for number, layer in enumerate(layers):
        arrays[f"weight{number}"] = layer.weight.detach().numpy()
        arrays[f"bias{number}"] = layer.bias.detach().numpy()
    (size,) = model.observation_space.shape
    np.savez(file, activation="relu", squashed=True, mean=np.zeros(size), scale=np.ones(size), clip=np.inf, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
