"""Settings that off-policy algorithms share, and how their networks and optimisers are built from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Generator, Tensor, nn

from embodied.env.vec_env import POLICY, ObservationSpec, vector_sizes
from embodied.storage.bounds import FRACTION, NOT_NEGATIVE, POSITIVE, Bound, Bounded, at_least
from policies.algorithm import require_policy_group
from policies.data.replay_buffer import BufferDtype
from policies.imitation.advice import Advice
from policies.networks.config import Architecture, NetworkConfig, relu_network, require
from policies.networks.ensemble import CriticEnsemble
from policies.networks.normalizer import Normalizer
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.squashed import SquashedActor
from policies.networks.structured.team import TeamActor
from policies.off_policy.actors import ActorUpdate
from policies.off_policy.critics import BellmanUpdate, CriticUpdate, PolicyValue
from policies.policy import NormalizedActor, Policy


@dataclass(frozen=True)
class Sizes:
    """Sizes of observations and actions, and the device of networks."""

    policy: int
    """Length of the actor's vector."""
    critic: int
    """Length of the critics' vector."""
    action: int
    device: torch.device
    image_shape: tuple[int, int, int] | None = None
    """Channels, height and width of all images stacked, of algorithms that read images."""
    team: int = 1
    """Agents, whose vectors and actions stand one after the other."""


@dataclass(frozen=True)
class ObservationGroups:
    """The observation groups that actor and critics read: a vector each, normalised."""

    spec: Mapping[str, ObservationSpec]
    """All that are read, and so stored."""
    actor: str
    """Group of the actor's vector."""
    critic: str
    """Group of the critics' vector."""

    @property
    def image_shape(self) -> tuple[int, int, int] | None:
        """Channels, height and width of all images stacked; here there are none."""
        return None

    def actor_input(self, obs: Mapping[str, Tensor], normalizers: Mapping[str, Normalizer]) -> Any:
        """Input of the actor from raw observations, (N, ...)."""
        return normalizers[self.actor](obs[self.actor])

    def inputs(self, obs: Mapping[str, Tensor], normalizers: Mapping[str, Normalizer]) -> tuple[Any, Any]:
        """Inputs of actor and critics from raw observations."""
        actor = self.actor_input(obs, normalizers)
        return actor, actor if self.critic == self.actor else normalizers[self.critic](obs[self.critic])

    def policy(self, actor: Any, normalizer: Normalizer, config: OffPolicyConfig) -> Policy:
        """The policy of an actor with the statistics of its vector."""
        return Policy(NormalizedActor.of(actor, normalizer), config.policy_network, self.actor)


