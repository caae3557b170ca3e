"""Default training of the manipulation tasks."""

from policies.networks.config import Activation, NetworkConfig
from policies.ppo.config import PPOConfig
from policies.registry import TrainConfig


def tabletop(
    steps: int, num_envs: int = 512, width: int = 128, epochs: int = 4, minibatches: int = 8, min_std: float = 0.0
) -> TrainConfig:
    """PPO for one task. Rewards reach 10 a step: scaled by 0.1, discounted returns stay within 100."""
    return TrainConfig(
        num_envs=num_envs,
        steps=steps,
        algorithms=(
            PPOConfig(
                unroll=32,
                epochs=epochs,
                minibatches=minibatches,
                learning_rate=5e-4,
                gamma=0.99,
                reward_scale=0.1,
                initial_std=0.6,
                min_std=min_std,
                actor=NetworkConfig(hidden=(width, width)),
                critic=NetworkConfig(hidden=(width, width), output_gain=1.0),
            ),
        ),
    )


TOUCH = tabletop(2_000_000)
"""For what a hand reaches, presses or pushes with closed fingers."""
MOVE = tabletop(15_000_000)
"""For what is led along the table, or turned."""
CARRY = tabletop(30_000_000)
"""For what must be grasped and held."""
MULTI_TASK = tabletop(60_000_000, num_envs=2000, width=256, epochs=3, minibatches=16, min_std=0.3)
"""For a suite: of all its tasks together. The tasks that are solved first would end the exploration of the others.
Those that need a grasp want `--initial-states` from `python -m embodied.snapshots` besides."""

TRACK_POSE = TrainConfig(
    num_envs=512,
    steps=3_000_000,
    algorithms=(
        PPOConfig(
            unroll=32,
            epochs=4,
            minibatches=8,
            gamma=0.97,
            initial_std=0.4,
            actor=NetworkConfig(hidden=(256, 128), activation=Activation.SILU),
            critic=NetworkConfig(hidden=(256, 128), activation=Activation.SILU, output_gain=1.0),
        ),
    ),
)
"""Any arm's tip follows poses."""
