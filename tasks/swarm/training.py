"""How the swarm tasks are trained by default."""

from policies.networks import NetworkConfig
from policies.ppo_config import PPOConfig
from policies.train_config import TrainConfig

HOVER = TrainConfig(
    num_envs=1024,
    steps=3_500_000,
    ppo=PPOConfig(
        unroll=24,
        epochs=3,
        minibatches=8,
        initial_std=0.5,
        actor=NetworkConfig(hidden=(64, 64)),
        critic=NetworkConfig(hidden=(64, 64), output_gain=1.0),
    ),
)
"""`swarm/hover` on two CPU cores in half a minute."""
