"""How the locomotion tasks are trained by default."""

from policies.networks import Activation, NetworkConfig
from policies.ppo_config import PPOConfig, Schedule
from policies.train_config import TrainConfig

SMALL = NetworkConfig(hidden=(128, 128), activation=Activation.SILU)
LARGE = NetworkConfig(hidden=(256, 128), activation=Activation.SILU)
CRITIC = NetworkConfig(hidden=(256, 128), activation=Activation.SILU, output_gain=1.0)

JOYSTICK = TrainConfig(
    num_envs=1024,
    steps=9_200_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.98, initial_std=0.5, actor=SMALL, critic=CRITIC),
)
"""Quadrupeds on a flat floor: twelve minutes on two CPU cores."""

ROUGH = TrainConfig(
    num_envs=1024,
    steps=20_000_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.99, initial_std=0.5, actor=LARGE, critic=CRITIC),
)
"""Quadrupeds on rough ground."""

GETUP = TrainConfig(
    num_envs=1024,
    steps=9_200_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.99, initial_std=0.6, actor=SMALL, critic=CRITIC),
)
"""Quadrupeds that roll over and stand up."""

TWO_FEET = TrainConfig(
    num_envs=1024,
    steps=15_000_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.99, initial_std=0.5, actor=SMALL, critic=CRITIC),
)
"""Quadrupeds on their front or their hind feet."""

G1_JOYSTICK = TrainConfig(
    num_envs=1024,
    steps=18_000_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.98, desired_kl=0.015, initial_std=0.4, actor=LARGE, critic=CRITIC),
)
"""The G1 on a flat floor, within an hour on two CPU cores."""

G1_ROUGH = TrainConfig(
    num_envs=1024,
    steps=25_000_000,
    ppo=PPOConfig(unroll=24, epochs=4, gamma=0.99, initial_std=0.4, actor=LARGE, critic=CRITIC),
)
"""The G1 on rough ground."""

CLASSIC_PLANAR = TrainConfig(
    num_envs=64,
    steps=1_000_000,
    ppo=PPOConfig(
        unroll=32,
        epochs=10,
        minibatches=16,
        learning_rate=3e-4,
        schedule=Schedule.LINEAR,
        max_grad_norm=0.5,
        reward_scale=0.1,
        actor=NetworkConfig(hidden=(64, 64), activation=Activation.TANH),
        critic=NetworkConfig(hidden=(64, 64), activation=Activation.TANH, output_gain=1.0),
    ),
)
"""`locomotion/half-cheetah`, `hopper` and `walker2d`: rollouts of 2,048 steps, many small gradient steps.

The settings of PPO's first paper (Schulman et al. 2017, table 3), spread over 64 environments.
"""

CLASSIC_SPATIAL = TrainConfig(
    num_envs=64,
    steps=1_000_000,
    ppo=PPOConfig(
        unroll=32,
        epochs=10,
        minibatches=16,
        learning_rate=3e-4,
        schedule=Schedule.LINEAR,
        max_grad_norm=0.5,
        reward_scale=0.1,
        initial_std=0.6,
        actor=NetworkConfig(hidden=(256, 128), activation=Activation.TANH),
        critic=NetworkConfig(hidden=(256, 128), activation=Activation.TANH, output_gain=1.0),
    ),
)
"""`locomotion/ant` and `humanoid`: the same with wider networks, and less noise, which only makes them fall."""
