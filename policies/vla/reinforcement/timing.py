"""Wall time of reinforcement learning, by phase."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

import torch


class Phase(StrEnum):
    """Parts of a training in simulation."""

    PHYSICS = "physics"
    """Environments: physics and the task's own functions."""
    RENDERING = "rendering"
    """Images."""
    INFERENCE = "inference"
    """The policy's actions."""
    UPDATE = "update"
    """Gradient steps of policy and critic."""
    TRIALS = "trials"
    """Closed-loop trials."""
    OTHER = "other"
    """The rest."""


class PhaseTimer:
    """Splits wall time: at any moment exactly one phase runs, so the phases add up to the whole."""

    def __init__(self, device: torch.device | str = "cpu", clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with the phase `OTHER`.

        Args:
            device: A GPU there is synchronised where a phase ends: its work counts where it was launched.
            clock: s, of any origin.
        """
        self._clock, self._device = clock, torch.device(device)
        self._seconds = dict.fromkeys(Phase, 0.0)
        self._phase, self._since = Phase.OTHER, clock()

    @contextlib.contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """While it is entered, time counts for `phase` and for nothing around it."""
        around = self._phase
        self._switch(phase)
        try:
            yield
        finally:
            self._switch(around)

    def take(self) -> dict[Phase, float]:
        """Seconds of each phase since the last call, which clears them."""
        self._switch(self._phase)
        taken, self._seconds = self._seconds, dict.fromkeys(Phase, 0.0)
        return taken

    def _switch(self, phase: Phase) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._clock()
        self._seconds[self._phase] += now - self._since
        self._phase, self._since = phase, now
