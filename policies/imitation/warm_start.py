"""Warm start of PPO: a policy that imitates the scripted expert, for `--start-from expert`.

The expert acts with the policy's exploration noise added to its actions, and the policy learns the actions without
noise: so the data show how to recover from the policy's own noise (DART, Laskey et al. 2017, arXiv:1703.09327). The
expert acts throughout, so one that counts time stays in step.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import POLICY, PolicyFunction, VecEnv
from embodied.errors import EmbodiedError
from policies.networks.build import make_actor
from policies.networks.normalizer import Normalizer
from policies.policy import NormalizedActor, Policy
from policies.ppo.config import PPOConfig

SAMPLES = 200_000  # at least
EPOCHS = 20
BATCH = 4096
LEARNING_RATE = 1e-3
HELD_OUT = 0.1  # of the environments


@dataclasses.dataclass(frozen=True)
class Imitation:
    """A policy, and how well it imitates the expert."""

    policy: Policy
    explained: float
    """Explained variance of the expert's actions in held-out environments."""


def imitate(env: VecEnv, expert: PolicyFunction, config: PPOConfig, seed: int = 0, samples: int = SAMPLES) -> Imitation:
    """Roll out an expert in every environment for an episode at least, and fit the mean action to its actions.

    There are `samples` at least, more where an episode in every environment has more steps. `config` is that of the
    learner that will begin with the policy: network, deviation, normalisation.

    Raises:
        EmbodiedError: Some of the expert's actions are not finite, or the policy is to be one that remembers.
    """
    if config.actor.memory:
        raise EmbodiedError("an imitation learns single steps; expected an actor without memory, not architecture gru")
    generator = Generator(env.device).manual_seed(seed)
    steps = max(env.max_episode_steps, math.ceil(samples / env.num_envs))
    obs, target = _collect(env, expert, config.initial_std, steps, generator)
    if not bool(torch.isfinite(target).all()):
        raise EmbodiedError("cannot imitate the expert: some of its actions are not finite")
    normalizer = Normalizer(obs.shape[-1], env.device, config.observation_clip)
    if config.normalize_observations:
        normalizer.observe(obs.flatten(0, 1))
        normalizer.commit()
    held_out = max(1, round(HELD_OUT * env.num_envs))
    weights = Generator().manual_seed(seed)
    actor = make_actor(obs.shape[-1], env.action_size, config.actor, config.initial_std, weights).to(env.device)
    normalized = normalizer(obs)
    _fit(actor, normalized[:, held_out:].flatten(0, 1), target[:, held_out:].flatten(0, 1), generator)
    explained = _explained(actor, normalized[:, :held_out].flatten(0, 1), target[:, :held_out].flatten(0, 1))
    return Imitation(Policy(NormalizedActor.of(actor, normalizer), config.actor), explained)


@torch.no_grad()
def _collect(
    env: VecEnv, expert: PolicyFunction, noise: float, steps: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """(T, N, size) the policy's observations, and (T, N, A) the expert's actions without noise."""
    obs, observations, target = env.reset(), [], []
    for _ in range(steps):
        action = expert(obs)
        observations.append(obs[POLICY].clone())
        target.append(action.clone())
        disturbed = action + noise * torch.randn(action.shape, generator=generator, device=action.device)
        obs = env.step(disturbed.clamp(-1.0, 1.0)).obs
    return torch.stack(observations), torch.stack(target)


def _fit(actor: torch.nn.Module, obs: Tensor, target: Tensor, generator: Generator) -> None:
    """Minimise the squared error; the learning rate falls to nothing."""
    batches = math.ceil(len(obs) / BATCH)
    optimizer = torch.optim.Adam(actor.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * batches)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(obs), generator=generator, device=obs.device).chunk(batches):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(actor(obs[rows]), target[rows]).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def _explained(actor: torch.nn.Module, obs: Tensor, target: Tensor) -> float:
    """1 - error / variance; for an expert that never moves, 1 if it is imitated exactly."""
    error, variance = (actor(obs) - target).square().mean(), target.var(0, correction=0).mean()
    return float(1 - error / variance.clamp(min=1e-12))
