"""Training in a real notebook: one line of progress that is written anew, and an interrupt that saves and stops."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from embodied.cli import terminal
from embodied.cli.interrupts import Interrupts
from embodied.cli.terminal import Line, NotebookLine
from embodied.storage.runs import Run
from policies.training import launch
from tests.kit.task_file import STEP, mass

TRAINING = """
import embodied
trained = embodied.train_policy(
    "swarm/hover", steps={steps}, num_envs=16, evaluate_episodes=0, out={out!r},
    algorithm_config={{"unroll": 8, "minibatches": 2, "epochs": 1}},
)
print("stopped" if trained.stopped else f"trained {{trained.result['steps']:,}}")
"""


def notebook(code: str, folder: Path) -> tuple[Any, Any]:
    """A notebook of one cell, and its client."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    return book, nbclient.NotebookClient(book, timeout=200, resources={"metadata": {"path": str(folder)}})


def printed(book: Any) -> str:
    return "".join(output.get("text", "") for output in book.cells[0].outputs if output.output_type == "stream")


def shown(book: Any) -> list[str]:
    data = [
        output.data.get("text/plain", "") for output in book.cells[0].outputs if output.output_type == "display_data"
    ]
    return [text for text in data if "%" in text]


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_training_shows_one_line_that_is_written_anew(tmp_path):
    book, client = notebook(TRAINING.format(steps=20 * 128, out=str(tmp_path / "run")), tmp_path)
    client.execute()
    assert "trained 2,560" in printed(book)
    (line,) = shown(book)
    assert "swarm/hover  100 %" in line
    assert Run.open(tmp_path / "run").load().step == 2560


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_an_interrupted_cell_saves_and_goes_on(tmp_path):
    book, client = notebook(TRAINING.format(steps=10**9, out=str(tmp_path / "run")), tmp_path)

    def interrupt() -> None:
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline and not (tmp_path / "run" / "metrics.jsonl").exists():
            time.sleep(0.2)
        os.kill(client.km.provisioner.pid, signal.SIGINT)  # as the notebook's button does

    stopper = threading.Thread(target=interrupt)
    stopper.start()
    client.execute()
    stopper.join()
    assert "stopped" in printed(book)
    assert Run.open(tmp_path / "run").load().step > 0


class Display:
    """Stands for IPython's display."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, data: Any, **_: Any) -> Display:
        self.texts.append(data["text/plain"])
        return self

    def update(self, data: Any, **_: Any) -> None:
        self.texts[-1] = data["text/plain"]


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """The display of a notebook in which this process now is."""
    display = Display()
    monkeypatch.setattr(terminal.importlib, "import_module", lambda _: type("Module", (), {"display": display}))
    monkeypatch.setattr(terminal, "console", lambda: Console(file=io.StringIO(), force_jupyter=True))
    return display


def test_a_line_is_written_now_and_then_and_at_the_end(display: Display) -> None:
    line = NotebookLine()
    for number in range(100):
        line.show(str(number), last=number == 99)
    assert display.texts == ["99"]


def test_progress_in_a_notebook_is_one_line_that_is_written_anew(display: Display) -> None:
    with Line("swarm/hover", 4) as line:
        for done in range(1, 5):
            line.update(done, f"{done} steps")
    assert display.texts == ["swarm/hover  100 %  4 steps"]


def test_an_interrupt_of_a_call_saves_and_returns(tmp_path: Path) -> None:
    """As a notebook's button interrupts a cell, here after the first iteration."""

    def interrupt(steps: int, metrics: Any) -> bool:
        del steps, metrics
        signal.raise_signal(signal.SIGINT)
        return False

    with pytest.MonkeyPatch.context() as patch:
        start = launch.start
        patch.setattr(launch, "start", lambda *given, **told: start(*given, **told, stop_early=interrupt))
        trained = launch.train_policy(
            mass(tmp_path),
            steps=10**9,
            num_envs=8,
            evaluate_episodes=0,
            out=tmp_path / "run",
            algorithm_config={"unroll": 8, "minibatches": 2, "epochs": 1},
        )
    assert trained.stopped
    assert Run.open(tmp_path / "run").load().step == STEP


def test_signals_are_left_alone_in_other_threads():
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with Interrupts() as interrupts:
                assert interrupts.signal is None
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed
