"""Settings of every learner from replayed transitions: what is remembered, how often it learns, what it is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path

from embodied.env.vec_env import POLICY
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.off_policy.replay_buffer import Storage


def relu_network(*hidden: int) -> NetworkConfig:
    """Hidden layers of these widths, two of 256 by default."""
    return NetworkConfig(hidden or (256, 256), Activation.RELU)


@dataclass(frozen=True)
class MemoryConfig:
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
    critic_learning_rate: float = 3e-4
    """Adam's step size for the critics."""
    weight_decay: float = 0.0
    """By which share of themselves, times the learning rate, all weights shrink per update."""
    max_grad_norm: float | None = None
    """Norm to which longer gradients are shortened; None leaves them."""
    normalize_observations: bool = True
    """Shift and scale observations by their running statistics."""
    observation_clip: float = 10.0
    """Bound on observations after they are normalised."""
    reward_scale: float = 1.0
    """Factor on rewards as the learner sees them, demonstrations included; reported returns are not scaled."""
    critic: NetworkConfig = field(default_factory=relu_network)
    """Network of each critic."""
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

    @property
    def value_group(self) -> str:
        """Observation group the critics read."""
        return POLICY

    @property
    def policy_network(self) -> NetworkConfig:
        """Network that chooses actions: the critic itself, unless a policy has one of its own."""
        return self.critic

    @property
    def sequence(self) -> int:
        """Consecutive actions that a critic judges together."""
        return 1

    @property
    def return_horizon(self) -> int:
        """Steps within which an episode must end for its return to be known."""
        return 0

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float):
                require(math.isfinite(value), item.name, value, "finite")
            if isinstance(value, NetworkConfig):
                perceptron = value.architecture is Architecture.MLP
                require(perceptron, "architecture", value.architecture, "mlp: off-policy learners build perceptrons")
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


_COUNTS = ("unroll", "buffer_size", "batch_size", "policy_delay", "target_delay", "n_step")
_POSITIVE = ("critic_updates", "critic_learning_rate", "max_grad_norm", "observation_clip", "reward_scale")


def require(holds: bool, name: str, value: object, expected: str) -> None:
    """Raise a ValueError that names a setting, its value and what was expected, unless `holds`."""
    if not holds:
        raise ValueError(f"{name}={value} must be {expected}")
