"""What sets off-policy learners apart: how they explore, what they expect of the next action, how policies improve."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from policies.imitation.losses import imitation_loss, log_likelihood
from policies.networks.squashed import SquashedActor
from policies.networks.structured_actor import FormedActor
from policies.off_policy.actor_critics import OffPolicyConfig, SACConfig, TD3Config
from policies.off_policy.awac import AWACConfig
from policies.optim.flat_parameters import VectorizedSimulator, join

Values = Callable[[Tensor], Tensor]
"""Actions (B, A) to what the policy climbs of the critics' values, (B,)."""
Penalty = Callable[[Tensor], Tensor]
"""The policy's actions (B, A) to what else it is to make small, ()."""


class UpdateRule(Protocol):
    """One algorithm's part; observations are normalised, `noise` is standard normal of the actions' shape."""

    @property
    def actor(self) -> SquashedActor | FormedActor:
        """The policy's network."""
        ...

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions for all N environments, (N, A)."""
        ...

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | float]:
        """Actions (B, A) that targets suppose, and what else their states are worth, (B,)."""
        ...

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Take one step of the policy, where `taken` are the remembered actions (B, A); returns measures.

        Only those that climb values heed a `penalty`.
        """
        ...

    def learn_offline(self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values) -> dict[str, Tensor]:
        """The same where all that is remembered are demonstrations."""
        ...

    def track(self, tau: float) -> None:
        """Mix that share of the policy into its target copy."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything learned."""
        ...

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        ...


