"""Folders with pretrained models, looked at before anything in them is loaded. Nothing in one is ever executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from embodied.errors import EmbodiedError, listing, reason

CONFIG, PREPROCESSOR, TOKENIZER = "config.json", "preprocessor_config.json", "tokenizer.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
REMOTE = "auto_map"  # the key by which a config names code of its own


def check_folder(folder: Path, needed: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The JSON documents `needed` of a model's folder.

    Raises:
        EmbodiedError: files are missing (it lists them), damaged, or ask for code of their own.
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
