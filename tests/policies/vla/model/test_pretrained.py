"""Pretrained parts: folders are looked at first, and nothing in them is run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from embodied.errors import EmbodiedError
from policies.vla.data.normalization import Normalization
from policies.vla.data.robot_spec import TrainingTask
from policies.vla.model.pretrained import PretrainedFolders, check_folder
from policies.vla.policy import VLAPolicy
from tests.kit.vla import LEFT, RIGHT, SMALL, episode, shown

NEEDED = ("config.json", "preprocessor_config.json")


def written(folder: Path, **changes: object) -> Path:
    files = {"config.json": {"model_type": "dinov2"}, "preprocessor_config.json": {}, **changes}
    for name, content in files.items():
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    (folder / "model.safetensors").touch()
    return folder


def test_a_complete_folder_gives_its_documents(tmp_path):
    assert check_folder(written(tmp_path), NEEDED) == {NEEDED[0]: {"model_type": "dinov2"}, NEEDED[1]: {}}


def test_what_is_missing_is_listed(tmp_path):
    with pytest.raises(EmbodiedError, match=r"no model at '.*nowhere': expected a folder with config.json, prepro"):
        PretrainedFolders(images=tmp_path / "nowhere").parts()
    (tmp_path / "pytorch_model.bin").touch()
    message = r"lacks config.json, tokenizer.json, model.safetensors; the folder holds pytorch_model.bin"
    with pytest.raises(EmbodiedError, match=message):
        PretrainedFolders(text=tmp_path).parts()
    (tmp_path / "pytorch_model.bin").unlink()
    written(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    index = {"weight_map": {"a": "one.safetensors", "b": "../two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "one.safetensors").touch()
    with pytest.raises(EmbodiedError, match=r"lacks ../two.safetensors"):
        check_folder(tmp_path, NEEDED)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_code_of_its_own_is_refused(tmp_path, file):
    written(tmp_path, **{file: {"auto_map": {"AutoModel": "evil.Model"}}})
    with pytest.raises(
        EmbodiedError, match=rf"wants to run code of its own \('auto_map' in {file}\); it is not loaded"
    ):
        check_folder(tmp_path, NEEDED)


def test_a_damaged_document_is_named(tmp_path):
    (written(tmp_path) / "config.json").write_text("{")
    with pytest.raises(EmbodiedError, match=r"cannot read '.*config.json'"):
        check_folder(tmp_path, NEEDED)


@pytest.fixture
def folders(tmp_path) -> PretrainedFolders:
    """A tiny DINOv2 and a tiny BERT, untrained."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    images, text = tmp_path / "images", tmp_path / "text"
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    transformers.Dinov2Model(transformers.Dinov2Config(**sizes, image_size=28, patch_size=14)).save_pretrained(images)
    written(images, **{"config.json": None, "preprocessor_config.json": {"crop_size": {"height": 28, "width": 28}}})
    config = transformers.BertConfig(**sizes, intermediate_size=16, vocab_size=9)
    transformers.BertModel(config).save_pretrained(text)
    words = {word: number for number, word in enumerate(["[UNK]", *f"{LEFT} {RIGHT}".split()])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.save(str(text / "tokenizer.json"))
    return PretrainedFolders(images, text)


def test_a_policy_with_pretrained_parts_learns_around_them_and_travels_without_the_folders(folders):
    demonstrations = shown([episode(0), episode(1, instruction=RIGHT)])
    training_tasks = [TrainingTask("toy/left", (LEFT, RIGHT))]
    normalization = Normalization.of(demonstrations.episodes)
    policy = VLAPolicy.untrained(SMALL, normalization, demonstrations.spec, training_tasks, 0, folders)
    assert not any(p.requires_grad for name, p in policy.network.named_parameters() if ".model." in name)
    for path in (*folders.images.iterdir(), *folders.text.iterdir()):
        path.unlink()
    again = VLAPolicy.from_tensors(*policy.to_tensors())
    obs = {f"pixels/{camera}": torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8) for camera in ("front", "wrist")}
    obs["proprio"] = torch.randn(2, 3)
    with torch.no_grad():
        first, second = (p.plan(obs, p.encode_instructions([LEFT, RIGHT])) for p in (policy, again))
    assert torch.equal(first, second)