@dataclass(frozen=True)
class OffPolicyConfig(Bounded):
    """Settings that all off-policy algorithms share."""

    critic_group = POLICY
    """Observation group that the critics read, where the environment has it; a setting of some algorithms."""
    own_rewards = False
    """Whether a team's agents learn from rewards of their own, and not from the team's mean; no setting."""
    unroll: Annotated[int, at_least(1)] = 16
    """Control steps of every environment per line of metrics; between checkpoints lie whole lines."""
    buffer_size: Annotated[int, at_least(1)] = 1_000_000
    """Transitions in the replay buffer, of all environments together."""
    buffer_dtype: BufferDtype = BufferDtype.FLOAT32
    """Data type of observations and actions in the replay buffer; float16 halves its memory and keeps 3 digits."""
    save_buffer: bool = True
    """Whether checkpoints, of which three are kept, hold the buffer and demonstrations: large, but a resumed run is the
    same bit for bit. If not, a resumed run first collects warm_up transitions anew, with its policy."""
    batch_size: Annotated[int, at_least(1)] = 256
    """Transitions per update, demonstrations included."""
    critic_updates: Annotated[float, POSITIVE] = 1.0
    """Updates of the critics per control step of all environments together; may be less than 1."""
    policy_delay: Annotated[int, at_least(1)] = 1
    """Critic updates per policy update."""
    target_delay: Annotated[int, at_least(1)] = 1
    """Critic updates per update of the target networks."""
    warm_up: Annotated[int, NOT_NEGATIVE] = 5_000
    """Transitions to collect before the first update."""
    random_warm_up: bool = True
    """Whether actions before the first update are uniformly random, unless training starts from a policy."""
    gamma: Annotated[float, FRACTION] = 0.99
    """Discount per control step."""
    n_step: Annotated[int, at_least(1)] = 1
    """Most rewards that are summed before a target bootstraps from the target network."""
    tau: Annotated[float, Bound("above 0 and at most 1", lambda value: 0 < value <= 1)] = 0.005
    """Polyak averaging: share of the networks that each update mixes into the target networks."""
    critic_learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's step size for the critics."""
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    """AdamW's decoupled weight decay, of all weights."""
    max_grad_norm: Annotated[float | None, POSITIVE] = None
    """Norm to which longer gradients are clipped; None leaves them."""
    normalize_observations: bool = True
    """Shift and scale observations by their running statistics."""
    observation_clip: Annotated[float, POSITIVE] = 10.0
    """Bound on observations after they are normalised."""
    reward_scale: Annotated[float, POSITIVE] = 1.0
    """Factor on rewards as the learner sees them, demonstrations included; reported returns are not scaled."""
    critic: NetworkConfig = field(default_factory=relu_network)
    """Network of each critic."""
    demonstrations: Path | None = None
    """File of demonstrations to learn from, as python -m policies.demonstrations writes it."""
    demonstration_share: Annotated[float, FRACTION] = 0.5
    """With demonstrations beside the buffer: which share of every batch they are."""
    demonstrations_in_buffer: bool = False
    """Prefill the replay buffer with the demonstrations, where own steps join and at last replace them; learning then
    starts at once, whatever warm_up says. Otherwise they stay beside it."""
    offline_updates: Annotated[int, NOT_NEGATIVE] = 0
    """Updates on demonstrations alone before the first step: critics learn their values, the policy clones them."""
    bfloat16_matmul: bool = False
    """Learn with factors of matrix products rounded to bfloat16: faster on CPUs that have instructions for it. Policies
    act in float32 whatever this says."""

    def groups(self, spec: Mapping[str, ObservationSpec]) -> ObservationGroups:
        """Observation groups of an environment that the algorithm reads.

        Raises:
            SettingsError: There is no group `policy`.
        """
        require_policy_group(spec)
        critic = self.critic_group if self.critic_group in vector_sizes(spec) else POLICY
        return ObservationGroups({group: spec[group] for group in (POLICY, critic)}, POLICY, critic)

    @property
    def policy_network(self) -> NetworkConfig:
        """Network that chooses actions: the critic's, unless the algorithm has an actor."""
        return self.critic

    def __post_init__(self) -> None:
        super().__post_init__()
        for network in (self.critic, self.policy_network):
            mlp = network.architecture is Architecture.MLP
            require(mlp, "architecture", network.architecture, "mlp: off-policy learners build MLPs")

    def build(self, sizes: Sizes, generator: Generator) -> tuple[ActorUpdate, CriticUpdate]:
        """The algorithm's actor and critics, on their device; `generator` (CPU) draws the initial weights."""
        raise NotImplementedError(f"{type(self).__name__} belongs to no algorithm")

    def advice(self, action_size: int) -> Advice | None:
        """The adviser, of algorithms that can have one."""
        del action_size
        return None

    def optimizer(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> FlatAdamW:
        """AdamW with the config's weight decay and clipping."""
        return FlatAdamW(parameters, learning_rate, weight_decay=self.weight_decay, max_grad_norm=self.max_grad_norm)

    def critic_optimizer(self, critic: nn.Module) -> FlatAdamW:
        return self.optimizer(critic.parameters(), self.critic_learning_rate)


@dataclass(frozen=True)
class ActorCriticConfig(OffPolicyConfig):
    """Settings of algorithms with an actor network beside their critics."""

    actor_learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's step size for the actor."""
    critics: Annotated[int, at_least(1)] = 2
    """Number of critics."""
    target_critics: int | None = None
    """Size of the random subset of target critics, drawn for each update, whose minimum is the target; None for all."""
    clipped_double: bool = True
    """Whether all critics learn from the minimum over target critics; otherwise each from its own."""
    policy_value: PolicyValue = PolicyValue.LOWEST
    """Which of the critics' Q-values the actor maximises: lowest, mean or first."""
    layer_norm: bool = False
    """Layer normalisation in the critics' hidden layers."""
    actor: NetworkConfig = field(default_factory=relu_network)
    """Network that chooses actions."""
    critic_group: str = "critic"
    """Observation group the critics read; where the environment has no such group, they read the actor's."""

    @property
    def policy_network(self) -> NetworkConfig:
        """Network that chooses actions."""
        return self.actor

    def __post_init__(self) -> None:
        super().__post_init__()
        subset = self.target_critics is None or 1 <= self.target_critics <= self.critics
        require(subset, "target_critics", self.target_critics, f"between 1 and critics={self.critics}")

    def build_actor(self, sizes: Sizes, generator: Generator, *, stochastic: bool) -> SquashedActor:
        """An untrained actor on its device."""
        actor = SquashedActor(sizes.policy, sizes.action, self.actor, stochastic=stochastic, generator=generator)
        return actor.to(sizes.device)

    def build_critics(self, sizes: Sizes, generator: Generator) -> BellmanUpdate[CriticEnsemble]:
        """Untrained critics on their device."""
        critics = CriticEnsemble(
            self.critics, sizes.critic + sizes.action, 1, self.critic,
            layer_norm=self.layer_norm, generator=generator,
        ).to(sizes.device)  # fmt: skip
        return BellmanUpdate(
            critics, self.critic_optimizer(critics), clipped_double=self.clipped_double,
            target_critics=self.target_critics, policy_value=self.policy_value,
        )  # fmt: skip

    def actor_optimizer(self, actor: SquashedActor | TeamActor) -> FlatAdamW:
        return self.optimizer(actor.learned_parameters(), self.actor_learning_rate)


@dataclass(frozen=True)
class AdvisedConfig(ActorCriticConfig):
    """Settings of actor-critics whose actor maximises Q-values, which an adviser may help to find."""

    adviser: str | None = None
    """Policy that gives advice: a run, a checkpoint, shipped or expert. It is imitated where critics value its action
    more than the policy's own (VARL, arXiv:2509.21126)."""
    advice_interval: Annotated[int, at_least(1)] = 5
    """Control steps from one advice to the next."""
    advice_until: Annotated[int, NOT_NEGATIVE] = 100_000
    """Actions that are advised in all."""
    advice_weight: Annotated[float, NOT_NEGATIVE] = 1.0
    """Of the squared distance from advised actions, beside Q-values."""

    def advice(self, action_size: int) -> Advice | None:
        """The adviser, where the config names one."""
        if self.adviser is None:
            return None
        return Advice(self.adviser, self.advice_interval, self.advice_until, self.advice_weight, action_size)
