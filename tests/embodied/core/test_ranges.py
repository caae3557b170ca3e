"""Ranges of variations: what is drawn lies in them and fills them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import mujoco
import numpy as np
import pytest

from embodied.check.functions import variations_have_an_effect
from embodied.core import randomization
from embodied.core.randomization import Distribution, Range, Term
from embodied.core.task import Task
from embodied.env.registry import join_content
from tests.kit.robots import biped, quadruped, six_axes
from tests.kit.worlds import task_of

KEYS = jax.random.split(jax.random.key(0), 300)
MODEL = mujoco.MjModel.from_xml_string(
    """<mujoco><worldbody><body><joint name="a"/><geom size="0.1" mass="2"/></body>
    <body pos="1 0 0"><joint name="b"/><geom size="0.1" mass="3"/></body></worldbody>
    <actuator><position joint="a" kp="3"/><position joint="b" kp="4"/></actuator></mujoco>"""
)
ROWS = {"body_mass": slice(1, 3), "actuator_gainprm": (slice(0, 2), 0), "body_ipos": slice(1, 3)}


def fills(values: np.ndarray, drawn: Range) -> None:
    """All values lie in the range, and some near each end."""
    size = drawn.high - drawn.low
    assert values.min() >= drawn.low - 1e-5 * size
    assert values.max() <= drawn.high + 1e-5 * size
    assert values.min() <= drawn.low + 0.05 * size
    assert values.max() >= drawn.high - 0.05 * size


@pytest.mark.parametrize(
    ("term", "field"),
    [
        (randomization.scale("a", "body_mass", 0.5, 2.0, [1, 2]), "body_mass"),
        (randomization.offset("a", "body_mass", -0.5, 1.0, [1, 2]), "body_mass"),
        (randomization.offset("a", "body_ipos", -0.1, 0.3, [1, 2]), "body_ipos"),
        (randomization.scale_bodies("a", 0.9, 1.2, [1, 2]), "body_mass"),
        (randomization.scale_servos("a", 0.7, 1.1, [0, 1]), "actuator_gainprm"),
    ],
)
def test_model_fields_are_drawn_from_the_range_that_is_listed(term: Term, field: str) -> None:
    drawn = jax.jit(jax.vmap(lambda key: randomization.draw(MODEL, (term,), key)[field]))(KEYS)
    rows = ROWS[field] if isinstance(ROWS[field], tuple) else (ROWS[field],)
    value, own = np.asarray(drawn)[(slice(None), *rows)], getattr(MODEL, field)[rows]
    (only,) = term.ranges
    fills(value / own if only.quantity == "factor" else value - own, only)


FILES = {
    "locomotion/velocity": quadruped(),
    "locomotion/velocity-biped": biped(),
    "locomotion/getup": quadruped(),
    "manipulation/track-pose": six_axes(),
}  # fmt: skip
"""Task -> a robot whose file states no friction of its joints."""


def of_robot(name: str, friction: float, folder: Path) -> Task[Any]:
    """A task, of the robot of its file with so much friction, N m, in its joints."""
    file = folder / "robot.urdf"
    file.write_text(FILES[name].replace("</joint>", f'<dynamics friction="{friction}"/></joint>'))
    kind = join_content()[name].load()
    return kind(kind.config_type(robot=str(file)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("friction", [0.0, 0.1])
def test_a_variation_without_effect_on_a_robot_is_none_of_its_task(name: str, friction: float, tmp_path: Path) -> None:
    task = of_robot(name, friction, tmp_path)
    assert ("joint_friction" in task.varied) == ("joint_friction" in task.variations) == (friction > 0)
    assert {"armature", "link_mass", "motor_strength", "latency", "encoder_bias"} <= set(task.variations)
    assert "joint_friction" not in task.without(variations=["joint_friction"]).variations


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_variation_of_a_robot_without_friction_has_an_effect(name: str, tmp_path: Path) -> None:
    assert [str(finding) for finding in variations_have_an_effect(of_robot(name, 0.0, tmp_path))] == []


def test_a_factor_varies_what_is_not_zero_in_its_rows() -> None:
    assert not randomization.scale("a", "dof_frictionloss", 0.5, 2.0).varies(MODEL)
    assert not randomization.scale("a", "body_mass", 0.5, 2.0, [0]).varies(MODEL)
    assert randomization.scale("a", "body_mass", 0.5, 2.0, [0, 1]).varies(MODEL)
    assert randomization.offset("a", "dof_frictionloss", 0.5, 2.0).varies(MODEL)
    assert not randomization.scale_servos("a", 0.5, 2.0, []).varies(MODEL)


@pytest.mark.parametrize("name", ["swarm/hover", "locomotion/go1-joystick-flat", "manipulation/track-pose"])
def test_parameters_in_a_state_are_drawn_from_the_range_that_is_listed(name: str) -> None:
    task = task_of(name)
    terms: Sequence[Term] = [term for term in task.terms if term.state_field is not None]
    assert terms
    fields = [str(term.state_field) for term in terms]
    drawn = jax.jit(jax.vmap(lambda key: [getattr(task.reset(key).task_state, field) for field in fields]))(KEYS)
    for term, values in zip(terms, drawn, strict=True):
        (only,) = term.ranges
        fills(np.asarray(values), only)


def test_a_drone_begins_within_the_ranges_that_are_listed() -> None:
    task: Any = task_of("swarm/hover")
    start = next(term for term in task.terms if term.name == "start")
    ranges = {drawn.quantity: drawn for drawn in start.ranges}
    reset = jax.jit(jax.vmap(lambda key: (lambda r: (r.qpos, r.qvel))(task.reset(key))))(KEYS)
    qpos, qvel = map(np.asarray, reset)
    distance = np.linalg.norm(qpos[:, :3] - task.target, axis=1)
    # Few points of a ball lie near its middle: only the outer end is filled.
    for values, name in ((distance, "distance from the target"), (np.linalg.norm(qvel[:, :3], axis=1), "velocity")):
        assert ranges[name].distribution is Distribution.BALL
        assert 0.95 * ranges[name].high <= values.max() <= ranges[name].high + 1e-5
    fills(qvel[:, 3:], ranges["angular velocity about each axis"])
    tilt = np.rad2deg(np.arccos(1 - 2 * (qpos[:, 4] ** 2 + qpos[:, 5] ** 2)))
    fills(tilt, ranges["tilt about any level axis"])


def test_a_range_is_said_in_a_line() -> None:
    assert str(Range("delay", 0, 0.01, "s")) == "delay uniform 0 to 0.01 s"
    assert str(Range.spread("factor", 0.05, "1", about=1)) == "factor uniform 0.95 to 1.05"
    normal = Range.spread("joint", 0.1, "rad", Distribution.NORMAL)
    assert str(normal) == "joint normal 0 rad, standard deviation 0.1 rad"
    term = Term("wind", "gusts", ranges=(Range("speed", 0, 2, "m/s"), Range("length", 1, 2, "m")))
    assert term.summary == "gusts: speed uniform 0 to 2 m/s; length uniform 1 to 2 m"
    assert Term("wind", "gusts", no_range="as it blows").summary == "gusts: as it blows"
    with pytest.raises(ValueError, match=r"range of 'delay': low=2 must not exceed high=1"):
        Range("delay", 2, 1, "s")
