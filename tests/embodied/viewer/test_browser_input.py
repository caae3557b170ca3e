"""What the page's script writes, as deflections."""

from __future__ import annotations

import json

import pytest

from embodied.viewer.browser import Deflection, parse


@pytest.mark.parametrize(
    ("held", "axes", "expected"),
    [
        (["KeyW"], [], (1, 0, 0)),
        (["KeyS", "KeyD", "KeyE"], [], (-1, -1, -1)),
        (["KeyA", "KeyD", "KeyQ"], [], (0, 0, 1)),
        ([], [0.0, -1.0, 0.0, 0.0], (1, 0, 0)),
        ([], [-0.5, 0.1, 0.5, 0.0], (0, 0.5, -0.5)),
        (["KeyW"], [0.0, -1.0], (1, 0, 0)),
    ],
)
def test_keys_and_sticks_deflect_forward_left_and_turn(held: list[str], axes: list[float], expected: tuple) -> None:
    assert parse(json.dumps({"held": held, "axes": axes, "presses": {}})).axes == pytest.approx(expected)


def test_presses_are_counted() -> None:
    assert parse('{"held": [], "presses": {"Space": 2}, "axes": []}').presses == {"Space": 2}


@pytest.mark.parametrize("text", [None, "", "null", "3", "{", '{"held": 3}', '{"presses": {"Space": "x"}}'])
def test_what_the_script_did_not_write_moves_nothing(text: str | None) -> None:
    assert parse(text) == Deflection()
