import json
import math
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.cli import results
from embodied.cli.results import describe, write_json
from embodied.errors import EmbodiedError
from embodied.storage import files


def test_description_is_plain_json_with_the_documented_keys():
    facts = describe()
    assert set(facts) == {
        *("cpu", "cores", "memory_gib", "gpu", "os", "python", "embodied", "torch", "jax", "mujoco"),
        *("commit", "dirty", "date"),
    }
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cpu"]
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)
    assert 0 < facts["memory_gib"] < 2**16
    assert facts["python"] == platform.python_version()
    assert facts["torch"] == torch.__version__
    assert datetime.fromisoformat(facts["date"]).utcoffset() is not None


def test_description_names_neither_host_nor_paths():
    text = json.dumps(describe())
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert not any(folder in text for folder in (str(Path.home()), str(Path.cwd()), sys.prefix))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_commit_is_that_of_the_checkout_that_tracks_the_package(tmp_path, monkeypatch):
    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    module = tmp_path / "package" / "module.py"
    module.parent.mkdir()
    module.write_text("1")
    assert results._commit(module) == (None, None)
    monkeypatch.setenv("EMBODIED_COMMIT", "what this copy was made of")
    assert results._commit(module) == ("what this copy was made of", None)
    monkeypatch.delenv("EMBODIED_COMMIT")
    git("init")
    (tmp_path / "other.py").write_text("1")
    git("add", "other.py")
    git("commit", "-m", "somebody else's repository")
    assert results._commit(module) == (None, None)
    git("add", "package")
    git("commit", "-m", "ours")
    head = git("rev-parse", "HEAD")
    assert results._commit(module) == (head, False)
    module.write_text("2")
    assert results._commit(module) == (head, True)


def test_absent_parts_are_none(monkeypatch):
    monkeypatch.setattr(results, "LIBRARIES", ("torch", "no-such-distribution"))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    facts = describe()
    assert facts["no-such-distribution"] is facts["gpu"] is facts["commit"] is facts["dirty"] is None


def test_json_is_sorted_and_strict(tmp_path):
    path = tmp_path / "new" / "result.json"
    write_json(path, {"b": math.nan, "a": np.float32(0.5), "c": {"t": torch.arange(2), "p": Path("x")}, "n": (1, None)})
    text = path.read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"
    assert json.loads(text) == {"a": 0.5, "b": None, "c": {"p": "x", "t": [0, 1]}, "n": [1, None]}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, math.inf]}, "'a/1' is inf, which JSON cannot hold; use None or a large finite number"),
        ({"a": {1: 2}}, "'a' has the key 1 of type int; JSON keys are strings"),
        ({"a": object()}, "'a' is a object; JSON holds numbers, strings, None, lists and mappings"),
    ],
)
def test_json_refuses_by_name(value, message, tmp_path):
    path = tmp_path / "result.json"
    path.write_text("before")
    with pytest.raises(EmbodiedError) as raised:
        write_json(path, value)
    assert str(raised.value) == f"cannot write '{path}': {message}"
    assert path.read_text() == "before"


def test_failed_json_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(EmbodiedError) as raised:
        write_json(path, {"a": 2})
    assert str(raised.value) == f"cannot write '{path}': No space left on device"
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_json_into_a_folder_is_refused(tmp_path):
    with pytest.raises(EmbodiedError, match=f"cannot write '{tmp_path}': Is a directory"):
        write_json(tmp_path, {})


def test_json_goes_through_links_and_pipes_instead_of_replacing_them(tmp_path):
    target, link, pipe = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("{}")
    link.symlink_to(target)
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"a": 1}
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_json(pipe, {"a": 2})
    assert json.loads(os.read(reader, 1000)) == {"a": 2}
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
