"""Settings of DAgger, which task defaults and command lines read without torch."""

from dataclasses import dataclass, field
from typing import Annotated

from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from policies.networks.config import Activation, Architecture, NetworkConfig, require, require_raw_observations


@dataclass(frozen=True)
class DaggerConfig(Bounded):
    """DAgger: imitation of an expert in the states that the policy itself comes to.

    The reward is not used. The policy is of PPO's kind, which can go on from it: --start-from RUN.
    """

    adviser: str = "expert"
    """Policy that is asked: expert, the task's script; shipped, a run or a checkpoint."""
    expert_until: Annotated[float, FRACTION] = 0.1
    """Share of the training in which the expert acts too: at first in all environments, then in ever fewer."""
    action_noise: Annotated[float, NOT_NEGATIVE] = 0.0
    """Noise on what is done, not on what the expert would have done (DART, arXiv:1703.09327), to learn how to come
    back from where neither leads, such as another simulator's ways: standard deviation in the last environment, ever
    less down to none in the first."""
    unroll: Annotated[int, at_least(1)] = 25
    """Control steps of every environment per iteration; of a policy with memory, as many as it learns from at once."""
    buffer_size: Annotated[int, at_least(1)] = 2_000_000
    """Observations with the expert's actions to learn from; the oldest make room for new ones."""
    save_buffer: bool = True
    """Whether checkpoints hold them: large, but a resumed run is the same bit for bit. If not, a resumed run collects
    them anew."""
    updates: Annotated[float, POSITIVE] = 8.0
    """Updates per control step of all environments together; may be less than 1."""
    batch_size: Annotated[int, at_least(1)] = 4096
    """Observations per update; of a policy with memory in sequences of `unroll`."""
    learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's step size at first; it falls to nothing."""
    max_grad_norm: Annotated[float | None, POSITIVE] = 1.0
    """Norm to which longer gradients are clipped; None leaves them."""
    initial_std: Annotated[float, POSITIVE] = 0.2
    """Standard deviation of the policy's actions, for a PPO that goes on from it."""
    normalize_observations: bool = True
    """Shift and scale observations by their running statistics."""
    observation_clip: Annotated[float, POSITIVE] = 10.0
    """Bound on observations after they are normalised."""
    bfloat16_matmul: bool = False
    """Learn with factors of matrix products rounded to bfloat16: faster on CPUs that have instructions for it."""
    actor: NetworkConfig = field(default_factory=lambda: NetworkConfig((256, 256), Activation.RELU))
    """Network that chooses actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_raw_observations(self.actor.architecture, self.normalize_observations, self.observation_clip)


@dataclass(frozen=True)
class PixelDaggerConfig(DaggerConfig):
    """DAgger from pictures: the policy sees what cameras see and what the robot knows of itself (group `proprio`).

    The expert may know more: a policy that learned from states, told where everything is, teaches one that sees.
    """

    features: Annotated[int, at_least(1)] = 128
    """Length of the image encoder's output."""
    augmented_share: Annotated[float, FRACTION] = 0.0
    """Share of each batch whose images a random convolution changes, each camera's by itself: other materials and
    lights, the same shapes, so that the policy does not depend on how things look."""
    buffer_size: int = 200_000
    """Observations with the expert's actions to learn from; one image of 64 x 64 pixels takes 12 kB of memory."""
    save_buffer: bool = False
    """Whether checkpoints hold them, images and all. If not, a resumed run collects them anew."""
    updates: float = 1.0
    """Updates per control step of all environments together; may be less than 1."""
    batch_size: int = 256
    """Observations per update."""
    actor: NetworkConfig = field(default_factory=lambda: NetworkConfig((128, 128), Activation.RELU))
    """Network that chooses actions, behind the image encoder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        plain = self.actor.architecture is Architecture.MLP
        require(plain, "actor.architecture", self.actor.architecture, f"{Architecture.MLP} behind the image encoder")
