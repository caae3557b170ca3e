"""`run_together`: the control loops of a team, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sim2real.deployment.loop import Loop
from sim2real.deployment.record import Report


def run_together(loops: Sequence[Loop]) -> list[Report]:
    """Deploy all at the same time, and let go of each robot as its loop ends; a single one in this thread.

    A robot that is latched is damped; the others go on.
    """
    reports: dict[int, Report] = {}

    def run(number: int) -> None:
        try:
            reports[number] = loops[number].run()
        finally:
            loops[number].robot.close()

    others = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(1, len(loops))]
    for thread in others:
        thread.start()
    run(0)
    for thread in others:
        thread.join()
    return [reports[number] for number in range(len(loops))]
