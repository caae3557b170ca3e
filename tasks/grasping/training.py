"""How the grasping tasks are trained by default."""

import dataclasses

from policies.networks import NetworkConfig
from policies.ppo_config import PPOConfig, Schedule
from policies.train_config import TrainConfig

IN_HAND = PPOConfig(
    unroll=40,
    epochs=4,
    minibatches=8,
    # With sixteen joints the policy changes more than an adaptive rate allows: it fell to its lower bound, and stayed.
    schedule=Schedule.FIXED,
    learning_rate=3e-4,
    gamma=0.98,
    initial_std=0.6,
    actor=NetworkConfig(hidden=(256, 128)),
    critic=NetworkConfig(hidden=(256, 256), output_gain=1.0),
)
# Targets of fingers add up actions: with less noise at first, a grip lasts long enough to be of use.
HANDLING = dataclasses.replace(IN_HAND, unroll=32, gamma=0.99, initial_std=0.3)
HAND_OVER = TrainConfig(num_envs=512, steps=20_000_000, ppo=HANDLING)
"""`grasping/*-hand-over`."""
CATCH = TrainConfig(num_envs=512, steps=20_000_000, ppo=HANDLING)
"""`grasping/*-catch`."""
POUR = TrainConfig(num_envs=512, steps=10_000_000, ppo=HANDLING)
"""`grasping/*-pour`."""
LIFT = TrainConfig(num_envs=256, steps=5_000_000, ppo=IN_HAND)
"""`grasping/*-lift`."""
REORIENT = TrainConfig(num_envs=1024, steps=40_000_000, ppo=IN_HAND)
"""`grasping/*-reorient`."""
ROTATE_Z = TrainConfig(num_envs=1024, steps=20_000_000, ppo=IN_HAND)
"""`grasping/*-rotate-z`."""
