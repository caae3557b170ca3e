"""`swarm/hover` by rsl_rl's PPO."""

from collections.abc import Mapping

import torch
from rsl_rl.runners import OnPolicyRunner  # pyright: ignore[reportMissingImports] - an extra
from tensordict import TensorDict  # pyright: ignore[reportMissingImports]
from torch import Tensor

from embodied.adapters.rsl_rl import RslRlVecEnv
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction

UNROLL = 24
# By default a value moves by little more than 0.2 in an iteration; hover's rewards, up to 1.6 a step, come to 160.
LEARNING = {"num_learning_epochs": 5, "num_mini_batches": 8, "use_clipped_value_loss": False}


def train(env: Env, steps: int, seed: int) -> PolicyFunction:
    """Train; returns the policy's mean actions."""
    torch.manual_seed(seed)
    network = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu", "obs_normalization": True}
    config = {
        "num_steps_per_env": UNROLL,
        "save_interval": 1000,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.5}},
        "critic": network,
        "algorithm": {"class_name": "PPO", "entropy_coef": 0.0, **LEARNING},
    }
    runner = OnPolicyRunner(RslRlVecEnv(env), config, device=str(env.device))
    runner.learn(steps // (UNROLL * env.num_envs), init_at_random_ep_len=True)
    actor = runner.get_inference_policy(str(env.device))

    def policy(observation: Mapping[str, Tensor]) -> Tensor:
        with torch.inference_mode():
            return actor(TensorDict(dict(observation), batch_size=[len(observation["policy"])]))

    return policy
