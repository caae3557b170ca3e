"""Time from a clone to the page on which a new user steers the policy that was trained: hover, by default.

In a fresh clone and a fresh virtual environment: install, train, and play until the page answers. Packages come from
wherever pip finds them, so the first number depends on the machine most.

python -m benchmarks.first_policy --json FILE
"""

from __future__ import annotations

import dataclasses
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro

from embodied import cli

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120.0  # s for the page
TORCH = "torch==2.13.0"  # as README has it


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the measurement."""

    task: str = "swarm/hover"
    """Trained with its default settings."""
    port: int = 8099
    """Of the page."""
    json: Path | None = None
    """File for the result."""


def main(settings: Settings) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        clone, python = Path(folder, "clone"), str(Path(folder, "clone/.venv/bin/python"))
        subprocess.run([shutil.which("git") or "git", "clone", "-q", str(ROOT), str(clone)], check=True)
        began = time.perf_counter()
        command([sys.executable, "-m", "venv", ".venv"], clone)
        command([python, "-m", "pip", "install", "-q", TORCH, "-e", "."], clone)
        installed = time.perf_counter()
        command([python, "-m", "embodied.train", settings.task], clone)
        trained = time.perf_counter()
        words = [python, "-m", "embodied.play", settings.task, "--port", str(settings.port)]
        with subprocess.Popen(words, cwd=clone, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as page:
            answered = answers(settings.port)
            page.terminate()
    seconds = {
        "install_seconds": installed - began,
        "train_seconds": trained - installed,
        "page_seconds": answered - trained,
        "seconds": answered - began,
    }
    cli.console().print(", ".join(f"{name.replace('_', ' ')} {value:.1f}" for name, value in seconds.items()))
    cli.write_result(settings.json, cli.command_line("benchmarks.first_policy"), {"task": settings.task, **seconds})


def command(words: list[str], folder: Path) -> None:
    """Run quietly in a folder."""
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answers(port: int) -> float:
    """Time at which a page answers there.

    Raises:
        TimeoutError: it does not.
    """
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("localhost", port)) == 0:
                return time.perf_counter()
        time.sleep(0.1)
    raise TimeoutError(f"no page at port {port} within {PATIENCE:g} s")


if __name__ == "__main__":
    main(tyro.cli(Settings))
