"""Where the time of a training goes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

import torch


class Part(StrEnum):
    """What a training that acts in simulation spends its time on."""

    PHYSICS = "physics"
    """Environments: physics and the task's own functions."""
    RENDERING = "rendering"
    """Pictures."""
    INFERENCE = "inference"
    """The policy decides."""
    UPDATE = "update"
    """Policy and critic learn."""
    TRIALS = "trials"
    """How well the policy does is measured."""
    OTHER = "other"
    """The rest."""


class Stopwatch:
    """Splits wall time: at any moment exactly one part runs, so the parts add up to the whole."""

    def __init__(self, device: torch.device | str = "cpu", clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with the part `OTHER`.

        Args:
            device: A GPU there is waited for where a part ends: its work counts where it was asked for.
            clock: s, of any origin.
        """
        self._clock, self._device = clock, torch.device(device)
        self._seconds = dict.fromkeys(Part, 0.0)
        self._part, self._since = Part.OTHER, clock()

    @contextlib.contextmanager
    def part(self, part: Part) -> Iterator[None]:
        """While it is entered, time counts for `part` and for nothing around it."""
        around = self._part
        self._turn(part)
        try:
            yield
        finally:
            self._turn(around)

    def take(self) -> dict[Part, float]:
        """Seconds of each part since the last call, which clears them."""
        self._turn(self._part)
        taken, self._seconds = self._seconds, dict.fromkeys(Part, 0.0)
        return taken

    def _turn(self, part: Part) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = self._clock()
        self._seconds[self._part] += now - self._since
        self._part, self._since = part, now
