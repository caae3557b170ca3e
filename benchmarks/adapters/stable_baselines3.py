"""`swarm/hover` by Stable-Baselines3's PPO."""

import math
from collections.abc import Mapping

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule
from torch import Tensor

from embodied.adapters.stable_baselines3 import SB3VecEnv
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction


def train(env: Env, steps: int, seed: int) -> PolicyFunction:
    """Train; returns the policy's mean actions."""
    model = PPO(
        "MlpPolicy",
        SB3VecEnv(env),
        n_steps=24,
        batch_size=24 * env.num_envs // 8,
        n_epochs=4,
        learning_rate=LinearSchedule(3e-3, 1e-5, 1.0),
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.ELU, "log_std_init": math.log(0.5)},
        seed=seed,
        device="cpu",
    )
    model.learn(steps)

    def policy(observation: Mapping[str, Tensor]) -> Tensor:
        actions, _ = model.predict(observation["policy"].numpy(force=True), deterministic=True)
        return torch.from_numpy(actions).to(env.device)

    return policy
