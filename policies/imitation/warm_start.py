"""A policy that imitates a script, for PPO to begin with: `--start-from expert`.

The script acts, its actions disturbed by the noise that the policy will explore with, and the policy learns what the
script would have done without: so it has seen how to come back from what its own noise leads to (DART, Laskey et al.
2017, arXiv:1703.09327). The script keeps acting, so one that counts time never loses its place.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from embodied.env.vec_env import POLICY, PolicyFunction, VecEnv
from embodied.errors import EmbodiedError
from policies.networks.build import make_actor
from policies.networks.normalizer import Normalizer
from policies.policy import NormalizedActor, Policy
from policies.ppo.config import PPOConfig

EXAMPLES = 200_000  # to see at least
PASSES = 20  # over the examples
BATCH = 4096
LEARNING_RATE = 1e-3
HELD_OUT = 0.1  # of the environments


@dataclasses.dataclass(frozen=True)
class Imitated:
    """A policy, and how well it repeats the script."""

    policy: Policy
    explained: float
    """Share of the variance of the script's actions that it explains in environments it did not learn from."""


def imitate(
    env: VecEnv, script: PolicyFunction, config: PPOConfig, seed: int = 0, examples: int = EXAMPLES
) -> Imitated:
    """Watch a script in every environment for an episode at least, and fit the mean action to it.

    Args:
        env: Where the script acts; begins anew.
        script: Observation groups to actions in [-1, 1].
        config: Of the learner that will begin with the policy: network, deviation, normalisation.
        seed: Of weights, noise and order.
        examples: To see at least; more where an episode in every environment has more steps.

    Raises:
        EmbodiedError: The script does things that are not finite.
    """
    generator = torch.Generator(env.device).manual_seed(seed)
    steps = max(env.max_episode_steps, math.ceil(examples / env.num_envs))
    obs, wanted = _watch(env, script, config.initial_std, steps, generator)
    if not bool(torch.isfinite(wanted).all()):
        raise EmbodiedError("cannot imitate the script: some of its actions are not finite")
    normalizer = Normalizer(obs.shape[-1], env.device, config.observation_clip)
    if config.normalize_observations:
        normalizer.observe(obs.flatten(0, 1))
        normalizer.commit()
    held_out = max(1, round(HELD_OUT * env.num_envs))
    weights = torch.Generator().manual_seed(seed)
    actor = make_actor(obs.shape[-1], env.action_size, config.actor, config.initial_std, weights).to(env.device)
    seen = normalizer(obs)
    _fit(actor, seen[:, held_out:].flatten(0, 1), wanted[:, held_out:].flatten(0, 1), generator)
    explained = _explained(actor, seen[:, :held_out].flatten(0, 1), wanted[:, :held_out].flatten(0, 1))
    network = NormalizedActor(actor, normalizer.mean, normalizer.scale, config.observation_clip)
    return Imitated(Policy(network, config.actor), explained)


@torch.no_grad()
def _watch(
    env: VecEnv, script: PolicyFunction, noise: float, steps: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(T, N, size) what the policy would have seen, and (T, N, A) what the script wanted."""
    obs, seen, wanted = env.reset(), [], []
    for _ in range(steps):
        action = script(obs)
        seen.append(obs[POLICY].clone())
        wanted.append(action.clone())
        disturbed = action + noise * torch.randn(action.shape, generator=generator, device=action.device)
        obs = env.step(disturbed.clamp(-1.0, 1.0)).obs
    return torch.stack(seen), torch.stack(wanted)


def _fit(actor: torch.nn.Module, obs: Tensor, wanted: Tensor, generator: torch.Generator) -> None:
    """Minimise the squared error; the learning rate falls to nothing."""
    batches = math.ceil(len(obs) / BATCH)
    optimizer = torch.optim.Adam(actor.parameters(), LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, PASSES * batches)
    for _ in range(PASSES):
        for rows in torch.randperm(len(obs), generator=generator, device=obs.device).chunk(batches):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(actor(obs[rows]), wanted[rows]).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def _explained(actor: torch.nn.Module, obs: Tensor, wanted: Tensor) -> float:
    """1 - error / variance; of a script that never moves, 1 if it is repeated exactly."""
    error, variance = (actor(obs) - wanted).square().mean(), wanted.var(0, correction=0).mean()
    return float(1 - error / variance.clamp(min=1e-12))
