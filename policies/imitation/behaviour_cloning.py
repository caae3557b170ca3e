"""Behaviour cloning: a policy is fitted to demonstrated actions, and watched while it learns."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from embodied.env.vec_env import POLICY, Step
from embodied.errors import EmbodiedError
from policies.algorithm import Algorithm, DivergedError
from policies.imitation.config import CloningConfig
from policies.imitation.demonstrations import load as load_demonstrations
from policies.imitation.demonstrations import load_source
from policies.imitation.interventions import remembered, weights, with_before
from policies.imitation.losses import imitation_error, imitation_loss
from policies.imitation.weight_transfer import adopt
from policies.networks.normalizer import Normalizer
from policies.networks.squashed import SquashedActor
from policies.off_policy.replay_buffer import Transitions
from policies.optim import distributed
from policies.optim.cpu_settings import keep_freed_memory, products
from policies.optim.flat_parameters import VectorizedSimulator, join
from policies.policy import NormalizedActor, Policy


@dataclass(frozen=True)
class Examples:
    """What was done in which situation."""

    obs: Tensor
    """(T, size) raw observations."""
    action: Tensor
    """(T, A) in [-1, 1]."""
    weight: Tensor
    """(T,) how much they count, 1 on average."""

    def __len__(self) -> int:
        """T."""
        return len(self.action)

    def at(self, where: Tensor) -> Examples:
        """Those of an index or a mask."""
        return Examples(self.obs[where], self.action[where], self.weight[where])


class Cloning(Algorithm):
    """Minimises the squared error of the mean action; see `imitation.imitation_loss` for why not its likelihood.

    The policy is the one of all looks so far whose error on held-out episodes was the smallest; its deviation stays
    that of an untrained one, so that `sac`, `rlpd` and `awac` can start from it.
    """

    def __init__(
        self,
        observation_sizes: Mapping[str, int],
        action_size: int,
        num_envs: int,
        config: CloningConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        """Build network and normaliser; arguments as of `OffPolicy`."""
        if POLICY not in observation_sizes:
            raise ValueError(f"the environment lacks the observation group '{POLICY}'; it has {[*observation_sizes]}")
        keep_freed_memory()
        self.config, self.device, self.num_envs, self.action_size = config, torch.device(device), num_envs, action_size
        self._size = observation_sizes[POLICY]
        weights = torch.Generator().manual_seed(seed)
        actor = SquashedActor(self._size, action_size, config.actor, stochastic=True, generator=weights)
        self.actor = actor.to(self.device)
        self.simulator = VectorizedSimulator(
            self.actor.parameters(), config.learning_rate,
            weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm,
        )  # fmt: skip
        self.best = copy.deepcopy(self.actor)
        self._best_vector = join(self.best.parameters())
        self.normalizer = Normalizer(self._size, self.device, config.observation_clip)
        self._seed = seed
        self._generator = torch.Generator(self.device).manual_seed(seed * distributed.size() + distributed.rank())
        self.training: Examples | None = None
        self.held_out: Examples | None = None
        self.updates, self._control_steps = 0, 0
        self._best_error, self._looks_since = math.inf, 0

    @property
    def unroll(self) -> int:
        """Control steps of every environment per iteration."""
        return self.config.unroll

    @property
    def finished(self) -> bool:
        """Whether the error on held-out episodes has stopped falling."""
        return self._looks_since >= self.config.patience

    @property
    def policy(self) -> Policy:
        """The best policy so far; it goes on learning with this learner."""
        statistics = self.normalizer
        network = NormalizedActor(self.best, statistics.mean, statistics.scale, self.config.observation_clip)
        return Policy(network, self.config.actor)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network; the statistics will be the demonstrations'.

        Raises:
            MismatchError: Its network is not of this learner's kind and shape.
        """
        adopt(self.policy, policy)
        self.simulator.vector.copy_(self._best_vector)

    def demonstrate(self, steps: Transitions, source: Tensor | None = None) -> None:
        """Learn from these steps of one environment, (T, 1, ...), instead of any others.

        Args:
            steps: Whole episodes, one after another.
            source: (T,) of `interventions.Source`, who acted; by default all are demonstrations.

        Raises:
            EmbodiedError: They hold too few episodes to keep some apart.
        """
        ends = (steps.terminated | steps.truncated)[:, 0]
        examples = Examples(steps.obs[POLICY][:, 0], steps.action[:, 0].clamp(-1.0, 1.0), torch.ones_like(ends).float())
        if source is not None:
            examples, ends = self._weighted(examples, source, ends)
        apart = self._apart(ends)
        self.training, self.held_out = examples.at(~apart), examples.at(apart)
        if self.config.normalize_observations:
            self.normalizer.observe(self.training.obs)
            self.normalizer.commit()

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """The actions (N, A) of the best policy so far, without noise: it is watched, not explored with.

        Raises:
            EmbodiedError: There are no demonstrations.
        """
        if self.training is None:
            self._read()
        return self.policy(obs)

    def record(self, step: Step) -> None:
        """Nothing is learned from what actions bring; the environment counts returns."""

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """Make the updates that are due.

        Returns:
            Errors, updates and samples so far, and whether learning has ended.

        Raises:
            DivergedError: They are not finite.
        """
        del obs, progress
        self._control_steps += self.config.unroll
        measures: list[Tensor] = []
        with products(rounded=self.config.rounded_products):
            while not self.finished and self.updates < math.floor(self._control_steps * self.config.updates):
                measures.append(self._learn())
        metrics = {"updates": float(self.updates), "samples": float(self.updates * self.config.batch_size)}
        metrics |= {"finished": float(self.finished)}
        if measures:
            loss, norm = torch.stack(measures).mean(0).tolist()
            metrics |= {"imitation_loss": loss, "policy_gradient_norm": norm}
        if math.isfinite(self._best_error):
            metrics["held_out_error"] = self._best_error
        if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
            raise DivergedError(f"training diverged: {', '.join(broken)}; a lower learning_rate may help")
        return metrics

    def _read(self) -> None:
        path = self.config.demonstrations
        if path is None:
            raise EmbodiedError(
                "cloning learns from demonstrations, of which there are none; expected demonstrations=FILE, as "
                "python -m policies.demonstrations writes it"
            )
        steps = load_demonstrations(path, {POLICY: self._size}, self.action_size, self.device)
        self.demonstrate(steps, load_source(path, self.device) if self.config.weigh_interventions else None)

    def _weighted(self, examples: Examples, source: Tensor, ends: Tensor) -> tuple[Examples, Tensor]:
        """What the memory keeps, each class by its weight, and where its episodes end."""
        marked = with_before(source, ends)
        kept = remembered(marked, ends, self.config.memory_steps or len(marked))
        weighted = Examples(examples.obs[kept], examples.action[kept], weights(marked[kept]))
        return weighted, ends[kept]

    def _apart(self, ends: Tensor) -> Tensor:
        """(T,) bool, which steps belong to held-out episodes; drawn by whole ones, since neighbours are much alike."""
        episode = ends.cumsum(0) - ends.long()
        count = int(episode[-1]) + 1
        if not self.config.held_out:
            return torch.zeros_like(ends)
        if count < 2:
            raise EmbodiedError(
                f"held_out={self.config.held_out} of {count} demonstrated episode; expected at least 2 episodes, or "
                "held_out=0"
            )
        wanted = min(max(round(self.config.held_out * count), 1), count - 1)
        drawn = torch.randperm(count, generator=torch.Generator().manual_seed(self._seed))[:wanted]
        return torch.isin(episode, drawn.to(self.device))

    def _learn(self) -> Tensor:
        """One step; returns its loss and the gradient's norm, (2,)."""
        assert self.training is not None
        size = (self.config.batch_size,)
        batch = self.training.at(torch.randint(len(self.training), size, generator=self._generator, device=self.device))
        loss = imitation_loss(self.actor, self.normalizer(batch.obs), batch.action, batch.weight)
        norm = self.simulator.descend(loss)
        self.updates += 1
        if self.config.held_out and self.updates % self.config.validation_interval == 0:
            self._look()
        elif not self.config.held_out:
            self._best_vector.copy_(self.simulator.vector)
        return torch.stack([loss.detach(), norm])

    @torch.no_grad()
    def _look(self) -> None:
        """Keep the weights if they are the best so far."""
        assert self.held_out is not None
        total = imitation_error(
            self.actor, self.normalizer(self.held_out.obs), self.held_out.action, self.held_out.weight
        )
        error = distributed.mean_(total).item()
        self._looks_since += 1
        if error < self._best_error:
            self._best_error, self._looks_since = error, 0
            self._best_vector.copy_(self.simulator.vector)

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on, demonstrations included."""
        examples = {"training": self.training, "held_out": self.held_out}
        return {
            "actor": self.simulator.state(),
            "best": self._best_vector.clone(),
            "best_error": self._best_error,
            "looks_since": self._looks_since,
            "normalizer": self.normalizer.state(),
            "generator": self._generator.get_state(),
            "updates": self.updates,
            "control_steps": self._control_steps,
            **{
                name: {"obs": kept.obs, "action": kept.action, "weight": kept.weight}
                for name, kept in examples.items()
                if kept is not None
            },
        }

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        """Continue from what `state` returned, with random numbers of its own unless `explore_alike`."""
        self.simulator.load_state(tree["actor"])
        self._best_vector.copy_(tree["best"])
        self._best_error, self._looks_since = float(tree["best_error"]), int(tree["looks_since"])
        self.normalizer.load_state(tree["normalizer"])
        if explore_alike:
            self._generator.set_state(tree["generator"].cpu())
        self.updates, self._control_steps = int(tree["updates"]), int(tree["control_steps"])
        self.training, self.held_out = (
            Examples(*(tree[name][part].to(self.device) for part in ("obs", "action", "weight")))
            for name in ("training", "held_out")
        )
