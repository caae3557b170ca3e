"""Pretrained image and text encoders from local folders, which are checked first; nothing in them is ever executed."""

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

from embodied.core.instruction import check_instruction
from embodied.errors import EmbodiedError, listing, reason

CONFIG, PREPROCESSOR, TOKENIZER = "config.json", "preprocessor_config.json", "tokenizer.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
REMOTE = "auto_map"  # the key by which a config names code of its own


def check_folder(folder: Path, needed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The JSON documents `needed` of a model's folder.

    Raises:
        EmbodiedError: files are missing (it lists them), damaged, or require code of their own.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise EmbodiedError(f"no model at '{folder}': expected a folder with {listing((*needed, WEIGHTS))}")
    missing = [name for name in needed if not (folder / name).is_file()] + _missing_weights(folder)
    if missing:
        held = listing(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise EmbodiedError(f"the model in '{folder}' lacks {listing(missing)}; the folder holds {held}")
    documents = {path.name: _document(path) for path in sorted(folder.glob("*.json"))}
    remote = [name for name, document in documents.items() if REMOTE in document]
    if remote:
        raise EmbodiedError(
            f"the model in '{folder}' wants to run code of its own ('{REMOTE}' in {listing(remote)}); it is not loaded"
        )
    return {name: documents[name] for name in needed}


def _missing_weights(folder: Path) -> list[str]:
    """Files of weights that are not there; only safetensors count, others can hold programs."""
    if (folder / WEIGHTS).is_file():
        return []
    if not (folder / INDEX).is_file():
        return [WEIGHTS]
    shards = sorted(set(map(str, _document(folder / INDEX).get("weight_map", {}).values())))
    return [name for name in shards if Path(name).name != name or not (folder / name).is_file()] or (
        [] if shards else [WEIGHTS]
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EmbodiedError(f"cannot read '{path}': {reason(error)}") from error
    return document if isinstance(document, dict) else {}


IMAGENET = (
    (0.485, 0.456, 0.406),
    (0.229, 0.224, 0.225),
)  # mean and standard deviation of colours where a model names none


@dataclasses.dataclass(frozen=True)
class PretrainedPart:
    """A pretrained encoder, described so that a checkpoint can rebuild it without its folder."""

    config: str
    """JSON of the model's own configuration."""
    processing: str
    """JSON of how pictures are prepared, or of the tokenizer."""


@dataclasses.dataclass(frozen=True)
class PretrainedParts:
    """Which encoders of a policy are pretrained; None: trained from scratch."""

    images: PretrainedPart | None = None
    text: PretrainedPart | None = None


@dataclasses.dataclass(frozen=True)
class PretrainedFolders:
    """Folders of the pretrained encoders of a new policy; None: trained from scratch."""

    images: Path | None = None
    text: Path | None = None

    def parts(self) -> PretrainedParts:
        """The encoders in the folders, frozen.

        Raises:
            EmbodiedError: files are missing or want to run code.
        """
        return PretrainedParts(_part(self.images, PREPROCESSOR), _part(self.text, TOKENIZER))


def _part(folder: Path | None, processing: str) -> PretrainedPart | None:
    if folder is None:
        return None
    found = check_folder(folder, (CONFIG, processing))
    return PretrainedPart(json.dumps(found[CONFIG]), json.dumps(found[processing]))


class PretrainedImageEncoder(nn.Module):
    """In place of `image_encoder.ImageEncoder`: the tokens of a frozen image encoder."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, part: PretrainedPart, width: int, folder: Path | None = None) -> None:
        """With the weights in `folder`, or untrained where a checkpoint will bring them.

        Raises:
            EmbodiedError: `transformers` is not installed or refuses the model.
        """
        super().__init__()
        processing = json.loads(part.processing)
        self.model = _frozen(_tower(_model(part, folder), "vision_model"))
        config = self.model.config
        crop = processing.get("crop_size") or getattr(config, "image_size", 224)
        self.side = int(crop["height"] if isinstance(crop, dict) else crop)
        mean = torch.tensor(processing.get("image_mean", IMAGENET[0]))
        deviation = torch.tensor(processing.get("image_std", IMAGENET[1]))
        self.register_buffer("mean", 255.0 * mean[:, None, None], persistent=False)
        self.register_buffer("deviation", 255.0 * deviation[:, None, None], persistent=False)
        self.out = nn.Linear(config.hidden_size, width)
        self.condition = nn.Linear(width, width)

    def token_count(self, resolution: tuple[int, int]) -> int:
        """Tokens of an image, whatever its resolution: it is resized."""
        del resolution
        with torch.no_grad():
            return self.model(pixel_values=torch.zeros(1, 3, self.side, self.side)).last_hidden_state.shape[1]

    def forward(self, pixels: Tensor, condition: Tensor) -> Tensor:
        """(B, tokens, width) from RGB (B, height, width, 3) uint8 and (B, width)."""
        images = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.deviation
        images = F.interpolate(images, (self.side, self.side), mode="bilinear", antialias=True)
        with torch.no_grad():
            seen = self.model(pixel_values=images).last_hidden_state
        return self.out(seen) + self.condition(condition)[:, None]


class PretrainedTextEncoder(nn.Module):
    """In place of `text_encoder.HashedTextEncoder`: the mean token of a frozen text encoder."""

    def __init__(self, part: PretrainedPart, folder: Path | None = None) -> None:
        """With the weights in `folder`, or untrained; errors as of `PretrainedImageEncoder`."""
        super().__init__()
        self.model = _frozen(_tower(_model(part, folder), "text_model"))
        self.size = int(self.model.config.hidden_size)
        self._tokenizer = _tokenizer(part.processing)
        self._cache: dict[str, Tensor] = {}

    def forward(self, instructions: Sequence[str]) -> Tensor:
        """(k, size) of k instructions; each is encoded once.

        Raises:
            EmbodiedError: one is empty or too long.
        """
        texts = [check_instruction(text) for text in instructions]
        with torch.no_grad():
            for text in texts:
                if text not in self._cache:
                    self._cache[text] = self._encode(text)
        return torch.stack([self._cache[text] for text in texts])

    def _encode(self, text: str) -> Tensor:
        device = next(self.model.parameters()).device
        ids = torch.tensor([self._tokenizer.encode(text).ids], device=device)
        return self.model(input_ids=ids).last_hidden_state[0].mean(0)


def _frozen(model: Any) -> Any:
    """Without gradients and dropout."""
    return model.requires_grad_(False).eval()


def _tower(model: Any, name: str) -> nn.Module:
    """The tower `name` of an image-text model, the encoder of an encoder-decoder, or the model itself."""
    if model.config.is_encoder_decoder:
        return model.get_encoder()
    return getattr(model, name, model)


def _model(part: PretrainedPart, folder: Path | None) -> nn.Module:
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
    """The library `transformers`, set before its import to use no network.

    Raises:
        EmbodiedError: it is not installed.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        import transformers  # pyright: ignore[reportMissingImports] - an extra
    except ImportError as error:
        raise EmbodiedError(f"pretrained parts need transformers ({error}); pip install 'embodied-sim[vla]'") from None
    return transformers


def _tokenizer(document: str) -> Any:
    try:
        from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports] - an extra
    except ImportError as error:
        raise EmbodiedError(f"pretrained parts need tokenizers ({error}); pip install 'embodied-sim[vla]'") from None
    tokenizer = Tokenizer.from_str(document)
    tokenizer.no_padding()
    return tokenizer
