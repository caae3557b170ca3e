"""Histories of curves: of equal length, bounded, and safe to read while another thread steps."""

from __future__ import annotations

import numpy as np

from embodied.viewer.curves import LENGTH, TOLD, History


def stepped(history: History, times: int) -> History:
    for number in range(times):
        history = history.after(0.02 * number, {"alive": 1.0, "effort": -0.1}, np.array([0.5, 1.0]), np.zeros(2))
    return history


def test_a_step_leaves_the_history_before_it_as_it_was() -> None:
    before = stepped(History(), 3)
    after = stepped(before, 2)
    assert (len(before.seconds), len(after.seconds)) == (3, 5)
    assert after.seconds[:3] == before.seconds
    assert {len(values) for values in before.terms.values()} == {3}


def test_a_history_keeps_so_many_steps_and_all_curves_have_them() -> None:
    history = stepped(History(), LENGTH + 7)
    lengths = {len(history.seconds), len(history.commands), len(history.responses)}
    assert lengths | {len(values) for values in history.terms.values()} == {LENGTH}


def test_command_and_response_are_drawn_in_one_unit() -> None:
    curves = stepped(History(), 2).followed(("forward", "turn left"), ("m/s", "rad/s"))
    assert curves == {f"{TOLD}forward": [0.5, 0.5], "forward": [0.0, 0.0]}
