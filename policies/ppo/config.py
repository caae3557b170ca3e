"""Settings of proximal policy optimisation."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from policies.networks.config import Architecture, NetworkConfig, require, require_raw_observations


class Schedule(StrEnum):
    """Schedule of the learning rate."""

    FIXED = "fixed"
    ADAPTIVE = "adaptive"
    LINEAR = "linear"


@dataclass(frozen=True)
class SymmetryConfig:
    """Use of a robot's left-right symmetry by PPO, where its task declares one (`Task.mirror`)."""

    network: bool = False
    """Give actor and critic weights with which the policy in the mirror is the mirrored policy, exactly. Training that
    starts from a policy without such weights goes on without."""


@dataclass(frozen=True)
class CuriosityConfig(Bounded):
    """A reward for observations that are unlike those seen before (random network distillation, RND)."""

    weight: Annotated[float, NOT_NEGATIVE] = 0.0
    """Of that reward beside the task's, which reward_scale scales; 0: none. It is the error of a prediction over the
    errors' standard deviation so far, and fades with what becomes known."""
    learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's step size of the prediction: the larger, the sooner it fades."""


@dataclass(frozen=True)
class PPOConfig(Bounded):
    """Proximal policy optimisation (Schulman et al. 2017)."""

    unroll: Annotated[int, at_least(1)] = 24
    """Control steps of every environment per iteration."""
    epochs: Annotated[int, at_least(1)] = 5
    """Passes over each rollout."""
    minibatches: Annotated[int, at_least(1)] = 4
    """Gradient steps per pass."""
    learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's step size at the start."""
    schedule: Schedule = Schedule.ADAPTIVE
    """fixed, linear (to zero at the end of training), or adaptive (holds the policy's change near desired_kl)."""
    desired_kl: Annotated[float, POSITIVE] = 0.015
    """Divergence from the rollout's policy that an adaptive schedule aims at, in nats, mean over an update's
    minibatches, of which the first does not diverge yet."""
    learning_rate_min: Annotated[float, POSITIVE] = 1e-5
    """Lower bound of an adaptive learning rate."""
    learning_rate_max: Annotated[float, POSITIVE] = 1e-2
    """Upper bound of an adaptive learning rate."""
    gamma: Annotated[float, FRACTION] = 0.99
    """Discount per control step."""
    lam: Annotated[float, FRACTION] = 0.95
    """Weight of longer over shorter advantage estimates (lambda of GAE)."""
    clip: Annotated[float, POSITIVE] = 0.2
    """Change of an action's probability ratio beyond which it earns nothing more."""
    value_clip: Annotated[float | None, POSITIVE] = None
    """Change of a value estimate beyond which the critic earns nothing more; None leaves it free."""
    value_coef: Annotated[float, NOT_NEGATIVE] = 0.5
    """Weight of the critic's mean squared error."""
    entropy_coef: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of the policy's entropy."""
    bound_coef: Annotated[float, NOT_NEGATIVE] = 0.0
    """Weight of the squared distance by which mean actions exceed [-1, 1], where noise no longer changes what is done:
    a policy that flies at full speed would never find out what less is good for."""
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    """Norm to which longer gradients are shortened."""
    normalize_advantage: bool = True
    """Give each rollout's advantages mean 0 and deviation 1."""
    normalize_observations: bool = True
    """Shift and scale observations by their running statistics."""
    observation_clip: Annotated[float, POSITIVE] = 10.0
    """Bound on observations after they are normalised."""
    reward_scale: Annotated[float, POSITIVE] = 1.0
    """Factor on rewards as the learner sees them; reported returns are not scaled."""
    initial_std: Annotated[float, POSITIVE] = 1.0
    """Standard deviation of the first actions, whose range is [-1, 1]."""
    min_std: Annotated[float, NOT_NEGATIVE] = 0.0
    """Standard deviation below which no action's falls. Of several tasks that share it, those that are solved would
    leave those that are not nothing to explore with."""
    actor: NetworkConfig = field(default_factory=NetworkConfig)
    """Network that chooses actions."""
    critic: NetworkConfig = field(default_factory=lambda: NetworkConfig(output_gain=1.0))
    """Network that predicts returns."""
    critic_warm_up: Annotated[int, NOT_NEGATIVE] = 0
    """Iterations at first in which only the critic learns: one that knows nothing would spoil a policy to start
    from."""
    critic_group: str = "critic"
    """Observation group the critic reads; where the environment has no such group, it reads the actor's."""
    symmetry: SymmetryConfig = field(default_factory=SymmetryConfig)
    """Use of the robot's left-right symmetry."""
    curiosity: CuriosityConfig = field(default_factory=CuriosityConfig)
    """Reward for what is new, where the task's own is rare (random network distillation, RND)."""
    compile: bool = False
    """Fuse the loss's element-wise operations with torch.compile; no faster on a CPU, and slow to start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for architecture in {self.actor.architecture, self.critic.architecture}:
            require_raw_observations(architecture, self.normalize_observations, self.observation_clip)
            if architecture is not Architecture.MLP:
                require(not self.symmetry.network, "symmetry.network", True, f"False with architecture {architecture}")
        if self.schedule is Schedule.ADAPTIVE:
            low, high = self.learning_rate_min, self.learning_rate_max
            expected = f"between learning_rate_min={low} and learning_rate_max={high}"
            require(low <= self.learning_rate <= high, "learning_rate", self.learning_rate, expected)
