"""Default training of the grasping tasks."""

import dataclasses

from policies.networks.config import NetworkConfig
from policies.off_policy.sac import SACConfig
from policies.ppo.config import PPOConfig, Schedule
from policies.registry import TrainConfig

LATER_VARIATIONS = (
    "observation_noise", "friction", "cube_mass", "cube_centre", "link_mass", "joint_friction", "armature",
    "motor_strength",
)  # fmt: skip
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
FLOATING_HANDS = dataclasses.replace(IN_HAND, unroll=32, gamma=0.99, initial_std=0.3)
HAND_OVER = TrainConfig(num_envs=512, steps=20_000_000, algorithms=(FLOATING_HANDS,))
"""`grasping/*-hand-over`."""
CATCH = TrainConfig(num_envs=512, steps=20_000_000, algorithms=(FLOATING_HANDS,))
"""`grasping/*-catch`."""
CATCH_TEAM = dataclasses.replace(CATCH, steps=2 * CATCH.steps)
"""`grasping/leap-catch-team`, each of whose agents' steps counts."""
HAND_OVER_TEAM = dataclasses.replace(HAND_OVER, steps=2 * HAND_OVER.steps)
"""`grasping/leap-hand-over-team`."""
POUR = TrainConfig(num_envs=512, steps=10_000_000, algorithms=(FLOATING_HANDS,))
"""`grasping/*-pour`."""
# Demonstrations (--sac.demonstrations) are half of every batch, and the policy imitates them before its first step.
LIFT_SAC = SACConfig(
    critic_updates=8.0,
    policy_delay=2,
    gamma=0.98,
    n_step=3,
    tau=0.01,
    layer_norm=True,
    bfloat16_matmul=True,
    reward_scale=0.3,
    initial_temperature=0.02,
    actor_learning_rate=5e-4,
    critic_learning_rate=5e-4,
    save_buffer=False,
)
LIFT = TrainConfig(num_envs=64, steps=2_000_000, algorithms=(IN_HAND, LIFT_SAC))
"""`grasping/*-lift`."""
# Noise and other variations come later, with --start-from: with them a cube is rarely turned at all at first.
REORIENT = TrainConfig(
    num_envs=512,
    steps=20_000_000,
    options={"curriculum": True, "patience": 3.0, "without": LATER_VARIATIONS},
    algorithms=(dataclasses.replace(IN_HAND, initial_std=0.35, reward_scale=0.05),),
)
"""`grasping/*-reorient`."""
# It begins with a gait (--start-from expert), which more noise would shake out of step.
ROTATE_Z = TrainConfig(
    num_envs=512,
    steps=20_000_000,
    algorithms=(dataclasses.replace(IN_HAND, gamma=0.99, initial_std=0.25, critic_warm_up=5),),
)
"""`grasping/*-rotate-z`."""
