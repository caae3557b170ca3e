"""How the grasping tasks are trained by default."""

from policies.networks import NetworkConfig
from policies.ppo_config import PPOConfig
from policies.train_config import TrainConfig

IN_HAND = PPOConfig(
    unroll=32,
    epochs=4,
    minibatches=16,
    learning_rate=5e-4,
    initial_std=0.6,
    entropy_coef=0.0,
    actor=NetworkConfig(hidden=(256, 128)),
    critic=NetworkConfig(hidden=(256, 256), output_gain=1.0),
)
REORIENT = TrainConfig(num_envs=1024, steps=40_000_000, ppo=IN_HAND)
"""`grasping/*-reorient`."""
ROTATE_Z = TrainConfig(num_envs=1024, steps=20_000_000, ppo=IN_HAND)
"""`grasping/*-rotate-z`."""
