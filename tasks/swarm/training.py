"""How the swarm tasks are trained by default."""

import dataclasses

from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.ppo.config import UNCLIPPED, PPOConfig, Schedule
from policies.training.defaults import TrainConfig
from tasks.swarm import base_station, coverage, flock, pursuit
from tasks.swarm.team import waypoints


def solo(steps: int) -> TrainConfig:
    """PPO for a drone that needs to see no other: perceptrons."""
    return TrainConfig(
        num_envs=1024,
        steps=steps,
        algorithms=(
            PPOConfig(
                unroll=24,
                epochs=3,
                minibatches=8,
                initial_std=0.5,
                actor=NetworkConfig(hidden=(64, 64)),
                critic=NetworkConfig(hidden=(64, 64), output_gain=1.0),
            ),
        ),
    )


HOVER = TrainConfig(
    num_envs=1024,
    steps=3_600_000,
    algorithms=(
        PPOConfig(
            unroll=24,
            epochs=2,
            minibatches=8,
            schedule=Schedule.LINEAR,
            learning_rate=8e-3,
            initial_std=0.5,
            actor=NetworkConfig(hidden=(64, 64)),
            critic=NetworkConfig(hidden=(64, 64), output_gain=1.0),
        ),
    ),
)
"""`swarm/hover` on two CPU cores in twenty seconds. Steps are cheap there, so each is learned from twice only."""
TRAJECTORY = solo(10_000_000)
"""`swarm/trajectory`."""
LANDING = solo(3_500_000)
"""`swarm/landing`."""
GATE_RACE = solo(10_000_000)
"""`swarm/gate-race`."""


def team(own: int, num_envs: int = 128, steps: int = 10_000_000, critic_own: int | None = None) -> TrainConfig:
    """MAPPO with attention over entities: one policy for all drones.

    Args:
        own: Numbers with which a drone's observation begins.
        num_envs: Worlds.
        steps: Steps of all drones together: a world of eight takes eight at a time.
        critic_own: The same for the critic, where it sees a group of its own.
    """
    actor = NetworkConfig((64, 64), Activation.SILU, architecture=Architecture.ENTITIES, own=own)
    critic = dataclasses.replace(actor, output_gain=1.0, own=critic_own or own)
    return TrainConfig(
        num_envs,
        steps,
        algorithms=(
            PPOConfig(
                unroll=32,
                epochs=3,
                minibatches=12,
                learning_rate=1e-3,
                schedule=Schedule.LINEAR,
                initial_std=0.5,
                reward_scale=0.1,
                # Commands of a full metre per second would stay there, and drones that meet would not give way.
                bound_coef=1.0,
                # Statistics would depend on which row an entity happens to stand in; the rows come scaled.
                normalize_observations=False,
                observation_clip=UNCLIPPED,
                actor=actor,
                critic=critic,
            ),
        ),
    )


WAYPOINTS = team(waypoints.EGO_SIZE)
"""Formation, leader and followers, meeting, swapping."""
NAVIGATION = team(waypoints.EGO_SIZE, num_envs=320)
"""`swarm/navigation`, of three."""
FLOCK = team(flock.EGO_SIZE)
"""`swarm/flock`."""
PURSUIT = team(pursuit.EGO_SIZE, num_envs=256, critic_own=pursuit.EGO_SIZE + 1)
"""`swarm/pursuit`, trained with four."""
COVERAGE = team(coverage.EGO_SIZE)
"""`swarm/coverage`."""
BASE_STATION = team(base_station.EGO_SIZE)
"""`swarm/base-station`."""
