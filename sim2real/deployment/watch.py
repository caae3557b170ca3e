"""`Watch`: what follows a deployment from outside the loop: the line on the screen, and the judge of a stand-in."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

from embodied import cli
from sim2real.deployment.loop import Progress
from sim2real.deployment.loop_report import Phase
from sim2real.robots.base import Robot
from sim2real.robots.judge import Verdict

SHOW_EVERY = 0.1  # s between updates of the line


@runtime_checkable
class Judged(Protocol):
    """A robot that knows how well its task went: a stand-in."""

    def prepare(self, command: np.ndarray) -> None:
        """Get ready to judge."""
        ...

    def judge(self) -> None:
        """Judge from now on."""
        ...

    def verdict(self) -> Verdict | None:
        """How it went."""
        ...


@runtime_checkable
class Phased(Protocol):
    """A robot that does something of its own when a phase begins."""

    def enter(self, phase: Phase) -> None:
        """A phase has begun."""
        ...


class Watch:
    """Shows a line while it runs, and has a stand-in judged over exactly the time that the policy acts."""

    def __init__(self, robot: Robot, line: cli.Line) -> None:
        """Nothing is shown before the first cycle."""
        self.verdict: Verdict | None = None
        self._robot = robot
        self._judged = robot if isinstance(robot, Judged) else None
        self._line, self._phase, self._shown = line, Phase.CHECK, -math.inf

    def __call__(self, progress: Progress) -> None:
        """Of one cycle."""
        if progress.phase is not self._phase:
            if self._judged is not None and progress.phase is Phase.RUN:
                self._judged.judge()
            elif self._judged is not None and self._phase is Phase.RUN:
                self.verdict = self._judged.verdict()
            if isinstance(self._robot, Phased):
                self._robot.enter(progress.phase)
            self._phase, self._shown = progress.phase, -math.inf
        if progress.phase < Phase.DAMP and progress.seconds - self._shown >= SHOW_EVERY:
            self._shown = progress.seconds
            clips = sum(progress.state.clips.values())
            done = progress.seconds if progress.phase is Phase.RUN else 0.0
            what = progress.phase.name.lower().replace("_", " ")
            self._line.update(done, f"{what} {progress.seconds:.1f} s, {clips} clips")
