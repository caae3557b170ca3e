"""Settings of learners from replayed transitions: what all share, and each algorithm as its defaults.

SAC       Haarnoja et al. 2018, arXiv:1812.05905
RLPD      SAC with demonstrations, ten normalised critics and many updates: Ball et al. 2023, arXiv:2302.02948
DDPG      Lillicrap et al. 2016, arXiv:1509.02971
TD3       Fujimoto et al. 2018, arXiv:1802.09477
FastTD3   Seo et al. 2025, arXiv:2505.22642
PQL       Li et al. 2023, arXiv:2307.12983
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

from policies.networks import Activation, Architecture, NetworkConfig
from policies.replay import Storage


class PolicyValue(StrEnum):
    """Which of its critics' values a policy climbs."""

    LOWEST = "lowest"
    MEAN = "mean"
    FIRST = "first"


def relu_network(*hidden: int) -> NetworkConfig:
    """Hidden layers of these widths, two of 256 by default."""
    return NetworkConfig(hidden or (256, 256), Activation.RELU)


@dataclass(frozen=True)
class OffPolicyConfig:
    """What learners from replayed transitions share."""

    unroll: int = 16
    """Control steps of every environment per line of metrics; between checkpoints lie whole lines."""
    buffer_size: int = 1_000_000
    """Transitions that are remembered, of all environments together."""
    storage: Storage = Storage.FLOAT32
    """Numbers in which observations and actions are remembered; float16 halves the memory and keeps 3 digits."""
    save_buffer: bool = True
    """Whether checkpoints, of which three are kept, hold the buffer and demonstrations: large, but a resumed run is the
    same bit for bit. If not, a resumed run first collects warm_up transitions anew, with its policy."""
    batch_size: int = 256
    """Transitions per update, demonstrations included."""
    critic_updates: float = 1.0
    """Updates of the critics per control step of all environments together; may be less than 1."""
    policy_delay: int = 1
    """Critic updates per policy update."""
    target_delay: int = 1
    """Critic updates per update of the target networks."""
    warm_up: int = 5_000
    """Transitions to collect before the first update."""
    random_warm_up: bool = True
    """Whether actions before the first update are uniformly random, unless training starts from a policy."""
    gamma: float = 0.99
    """Discount per control step."""
    n_step: int = 1
    """Most rewards that are added up before a critic says what follows."""
    tau: float = 0.005
    """Share of the present networks that each update mixes into the target networks."""
    actor_learning_rate: float = 3e-4
    """Adam's step size for the policy."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for the critics."""
    weight_decay: float = 0.0
    """By which share of themselves, times the learning rate, all weights shrink per update."""
    max_grad_norm: float | None = None
    """Norm to which longer gradients are shortened; None leaves them."""
    critics: int = 2
    """How many critics."""
    target_critics: int | None = None
    """How many of them, drawn anew for each update, the lowest of which is the target; None for all."""
    clipped_double: bool = True
    """Whether all critics learn from the lowest of them; otherwise each from itself."""
    policy_value: PolicyValue = PolicyValue.LOWEST
    """What of the critics the policy climbs: lowest, mean or first."""
    layer_norm: bool = False
    """Normalise the critics' hidden layers."""
    atoms: int = 1
    """1: critics estimate the expected return; more: its distribution over so many values (C51)."""
    value_low: float = -250.0
    """Least discounted, scaled return that a distribution can hold."""
    value_high: float = 250.0
    """Largest of them. The metric support_edge is the probability at both ends: if it grows, widen them."""
    normalize_observations: bool = True
    """Shift and scale observations by their running statistics."""
    observation_clip: float = 10.0
    """Bound on observations after they are normalised."""
    reward_scale: float = 1.0
    """Factor on rewards as the learner sees them, demonstrations included; reported returns are not scaled."""
    actor: NetworkConfig = field(default_factory=relu_network)
    """Network that chooses actions."""
    critic: NetworkConfig = field(default_factory=relu_network)
    """Network of each critic."""
    critic_group: str = "critic"
    """Observation group the critics read; where the environment has no such group, they read the actor's."""
    demonstrations: Path | None = None
    """File of transitions, as python -m policies.demonstrations writes it, to learn from beside one's own."""
    demonstration_share: float = 0.5
    """With demonstrations beside the buffer: which share of every batch they are."""
    demonstrations_in_buffer: bool = False
    """Put demonstrations into the buffer before the first step, where own steps come to join and at last replace them;
    learning then starts at once, whatever warm_up says. Otherwise they stay beside it."""
    offline_updates: int = 0
    """Updates on demonstrations alone before the first step: critics learn their values, the policy imitates them."""
    rounded_products: bool = False
    """Learn with factors rounded to bfloat16 (8 bits) in products of matrices: faster on CPUs that have
    instructions for it. Policies act in float32 whatever this says."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float):
                require(math.isfinite(value), item.name, value, "finite")
        for name in _COUNTS:
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in _POSITIVE:
            value = getattr(self, name)
            require(value is None or value > 0, name, value, "positive")
        for name in ("warm_up", "weight_decay", "offline_updates"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("gamma", "demonstration_share"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "between 0 and 1")
        require(0 < self.tau <= 1, "tau", self.tau, "above 0 and at most 1")
        few = self.target_critics is None or 1 <= self.target_critics <= self.critics
        require(few, "target_critics", self.target_critics, f"between 1 and critics={self.critics}")
        ordered = self.atoms == 1 or self.value_low < self.value_high
        require(ordered, "value_low", self.value_low, f"below value_high={self.value_high}")
        for network in (self.actor, self.critic):
            perceptron = network.architecture is Architecture.MLP
            require(perceptron, "architecture", network.architecture, "mlp: off-policy learners build perceptrons")


@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Soft actor-critic (Haarnoja et al. 2018): the policy also earns its entropy, at a price that adapts."""

    initial_temperature: float = 0.1
    """What a nat of entropy earns at first."""
    target_entropy: float | None = None
    """Entropy that the temperature aims at, in nats; None: minus the number of actions."""
    temperature_learning_rate: float = 3e-4
    """Adam's step size for the temperature's logarithm; 0 holds it."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        require(self.initial_temperature > 0, "initial_temperature", self.initial_temperature, "positive")
        rate = self.temperature_learning_rate
        require(rate >= 0, "temperature_learning_rate", rate, "0 or more")


@dataclass(frozen=True)
class RLPDConfig(SACConfig):
    """Reinforcement learning with prior data (Ball et al. 2023): SAC that learns much from few steps and a file."""

    critics: int = 10
    target_critics: int | None = 2
    policy_value: PolicyValue = PolicyValue.MEAN
    layer_norm: bool = True
    critic_updates: float = 20.0
    policy_delay: int = 20


@dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Twin delayed deterministic policy gradient (Fujimoto et al. 2018)."""

    policy_delay: int = 2
    target_delay: int = 2
    policy_value: PolicyValue = PolicyValue.FIRST
    noise_min: float = 0.1
    """Standard deviation of the noise on the actions of the first environment."""
    noise_max: float = 0.1
    """That of the last environment; those between lie evenly between (Li et al. 2023)."""
    target_noise: float = 0.2
    """Standard deviation of the noise on the actions of which targets are made."""
    target_noise_clip: float = 0.5
    """Bound on that noise."""
    target_actor: bool = True
    """Whether targets ask a slowly following copy of the policy; otherwise the policy itself."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        for name in ("noise_min", "target_noise", "target_noise_clip"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        require(self.noise_max >= self.noise_min, "noise_max", self.noise_max, f"noise_min={self.noise_min} or more")


@dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Deep deterministic policy gradient (Lillicrap et al. 2016): TD3 without twin, delays and smoothing."""

    critics: int = 1
    policy_delay: int = 1
    target_delay: int = 1
    target_noise: float = 0.0


