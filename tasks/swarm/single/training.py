"""Default training of the tasks of a single drone."""

from typing import Any

from policies.networks.config import NetworkConfig
from policies.ppo.config import PPOConfig, Schedule
from policies.registry import TrainConfig


def solo(steps: int, unroll: int = 24, epochs: int = 3, width: int = 64, **changes: Any) -> TrainConfig:
    """PPO for a drone that needs to see no other: perceptrons."""
    actor, critic = NetworkConfig((width, width)), NetworkConfig((width, width), output_gain=1.0)
    ppo = PPOConfig(unroll=unroll, epochs=epochs, minibatches=8, initial_std=0.5, actor=actor, critic=critic, **changes)
    return TrainConfig(1024, steps, algorithms=(ppo,))


HOVER = solo(2_000_000, unroll=12, epochs=2, schedule=Schedule.LINEAR, learning_rate=8e-3)
"""`swarm/hover` on two CPU cores in twenty seconds, most of them gradient steps, whose number decides what is
learned."""
TRAJECTORY = solo(10_000_000)
"""`swarm/trajectory`."""
LANDING = solo(3_500_000)
"""`swarm/landing`."""
GATE_RACE = solo(20_000_000, unroll=32, epochs=4, width=128, lam=0.98, schedule=Schedule.LINEAR)
"""`swarm/gate-race`. Half a second passes from gate to gate: advantages look farther ahead than by default, so that a
drone that leaves a gate too wide learns it there."""
