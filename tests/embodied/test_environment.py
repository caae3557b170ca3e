"""Processes in odd surroundings: variables, closed streams, other locales, full disks, two trainings in one run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embodied.errors import EmbodiedError, RunError
from embodied.rendering.viewer import start_server
from embodied.storage.runs import Run

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
ZERO = ("swarm/hover", "--policy=zero", "--episodes=4")


def called(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)


def test_a_strange_graphics_backend_is_ignored_with_a_line() -> None:
    done = called("embodied.list", "swarm/hover", MUJOCO_GL="foo")
    assert done.returncode == 0
    assert "MUJOCO_GL=foo is ignored" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [ZERO, (*ZERO, "--engine=mujoco")], ids=["default engine", "an engine"])
@pytest.mark.parametrize("platform", ["tpu", "foo"])
def test_a_platform_that_is_not_there_is_one_line(platform: str, words: tuple[str, ...]) -> None:
    done = called("embodied.evaluate", *words, JAX_PLATFORMS=platform)
    assert done.returncode == 2
    assert f"JAX_PLATFORMS={platform!r}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a shell's redirection")
@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(streams: str, tmp_path: Path) -> None:
    """It works, and what is printed does not end up in the files that it writes."""
    command = f"{sys.executable} -m embodied.evaluate {' '.join(ZERO)} --json {tmp_path}/a.json {streams}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.json").read_text().startswith("{")


def test_names_beyond_ascii_in_the_c_locale(tmp_path: Path) -> None:
    place = tmp_path / "Übung"
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = called("embodied.evaluate", *ZERO, f"--json={place}/é.json", **variables)
    assert done.returncode == 0, done.stderr
    assert (place / "é.json").is_file()


def test_ctrl_c_while_it_imports_is_one_line() -> None:
    if os.name != "posix":
        pytest.skip("signals")
    command = [sys.executable, "-m", "embodied.train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    time.sleep(0.6)  # torch and JAX take some two seconds
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in said, said[-500:]


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
