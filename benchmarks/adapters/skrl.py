"""`swarm/hover` by skrl's PPO."""

from collections.abc import Mapping
from typing import Any

import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG  # pyright: ignore[reportMissingImports] - an extra
from skrl.memories.torch import RandomMemory  # pyright: ignore[reportMissingImports]
from skrl.resources.preprocessors.torch import RunningStandardScaler  # pyright: ignore[reportMissingImports]
from skrl.resources.schedulers.torch import KLAdaptiveLR  # pyright: ignore[reportMissingImports]
from skrl.trainers.torch import SequentialTrainer  # pyright: ignore[reportMissingImports]
from skrl.utils import set_seed  # pyright: ignore[reportMissingImports]
from skrl.utils.model_instantiators.torch import (  # pyright: ignore[reportMissingImports]
    deterministic_model,
    gaussian_model,
)
from torch import Tensor

from embodied.adapters.skrl import SkrlEnv
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction

UNROLL = 24


def train(env: Env, steps: int, seed: int) -> PolicyFunction:
    """Train; returns the policy's mean actions."""
    set_seed(seed)
    wrapped = SkrlEnv(env)
    spaces = {
        "observation_space": wrapped.observation_space,
        "state_space": wrapped.state_space,
        "action_space": wrapped.action_space,
        "device": wrapped.device,
    }
    layers = {"layers": [64, 64], "activations": "elu"}
    actor = [{"name": "net", "input": "OBSERVATIONS", **layers}]
    critic = [{"name": "net", "input": "STATES", **layers}]
    models: dict[str, Any] = {
        "policy": gaussian_model(**spaces, network=actor, output="ACTIONS", initial_log_std=-0.7),
        "value": deterministic_model(**spaces, network=critic, output="ONE"),
    }
    config = PPO_CFG(
        rollouts=UNROLL,
        learning_epochs=5,
        mini_batches=4,
        learning_rate=1e-3,
        learning_rate_scheduler=KLAdaptiveLR,
        learning_rate_scheduler_kwargs={"kl_threshold": 0.01},
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": wrapped.observation_space, "device": wrapped.device},
        state_preprocessor=RunningStandardScaler,
        state_preprocessor_kwargs={"size": wrapped.state_space, "device": wrapped.device},
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": wrapped.device},
        grad_norm_clip=1.0,
        time_limit_bootstrap=True,
    )
    config.experiment.write_interval = config.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=UNROLL, num_envs=env.num_envs, device=wrapped.device)
    agent = PPO(models=models, memory=memory, cfg=config, **spaces)
    timesteps = steps // env.num_envs
    SequentialTrainer(env=wrapped, agents=agent, cfg={"timesteps": timesteps, "disable_progressbar": True}).train()
    agent.enable_training_mode(False, apply_to_models=True)

    def policy(observation: Mapping[str, Tensor]) -> Tensor:
        with torch.inference_mode():
            _, outputs = agent.act(observation["policy"], observation["critic"], timestep=0, timesteps=0)
        return outputs["mean_actions"]

    return policy
