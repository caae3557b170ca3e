"""A browser for the tests of the viewer and of report pages, and pictures that cost nothing."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import on_terminal
from tests.kit.painter import painted as painted

SOFTWARE = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
            "--ignore-gpu-blocklist"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        api = importlib.import_module("playwright.sync_api")
    except ImportError:
        pytest.skip("no browser: playwright is not installed")
    with api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=SOFTWARE)
        except api.Error as error:
            pytest.skip(f"no browser: {str(error).splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; mounting one needs rights that a laptop's user does not have."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root mounts a small file system")
    (place := tmp_path / "disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
