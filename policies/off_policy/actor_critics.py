"""Settings of learners from replayed transitions: each actor-critic as its defaults.

SAC       Haarnoja et al. 2018, arXiv:1812.05905
RLPD      SAC with demonstrations, ten normalised critics and many updates: Ball et al. 2023, arXiv:2302.02948
DDPG      Lillicrap et al. 2016, arXiv:1509.02971
TD3       Fujimoto et al. 2018, arXiv:1802.09477
FastTD3   Seo et al. 2025, arXiv:2505.22642
PQL       Li et al. 2023, arXiv:2307.12983
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from policies.networks.mlp import NetworkConfig
from policies.off_policy.config import MemoryConfig, relu_network, require


class PolicyValue(StrEnum):
    """Which of its critics' values a policy climbs."""

    LOWEST = "lowest"
    MEAN = "mean"
    FIRST = "first"


@dataclass(frozen=True)
class OffPolicyConfig(MemoryConfig):
    """What actor-critics share: a policy that climbs, or follows, its critics."""

    actor_learning_rate: float = 3e-4
    """Adam's step size for the policy."""
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
    actor: NetworkConfig = field(default_factory=relu_network)
    """Network that chooses actions."""
    critic_group: str = "critic"
    """Observation group the critics read; where the environment has no such group, they read the actor's."""

    @property
    def value_group(self) -> str:
        """Observation group the critics read."""
        return self.critic_group

    @property
    def policy_network(self) -> NetworkConfig:
        """Network that chooses actions."""
        return self.actor

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        for name in ("critics", "atoms"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        require(self.actor_learning_rate > 0, "actor_learning_rate", self.actor_learning_rate, "positive")
        few = self.target_critics is None or 1 <= self.target_critics <= self.critics
        require(few, "target_critics", self.target_critics, f"between 1 and critics={self.critics}")
        ordered = self.atoms == 1 or self.value_low < self.value_high
        require(ordered, "value_low", self.value_low, f"below value_high={self.value_high}")


@dataclass(frozen=True)
class ClimbingConfig(OffPolicyConfig):
    """What actor-critics share whose policy climbs its critics: it may be advised where to climb."""

    adviser: str | None = None
    """Policy that says what it would do: a run, a checkpoint, shipped or expert. It is imitated where critics value its
    action more than the policy's own (VARL, arXiv:2509.21126)."""
    advice_interval: int = 5
    """Control steps from one advice to the next."""
    advice_until: int = 100_000
    """Actions that are advised in all."""
    advice_weight: float = 1.0
    """Of the squared distance from advised actions, beside values."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        super().__post_init__()
        require(self.advice_interval >= 1, "advice_interval", self.advice_interval, "at least 1")
        for name in ("advice_until", "advice_weight"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")


@dataclass(frozen=True)
class SACConfig(ClimbingConfig):
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
class TD3Config(ClimbingConfig):
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
