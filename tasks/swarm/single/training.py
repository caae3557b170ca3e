"""Default training of the tasks of a single drone."""

from policies.networks.config import NetworkConfig
from policies.ppo.config import PPOConfig, Schedule
from policies.registry import TrainConfig


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
    steps=2_000_000,
    algorithms=(
        PPOConfig(
            unroll=12,
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
"""`swarm/hover` on two CPU cores in twenty seconds, most of them gradient steps, whose number decides what is
learned."""
TRAJECTORY = solo(10_000_000)
"""`swarm/trajectory`."""
LANDING = solo(3_500_000)
"""`swarm/landing`."""
GATE_RACE = TrainConfig(
    num_envs=1024,
    steps=20_000_000,
    algorithms=(
        PPOConfig(
            unroll=32,
            epochs=4,
            minibatches=8,
            lam=0.98,
            schedule=Schedule.LINEAR,
            initial_std=0.5,
            actor=NetworkConfig(hidden=(128, 128)),
            critic=NetworkConfig(hidden=(128, 128), output_gain=1.0),
        ),
    ),
)
"""`swarm/gate-race`. Half a second passes from gate to gate: advantages look farther ahead than by default, so that a
drone that leaves a gate too wide learns it there."""
