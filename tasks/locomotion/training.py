"""How the locomotion tasks are trained by default."""

from policies.networks import Activation, NetworkConfig
from policies.ppo_config import PPOConfig
from policies.train_config import TrainConfig

GO1_JOYSTICK = TrainConfig(
    num_envs=1024,
    steps=9_200_000,
    ppo=PPOConfig(
        unroll=24,
        epochs=4,
        gamma=0.98,
        initial_std=0.5,
        actor=NetworkConfig(hidden=(128, 128), activation=Activation.SILU),
        critic=NetworkConfig(hidden=(256, 128), activation=Activation.SILU, output_gain=1.0),
    ),
)
"""`locomotion/go1-joystick-flat` on two CPU cores in twelve minutes."""
