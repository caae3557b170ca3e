"""How the manipulation tasks are trained by default."""

from policies.networks import NetworkConfig
from policies.ppo_config import PPOConfig
from policies.train_config import TrainConfig


def tabletop(steps: int) -> TrainConfig:
    """PPO for one task. Rewards reach 10 a step: scaled by 0.1, discounted returns stay within 100."""
    return TrainConfig(
        num_envs=512,
        steps=steps,
        ppo=PPOConfig(
            unroll=32,
            epochs=4,
            minibatches=8,
            learning_rate=5e-4,
            gamma=0.99,
            reward_scale=0.1,
            initial_std=0.6,
            actor=NetworkConfig(hidden=(128, 128)),
            critic=NetworkConfig(hidden=(128, 128), output_gain=1.0),
        ),
    )


TOUCH = tabletop(2_000_000)
"""For what a hand reaches, presses or pushes with closed fingers."""
MOVE = tabletop(15_000_000)
"""For what is led along the table, or turned."""
CARRY = tabletop(30_000_000)
"""For what must be grasped and held."""
MULTI_TASK = tabletop(30_000_000)
"""For a suite: of all its tasks together."""
