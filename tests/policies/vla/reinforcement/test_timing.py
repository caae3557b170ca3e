"""The phases of the wall time add up to the whole."""

from __future__ import annotations

from policies.vla.reinforcement.timing import Phase, PhaseTimer


def test_the_parts_of_the_time_add_up_to_the_whole():
    now = [0.0]
    timer = PhaseTimer(clock=lambda: now[0])
    for part, took in ((Phase.PHYSICS, 1.0), (Phase.UPDATE, 2.0)):
        with timer.phase(part):
            now[0] += took
            with timer.phase(Phase.RENDERING):
                now[0] += 0.5
        now[0] += 0.25
    taken = timer.take()
    assert sum(taken.values()) == now[0] == 4.5
    assert taken[Phase.RENDERING] == 1.0
    assert taken[Phase.PHYSICS] == 1.0
    assert taken[Phase.OTHER] == 0.5
    assert not any(timer.take().values())
