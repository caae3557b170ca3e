"""`Lockstep`: a simulated clock that several control loops share, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Lockstep:
    """Time goes on when every loop waits, to the earliest time that one of them waits for.

    What loops do in between takes no time, and since each touches only its own robot, a run does not depend on the
    order in which the threads do it.
    """

    def __init__(self, loops: int, advance: Callable[[float], None]) -> None:
        """For so many loops, by number; `advance` moves the simulation to a time in s, if that is not past."""
        self._advance = advance
        self._until: dict[int, float | None] = dict.fromkeys(range(loops))
        self._change = threading.Condition()
        self._broken: Exception | None = None

    def wait(self, loop: int, when: float) -> None:
        """Return when it is `when`, s.

        Raises:
            Exception: what the simulation raised, in every loop that waits.
        """
        with self._change:
            self._until[loop] = when
            self._move()
            self._change.wait_for(lambda: self._until.get(loop) is None or self._broken)
            if self._broken:
                raise self._broken

    def leave(self, loop: int) -> None:
        """A loop that waits for nothing any more; the others do not wait for it."""
        with self._change:
            self._until.pop(loop, None)
            self._move()

    @property
    def present(self) -> frozenset[int]:
        """Loops that have not left."""
        return frozenset(self._until)

    def _move(self) -> None:
        """Advance if all wait, and let those go on whose time has come."""
        waiting = [when for when in self._until.values() if when is not None]
        if self._broken or not waiting or len(waiting) < len(self._until):
            return
        try:
            self._advance(first := min(waiting))
        except Exception as error:
            self._broken = error
        else:
            self._until = {loop: None if when == first else when for loop, when in self._until.items()}  # type: ignore[operator]
        self._change.notify_all()
