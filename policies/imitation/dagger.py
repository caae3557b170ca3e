"""DAgger: imitation of an expert that is queried in every state which the learner comes to (Ross et al. 2011,
arXiv:1011.0686).

Behaviour cloning sees only states that the expert comes to, and errs ever more once it has left them. Here the learner
acts, and the expert gives the action that it would have taken. In simulation a script can be queried at every step.

The expert may know more than the policy observes. A policy with memory then learns to find out what it can: it imitates
the mean of what the expert does, given all that was observed so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from embodied.env.vec_env import POLICY, ObservationSpec, PolicyFunction, Step, vector_sizes
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror
from policies.algorithm import Algorithm, require_finite, require_policy_group, transfer_weights
from policies.imitation.dagger_config import DaggerConfig
from policies.networks.build import make_actor
from policies.networks.normalizer import Normalizer
from policies.networks.optim import distributed
from policies.networks.optim.cpu_settings import keep_freed_memory, products
from policies.networks.optim.flat_parameters import FlatAdamW
from policies.networks.recurrent import HiddenState, RecurrentActor, Sequences, outputs
from policies.policy import NormalizedActor, Policy


@dataclass(frozen=True)
class Answers:
    """Answers of the expert, in blocks of consecutive steps of all environments."""

    obs: Tensor
    """(blocks, T, N, size) raw observations."""
    action: Tensor
    """(blocks, T, N, A) actions of the expert."""
    begins: Tensor
    """(blocks, T, N) bool, an episode begins with this step."""
    hidden: Tensor
    """(blocks, N, H) the policy's memory before each block, as it was then."""

    @classmethod
    def empty(
        cls, blocks: int, steps: int, num_envs: int, size: int, actions: int, memory: int, device: torch.device
    ) -> Answers:
        """Room for `blocks` of them."""
        place = (blocks, steps, num_envs)
        return cls(
            torch.zeros(*place, size, device=device),
            torch.zeros(*place, actions, device=device),
            torch.zeros(place, dtype=torch.bool, device=device),
            torch.zeros(blocks, num_envs, memory, device=device),
        )

    def first(self, blocks: int) -> Self:
        """The first ones, or all where there are not so many; views."""
        return type(self)(*(values[:blocks] for values in self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        return {item.name: getattr(self, item.name) for item in fields(self)}


class Dagger(Algorithm):
    """Minimises the squared error of the mean action to the expert's, over all states visited so far."""

    config: DaggerConfig
    actor: Any
    """`GaussianActor`, or what `_make_actor` of a derived class makes."""
    group = POLICY
    """Observation group of numbers that the policy reads."""

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: DaggerConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
    ) -> None:
        """Build network, normaliser and buffer; arguments as of `policies.registry.Build`."""
        require_policy_group(observation_spec)
        keep_freed_memory()
        self.config, self.device = config, torch.device(device)
        size = vector_sizes(observation_spec)[self.group]
        self.actor = self._make_actor(size, action_size, Generator().manual_seed(seed)).to(self.device)
        self.optimizer = FlatAdamW(self._learned_parameters(), config.learning_rate, max_grad_norm=config.max_grad_norm)
        self.normalizer = Normalizer(size, self.device, config.observation_clip)
        self._generator = Generator(self.device).manual_seed(seed * distributed.size() + distributed.rank())
        self._expert: PolicyFunction | None = None
        self._expert_acts = torch.full((num_envs,), config.expert_until > 0, device=self.device)
        self._noise = torch.linspace(0.0, config.action_noise, num_envs, device=self.device)[:, None]
        self._begins = torch.ones(num_envs, dtype=torch.bool, device=self.device)
        self._hidden = HiddenState(self.actor, num_envs) if isinstance(self.actor, RecurrentActor) else None
        blocks = max(config.buffer_size // (config.unroll * num_envs), 1)
        self._kept = Answers.empty(blocks, config.unroll, num_envs, size, action_size, config.actor.memory, self.device)
        self._row, self._blocks, self._iterations, self.updates = 0, 0, 0, 0

    def _make_actor(self, observation_size: int, action_size: int, generator: Generator) -> nn.Module:
        """The network that chooses actions, of the config's architecture."""
        return make_actor(observation_size, action_size, self.config.actor, self.config.initial_std, generator)

    def _learned_parameters(self) -> Iterable[nn.Parameter]:
        """Those that imitation trains: not the standard deviation."""
        return self.actor.mean.parameters()

    @property
    def policy(self) -> Policy:
        return Policy(NormalizedActor.of(self.actor, self.normalizer), self.config.actor)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network and statistics; a deviation stays the config's."""
        transfer_weights(policy, self.policy)
        if self.actor.log_std is not None:
            self.actor.log_std.fill_(math.log(self.config.initial_std))
        if self.config.normalize_observations:
            self.normalizer.adopt(policy.network.observation_mean, policy.network.observation_scale)

    def advise(self, rule: PolicyFunction) -> None:
        self._expert = rule

    @torch.no_grad()
    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """The actions (N, A) of the policy, or of the expert where it still acts; the expert's answers are kept."""
        if self._expert is None:
            raise EmbodiedError(f"adviser='{self.config.adviser}' is announced; give its policy to Dagger.advise")
        told = self._expert(obs).clamp(-1.0, 1.0).to(self.device)
        self._keep(obs, told)
        done = torch.where(self._expert_acts[:, None], told, self._chosen(obs))
        return self._disturbed(done) if self.config.action_noise else done

    def _disturbed(self, actions: Tensor) -> Tensor:
        """(N, A) with the config's noise."""
        noise = torch.randn(actions.shape, generator=self._generator, device=self.device)
        return (actions + self._noise * noise).clamp(-1.0, 1.0)

    def _chosen(self, obs: Mapping[str, Tensor]) -> Tensor:
        """The policy's own actions."""
        if self._hidden is None:
            return self.policy(obs)
        return self._hidden(self.normalizer(obs[self.group]), self._begins).clamp(-1.0, 1.0)

    def record(self, step: Step) -> None:
        """Note which episodes begin; rewards are not used."""
        self._begins = (step.terminated | step.truncated).to(self.device)
        self._row += 1

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """Make the updates that are due, and draw where the expert acts next."""
        del obs
        config = self.config
        self._row, self._blocks, self._iterations = 0, self._blocks + 1, self._iterations + 1
        if config.normalize_observations:
            self.normalizer.commit()
        self.optimizer.learning_rate = config.learning_rate * max(1.0 - progress, 0.0)
        losses: list[Tensor] = []
        with products(rounded=config.bfloat16_matmul):
            while self.updates < math.floor(self._iterations * config.unroll * config.updates):
                losses.append(self._learn())
        metrics = {
            "updates": float(self.updates),
            "buffer": float(self._kept.first(self._blocks).action[..., 0].numel()),
        }
        metrics |= {"expert_share": self._expert_acts.float().mean().item()}
        if losses:
            loss, norm = torch.stack(losses).mean(0).tolist()
            metrics |= {"imitation_loss": loss, "policy_gradient_norm": norm}
        require_finite(metrics, "a lower learning_rate")
        share = 1.0 - progress / config.expert_until if config.expert_until else 0.0
        drawn = torch.rand(len(self._expert_acts), generator=self._generator, device=self.device)
        self._expert_acts = drawn < share
        return metrics

    @property
    def _place(self) -> tuple[int, int]:
        """Block and row where this step's observations are kept; the oldest make room."""
        return self._blocks % len(self._kept.obs), self._row

    def _keep(self, obs: Mapping[str, Tensor], told: Tensor) -> None:
        """Keep the observations, and the expert's actions (N, A) there."""
        (block, row), kept = self._place, self._kept
        if row == 0 and self._hidden is not None:
            kept.hidden[block] = self._hidden.values
        kept.obs[block, row], kept.action[block, row] = obs[self.group], told
        kept.begins[block, row] = self._begins
        if self.config.normalize_observations:
            self.normalizer.observe(obs[self.group])

    def _learn(self) -> Tensor:
        """One step; returns its loss and the gradient's norm, (2,)."""
        obs, action, sequences = self._batch()
        loss = functional.mse_loss(self._imitation(obs, sequences), action)
        norm = self.optimizer.descend(loss)
        self.updates += 1
        return torch.stack([loss.detach(), norm])

    def _imitation(self, obs: Any, sequences: Sequences | None) -> Tensor:
        """The policy's mean actions (B, A) for a batch's observations."""
        return outputs(self.actor.mean, self.normalizer(obs), sequences)

    def _batch(self) -> tuple[Any, Tensor, Sequences | None]:
        """Observations (B, size) and the expert's actions (B, A); with memory, sequences step after step."""
        kept = self._kept.first(self._blocks)
        if self._hidden is None:
            rows = self._drawn(kept.begins.numel(), self.config.batch_size)
            return kept.obs.flatten(0, 2)[rows], kept.action.flatten(0, 2)[rows], None
        blocks, steps, num_envs = kept.begins.shape
        drawn = self._drawn(blocks * num_envs, max(self.config.batch_size // steps, 1))
        block, env = drawn // num_envs, drawn % num_envs
        obs, action, begins = (values[block, :, env].transpose(0, 1) for values in (kept.obs, kept.action, kept.begins))
        return obs.flatten(0, 1), action.flatten(0, 1), Sequences(kept.hidden[block, env], begins)

    def _drawn(self, high: int, count: int) -> Tensor:
        return torch.randint(high, (count,), generator=self._generator, device=self.device)

    def state(self) -> dict[str, Any]:
        return {
            "actor": self.optimizer.state(),
            "normalizer": self.normalizer.state(),
            "generator": self._generator.get_state(),
            "expert_acts": self._expert_acts.clone(),
            "begins": self._begins.clone(),
            "iterations": self._iterations,
            "updates": self.updates,
            **({} if self._hidden is None else {"memory": self._hidden.values.clone()}),
            **(self._answers() if self.config.save_buffer else {}),
        }

    def _answers(self) -> dict[str, Any]:
        kept = self._kept.first(self._blocks).tensors()
        return {"blocks": self._blocks, "answers": {name: values.clone() for name, values in kept.items()}}

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        self.optimizer.load_state(tree["actor"])
        self.normalizer.load_state(tree["normalizer"])
        self._expert_acts = tree["expert_acts"].to(self.device)
        self._iterations, self.updates = int(tree["iterations"]), int(tree["updates"])
        if explore_alike:
            self._generator.set_state(tree["generator"].cpu())
            self._begins = tree["begins"].to(self.device)
            if self._hidden is not None:
                self._hidden.values = tree["memory"].to(self.device)
        if self.config.save_buffer:
            self._blocks = int(tree["blocks"])
            for name, values in self._kept.first(self._blocks).tensors().items():
                values.copy_(tree["answers"][name])
