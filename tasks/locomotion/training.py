"""Default training of the locomotion tasks."""

import dataclasses
from typing import Any

from policies.networks.config import Activation, NetworkConfig
from policies.ppo.config import PPOConfig, Schedule, SymmetryConfig
from policies.registry import TrainConfig

SMALL = NetworkConfig(hidden=(128, 128), activation=Activation.SILU)
LARGE = NetworkConfig(hidden=(256, 128), activation=Activation.SILU)
CRITIC = NetworkConfig(hidden=(256, 128), activation=Activation.SILU, output_gain=1.0)

WALK = PPOConfig(unroll=24, epochs=4, gamma=0.98, initial_std=0.5, actor=SMALL, critic=CRITIC)


def walk(steps: int, **changes: Any) -> TrainConfig:
    """`WALK` with `changes`, in 1024 environments."""
    return TrainConfig(1024, steps, algorithms=(dataclasses.replace(WALK, **changes),))


JOYSTICK = walk(3_000_000, unroll=6, symmetry=SymmetryConfig(network=True))
"""Quadrupeds on a flat floor (`benchmarks/results/locomotion/go1-joystick-flat/train-default-seed0.json`).

An update may lead only so far from the policy that acted (`desired_kl`): rollouts of a quarter of the length, and four
times as many updates, learn the same from less than half as many steps. As many environments as before, since steps of
few cost almost as much.
"""

VELOCITY = walk(14_000_000)
"""Users' quadrupeds, whose servos and rewards are not chosen by hand, and which may not be symmetric: three times as
long."""

ROUGH = walk(20_000_000, gamma=0.99, symmetry=SymmetryConfig(network=True), actor=LARGE)
"""Quadrupeds on rough ground."""

GETUP = walk(9_200_000, gamma=0.99, initial_std=0.6)
"""Quadrupeds that roll over and stand up."""

TWO_FEET = walk(20_000_000, gamma=0.99)
"""Quadrupeds on their front or their hind feet: little happens in the first 5 to 10 M steps, then all of it."""

G1_JOYSTICK = walk(18_000_000, desired_kl=0.02, initial_std=0.4, actor=LARGE)
"""The G1 on a flat floor, within an hour on two CPU cores.

Rollouts of 6 steps and a symmetric network follow commands better after 7 M steps, and fall more: docs/learners.md.
"""

G1_ROUGH = walk(25_000_000, gamma=0.99, initial_std=0.4, actor=LARGE)
"""The G1 on rough ground."""

CLASSIC = PPOConfig(
    unroll=32,
    epochs=10,
    minibatches=16,
    learning_rate=3e-4,
    schedule=Schedule.LINEAR,
    initial_std=0.6,
    reward_scale=0.02,
    max_grad_norm=0.5,
    actor=NetworkConfig(hidden=(64, 64)),
    critic=NetworkConfig(hidden=(64, 64), output_gain=1.0),
)
"""The classic bodies: short rollouts, many small gradient steps.

PPO's own settings (Schulman et al. 2017, table 3), over several environments at once. Rewards are scaled so that values
are about 1: the critic's gradients would otherwise fill the norm to which actor and critic are shortened together.
"""


def classic(
    hidden: tuple[int, ...] = (64, 64),
    activation: Activation = Activation.TANH,
    num_envs: int = 32,
    steps: int = 1_000_000,
    **changes: Any,
) -> TrainConfig:
    """`CLASSIC` with `changes`, and networks of these layers for both actor and critic."""
    actor = NetworkConfig(hidden, activation)
    ppo = dataclasses.replace(CLASSIC, actor=actor, critic=dataclasses.replace(actor, output_gain=1.0), **changes)
    return TrainConfig(num_envs, steps, algorithms=(ppo,))


WALKER2D = classic(num_envs=8, unroll=256, minibatches=32, initial_std=1.0)
"""`locomotion/walker2d`: rollouts of a quarter of an episode. With 32 steps of 32 environments it falls more."""

HOPPER = WALKER2D
"""`locomotion/hopper`, which with short rollouts, or with less noise, never leaves the place where it stands."""

HALF_CHEETAH = classic(
    (256, 256), Activation.RELU, gamma=0.98, lam=0.92, max_grad_norm=0.8, initial_std=0.4, learning_rate=1e-4
)
"""`locomotion/half-cheetah`: wide networks and a short horizon, as in rl-baselines3-zoo's settings for it.

With 3e-4 half of all samples are clipped, and the deviation falls to 0.04: a million steps return 3,000 or 6,000.
"""

ANT = classic(
    (128, 128), num_envs=64, minibatches=32, gamma=0.98, lam=0.92, initial_std=0.5, reward_scale=0.05, max_grad_norm=1.0
)
"""`locomotion/ant`: less noise, which only makes it fall."""

HUMANOID = classic(
    (256, 128),
    num_envs=128,
    steps=7_000_000,
    unroll=64,
    epochs=4,
    minibatches=32,
    gamma=0.985,
    initial_std=0.5,
    reward_scale=0.01,
    max_grad_norm=1.0,
)
"""`locomotion/humanoid`, an hour and a half of one core: in the first million steps it learns to stand, then walks."""


def team(alone: TrainConfig, agents: int) -> TrainConfig:
    """As the robot alone, in as many worlds: one policy for all agents, each of whose steps counts."""
    return dataclasses.replace(alone, steps=agents * alone.steps)


HALF_CHEETAH_2X3 = team(HALF_CHEETAH, 2)
"""`locomotion/half-cheetah-2x3`."""
ANT_4X2 = team(ANT, 4)
"""`locomotion/ant-4x2`."""
HUMANOID_17X1 = team(HUMANOID, 17)
"""`locomotion/humanoid-17x1`, untested."""

SUMO = classic(
    (128, 128),
    num_envs=64,
    steps=10_000_000,
    epochs=5,
    gamma=0.98,
    lam=0.95,
    initial_std=0.5,
    reward_scale=0.05,
    max_grad_norm=1.0,
)
"""`locomotion/sumo`: one policy for both ants, each of which learns from every bout; an hour of a busy core."""
