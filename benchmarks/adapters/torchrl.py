"""`swarm/hover` by TorchRL: its collector, its advantage estimate, its clipped PPO loss."""

from collections.abc import Mapping
from typing import Any

import torch
from tensordict.nn import (  # pyright: ignore[reportMissingImports] - an extra
    AddStateIndependentNormalScale,
    TensorDictModule,
)
from torch import Tensor
from torchrl.collectors import Collector  # pyright: ignore[reportMissingImports]
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator  # pyright: ignore[reportMissingImports]
from torchrl.objectives import ClipPPOLoss  # pyright: ignore[reportMissingImports]
from torchrl.objectives.value import GAE  # pyright: ignore[reportMissingImports]

from embodied.adapters.torchrl import TorchRLEnv
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction

UNROLL, EPOCHS, MINIBATCHES = 24, 4, 8


def train(env: Env, steps: int, seed: int) -> PolicyFunction:
    """Train; returns the policy's mean actions."""
    torch.manual_seed(seed)
    wrapped = TorchRLEnv(env)
    sizes = {name: of.shape[-1] for name, of in wrapped.view.spec.items()}
    layers = {"num_cells": [64, 64], "activation_class": torch.nn.ELU, "device": wrapped.device}
    mean = MLP(sizes["policy"], env.action_size, **layers)
    with torch.no_grad():
        mean[-1].weight.mul_(0.01)  # pyright: ignore[reportCallIssue] - of a layer
    least: Any = 0.05  # standard deviation; its annotation takes no float
    scale = AddStateIndependentNormalScale(env.action_size, scale_lb=least, init_value=0.5, scale_mapping="relu")
    actor = ProbabilisticActor(
        TensorDictModule(torch.nn.Sequential(mean, scale), in_keys=["policy"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(sizes["critic"], 1, **layers), in_keys=["critic"])
    advantages = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(
        actor, critic, clip_epsilon=0.2, entropy_bonus=False, critic_coeff=0.5, normalize_advantage=False
    )
    optimiser = torch.optim.Adam(loss.parameters(), lr=3e-3)
    batch = UNROLL * env.num_envs
    iterations = steps // batch
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=iterations)
    for data in Collector(wrapped, actor, frames_per_batch=batch, total_frames=iterations * batch):
        with torch.no_grad():
            flat = advantages(data).reshape(-1)
        for _ in range(EPOCHS):
            for rows in torch.randperm(batch).chunk(MINIBATCHES):
                losses = loss(flat[rows])
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                torch.nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
                optimiser.step()
                optimiser.zero_grad()
        schedule.step()

    def policy(observation: Mapping[str, Tensor]) -> Tensor:
        with torch.inference_mode():
            return mean(observation["policy"])

    return policy
