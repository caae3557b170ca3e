"""Kill a process that saves checkpoints at random moments; run by test_checkpoints.py.

usage: python killed_saver.py FOLDER. Importing torch takes a second, so this process imports it once and forks.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from embodied.storage import checkpoints
from embodied.storage.runs import Run


def save(run: Run, step: int, elements: int = 1000) -> None:
    """Log and save one step, whose content can be told from its number."""
    run._metrics._append(b'{"step": %d}\n' % step)  # Without TensorBoard, whose threads do not survive a fork.
    run.save(step, {"a": torch.full((elements,), step), "b": torch.zeros(0)}, {"step": step})
    checkpoints.prune(run.checkpoints, keep=3)


def verify(run: Run, at_least: int) -> int:
    """Check that every checkpoint loads, and that the newest is no older than the last one acknowledged."""
    for step in checkpoints.steps(run.checkpoints):
        run.load(step)
    found = Run.open(run.path).load()
    assert found.step >= at_least, (found.step, at_least)
    assert found.meta == {"step": found.step}
    assert torch.all(found.tensors["a"] == found.step)
    logged = [record["step"] for record in run.metrics()]
    assert max(logged) >= found.step, (logged, found.step)
    return found.step


def kill_after(run: Run, step: int, seconds: float) -> int:
    """Save ever further steps in a child, kill it after a while; return the last step it acknowledged."""
    reader, writer = os.pipe()

    child = os.fork()
    if child == 0:
        for later in range(step + 1, step + 10**6):
            save(run, later, elements=50_000)
            os.write(writer, b"%d\n" % later)
    os.close(writer)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        acknowledged = pipe.read().split()
    return int(acknowledged[-1]) if acknowledged else step


def main() -> None:
    """Print the step that was reached."""
    run = Run.create(Path(sys.argv[1]), "test/kill", {})
    for step in (1, 2, 3):
        save(run, step)
    step, moments = 3, random.Random(0)
    for _ in range(12):
        step = verify(run, at_least=kill_after(run, step, moments.uniform(0.0, 0.12)))
    save(run, step + 1)
    left = [path.name for path in run.checkpoints.iterdir() if path.name.startswith(".tmp-")]
    assert not left, left
    print(step)


if __name__ == "__main__":
    main()
