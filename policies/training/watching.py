"""`Watcher`: a viewer beside a training, which shows the policy as it learns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from embodied.storage.checkpoints import flatten
from embodied.storage.runs import Run

SECONDS = 5.0  # between snapshots
NICE = 10  # niceness: a tenth of the processor's time where training wants all of it
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
"""Of the viewer: one robot needs no GPU, whose memory is for the training."""

Contents = Callable[[], tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Meta and tensors of the policy as it is now."""


class Watcher:
    """Saves snapshots of a policy and runs `embodied.play` on them, in a process of its own.

    That process has niceness 10: with 19 it would starve where training takes all cores. It steps nothing while no page
    is open.
    """

    def __init__(self, run: Run, task: str) -> None:
        """Nothing starts before the first `update`; snapshots go to the run."""
        self.run, self.task = run, task
        self._process: subprocess.Popen[bytes] | None = None
        self._saved_at = -SECONDS

    def update(self, step: int, contents: Contents) -> None:
        """Save a snapshot if the last one is old enough; the first one opens the viewer."""
        now = time.monotonic()
        if now - self._saved_at < SECONDS:
            return
        meta, tree = contents()
        self.run.save_snapshot(step, flatten(tree), meta)
        self._saved_at = now
        if self._process is None:
            self._process = subprocess.Popen(self.command, env={**os.environ, **ENVIRONMENT})

    @property
    def command(self) -> list[str]:
        """The viewer's command line."""
        play = [sys.executable, "-m", "embodied.play", self.task, "--policy", str(self.run.path)]
        return [*play, "--nice", str(NICE)]

    def close(self) -> None:
        """Close the viewer."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
