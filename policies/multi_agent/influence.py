"""Adversarial minority influence (AMI): adversaries who are also paid where the others do what an oracle picked.

After Li et al. 2023 (arXiv:2302.03322). With L the team's reward and λ the weight, an adversary earns

    r = -L + λ Σ_i p̃_i(τ_i),   summed over the others i

where p̃_i is how i acts next as a learned model has it, given the state and what all do now, but for the adversaries'
own actions, over which it is marginalised: so they gain nothing by being predictable themselves. τ_i is what an oracle
would have i do, which learns by PPO from the same r.

Actions there are discrete. Here they are continuous and the others' policies deterministic, so that the model is a
regression, and p̃_i(τ_i) the closeness exp(-|ã_i - τ_i|² / 2 σ²) to the mean ã_i that it predicts. It never sees what
the adversaries do, and learns from fresh steps alone: by least squares its mean is that over their policy's actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from embodied.env.vec_env import CRITIC, POLICY, PolicyFunction, StepData
from policies.multi_agent.adversary import AdversaryEnv
from policies.networks.config import Activation, NetworkConfig
from policies.networks.mlp import MLP
from policies.networks.normalizer import Normalizer
from policies.optim.flat_parameters import FlatAdamW
from policies.ppo.config import PPOConfig, Schedule
from policies.ppo.ppo import PPO

if TYPE_CHECKING:
    from embodied.env.env import Env
    from embodied.env.step import Step

WIDTH = 0.5  # σ, of actions in [-1, 1]: much narrower, an oracle's first targets would earn nothing
HIDDEN = (64, 64)
BATCH = 4096  # transitions, of model and oracle
RATE = 1e-3  # Adam's, of model and oracle
ORACLE = PPOConfig(
    epochs=1,
    learning_rate=RATE,
    schedule=Schedule.FIXED,
    initial_std=WIDTH,
    bound_coef=1.0,  # targets outside [-1, 1] are nobody's action
    actor=NetworkConfig(HIDDEN, Activation.SILU),
    critic=NetworkConfig(HIDDEN, Activation.SILU, output_gain=1.0),
)


class InfluenceEnv(AdversaryEnv):
    """An `AdversaryEnv` that also pays for influence on the others' actions.

    Model and oracle learn every `unroll` steps, as the learner does; `state` is for between those.
    """

    def __init__(
        self, env: Env, team: PolicyFunction, adversaries: int, weight: float, learner: PPOConfig, seed: int = 0
    ) -> None:
        """Take an environment, which goes on belonging to the caller.

        Args:
            env: Worlds with agents.
            team: What the others do.
            adversaries: How many there are.
            weight: λ, of an other who does just what the oracle picked, beside what the team earns in a step.
            learner: Settings of the adversaries, of which the oracle has the horizon and the scale of rewards.
            seed: Of model and oracle.

        Raises:
            EmbodiedError: the task has no agents, or none would be left to attack.
        """
        super().__init__(env, team, adversaries)
        self.weight, self.victims = weight, env.action_shape[1] - adversaries
        self._group = CRITIC if CRITIC in self.observation_spec else POLICY  # the state, as one of them sees it
        spec, rows = self.observation_spec[self._group], env.num_envs * self.victims
        every = torch.arange(self.victims, device=self.device)
        self._turns = (every[:, None] + every) % self.victims  # each begins with itself
        settings = replace(
            ORACLE,
            unroll=learner.unroll,
            gamma=learner.gamma,
            lam=learner.lam,
            reward_scale=learner.reward_scale,
            minibatches=max(1, learner.unroll * rows // BATCH),
        )
        self.oracle = PPO({POLICY: spec}, self.action_size, rows, settings, device=self.device, seed=seed)
        inputs = spec.shape[-1] + self.victims * self.action_size
        self.model = NextActions(inputs, self.action_size, self.device, seed)
        self._seen = torch.empty(0)
        """(worlds others, size) the state now, as each of the others sees it."""
        self._influence: list[Tensor] = []
        self._measures: dict[str, float] = {}

    def _begin(self, obs: Mapping[str, Tensor]) -> None:
        super()._begin(obs)
        self._seen = self._as_seen(obs)

    def _as_seen(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(worlds others, size) the state, as each of the others sees it."""
        return obs[self._group][:, : self.victims].flatten(0, 1).clone()

    def _earned(self, team: Tensor, step: Step) -> Tensor:
        context = torch.cat([self._seen, team[:, self._turns].flatten(2).flatten(0, 1)], -1)
        target = self.oracle.act({POLICY: self._seen}).clamp(-1.0, 1.0)
        influence = closeness(self.model(context), target).view(-1, self.victims).sum(1)
        earned = super()._earned(team, step) + self.weight * influence
        goes_on = ~(step.terminated | step.truncated).repeat_interleave(self.victims)
        self.model.keep(context[goes_on], self._told[:, : self.victims].flatten(0, 1)[goes_on])
        self._seen = self._as_seen(step.obs)
        self._reward_oracle(earned, step)
        self._influence.append(influence.mean())
        if len(self._influence) == self.oracle.unroll:
            self._learn()
        return earned

    def _reward_oracle(self, earned: Tensor, step: Step) -> None:
        """Tell the oracle what its last targets brought: (worlds,) what an adversary earned."""

        def each(of_world: Tensor) -> Tensor:
            return of_world.repeat_interleave(self.victims)

        final = {POLICY: self._as_seen(step.final_obs)}
        ended = each(step.terminated), each(step.truncated), each(step.success)
        self.oracle.record(StepData({POLICY: self._seen}, each(earned), *ended, final))

    def _learn(self) -> None:
        """Improve oracle and model by what a rollout brought."""
        self.oracle.update({POLICY: self._seen})
        error = self.model.learn()
        self._measures = {"influence": torch.stack(self._influence).mean().item(), "influence_error": error.item()}
        self._influence.clear()

    def statistics(self) -> dict[str, float]:
        """As of any environment; `influence`, of the others together, and the model's squared error."""
        return super().statistics() | self._measures

    def state(self) -> dict[str, Any]:
        """As of any adversaries, and what model and oracle have learned."""
        own = {"seen": self._seen.clone(), "oracle": self.oracle.state(), "model": self.model.state()}
        return {"adversaries": super().state(), **own}

    def load_state(self, state: Mapping[str, Any], /) -> None:
        super().load_state(state["adversaries"])
        self._seen = state["seen"].to(self.device)
        self.oracle.load_state(state["oracle"])
        self.model.load_state(state["model"])


