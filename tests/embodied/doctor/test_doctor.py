"""`embodied.doctor`: findings, and the examination of a GPU rehearsed on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embodied.doctor import __main__ as doctor
from embodied.doctor import examination, machine
from embodied.doctor.machine import Verdict
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from tests.kit.commands import refused, run
from tests.kit.toy_tasks import Speck
from tests.kit.worlds import build_toy


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
    assert ("580" in found.fix) == (verdict is Verdict.WRONG)


def test_installations_that_overwrite_each_other_are_found() -> None:
    names = {"nvidia-cudnn-cu12": "9", "nvidia-cudnn-cu13": "9", "jax-cuda12-plugin": "0.9"}
    found = [*machine.duplicates(names)]
    assert [finding.name for finding in found] == ["cudnn", "jax"]
    assert all(finding.verdict is Verdict.WRONG and "pip" in finding.fix for finding in found)
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


def printing(text: str, code: int = 0) -> Callable[..., subprocess.Popen[Any]]:
    """Stands for `subprocess.Popen`: a process that prints a text and ends; it remembers its words."""

    def start(words: list[str], **options: Any) -> subprocess.Popen[Any]:
        if words[0] != sys.executable:
            return popen(words, **options)
        started.append(words)
        return popen(["sh", "-c", f"echo '{text}'; echo '{text}' >&2; exit {code}"], **options)

    started: list[list[str]] = []
    popen = subprocess.Popen
    start.words = started  # pyright: ignore[reportFunctionMemberAccess]
    return start


def test_checks_run_apart_and_their_results_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = printing('{"verdict": "good", "values": {"error": 0.5}}')
    monkeypatch.setattr(doctor.subprocess, "Popen", start)
    monkeypatch.setattr(doctor, "look_at_machine", lambda: {"machine": [], "engines": {}})
    path = tmp_path / "gpu.json"
    assert doctor.main(["--rehearse", "--only", "devices", "graph_modes", "--json", str(path)]) == 0
    rows = {row["name"]: row for row in json.loads(path.read_text())["checks"]}
    assert {name: (row["verdict"], row["values"]) for name, row in rows.items()} == dict.fromkeys(
        ("devices", "graph_modes"), ("good", {"error": 0.5})
    )
    for words, name in zip(start.words, rows, strict=True):  # pyright: ignore[reportFunctionMemberAccess]
        assert words == [sys.executable, "-m", "embodied.doctor", name, doctor.CHILD, "--rehearse"]


def test_a_check_that_breaks_is_wrong_by_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.subprocess, "Popen", printing("ImportError: libcudnn", 1))
    row = doctor.run_apart(examination.CHECKS[0], 60.0, rehearse=False)
    assert row["verdict"] == "wrong"
    assert "libcudnn" in row["why"]


@pytest.mark.parametrize(("name", "verdict"), [("devices", "good"), ("graph_modes", "note")])
def test_a_check_answers_in_a_line_of_json(name: str, verdict: str) -> None:
    done = run(doctor.main, name, doctor.CHILD, "--rehearse")
    assert done.code == 0
    answer = json.loads(done.out)
    assert answer["verdict"] == verdict
    assert name != "devices" or answer["values"]["matmul_error"] < 1e-3


@pytest.mark.slow
def test_a_check_runs_in_an_interpreter_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    assert doctor.main(["--rehearse", "--only", "devices", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["checks"]
    assert row["verdict"] == "good"


def test_a_check_beyond_its_limit_is_killed_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[Any]] = []

    def slow(words: list[str], **options: Any) -> subprocess.Popen[Any]:
        program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
        started.append(popen([sys.executable, "-c", program], **options))
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(doctor.subprocess, "Popen", slow)
    row = doctor.run_apart(examination.CHECKS[0], 5.0, rehearse=True)  # 5 s is the shortest for which one begins
    assert row["verdict"] == "wrong"
    assert "not done within 5 s" in row["why"]
    assert started[0].poll() is not None


def test_what_it_refuses() -> None:
    assert "did you mean 'parity'" in refused(doctor.main, "--gpu", "--only", "parrity")
    assert "--gpu" in refused(doctor.main, "--only", "parity")


@pytest.mark.parametrize("name", ["devices", "crossing", "restarts", "racing"])
def test_checks_pass_on_toys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "fused", toys)
    check = next(check for check in examination.CHECKS if check.name == name)
    assert check.run(examination.REHEARSAL)


def test_checks_run_on_the_engine_that_a_gpu_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "make", lambda *given, **told: (*given, told))
    assert examination.fused("swarm/hover", 4) == ("swarm/hover", 4, "rigid", {"seed": 0})
    assert examination.fused("locomotion/hopper", 4) == ("locomotion/hopper", 4, "mjx", {"seed": 0})


def toys(task: str, num_envs: int) -> Env:
    """Stands for `examination.fused`."""
    del task, num_envs
    return build_toy(Speck, "rigid", 8)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", examination.CHECKS, ids=lambda check: check.name)
def test_checks_pass_on_the_cpu(check: examination.Check) -> None:
    try:
        assert check.run(examination.REHEARSAL)
    except examination.NotHereError as error:
        pytest.skip(str(error))


def test_shared_starts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of restarts is not satisfied by anything: environments that begin alike fail it."""

    def alike(task: str, num_envs: int) -> Any:
        env = toys(task, num_envs)
        reset = env.reset
        env.reset = lambda: reset(group_size=2)  # pyright: ignore[reportAttributeAccessIssue] - a fault put in
        return env

    monkeypatch.setattr(examination, "fused", alike)
    with pytest.raises(EmbodiedError, match="different states"):
        examination.restarts(examination.REHEARSAL)
