"""Weights & Biases, the real one, offline: no network, no account; a resumed training goes on with the same run."""

from __future__ import annotations

import re
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from embodied.errors import EmbodiedError
from embodied.storage import wandb_logger
from embodied.storage.runs import Run
from embodied.storage.wandb_logger import WandbLogger, WandbMode


def test_without_the_package_it_is_said_how_to_get_it(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(wandb_logger.importlib, "import_module", missing)
    with pytest.raises(EmbodiedError, match=r'--wandb offline needs .* pip install "embodied-sim\[wandb\]"'):
        wandb_logger.require_wandb(WandbMode.OFFLINE)


class Refused(Exception): ...


class Fake:
    """Stands for the package `wandb`: it remembers the runs that are begun and what they are told."""

    def __init__(self) -> None:
        self.errors = SimpleNamespace(Error=Refused)
        self.runs: list[dict[str, Any]] = []
        self.refuses = False

    def Settings(self, **settings: Any) -> dict[str, Any]:
        return settings

    def init(self, **arguments: Any) -> SimpleNamespace:
        if self.refuses:
            raise Refused("no login\nfound")
        told = {"arguments": arguments, "logged": [], "summary": {}, "finished": 0}
        self.runs.append(told)

        def finish() -> None:
            told["finished"] += 1

        log = lambda values, step: told["logged"].append((step, values))  # noqa: E731
        return SimpleNamespace(log=log, summary=told["summary"], finish=finish)


@pytest.fixture
def wandb(monkeypatch) -> Fake:
    fake, real = Fake(), wandb_logger.importlib.import_module
    # TensorBoard imports by it, too, when it is first used.
    monkeypatch.setattr(
        wandb_logger.importlib, "import_module", lambda name, *given: fake if name == "wandb" else real(name, *given)
    )
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    return fake


@pytest.mark.parametrize(("mode", "resume"), [(WandbMode.OFFLINE, None), (WandbMode.ONLINE, "allow")])
def test_a_resumed_run_goes_on_with_the_same_one(wandb, tmp_path, mode, resume):
    made = Run.create(tmp_path, "swarm/hover", {"seed": 3, "name": "gentle"}, tmp_path / "run")
    record_twice(made, mode)
    first, second = wandb.runs
    assert first["arguments"] == second["arguments"]
    expected = {"project": "embodied", "name": "gentle/run", "group": "swarm/hover", "dir": str(made.path)}
    expected |= {"config": made.config, "mode": str(mode), "resume": resume}
    assert expected.items() <= first["arguments"].items()
    assert first["arguments"]["settings"] == {"console": "off", "silent": True}
    assert re.fullmatch("[0-9a-f]{16}", first["arguments"]["id"])
    assert [[step for step, _ in told["logged"]] for told in wandb.runs] == [[100, 200], [300]]
    assert first["logged"][1][1]["success"] == 0.2
    assert [told["summary"] for told in wandb.runs] == [{"final/success": 0.75}] * 2
    assert [told["finished"] for told in wandb.runs] == [1, 1]


def test_what_it_refuses_is_one_line(wandb, tmp_path):
    wandb.refuses = True
    run = Run.create(tmp_path, "swarm/hover", {}, tmp_path / "run")
    logger = WandbLogger(run, WandbMode.ONLINE)
    with pytest.raises(EmbodiedError, match="--wandb online: no login"):
        logger.log(1, {"success": 0.0})


def record_twice(made: Run, mode: WandbMode) -> None:
    """A run's metrics, in two parts, and its result."""
    for steps in ((100, 200), (300,)):
        run = Run.open(made.path)
        run.add_logger(WandbLogger(run, mode))
        for step in steps:
            run.log(step, {"success": step / 1000, "return": float("nan")})
        run.write_result({"success": 0.75, "hardware": {"cpu": "x"}})
        run.close()


def reach_nowhere(monkeypatch):
    """Refuse every connection but those within this machine, by which wandb talks to its own process."""
    connect = socket.socket.connect

    def local(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a connection to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


@pytest.mark.slow
def test_an_offline_run_holds_metrics_settings_and_result(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    reach_nowhere(monkeypatch)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "elsewhere"))
    made = Run.create(tmp_path, "swarm/hover", {"seed": 3, "name": "gentle"}, tmp_path / "run")
    record_twice(made, WandbMode.OFFLINE)
    parts = list((made.path / "wandb").glob("offline-run-*/*.wandb"))
    assert len(parts) == 2
    assert len({part.name for part in parts}) == 1  # one run of two parts
    told = (b"swarm/hover", b"gentle/run", b"embodied", b"success", b"final/success", b"0.75")
    deadline, held = time.monotonic() + 30, [b""]
    while time.monotonic() < deadline and not all(text in part for text in told for part in held):
        held = [part.read_bytes() for part in parts]  # a process of wandb's own writes them
        time.sleep(0.1)
    assert [text for text in told for part in held if text not in part] == []
    assert {number for number in (b"0.2", b"0.3") for part in held if number in part} == {b"0.2", b"0.3"}
    assert not (tmp_path / "elsewhere").exists()