def closeness(action: Tensor, target: Tensor) -> Tensor:
    """(N,) in (0, 1] of actions (N, A): 1 where they are the targets, exp(-1/2) at a distance of `WIDTH`."""
    return torch.exp((action - target).square().sum(-1) / (-2 * WIDTH**2))


class NextActions:
    """A perceptron that predicts how an agent acts next, by least squares from one rollout after the other."""

    def __init__(self, inputs: int, actions: int, device: torch.device, seed: int) -> None:
        """Build it; `seed` fixes its weights, and the order in which it learns."""
        network = MLP(inputs, actions, NetworkConfig(HIDDEN, Activation.SILU), torch.Generator().manual_seed(seed))
        self._network, self._normalizer = network.to(device), Normalizer(inputs, device)
        self._optimizer = FlatAdamW(self._network.parameters(), RATE)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._kept: list[tuple[Tensor, Tensor]] = []

    @torch.no_grad()
    def __call__(self, context: Tensor) -> Tensor:
        """(N, inputs) what is known to the (N, A) next actions."""
        return self._network(self._normalizer(context))

    def keep(self, context: Tensor, following: Tensor) -> None:
        """Keep what was known (N, inputs), and what was done next (N, A), until `learn`."""
        self._normalizer.observe(context)
        self._kept.append((context, following))

    def learn(self) -> Tensor:
        """Pass once over what was kept, and forget it; returns the mean squared error, ()."""
        context, following = (torch.cat(parts) for parts in zip(*self._kept, strict=True))
        self._kept.clear()
        self._normalizer.commit()
        context, errors = self._normalizer(context), []
        for rows in torch.randperm(len(context), generator=self._generator, device=context.device).split(BATCH):
            error = functional.mse_loss(self._network(context[rows]), following[rows])
            self._optimizer.descend(error)
            errors.append(error.detach())
        return torch.stack(errors).mean()

    def state(self) -> dict[str, Any]:
        """Everything that decides how it goes on, between rollouts."""
        return {
            "optimizer": self._optimizer.state(),
            "normalizer": self._normalizer.state(),
            "generator": self._generator.get_state(),
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._optimizer.load_state(tree["optimizer"])
        self._normalizer.load_state(tree["normalizer"])
        self._generator.set_state(tree["generator"].cpu())