class EntropyRule:
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905): entropy is part of what is maximised."""

    def __init__(self, actor: SquashedActor, config: SACConfig) -> None:
        """Take over an actor with deviation."""
        self.actor, self._adapts = actor, config.temperature_learning_rate > 0
        actions = actor.sizes[1]
        self._target_entropy = -float(actions) if config.target_entropy is None else config.target_entropy
        self._simulator = _actor_stepper(actor, config)
        initial = torch.full((1,), math.log(config.initial_temperature), device=self._simulator.vector.device)
        self._log_temperature = nn.Parameter(initial)
        self._temperature_stepper = VectorizedSimulator([self._log_temperature], config.temperature_learning_rate)

    @property
    def temperature(self) -> Tensor:
        """(1,) what a nat of entropy earns."""
        return self._log_temperature.detach().exp()

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """A sample of the policy."""
        return self.actor.sample(obs, noise)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A sample of the policy, and α times its surprise (eq. 3)."""
        action, log_density = self.actor.sample_with_density(obs, noise)
        return action, -self.temperature * log_density

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Minimise α log π - Q (eq. 7), then α (-log π - H) over log α (eq. 18)."""
        del taken
        action, log_density = self.actor.sample_with_density(obs, noise)
        loss = (self.temperature * log_density - values(action)).mean()
        if penalty is not None:
            loss = loss + penalty(action)
        norm = self._simulator.descend(loss)
        entropy = -log_density.detach().mean()
        temperature_loss = self._log_temperature.sum() * (entropy - self._target_entropy)
        if self._adapts:
            self._temperature_stepper.descend(temperature_loss)
        return {
            "policy_loss": loss.detach(),
            "policy_gradient_norm": norm,
            "entropy": entropy,
            "temperature": self.temperature[0],
            "temperature_loss": temperature_loss.detach(),
        }

    def learn_offline(self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values) -> dict[str, Tensor]:
        """Imitate: what critics say of actions that nobody showed is not to be climbed before those were tried."""
        del noise, values
        return imitate(self.actor, self._simulator, obs, taken)

    def track(self, tau: float) -> None:
        """The policy has no target copy."""

    def state(self) -> dict[str, Any]:
        """Policy and temperature with their moments."""
        return {"actor": self._simulator.state(), "temperature": self._temperature_stepper.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._simulator.load_state(tree["actor"])
        self._temperature_stepper.load_state(tree["temperature"])


class DeterministicRule:
    """The deterministic policy gradient with TD3's smoothed targets (Fujimoto et al. 2018), of which DDPG has none."""

    def __init__(self, actor: SquashedActor, config: TD3Config, num_envs: int) -> None:
        """Take over an actor without deviation; the environments' noise lies evenly between the config's bounds."""
        self.actor, self._smoothing, self._clip = actor, config.target_noise, config.target_noise_clip
        self._simulator = _actor_stepper(actor, config)
        device = self._simulator.vector.device
        self._noise = torch.linspace(config.noise_min, config.noise_max, num_envs, device=device)[:, None]
        self._target = copy.deepcopy(actor) if config.target_actor else actor
        self._target_vector = join(self._target.parameters()) if config.target_actor else None

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """The policy's action with each environment's own noise."""
        return (self.actor(obs) + self._noise * noise).clamp(-1.0, 1.0)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """The target policy's action with bounded noise (eq. 14): similar actions should have similar values."""
        smoothing = (self._smoothing * noise).clamp(-self._clip, self._clip)
        return (self._target(obs) + smoothing).clamp(-1.0, 1.0), 0.0

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Minimise -Q."""
        del taken, noise
        action = self.actor(obs)
        loss = -values(action).mean()
        if penalty is not None:
            loss = loss + penalty(action)
        return {"policy_loss": loss.detach(), "policy_gradient_norm": self._simulator.descend(loss)}

    def learn_offline(self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values) -> dict[str, Tensor]:
        """Imitate."""
        del noise, values
        return imitate(self.actor, self._simulator, obs, taken)

    def track(self, tau: float) -> None:
        """Mix that share of the policy into its target copy."""
        if self._target_vector is not None:
            self._target_vector.lerp_(self._simulator.vector, tau)

    def state(self) -> dict[str, Any]:
        """Policy with its moments, and its target copy."""
        target = {} if self._target_vector is None else {"target": self._target_vector.clone()}
        return {"actor": self._simulator.state(), **target}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._simulator.load_state(tree["actor"])
        if self._target_vector is not None:
            self._target_vector.copy_(tree["target"])


class AdvantageRule:
    """Advantage-weighted likelihood of what was done (AWAC, Nair et al. 2020, arXiv:2006.09359).

    The policy climbs no critic: it repeats remembered actions, those above its own average more than others, and so
    stays near what the critics have seen.
    """

    def __init__(self, actor: SquashedActor, config: AWACConfig) -> None:
        """Take over an actor with deviation."""
        self.actor, self._temperature, self._blur = actor, config.temperature, config.blur
        self._simulator = _actor_stepper(actor, config)

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """A sample of the policy."""
        return self.actor.sample(obs, noise)

    def next_action(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, float]:
        """A sample of the policy."""
        return self.actor.sample(obs, noise), 0.0

    def improve(
        self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values, penalty: Penalty | None = None
    ) -> dict[str, Tensor]:
        """Maximise exp(A / λ) log π(a|s) (eq. 13), with A = Q(s, a) - Q(s, a'), where a' is a sample of the policy."""
        del penalty
        with torch.no_grad():
            advantage = values(taken) - values(self.actor.sample(obs, noise))
            weight = advantage_weights(advantage, self._temperature)
        likelihood = log_likelihood(self.actor, obs, taken, self._blur)
        loss = -(weight * likelihood).mean()
        return {
            "policy_loss": loss.detach(),
            "policy_gradient_norm": self._simulator.descend(loss),
            "likelihood": likelihood.detach().mean(),
            "advantage": advantage.mean(),
            "weighted_share": weight.mean().square() / weight.square().mean(),
        }

    def learn_offline(self, obs: Tensor, taken: Tensor, noise: Tensor, values: Values) -> dict[str, Tensor]:
        """The same."""
        return self.improve(obs, taken, noise, values)

    def track(self, tau: float) -> None:
        """The policy has no target copy."""

    def state(self) -> dict[str, Any]:
        """Policy with its moments."""
        return {"actor": self._simulator.state()}

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._simulator.load_state(tree["actor"])


def advantage_weights(advantage: Tensor, temperature: float) -> Tensor:
    """exp(A / λ) over its mean in the batch, (B,) to (B,): all 1 as λ grows, and never beyond what floats can hold."""
    return (advantage / temperature).softmax(0) * len(advantage)


def imitate(actor: SquashedActor, simulator: VectorizedSimulator, obs: Tensor, taken: Tensor) -> dict[str, Tensor]:
    """One step of an actor towards the actions (B, A) that were taken."""
    loss = imitation_loss(actor, obs, taken)
    return {"imitation_loss": loss.detach(), "policy_gradient_norm": simulator.descend(loss)}


def make_rule(actor: SquashedActor, config: OffPolicyConfig, num_envs: int) -> UpdateRule:
    """The rule that a config belongs to."""
    if isinstance(config, SACConfig):
        return EntropyRule(actor, config)
    if isinstance(config, TD3Config):
        return DeterministicRule(actor, config, num_envs)
    if isinstance(config, AWACConfig):
        return AdvantageRule(actor, config)
    raise TypeError(f"{type(config).__name__} belongs to no update rule; expected a SACConfig, TD3Config or AWACConfig")


def _actor_stepper(actor: SquashedActor, config: OffPolicyConfig) -> VectorizedSimulator:
    return VectorizedSimulator(
        actor.learned_parameters(),
        config.actor_learning_rate,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
    )
