"""Weights & Biases, the real one, offline: no network, no account; a resumed training goes on with the same run."""

from __future__ import annotations

import socket
import time

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


def reach_nowhere(monkeypatch):
    """Refuse every connection but those within this machine, by which wandb talks to its own process."""
    connect = socket.socket.connect

    def local(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a connection to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


def test_an_offline_run_holds_metrics_settings_and_result(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    reach_nowhere(monkeypatch)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "elsewhere"))
    made = Run.create(tmp_path, "swarm/hover", {"seed": 3, "name": "gentle"}, tmp_path / "run")
    for steps in ((100, 200), (300,)):
        run = Run.open(made.path)
        run.add_logger(WandbLogger(run, WandbMode.OFFLINE))
        for step in steps:
            run.log(step, {"success": step / 1000, "return": float("nan")})
        run.write_result({"success": 0.75, "hardware": {"cpu": "x"}})
        run.close()
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
