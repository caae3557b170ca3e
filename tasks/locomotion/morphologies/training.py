"""Default training of the reach tasks."""

import dataclasses

from policies.networks.config import Activation, Architecture, NetworkConfig
from policies.ppo.config import PPOConfig
from policies.registry import TrainConfig

REACH = TrainConfig(
    num_envs=256,
    steps=2_000_000,
    algorithms=(
        PPOConfig(
            unroll=32,
            epochs=4,
            minibatches=8,
            learning_rate=5e-4,
            learning_rate_max=2e-3,
            reward_scale=0.1,
            initial_std=0.5,
            # Statistics of single components would break the equivariance; the network knows the scales of its inputs.
            normalize_observations=False,
            observation_clip=1000.0,
            actor=NetworkConfig(hidden=(64, 64), activation=Activation.SILU, architecture=Architecture.PARTS),
            critic=NetworkConfig(
                hidden=(64, 64), activation=Activation.SILU, architecture=Architecture.PARTS, output_gain=1.0
            ),
        ),
    ),
)
"""Any `locomotion/reach-*` on its own: a transformer over body parts as actor and as critic."""
FAMILY = dataclasses.replace(REACH, num_envs=384, steps=10_000_000)
"""All training variants of a family at once."""
