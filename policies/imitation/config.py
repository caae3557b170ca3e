"""Settings of behaviour cloning."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path

from policies.networks.mlp import Architecture, NetworkConfig
from policies.off_policy.config import relu_network, require


@dataclass(frozen=True)
class CloningConfig:
    """Behaviour cloning: a policy that repeats what a file of demonstrations shows.

    It learns nothing from the environment. As with every learner, --steps counts the environment's steps: meanwhile the
    clone is watched, so that its return and success are in the metrics. 50,000 are enough for 30,000 updates.
    """

    demonstrations: Path | None = None
    """File of demonstrations, as python -m policies.demonstrations writes it."""
    weigh_interventions: bool = False
    """Whether the file says who acted (its tensor `source`, see policies.imitation.interventions) and classes count by Sirius's
    weights: interventions half, nothing of what led to them."""
    memory_steps: int | None = None
    """With weighed interventions: steps that are kept, of the episodes with the most of them; None for all."""
    updates: float = 10.0
    """Updates per control step of all environments together; may be less than 1."""
    unroll: int = 16
    """Control steps of every environment per line of metrics."""
    batch_size: int = 256
    """Demonstrated actions per update."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    weight_decay: float = 0.0
    """By which share of themselves, times the learning rate, all weights shrink per update."""
    max_grad_norm: float | None = None
    """Norm to which longer gradients are shortened; None leaves them."""
    held_out: float = 0.1
    """Share of the episodes that is not learned from, but says which weights are the best; 0: the last ones are."""
    validation_interval: int = 250
    """Updates between two looks at what is held out."""
    patience: int = 20
    """After how many looks in a row without a smaller error learning ends."""
    normalize_observations: bool = True
    """Shift and scale observations by the demonstrations' statistics."""
    observation_clip: float = 10.0
    """Bound on observations after they are normalised."""
    rounded_products: bool = False
    """Learn with factors rounded to bfloat16 in products of matrices, see the other learners."""
    actor: NetworkConfig = field(default_factory=relu_network)
    """Network that chooses actions."""

    def __post_init__(self) -> None:
        """Reject settings under which nothing can be learned."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float):
                require(math.isfinite(value), item.name, value, "finite")
        for name in ("unroll", "batch_size", "validation_interval", "patience"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("updates", "learning_rate", "max_grad_norm", "observation_clip"):
            value = getattr(self, name)
            require(value is None or value > 0, name, value, "positive")
        few = self.memory_steps is None or self.memory_steps >= 1
        require(few, "memory_steps", self.memory_steps, "at least 1, or None")
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        require(0 <= self.held_out < 1, "held_out", self.held_out, "0 or more and less than 1")
        perceptron = self.actor.architecture is Architecture.MLP
        require(perceptron, "architecture", self.actor.architecture, "mlp: cloning builds perceptrons")