@dataclass(frozen=True)
class FastTD3Config(TD3Config):
    """TD3 with distributional critics, large batches and mixed noise (Seo et al. 2025).

    Networks, batches and memory are smaller than the paper's (critics 1024, 512, 256; policy 512, 256, 128; 32,768 of
    the last 51,200 steps of each environment), which want a GPU.
    """

    batch_size: int = 8192
    critic_updates: float = 2.0
    target_delay: int = 1
    tau: float = 0.1
    weight_decay: float = 0.1
    policy_value: PolicyValue = PolicyValue.LOWEST
    atoms: int = 101
    noise_min: float = 0.001
    noise_max: float = 0.4
    target_noise: float = 0.001
    target_actor: bool = False
    random_warm_up: bool = False
    warm_up: int = 1_280
    actor: NetworkConfig = field(default_factory=lambda: relu_network(256, 128, 64))
    critic: NetworkConfig = field(default_factory=lambda: relu_network(256, 128, 64))


@dataclass(frozen=True)
class PQLConfig(TD3Config):
    """Parallel Q-learning (Li et al. 2023): 8 value and 4 policy updates per step of thousands of environments.

    The paper's three processes are interleaved here, in the same ratios, on one device.
    """

    buffer_size: int = 5_000_000
    batch_size: int = 8192
    critic_updates: float = 8.0
    policy_delay: int = 2
    target_delay: int = 1
    n_step: int = 3
    tau: float = 0.05
    actor_learning_rate: float = 5e-4
    critic_learning_rate: float = 5e-4
    max_grad_norm: float | None = 0.5
    policy_value: PolicyValue = PolicyValue.LOWEST
    noise_min: float = 0.05
    noise_max: float = 0.8
    target_noise: float = 0.8
    target_noise_clip: float = 0.2
    target_actor: bool = False
    random_warm_up: bool = False
    warm_up: int = 131_072


_COUNTS = ("unroll", "buffer_size", "batch_size", "policy_delay", "target_delay", "n_step", "critics", "atoms")
_POSITIVE = (
    "critic_updates",
    "actor_learning_rate",
    "critic_learning_rate",
    "max_grad_norm",
    "observation_clip",
    "reward_scale",
)


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise a ValueError that names a setting, its value and what was expected, unless `holds`."""
    if not holds:
        raise ValueError(f"{name}={value} must be {expected}")
