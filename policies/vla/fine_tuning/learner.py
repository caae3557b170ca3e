"""Supervised fine-tuning: a policy is fitted to demonstrations, and held-out episodes say when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from embodied.rendering.augmentation import colour_jitter, random_convolution, random_shift
from policies.learner import DivergedError
from policies.optim.cpu_settings import keep_freed_memory
from policies.optim.flat_parameters import VectorizedSimulator, join
from policies.vla.data.batches import Batch, Demonstrations, Moments
from policies.vla.model.config import FineTuningConfig
from policies.vla.model.precision import fast_bfloat16, features, read
from policies.vla.policy import VLAPolicy

Augmentation = Callable[[Tensor, torch.Generator], Tensor]
"""Pictures (N, 3, height, width) uint8 to changed ones, each changed on its own; see `embodied.rendering.augmentation`."""

LOOKED_AT = 1024  # held-out moments, spread evenly, on which the error is measured
LAST_RATE = 0.01  # of the largest learning rate, at the end of the cosine


class FineTuning:
    """Minimises the head's loss; the policy is the one whose error on held-out episodes was the smallest so far."""

    def __init__(
        self,
        policy: VLAPolicy,
        demonstrations: Demonstrations,
        config: FineTuningConfig,
        total_steps: int,
        *,
        seed: int = 0,
        augmentations: Sequence[Augmentation] = (),
    ) -> None:
        """Begin with `policy`, which goes on learning.

        Args:
            policy: With the statistics of these demonstrations, or those of more.
            demonstrations: What to repeat.
            config: How.
            total_steps: Gradient steps at whose end the learning rate has fallen.
            seed: Of the split, of batches and augmentations.
            augmentations: After those that the config names.
        """
        keep_freed_memory()
        self.learning, self.config, self.total_steps, self.steps = policy, config, total_steps, 0
        chunk, cameras = policy.network.config.chunk, policy.senses.cameras
        train, apart = demonstrations.split(config.held_out, seed)
        self.training = Moments(train, cameras, chunk)
        self.held_out = Moments(apart, cameras, chunk) if apart else None
        self.augmentations = (*augmentations_of(config), *augmentations)
        trained = [p for p in policy.network.parameters() if p.requires_grad]
        self.simulator = VectorizedSimulator(
            trained, config.learning_rate, weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm
        )
        self._best = policy.copy()
        self._best_vector = join(p for p in self._best.network.parameters() if p.requires_grad)
        self._best_error, self._looks_since = math.inf, 0
        self._generator = torch.Generator().manual_seed(seed)
        self._bfloat16 = fast_bfloat16(policy.device) if config.bfloat16 is None else config.bfloat16

    @property
    def policy(self) -> VLAPolicy:
        """The best so far, of the moments of looking; without held-out episodes the present one."""
        return self._best if self.held_out is not None and math.isfinite(self._best_error) else self.learning

    @property
    def finished(self) -> bool:
        """Whether all steps are made, or the error on held-out episodes has stopped falling."""
        return self.steps >= self.total_steps or self._looks_since >= self.config.patience

    def step(self) -> dict[str, float]:
        """Make a gradient step, and where one is due take a look at held-out episodes.

        Returns:
            `loss`, `gradient_norm`, `learning_rate`; after a look also `held_out_error` and `held_out_loss`.

        Raises:
            DivergedError: The loss is not finite.
        """
        numbers = torch.randint(len(self.training), (self.config.batch_size,), generator=self._generator)
        batch = self.training.batch(numbers)
        pixels = batch.pixels.flatten(0, 1).permute(0, 3, 1, 2)
        for augment in self.augmentations:
            pixels = augment(pixels, self._generator)
        pixels = pixels.permute(0, 2, 3, 1).unflatten(0, batch.pixels.shape[:2])
        noise = self._noise(int(torch.randint(2**31, (), generator=self._generator)))
        loss = self._loss(self.learning, self.training, batch, pixels, noise)
        self.simulator.learning_rate = rate = self._rate()
        norm = self.simulator.descend(loss)
        if not math.isfinite(value := loss.item()):
            raise DivergedError(f"training diverged: loss={value} at gradient step {self.steps}")
        self.steps += 1
        measures = {"loss": value, "gradient_norm": norm.item(), "learning_rate": rate}
        due = self.steps % self.config.validation_interval == 0 or self.steps == self.total_steps
        return measures | self._look() if due and self.held_out is not None else measures

    def _rate(self) -> float:
        """Of the coming step: up a line, then down half a cosine."""
        rise = min((self.steps + 1) / max(min(self.config.warmup, self.total_steps // 10), 1), 1.0)
        fall = LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * min(self.steps / self.total_steps, 1.0)))
        return self.config.learning_rate * rise * fall

    def _noise(self, seed: int) -> torch.Generator:
        """Random numbers on the policy's device."""
        return torch.Generator(self.learning.device).manual_seed(seed)

    def _features(self, policy: VLAPolicy, moments: Moments, batch: Batch, pixels: Tensor) -> Tensor:
        given, which = batch.text.unique(return_inverse=True)
        instructions = [moments.instructions[number] for number in given.tolist()]
        words = read(policy, instructions, bfloat16=self._bfloat16)[which.to(policy.device)]
        return features(policy, pixels, batch.state, words, bfloat16=self._bfloat16)

    def _loss(
        self, policy: VLAPolicy, moments: Moments, batch: Batch, pixels: Tensor, noise: torch.Generator
    ) -> Tensor:
        """(), mean over the actions that exist."""
        seen = self._features(policy, moments, batch, pixels)
        action = policy.statistics.unit_action(batch.action.to(policy.device))
        exists = batch.exists.to(policy.device)
        return (policy.network.head.loss(seen, action, noise) * exists).sum() / exists.sum()

    @torch.no_grad()
    def _look(self) -> dict[str, float]:
        """Keep the weights if they are the best so far."""
        assert self.held_out is not None
        policy, moments = self.learning, self.held_out
        head, count = policy.network.head, min(LOOKED_AT, len(moments))
        numbers = torch.linspace(0, len(moments) - 1, count).long()
        totals, noise = torch.zeros(3), self._noise(0)
        for part in numbers.split(self.config.batch_size):
            batch = moments.batch(part)
            seen = self._features(policy, moments, batch, batch.pixels)
            action = policy.statistics.unit_action(batch.action.to(policy.device))
            error = (head.act(seen, head.temperature, noise) - action).abs().mean(-1).cpu()
            loss = head.loss(seen, action, noise).cpu()
            totals += torch.stack([(x * batch.exists).sum() for x in (error, loss, torch.ones_like(loss))])
        error, loss = (totals[:2] / totals[2]).tolist()
        self._looks_since += 1
        if error < self._best_error:
            self._best_error, self._looks_since = error, 0
            self._best_vector.copy_(self.simulator.vector)
        return {"held_out_error": error, "held_out_loss": loss, "best_held_out_error": self._best_error}

    def state(self) -> dict[str, Any]:
        """Everything that decides how training goes on, except the demonstrations."""
        return {
            "simulator": self.simulator.state(),
            "best": self._best_vector.clone(),
            "best_error": self._best_error,
            "looks_since": self._looks_since,
            "generator": self._generator.get_state(),
            "steps": self.steps,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.simulator.load_state(tree["simulator"])
        with torch.no_grad():
            self._best_vector.copy_(tree["best"])
        self._best_error, self._looks_since = float(tree["best_error"]), int(tree["looks_since"])
        self._generator.set_state(tree["generator"].cpu())
        self.steps = int(tree["steps"])


def augmentations_of(config: FineTuningConfig) -> tuple[Augmentation, ...]:
    """Those that a config names."""
    shift = partial(random_shift, pixels=config.shift)
    colours = partial(other_colours, share=config.photometric)
    return (*((shift,) if config.shift else ()), *((colours,) if config.photometric else ()))


def other_colours(images: Tensor, generator: torch.Generator, share: float) -> Tensor:
    """A `share` of the pictures jittered, or half of those through a random convolution; the others as they are.

    Some stay: in other colours alone a policy would not learn what colours mean, nor see the robot that it has.
    """
    drawn = torch.rand(len(images), generator=generator, device=images.device)[:, None, None, None]
    made = torch.where(drawn < share / 2, random_convolution(images, generator), colour_jitter(images, generator))
    return torch.where(drawn < share, made, images)
