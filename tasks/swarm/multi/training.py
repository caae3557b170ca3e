"""Default training of the tasks of several drones."""

import dataclasses

from policies.imitation.dagger_config import DaggerConfig
from policies.networks.config import UNCLIPPED, Activation, Architecture, NetworkConfig
from policies.ppo.config import PPOConfig, Schedule
from policies.registry import TrainConfig
from tasks.swarm.flocking import flock
from tasks.swarm.maze import path_finding
from tasks.swarm.multi import base_station, coverage, pursuit, tag
from tasks.swarm.team import waypoints


def team(own: int, num_envs: int = 128, steps: int = 10_000_000, critic_own: int | None = None) -> TrainConfig:
    """MAPPO, or DAgger, with attention over entities: one policy for all drones.

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
            DaggerConfig(
                updates=1.0,
                batch_size=2048,
                normalize_observations=False,
                observation_clip=UNCLIPPED,
                save_buffer=False,
                actor=actor,
            ),
        ),
    )


def perceptrons(config: TrainConfig, hidden: tuple[int, ...]) -> TrainConfig:
    """The same with perceptrons, which learn several times faster, for a team of one size that sees all there is."""
    ppo, dagger = config.algorithms
    plain = {"architecture": Architecture.MLP, "own": 0, "hidden": hidden}
    actor, critic = (dataclasses.replace(network, **plain) for network in (ppo.actor, ppo.critic))
    learners = (dataclasses.replace(ppo, actor=actor, critic=critic), dataclasses.replace(dagger, actor=actor))
    return dataclasses.replace(config, algorithms=learners)


WAYPOINTS = team(waypoints.EGO_SIZE)
"""Formation, leader and followers, meeting, swapping."""
NAVIGATION = team(waypoints.EGO_SIZE, num_envs=320)
"""`swarm/navigation`, of three."""
FLOCK = team(flock.EGO_SIZE)
"""`swarm/flock`."""
PATH_FINDING = team(path_finding.EGO_SIZE)
"""`swarm/path-finding`."""
PURSUIT = team(pursuit.EGO_SIZE, num_envs=256, critic_own=pursuit.EGO_SIZE + 1)
"""`swarm/pursuit`, trained with four."""
TAG = perceptrons(team(tag.EGO_SIZE, num_envs=64, steps=4_000_000), (128, 128))
"""`swarm/tag`, one policy for both sides, trained by self-play."""
COVERAGE = team(coverage.EGO_SIZE)
"""`swarm/coverage`."""
BASE_STATION = team(base_station.EGO_SIZE)
"""`swarm/base-station`."""
MEAN_FIELD = TrainConfig(
    num_envs=64,
    steps=400_000,
    algorithms=(
        PPOConfig(
            unroll=32,
            epochs=4,
            minibatches=8,
            gamma=0.98,
            schedule=Schedule.LINEAR,
            learning_rate=1e-3,
            initial_std=0.3,
            reward_scale=0.1,
            actor=NetworkConfig((64, 64)),
            critic=NetworkConfig((64, 64), output_gain=1.0),
        ),
    ),
)
"""`swarm/mean-field-flock`: of 200 drones, which act as one."""
