"""A browser for the tests of the viewer and of report pages, and pictures that cost nothing."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
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
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
