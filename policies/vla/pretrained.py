"""Pretrained image and text encoders (DINOv2, SigLIP, MiniLM, T5 ...) from local folders, through `transformers`.

Nothing is downloaded and no code of a model is run. A checkpoint holds the weights and what rebuilds the network, so
that it needs `transformers` but not the folder.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from embodied.errors import EmbodiedError, reason
from policies.vla.folders import CONFIG, PREPROCESSOR, TOKENIZER, check_folder
from policies.vla.lora import adapt
from policies.vla.words import check_instruction

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation of colours where a model names none


@dataclasses.dataclass(frozen=True)
class Part:
    """A pretrained part, in words and numbers."""

    config: str
    """JSON of the model's own configuration."""
    processing: str
    """JSON of how pictures are prepared, or of the tokenizer."""
    rank: int = 0
    """Of its low-rank updates; 0: it stays as it is."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """Which parts of a policy are pretrained; None: learned from nothing."""

    images: Part | None = None
    """The image encoder."""
    text: Part | None = None
    """The text encoder."""


@dataclasses.dataclass(frozen=True)
class Folders:
    """Where pretrained parts come from when a policy is made for the first time; None: nowhere."""

    images: Path | None = None
    """Of the image encoder."""
    text: Path | None = None
    """Of the text encoder."""

    def parts(self, rank: int = 0) -> Parts:
        """What lies there, with low-rank updates of a `rank`; 0: none.

        Raises:
            EmbodiedError: files are missing or want to run code.
        """
        images = None if self.images is None else part_of_images(self.images, rank)
        return Parts(images, None if self.text is None else part_of_text(self.text, rank))


def part_of_images(folder: Path, rank: int = 0) -> Part:
    """The image encoder in a folder.

    Raises:
        EmbodiedError: files are missing or want to run code.
    """
    found = check_folder(folder, (CONFIG, PREPROCESSOR))
    return Part(json.dumps(found[CONFIG]), json.dumps(found[PREPROCESSOR]), rank)


def part_of_text(folder: Path, rank: int = 0) -> Part:
    """The text encoder in a folder; errors as of `part_of_images`."""
    found = check_folder(folder, (CONFIG, TOKENIZER))
    return Part(json.dumps(found[CONFIG]), json.dumps(found[TOKENIZER]), rank)


class PretrainedImages(nn.Module):
    """In place of `vision.ImageEncoder`: tokens of a frozen or adapted image encoder."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, part: Part, width: int, folder: Path | None = None) -> None:
        """With the weights in `folder`, or untrained where a checkpoint will bring them.

        Raises:
            EmbodiedError: `transformers` is not installed or refuses the model.
        """
        super().__init__()
        processing = json.loads(part.processing)
        self.model = _adapted(_tower(_model(part, folder), "vision_model"), part.rank)
        config = self.model.config
        crop = processing.get("crop_size") or getattr(config, "image_size", 224)
        self.side = int(crop["height"] if isinstance(crop, dict) else crop)
        mean = torch.tensor(processing.get("image_mean", IMAGENET[0]))
        deviation = torch.tensor(processing.get("image_std", IMAGENET[1]))
        self.register_buffer("mean", 255.0 * mean[:, None, None], persistent=False)
        self.register_buffer("deviation", 255.0 * deviation[:, None, None], persistent=False)
        self.out = nn.Linear(config.hidden_size, width)
        self.condition = nn.Linear(width, width)
        self._learns = part.rank > 0

    def tokens_of(self, resolution: tuple[int, int]) -> int:
        """Tokens of a picture, whatever its resolution: it is resized."""
        del resolution
        with torch.no_grad():
            return self.model(pixel_values=torch.zeros(1, 3, self.side, self.side)).last_hidden_state.shape[1]

    def forward(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """(B, tokens, width) from RGB (B, height, width, 3) uint8 and (B, width)."""
        images = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.deviation
        images = F.interpolate(images, (self.side, self.side), mode="bilinear", antialias=True)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._learns):
            seen = self.model(pixel_values=images).last_hidden_state
        return self.out(seen) + self.condition(condition)[:, None]


class PretrainedReader(nn.Module):
    """In place of `words.HashedReader`: the mean token of a frozen or adapted text encoder."""

    def __init__(self, part: Part, folder: Path | None = None) -> None:
        """With the weights in `folder`, or untrained; errors as of `PretrainedImages`."""
        super().__init__()
        self.model = _adapted(_tower(_model(part, folder), "text_model"), part.rank)
        self.size = int(self.model.config.hidden_size)
        self._tokenizer = _tokenizer(part.processing)
        self._learns = part.rank > 0
        self._kept: dict[str, Tensor] = {}

    def forward(self, instructions: Sequence[str]) -> Tensor:
        """(k, size) of k instructions; each is read once, unless the encoder learns.

        Raises:
            EmbodiedError: one says nothing, or too much.
        """
        texts = [check_instruction(text) for text in instructions]
        if self._learns:
            return torch.stack([self._read(text) for text in texts])
        with torch.no_grad():
            for text in texts:
                if text not in self._kept:
                    self._kept[text] = self._read(text)
        return torch.stack([self._kept[text] for text in texts])

    def _read(self, text: str) -> Tensor:
        device = next(self.model.parameters()).device
        ids = torch.tensor([self._tokenizer.encode(text).ids], device=device)
        return self.model(input_ids=ids).last_hidden_state[0].mean(0)


def _adapted(model: Any, rank: int) -> Any:
    """Frozen, with low-rank updates where `rank` says so, and without dropout."""
    return (adapt(model, rank) if rank else model.requires_grad_(False)).eval()


def _tower(model: Any, name: str) -> nn.Module:
    """The part `name` of a model of pictures and words, the encoder of one that also writes, or the model itself."""
    if model.config.is_encoder_decoder:
        return model.get_encoder()
    return getattr(model, name, model)


def _model(part: Part, folder: Path | None) -> nn.Module:
    transformers = _transformers()
    description = json.loads(part.config)
    try:
        if folder is not None:
            return transformers.AutoModel.from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        config = transformers.AutoConfig.for_model(**description)
        return transformers.AutoModel.from_config(config, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        kind = description.get("model_type")
        raise EmbodiedError(f"transformers cannot load a model of type {kind!r}: {reason(error)}") from error


def _transformers() -> Any:
    """The library, told before its import that there is no network.

    Raises:
        EmbodiedError: it is not installed.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers
    except ImportError as error:
        raise EmbodiedError(f"pretrained parts need transformers ({error}); pip install 'embodied[vla]'") from None
    return transformers


def _tokenizer(document: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise EmbodiedError(f"pretrained parts need tokenizers ({error}); pip install 'embodied[vla]'") from None
    tokenizer = Tokenizer.from_str(document)
    tokenizer.no_padding()
    return tokenizer
