"""Behaviour cloning: an actor is fitted to demonstrated actions, with validation and early stopping."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Generator, Tensor

from embodied.env.vec_env import POLICY, ObservationSpec, Step, vector_sizes
from embodied.errors import EmbodiedError
from embodied.math.symmetry import Mirror
from embodied.storage.bounds import BELOW_ONE, NOT_NEGATIVE, POSITIVE, Bounded, at_least
from policies.algorithm import Algorithm, require_finite, require_policy_group, transfer_weights
from policies.data.demonstrations import load as load_demonstrations
from policies.data.demonstrations import load_source
from policies.data.interventions import episodes_to_keep, mark_before, weights
from policies.data.replay_buffer import Transitions
from policies.imitation.losses import imitation_error, imitation_loss
from policies.networks.config import relu_network, require
from policies.networks.mlp import Architecture, NetworkConfig
from policies.networks.normalizer import Normalizer
from policies.networks.optim import distributed
from policies.networks.optim.cpu_settings import keep_freed_memory, products
from policies.networks.optim.flat_parameters import FlatAdamW, join
from policies.networks.squashed import SquashedActor
from policies.policy import NormalizedActor, Policy


@dataclass(frozen=True)
class BehaviourCloningConfig(Bounded):
    """Behaviour cloning: a policy that imitates a file of demonstrations.

    It learns nothing from the environment. As with every learner, --steps counts the environment's steps: meanwhile the
    policy acts there, so that its return and success are in the metrics. 50,000 are enough for 30,000 updates.
    """

    demonstrations: Path | None = None
    """File of demonstrations, as python -m policies.demonstrations writes it."""
    weigh_interventions: bool = False
    """Weight classes of steps as Sirius does: interventions half, nothing of what led to them. Needs a file that says
    who acted (its tensor `source`, see policies.data.interventions)."""
    max_steps: Annotated[int | None, at_least(1)] = None
    """With weigh_interventions: steps to learn from, of the episodes with the most interventions; None for all."""
    updates: Annotated[float, POSITIVE] = 10.0
    """Updates per control step of all environments together; may be less than 1."""
    unroll: Annotated[int, at_least(1)] = 16
    """Control steps of every environment per line of metrics."""
    batch_size: Annotated[int, at_least(1)] = 256
    """Demonstrated actions per update."""
    learning_rate: Annotated[float, POSITIVE] = 1e-3
    """Adam's step size."""
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    """AdamW's decoupled weight decay."""
    max_grad_norm: Annotated[float | None, POSITIVE] = None
    """Norm to which longer gradients are clipped; None leaves them."""
    held_out: Annotated[float, BELOW_ONE] = 0.1
    """Share of the episodes held out for validation, which selects the best weights; 0: the last ones are taken."""
    validation_interval: Annotated[int, at_least(1)] = 250
    """Updates between two validations."""
    patience: Annotated[int, at_least(1)] = 20
    """Early stopping: validations in a row without a smaller error after which learning ends."""
    normalize_observations: bool = True
    """Shift and scale observations by the demonstrations' statistics."""
    observation_clip: Annotated[float, POSITIVE] = 10.0
    """Bound on observations after they are normalised."""
    bfloat16_matmul: bool = False
    """Learn with factors of matrix products rounded to bfloat16: faster on CPUs that have instructions for it."""
    actor: NetworkConfig = field(default_factory=relu_network)
    """Network that chooses actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        perceptron = self.actor.architecture is Architecture.MLP
        require(perceptron, "architecture", self.actor.architecture, "mlp: behaviour cloning builds an MLP")


@dataclass(frozen=True)
class Dataset:
    """Demonstrated steps."""

    obs: Tensor
    """(T, size) raw observations."""
    action: Tensor
    """(T, A) in [-1, 1]."""
    weight: Tensor
    """(T,) weights in the loss, 1 on average."""

    def __len__(self) -> int:
        return len(self.action)

    def at(self, where: Tensor) -> Dataset:
        """The steps of an index or a mask."""
        return Dataset(self.obs[where], self.action[where], self.weight[where])


class BehaviourCloning(Algorithm):
    """Minimises the squared error of the mean action; see `losses.imitation_loss` for why not its likelihood.

    The policy is the one with the smallest validation error so far; its standard deviation stays that of an untrained
    one, so that `sac`, `rlpd` and `awac` can start from it.
    """

    def __init__(
        self,
        observation_spec: Mapping[str, ObservationSpec],
        action_size: int,
        num_envs: int,
        config: BehaviourCloningConfig,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        mirror: Callable[[], Mirror] | None = None,
    ) -> None:
        """Build network and normaliser; arguments as of `policies.registry.Build`."""
        require_policy_group(observation_spec)
        keep_freed_memory()
        self.config, self.device, self.num_envs, self.action_size = config, torch.device(device), num_envs, action_size
        self._spec = {POLICY: observation_spec[POLICY]}
        size = vector_sizes(self._spec)[POLICY]
        weights = Generator().manual_seed(seed)
        actor = SquashedActor(size, action_size, config.actor, stochastic=True, generator=weights)
        self.actor = actor.to(self.device)
        self.optimizer = FlatAdamW(
            self.actor.parameters(), config.learning_rate,
            weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm,
        )  # fmt: skip
        self.best = copy.deepcopy(self.actor)
        self._best_parameters = join(self.best.parameters())
        self.normalizer = Normalizer(size, self.device, config.observation_clip)
        self._seed = seed
        self._generator = Generator(self.device).manual_seed(seed * distributed.size() + distributed.rank())
        self.training: Dataset | None = None
        self.held_out: Dataset | None = None
        self.updates, self._control_steps = 0, 0
        self._best_error, self._validations_since_best = math.inf, 0

    @property
    def finished(self) -> bool:
        """Whether the error on held-out episodes has stopped falling."""
        return self._validations_since_best >= self.config.patience

    @property
    def policy(self) -> Policy:
        """The best policy so far; it shares this learner's weights."""
        return Policy(NormalizedActor.of(self.best, self.normalizer), self.config.actor)

    @torch.no_grad()
    def start_from(self, policy: Policy) -> None:
        """Begin with another policy's network; the observations' statistics will be the demonstrations'."""
        transfer_weights(policy, self.policy)
        self.optimizer.vector.copy_(self._best_parameters)

    def set_demonstrations(self, steps: Transitions, source: Tensor | None = None) -> None:
        """Learn from whole episodes of one environment, one after another, (T, 1, ...).

        `source` (T,) of `interventions.Source` says who acted; by default all are demonstrations.

        Raises:
            EmbodiedError: They hold too few episodes to hold some out.
        """
        ends = (steps.terminated | steps.truncated)[:, 0]
        dataset = Dataset(steps.obs[POLICY][:, 0], steps.action[:, 0].clamp(-1.0, 1.0), torch.ones_like(ends).float())
        if source is not None:
            dataset, ends = self._weighted(dataset, source, ends)
        held_out = self._held_out_steps(ends)
        self.training, self.held_out = dataset.at(~held_out), dataset.at(held_out)
        if self.config.normalize_observations:
            self.normalizer.observe(self.training.obs)
            self.normalizer.commit()

    def act(self, obs: Mapping[str, Tensor]) -> Tensor:
        """The actions (N, A) of the best policy so far, without noise: it is evaluated, it does not explore."""
        if self.training is None:
            self._read()
        return self.policy(obs)

    def record(self, step: Step) -> None:
        """Nothing to store: the environment counts returns."""

    def update(self, obs: Mapping[str, Tensor], progress: float = 0.0) -> dict[str, float]:
        """Make the updates that are due; metrics also say whether learning has ended."""
        del obs, progress
        self._control_steps += self.config.unroll
        metrics_of_updates: list[Tensor] = []
        with products(rounded=self.config.bfloat16_matmul):
            while not self.finished and self.updates < math.floor(self._control_steps * self.config.updates):
                metrics_of_updates.append(self._learn())
        metrics = {"updates": float(self.updates), "samples": float(self.updates * self.config.batch_size)}
        metrics |= {"finished": float(self.finished)}
        if metrics_of_updates:
            loss, norm = torch.stack(metrics_of_updates).mean(0).tolist()
            metrics |= {"imitation_loss": loss, "policy_gradient_norm": norm}
        if math.isfinite(self._best_error):
            metrics["held_out_error"] = self._best_error
        require_finite(metrics, "a lower learning_rate")
        return metrics

    def _read(self) -> None:
        path = self.config.demonstrations
        if path is None:
            raise EmbodiedError(
                "behaviour cloning learns from demonstrations, of which there are none; expected demonstrations=FILE, "
                "as python -m policies.demonstrations writes it"
            )
        steps = load_demonstrations(path, self._spec, self.action_size, self.device)
        self.set_demonstrations(steps, load_source(path, self.device) if self.config.weigh_interventions else None)

    def _weighted(self, dataset: Dataset, source: Tensor, ends: Tensor) -> tuple[Dataset, Tensor]:
        """The steps to learn from, each class by its weight, and where its episodes end."""
        marked = mark_before(source, ends)
        kept = episodes_to_keep(marked, ends, self.config.max_steps or len(marked))
        weighted = Dataset(dataset.obs[kept], dataset.action[kept], weights(marked[kept]))
        return weighted, ends[kept]

    def _held_out_steps(self, ends: Tensor) -> Tensor:
        """(T,) bool, the steps of held-out episodes; whole episodes, since neighbouring steps are much alike."""
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
        drawn = torch.randperm(count, generator=Generator().manual_seed(self._seed))[:wanted]
        return torch.isin(episode, drawn.to(self.device))

    def _learn(self) -> Tensor:
        """One step; returns its loss and the gradient's norm, (2,)."""
        assert self.training is not None
        size = (self.config.batch_size,)
        batch = self.training.at(torch.randint(len(self.training), size, generator=self._generator, device=self.device))
        loss = imitation_loss(self.actor, self.normalizer(batch.obs), batch.action, batch.weight)
        norm = self.optimizer.descend(loss)
        self.updates += 1
        if self.config.held_out and self.updates % self.config.validation_interval == 0:
            self._validate()
        elif not self.config.held_out:
            self._best_parameters.copy_(self.optimizer.vector)
        return torch.stack([loss.detach(), norm])

    @torch.no_grad()
    def _validate(self) -> None:
        """Keep the weights if their validation error is the smallest so far."""
        assert self.held_out is not None
        total = imitation_error(
            self.actor, self.normalizer(self.held_out.obs), self.held_out.action, self.held_out.weight
        )
        error = distributed.mean_(total).item()
        self._validations_since_best += 1
        if error < self._best_error:
            self._best_error, self._validations_since_best = error, 0
            self._best_parameters.copy_(self.optimizer.vector)

    def state(self) -> dict[str, Any]:
        dataset = {"training": self.training, "held_out": self.held_out}
        return {
            "actor": self.optimizer.state(),
            "best": self._best_parameters.clone(),
            "best_error": self._best_error,
            "validations_since_best": self._validations_since_best,
            "normalizer": self.normalizer.state(),
            "generator": self._generator.get_state(),
            "updates": self.updates,
            "control_steps": self._control_steps,
            **{
                name: {"obs": kept.obs, "action": kept.action, "weight": kept.weight}
                for name, kept in dataset.items()
                if kept is not None
            },
        }

    def load_state(self, tree: Mapping[str, Any], *, explore_alike: bool = True) -> None:
        self.optimizer.load_state(tree["actor"])
        self._best_parameters.copy_(tree["best"])
        self._best_error, self._validations_since_best = float(tree["best_error"]), int(tree["validations_since_best"])
        self.normalizer.load_state(tree["normalizer"])
        if explore_alike:
            self._generator.set_state(tree["generator"].cpu())
        self.updates, self._control_steps = int(tree["updates"]), int(tree["control_steps"])
        self.training, self.held_out = (
            Dataset(*(tree[name][part].to(self.device) for part in ("obs", "action", "weight")))
            for name in ("training", "held_out")
        )
