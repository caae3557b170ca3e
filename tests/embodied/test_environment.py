"""Processes in odd surroundings: variables, closed streams, other locales, full disks, two trainings in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import embodied
from embodied import LIBRARIES, library
from embodied.engines.base import first_device, sees_nvidia_gpu
from embodied.errors import EmbodiedError, EngineError, RunError
from embodied.evaluation.learning_curves import Across, draw
from embodied.storage.runs import Run
from embodied.viewer.camera import start_server
from embodied.viewer.film import VideoWriter
from tests.kit.commands import ROOT, environment, interpreted

pytestmark = pytest.mark.timeout(120)

ZERO = ("swarm/hover", "--policy=zero", "--episodes=4")


IMPORTS = "import embodied, mujoco"  # and next to nothing else


def test_ctrl_c_in_a_callback_that_cannot_raise_comes_once_more(capsys: pytest.CaptureFixture[str]) -> None:
    embodied._on_unraisable(SimpleNamespace(exc_type=KeyboardInterrupt))  # sends it in 0.05 s
    with pytest.raises(KeyboardInterrupt):
        time.sleep(5)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("variable", ["JAX_ENABLE_X64", "JAX_NUM_CPU_DEVICES", "TORCH_LOGS"])
def test_a_value_that_a_library_refuses_is_one_line(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they say it: JAX in small letters, without the value; torch on several lines."""
    monkeypatch.setenv(variable, "nonsense")
    error = ValueError(f"Invalid\nvalue for flag {variable.lower()}")
    embodied._on_uncaught(ValueError, error, None)
    assert capsys.readouterr().err == f"error: {variable}=nonsense is refused: {' '.join(str(error).split())}\n"


@pytest.mark.parametrize("asked", ["foo", "osmesa", "egl"])
def test_a_graphics_backend_that_is_not_there_is_ignored_with_a_line(asked: str) -> None:
    done = interpreted("-c", IMPORTS, MUJOCO_GL=asked, PYOPENGL_PLATFORM="glx")
    assert done.returncode == 0
    assert (f"MUJOCO_GL={asked} is ignored" in done.stderr) == (library(*LIBRARIES.get(asked, ())) is None)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("said", [RuntimeError("Unable to initialize backend 'tpu'"), AssertionError()])
def test_a_platform_that_is_not_there_is_named(said: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that is known, but has no device, JAX asserts."""

    def devices() -> list[Any]:
        raise said

    monkeypatch.setattr("jax.devices", devices)
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    message = r"^JAX finds no device with JAX_PLATFORMS='tpu': (Unable .*|it has none here); unset it$"
    for ask in (sees_nvidia_gpu, first_device):
        with pytest.raises(EngineError, match=message):
            ask()


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "words"), [("tpu", ZERO), ("foo", (*ZERO, "--engine=mujoco"))])
def test_a_platform_that_is_not_there_is_one_line(platform: str, words: tuple[str, ...]) -> None:
    done = interpreted("-m", "embodied.evaluate", *words, JAX_PLATFORMS=platform)
    assert done.returncode == 2
    assert f"JAX_PLATFORMS={platform!r}" in done.stderr
    assert "Traceback" not in done.stderr


SAVES = """
import sys
from pathlib import Path
from embodied import cli

cli.write_result(Path(sys.argv[1]), "", {})
cli.show(f"-> {sys.argv[1]}")
"""
WRITES = """
import sys
from embodied.errors import guard

@guard
def main():
    with open(sys.argv[1], "w") as file:
        print("said")
        print("warned", file=sys.stderr)
        file.write("{}")

main()
"""
EVALUATES = f"-m embodied.evaluate {' '.join(ZERO)} --json PLACE"


@pytest.mark.skipif(os.name != "posix", reason="a shell's redirection")
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", [f"-c '{WRITES}' PLACE", pytest.param(EVALUATES, marks=pytest.mark.slow)])
def test_closed_streams(words: str, streams: str, tmp_path: Path) -> None:
    """It works, and what is printed does not end up in the files that it writes."""
    command = f"{sys.executable} {words.replace('PLACE', f'{tmp_path}/a.json')} {streams}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment(), timeout=100)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.json").read_text().startswith("{")


PRINTS = "import sys; from embodied.errors import guard; guard(lambda: print(sys.argv[1]))(); print('done')"
ENCODES = "import sys; from embodied.errors import guard; guard(lambda: sys.argv[1].encode())()"


@pytest.mark.parametrize(("program", "code", "said"), [(PRINTS, 0, ""), (ENCODES, 2, "is no text in this locale; set")])
def test_a_name_that_the_locale_cannot_print_is_no_traceback(
    program: str, code: int, said: str, tmp_path: Path
) -> None:
    done = interpreted("-c", program, f"{tmp_path}/\u00e9", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_names_beyond_ascii_in_the_c_locale(tmp_path: Path) -> None:
    place = tmp_path / "Übung"
    done = interpreted("-c", SAVES, f"{place}/é.json", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert (place / "é.json").is_file()


@pytest.mark.parametrize(("first", "said"), [("-m", "interrupted\n"), ("theirs.py", "Traceback")])
def test_ctrl_c_while_a_command_imports_is_one_line(first: str, said: str) -> None:
    """Programs of others that import the package keep their own way to end."""
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background shell has it ignored
        f"sys.argv = [{first!r}]\n"  # what Python has there while it looks for the module of -m
        "import embodied\n"
        "signal.raise_signal(signal.SIGINT)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=100)
    assert done.returncode != 0
    assert done.stderr.startswith(said)


def test_a_run_is_trained_by_one_process(tmp_path: Path) -> None:
    run = Run.create(tmp_path, "swarm/hover", {})
    run.claim()
    with pytest.raises(RunError, match="another process"):
        Run.open(run.path).claim()
    run.close()
    Run.open(run.path).claim()


def test_a_viewer_of_another_machine_is_refused() -> None:
    with pytest.raises(EmbodiedError, match=r"192\.0\.2\.1"):  # an address for documentation, RFC 5737
        start_server("192.0.2.1", 8099)


@pytest.mark.parametrize("kind", [".mp4", ".webp", ".gif", ".png"])
def test_a_film_that_does_not_fit_is_refused_and_leaves_nothing(kind: str, full_disk: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (20, 120, 160, 3), np.uint8)

    def film() -> None:
        with VideoWriter(full_disk / f"film{kind}", 20) as writer:
            for frame in noise:
                writer.add(frame)

    with pytest.raises(EmbodiedError, match="space"):
        film()
    assert not list(full_disk.iterdir())


def test_a_run_that_does_not_fit_leaves_no_folder(full_disk: Path) -> None:
    (full_disk / "rest").write_bytes(bytes(61_000))
    with pytest.raises(RunError, match="space"):
        Run.create(full_disk, "swarm/hover", {"long": "x" * 8000}, out=full_disk / "run")
    assert [path.name for path in full_disk.iterdir()] == ["rest"]


def test_a_picture_that_does_not_fit_leaves_nothing(full_disk: Path) -> None:
    (full_disk / "rest").write_bytes(bytes(61_000))
    points = {"return": {"a": [(float(x), x**0.5) for x in range(100)]}}
    with pytest.raises(EmbodiedError, match="space"):
        draw(full_disk / "curves.png", points, Across.STEPS)
    assert [path.name for path in full_disk.iterdir()] == ["rest"]
