"""`embodied.doctor`: findings, and the examination of a GPU rehearsed on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embodied.doctor import __main__ as doctor
from embodied.doctor import examination, machine
from embodied.doctor.machine import Verdict
from embodied.errors import EmbodiedError


def test_it_says_what_is_here_and_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine.json"
    code = doctor.main(["--json", str(path)])
    result = json.loads(path.read_text())
    names = {row["name"] for row in result["machine"]}
    assert {"Python", "mujoco", "torch", "JAX", "compiled programs"} <= names
    wrong = [row["name"] for row in result["machine"] if row["verdict"] == "wrong"]
    assert code == (1 if wrong else 0)
    assert set(result["engines"]) == set(doctor.EXAMPLES)
    assert "swarm/hover" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "verdict"), [("580.65.06", Verdict.GOOD), ("575.1", Verdict.WRONG), ("[N/A]", Verdict.WRONG)]
)
def test_a_driver_that_is_too_old_is_wrong(version: str, verdict: Verdict) -> None:
    found = machine.gpu_finding("NVIDIA H100", version, "80 GiB")
    assert found.verdict is verdict
    assert ("580" in found.mend) == (verdict is Verdict.WRONG)


def test_installations_that_overwrite_each_other_are_found() -> None:
    names = {"nvidia-cudnn-cu12": "9", "nvidia-cudnn-cu13": "9", "jax-cuda12-plugin": "0.9"}
    found = [*machine.duplicates(names)]
    assert [finding.name for finding in found] == ["cudnn", "jax"]
    assert all(finding.verdict is Verdict.WRONG and "pip" in finding.mend for finding in found)
    assert not [*machine.duplicates({"nvidia-cudnn-cu13": "9", "jax-cuda13-plugin": "0.9"})]
    (opencv,) = machine.duplicates({"opencv-python": "4", "opencv-python-headless": "4"})
    assert opencv.verdict is Verdict.NOTE


def test_a_library_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise OSError("libcudnn.so.9: cannot open shared object file")

    monkeypatch.setitem(machine.LOOKS, "devices", broken)
    found = {finding.name: finding for finding in machine.findings()}
    assert found["devices"].verdict is Verdict.WRONG
    assert "libcudnn" in found["devices"].value


def test_a_check_runs_apart_and_its_result_is_written(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    assert doctor.main(["--rehearse", "--only", "devices", "graph_modes", "--json", str(path)]) == 0
    rows = {row["name"]: row for row in json.loads(path.read_text())["checks"]}
    assert rows["devices"]["verdict"] == "good"
    assert rows["devices"]["values"]["matmul_error"] < 1e-3
    assert rows["graph_modes"]["verdict"] == "note"


def test_a_check_beyond_its_limit_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[Any]] = []

    def slow(words: list[str], **options: Any) -> subprocess.Popen[Any]:
        program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
        started.append(popen([sys.executable, "-c", program], **options))
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(doctor.subprocess, "Popen", slow)
    row = doctor.run_apart(examination.CHECKS[0], 5.0, rehearse=True)
    assert row["verdict"] == "wrong"
    assert "not done within 5 s" in row["why"]
    assert started[0].poll() is not None


def test_what_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["--gpu", "--only", "parrity"], "did you mean 'parity'"), (["--only", "parity"], "--gpu")):
        with pytest.raises(SystemExit):
            doctor.main(words)
        assert said in capsys.readouterr().err


QUICK = ("devices", "crossing", "restarts", "racing")


@pytest.mark.parametrize("name", QUICK)
def test_checks_pass_on_the_cpu(name: str) -> None:
    check = next(check for check in examination.CHECKS if check.name == name)
    assert check.run(examination.REHEARSAL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", [c for c in examination.CHECKS if c.name not in QUICK], ids=lambda check: check.name)
def test_longer_checks_pass_on_the_cpu(check: examination.Check) -> None:
    try:
        assert check.run(examination.REHEARSAL)
    except examination.NotHereError as error:
        pytest.skip(str(error))


def test_shared_starts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of restarts is not satisfied by anything: environments that begin alike fail it."""
    whole = examination.fused

    def alike(task: str, num_envs: int) -> Any:
        env = whole(task, num_envs)
        reset = env.reset
        env.reset = lambda: reset(group_size=2)  # pyright: ignore[reportAttributeAccessIssue] - a fault put in
        return env

    monkeypatch.setattr(examination, "fused", alike)
    with pytest.raises(EmbodiedError, match="different states"):
        examination.restarts(examination.REHEARSAL)
