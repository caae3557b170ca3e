"""Supervised fine-tuning (behaviour cloning) of a policy, with early stopping on held-out episodes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from policies.algorithm import require_finite
from policies.data.augmentation import colour_jitter, random_convolution, random_offsets, shifted
from policies.networks.optim.cpu_settings import keep_freed_memory
from policies.networks.optim.flat_parameters import FlatAdamW, join
from policies.vla.data.chunk_dataset import Batch, ChunkDataset
from policies.vla.data.demonstrations import Demonstrations
from policies.vla.fine_tuning.settings import FineTuningConfig
from policies.vla.model.network import supports_bfloat16
from policies.vla.model.pointing import pointing_loss
from policies.vla.policy import VLAPolicy

Augmentation = Callable[[Tensor, Generator], Tensor]
"""Images (N, 3, height, width) uint8 to augmented ones, each by its own draws (`policies.data.augmentation`)."""

VALIDATION_SAMPLES = 1024  # held-out samples, spread evenly, on which the error is measured
FINAL_RATE = 0.01  # of the largest learning rate, at the end of the cosine


class FineTuning:
    """Minimises the head's loss, and keeps the weights with the smallest error on held-out episodes so far."""

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
        """Begin with `policy`, which goes on learning; it has the normalisation of these demonstrations, or of more.

        The learning rate falls over `total_steps`; `augmentations` follow those that the config names.
        """
        keep_freed_memory()
        self.current_policy, self.config, self.total_steps, self.steps = policy, config, total_steps, 0
        chunk, cameras = policy.network.config.chunk, policy.spec.cameras
        train, apart = demonstrations.split(config.held_out, seed)
        self.training = ChunkDataset(train, cameras, chunk)
        self.held_out = ChunkDataset(apart, cameras, chunk) if apart else None
        self._early = self.training.first_steps(config.first_steps)
        self.augmentations = (*augmentations_of(config), *augmentations)
        trained = [p for p in policy.network.parameters() if p.requires_grad]
        self.optimizer = FlatAdamW(
            trained, config.learning_rate, weight_decay=config.weight_decay, max_grad_norm=config.max_grad_norm
        )
        self._best = policy.copy()
        self._best_parameters = join(p for p in self._best.network.parameters() if p.requires_grad)
        self._best_error, self._validations_since_best = math.inf, 0
        self._generator = Generator().manual_seed(seed)
        self._bfloat16 = supports_bfloat16(policy.device) if config.bfloat16 is None else config.bfloat16

    @property
    def policy(self) -> VLAPolicy:
        """The best so far of those validated; without held-out episodes the current one."""
        return self._best if self.held_out is not None and math.isfinite(self._best_error) else self.current_policy

    @property
    def finished(self) -> bool:
        """Whether all steps are made, or the error on held-out episodes has stopped falling."""
        return self.steps >= self.total_steps or self._validations_since_best >= self.config.patience

    def step(self) -> dict[str, float]:
        """Make a gradient step, and validate on held-out episodes where that is due.

        Returns:
            `loss`, `gradient_norm`, `learning_rate`; after a validation also `held_out_error`, `held_out_loss` and,
            where it learns to point, `held_out_pointing`.

        Raises:
            DivergedError: the loss is not finite.
        """
        batch = self.training.batch(self._draw_samples())
        draws = self._draws(int(torch.randint(2**31, (), generator=self._generator)))
        pixels = batch.pixels.to(self.current_policy.device).flatten(0, 1).permute(0, 3, 1, 2)
        if shift := self.config.shift:
            pixels, batch = shifted_batch(pixels, batch, shift, draws)
        for augment in self.augmentations:
            pixels = augment(pixels, draws)
        pixels = pixels.permute(0, 2, 3, 1).unflatten(0, batch.pixels.shape[:2])
        loss = self._loss(batch, pixels, draws)
        self.optimizer.learning_rate = rate = self._rate()
        norm = self.optimizer.descend(loss)
        require_finite({"loss": (value := loss.item())}, when=f"in gradient step {self.steps}")
        self.steps += 1
        metrics = {"loss": value, "gradient_norm": norm.item(), "learning_rate": rate}
        due = self.steps % self.config.validation_interval == 0 or self.steps == self.total_steps
        return metrics | self._validate() if due and self.held_out is not None else metrics

    def _draw_samples(self) -> Tensor:
        """Indices of a batch of training samples."""
        size, generator = self.config.batch_size, self._generator
        indices = torch.randint(len(self.training), (size,), generator=generator)
        if early := len(self._early):
            half = size // 2
            indices[:half] = self._early[torch.randint(early, (half,), generator=generator)]
        return indices

    def _rate(self) -> float:
        """Learning rate of the coming step: linear warm-up, then half a cosine."""
        warmup = min((self.steps + 1) / max(min(self.config.warmup, self.total_steps // 10), 1), 1.0)
        cosine = FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * min(self.steps / self.total_steps, 1.0)))
        return self.config.learning_rate * warmup * cosine

    def _draws(self, seed: int) -> Generator:
        """A generator on the policy's device."""
        return Generator(self.current_policy.device).manual_seed(seed)

    def _features(
        self, policy: VLAPolicy, dataset: ChunkDataset, batch: Batch, pixels: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """For the head, and the heat maps."""
        distinct, which = batch.instruction.unique(return_inverse=True)
        instructions = [dataset.instructions[index] for index in distinct.tolist()]
        text = policy.encode_instructions(instructions, bfloat16=self._bfloat16)[which.to(policy.device)]
        heat_maps = policy.point(pixels, text, bfloat16=self._bfloat16)
        return policy.features(pixels, batch.state, text, heat_maps, bfloat16=self._bfloat16), heat_maps

    def _loss(self, batch: Batch, pixels: Tensor, noise: Generator) -> Tensor:
        """() the head's loss, mean over the valid actions, and that of pointing."""
        policy = self.current_policy
        features, heat_maps = self._features(policy, self.training, batch, pixels)
        action = policy.normalization.normalize_action(batch.action.to(policy.device))
        valid = batch.valid.to(policy.device)
        loss = (policy.network.head.loss(features, action, noise) * valid).sum() / valid.sum()
        if heat_maps is None:
            return loss
        return loss + self.config.pointing * self._pointing_loss(batch, heat_maps)

    def _pointing_loss(self, batch: Batch, heat_maps: Tensor) -> Tensor:
        return pointing_loss(heat_maps, batch.keypoints.to(heat_maps.device), self.current_policy.spec.resolution)

    @torch.no_grad()
    def _validate(self) -> dict[str, float]:
        """Measure the error on held-out episodes, and keep the weights if they are the best so far."""
        assert self.held_out is not None
        policy, dataset = self.current_policy, self.held_out
        head, count = policy.network.head, min(VALIDATION_SAMPLES, len(dataset))
        indices = torch.linspace(0, len(dataset) - 1, count).long()
        totals, noise, pointing = torch.zeros(3), self._draws(0), 0.0
        for part in indices.split(self.config.batch_size):
            batch = dataset.batch(part)
            features, heat_maps = self._features(policy, dataset, batch, batch.pixels)
            if heat_maps is not None:
                pointing += self._pointing_loss(batch, heat_maps).item() * len(part) / count
            action = policy.normalization.normalize_action(batch.action.to(policy.device))
            error = (head.sample(features, head.temperature, noise) - action).abs().mean(-1).cpu()
            loss = head.loss(features, action, noise).cpu()
            totals += torch.stack([(x * batch.valid).sum() for x in (error, loss, torch.ones_like(loss))])
        error, loss = (totals[:2] / totals[2]).tolist()
        self._validations_since_best += 1
        if error < self._best_error:
            self._best_error, self._validations_since_best = error, 0
            self._best_parameters.copy_(self.optimizer.vector)
        pointed = {} if policy.network.pointer is None else {"held_out_pointing": pointing}
        return {"held_out_error": error, "held_out_loss": loss, "best_held_out_error": self._best_error, **pointed}

    def state(self) -> dict[str, Any]:
        return {
            "optimizer": self.optimizer.state(),
            "best_parameters": self._best_parameters.clone(),
            "best_error": self._best_error,
            "validations_since_best": self._validations_since_best,
            "generator": self._generator.get_state(),
            "steps": self.steps,
        }

    def load_state(self, tree: Mapping[str, Any]) -> None:
        self.optimizer.load_state(tree["optimizer"])
        with torch.no_grad():
            self._best_parameters.copy_(tree["best_parameters"])
        self._best_error, self._validations_since_best = float(tree["best_error"]), int(tree["validations_since_best"])
        self._generator.set_state(tree["generator"].cpu())
        self.steps = int(tree["steps"])


def augmentations_of(config: FineTuningConfig) -> tuple[Augmentation, ...]:
    """The augmentations that a config names, but for the shift, which moves keypoints too."""
    return (partial(photometric_augmentation, share=config.photometric),) if config.photometric else ()


def shifted_batch(pixels: Tensor, batch: Batch, most: int, draws: Generator) -> tuple[Tensor, Batch]:
    """Images (B * cameras, 3, height, width), each shifted by up to `most` pixels, and a batch whose keypoints went
    along."""
    offsets = random_offsets(pixels, draws, most)
    size = torch.tensor([pixels.shape[-1], pixels.shape[-2]])
    moved = (offsets.flip(-1).cpu() / size).view(*batch.keypoints.shape[:2], 1, 2)
    return shifted(pixels, offsets), dataclasses.replace(batch, keypoints=batch.keypoints - moved)


def photometric_augmentation(images: Tensor, generator: Generator, share: float) -> Tensor:
    """Colour jitter of a `share` of the images, of half of them a random convolution instead; the others unchanged.

    Some stay unchanged: else a policy would not learn what colours mean, nor see the robot that it has.
    """
    draw = torch.rand(len(images), generator=generator, device=images.device)[:, None, None, None]
    augmented = torch.where(draw < share / 2, random_convolution(images, generator), colour_jitter(images, generator))
    return torch.where(draw < share, augmented, images)
