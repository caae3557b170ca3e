"""Handstand and footstand: balanced starts, the pose that rises, what earns and what counts as balance."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.math.rotations import quat_rotate
from tasks.locomotion.two_feet import Footstand, Handstand, TwoFeetConfig
from tests.kit.hooks import compiled, partly
from tests.kit.robots import biped
from tests.kit.worlds import jitted

TASKS = [
    (Handstand, "go1"),
    (Footstand, "go2"),
    *(pytest.param(kind, robot, marks=pytest.mark.slow) for kind, robot in ((Footstand, "go1"), (Handstand, "go2"))),
]
KEY = jax.random.PRNGKey(0)
NOTHING: Any = np.zeros(12, np.float32)


@functools.cache
def beginning(kind: type[Handstand], robot: str, upright: float) -> tuple[Handstand, Any]:
    task = compiled(kind(TwoFeetConfig(robot, upright_starts=upright, rising_starts=0.0, without=("all",))))
    return task, jax.tree.map(np.asarray, task.reset(KEY))


@pytest.mark.parametrize(("kind", "robot"), TASKS)
def test_upright_starts_balance_and_standing_ones_do_not(kind: type[Handstand], robot: str) -> None:
    for upright in (1.0, 0.0):
        task, start = beginning(kind, robot, upright)
        world = World.posed(task.model, start.qpos, start.qvel)
        terms = task.rewards(world, start.task_state, NOTHING)
        assert float(terms["balance"]) == upright
        assert (float(terms["height"]) > 0.7) == bool(upright)
        assert not bool(task.outcome(world, start.task_state).failure)


@pytest.mark.parametrize(("kind", "robot"), TASKS)
def test_moving_or_leaning_away_from_the_feet_earns_less_support(kind: type[Handstand], robot: str) -> None:
    task, start = beginning(kind, robot, 1.0)

    def support(speed: Any) -> float:
        qvel = np.concatenate([speed, start.qvel[3:]])
        return float(task.rewards(World.posed(task.model, start.qpos, qvel), start.task_state, NOTHING)["support"])

    # The belly's way is level while upright.
    forward = np.asarray(quat_rotate(start.qpos[3:7], jnp.array([0.0, 0.0, 1.0])))
    rest = support(np.zeros(3))
    assert rest > 0.6
    assert support(1.0 * forward) < 0.4 * rest
    assert support(-1.0 * forward) < 0.4 * rest


@pytest.mark.parametrize(("kind", "robot"), TASKS)
def test_a_robot_on_its_rump_or_its_nose_fails(kind: type[Handstand], robot: str) -> None:
    task, start = beginning(kind, robot, 1.0)
    sunk = start.qpos.copy()
    sunk[2] = 0.6 * task.robot.height
    world = World.posed(task.model, sunk, start.qvel)
    assert not float(task.rewards(world, start.task_state, NOTHING)["balance"])
    assert bool(task.outcome(world, start.task_state).failure)


@pytest.mark.parametrize(("kind", "robot"), TASKS)
def test_the_pose_goes_from_standing_to_balance_ahead_of_the_trunk(kind: type[Handstand], robot: str) -> None:
    task, start = beginning(kind, robot, 0.0)
    name = task.robot.feet[task.standing[0]].removesuffix("_foot")
    thigh = task.robot.joint_names.index(f"{name}_thigh")
    whole = task.upright_pose[thigh] - task.layout.stance[thigh]
    for pitch, share in ((0.0, 0.0), (20.0, 1 / 3), (40.0, 2 / 3), (60.0, 1.0), (90.0, 1.0)):
        turn = -kind.nose * np.radians(pitch) / 2
        qpos = start.qpos.copy()
        qpos[3:7] = [np.cos(turn), 0, np.sin(turn), 0]
        pose = task.pose(World.posed(task.model, qpos, start.qvel))
        assert float(pose[thigh] - task.layout.stance[thigh]) == pytest.approx(share * whole, abs=1e-3)


def test_rising_starts_have_any_pitch_with_the_standing_feet_on_the_ground() -> None:
    task = Footstand(TwoFeetConfig(upright_starts=0.0, rising_starts=1.0, without=("all",)))
    reset = partly(jax.vmap(task.reset), lambda starts: starts.qpos)
    poses, lowest = np.asarray(reset(jax.random.split(KEY, 40))), []
    for qpos in poses:
        world = World.posed(task.model, qpos, np.zeros(task.model.nv))
        lowest.append(float(np.min(np.asarray(task.feet(world, "pos"))[2:, 2])) - task.robot.foot_radius)
    ahead = jitted(jax.vmap(quat_rotate, (0, None)))(poses[:, 3:7], np.array([1.0, 0.0, 0.0]))
    assert np.histogram(np.arcsin(ahead[:, 2]), bins=4, range=(0.0, np.pi / 2))[0].min() > 3
    assert np.abs(lowest).max() < 0.08, "joint noise of 20 % moves the feet by a few centimetres"


def test_shares_that_exceed_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"upright_starts=0.7 and rising_starts=0.4 must be at most 1 together"):
        TwoFeetConfig(upright_starts=0.7, rising_starts=0.4)


@pytest.mark.parametrize(("kind", "robot"), TASKS)
def test_coming_down_fails_only_after_having_balanced(kind: type[Handstand], robot: str) -> None:
    task, upright = beginning(kind, robot, 1.0)
    _, standing = beginning(kind, robot, 0.0)
    down = World.posed(task.model, standing.qpos, standing.qvel)
    assert not bool(task.outcome(down, standing.task_state).failure)
    balanced = World.posed(task.model, upright.qpos, upright.qvel)
    state = task.post_step(balanced, upright.task_state, NOTHING, KEY)
    assert not bool(task.outcome(balanced, state).failure)
    assert bool(task.outcome(down, state).failure)


def test_two_feet_are_two_of_four(tmp_path: Path) -> None:
    (tmp_path / "walker.urdf").write_text(biped())
    with pytest.raises(EmbodiedError, match=r"walker.urdf stands on 2 feet; expected 4"):
        Handstand(TwoFeetConfig(str(tmp_path / "walker.urdf")))
