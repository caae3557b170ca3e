"""A base bears its hand at the palm, moves no faster than a Franka arm, and holds its place."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec, load_spec
from embodied.math.rotations import matrix_from_quat
from tasks.grasping.hands.floating_hand import (
    ACCELERATION,
    AXES,
    LEAD,
    SPEED,
    TURNING,
    TURNING_ACCELERATION,
    FloatingBase,
    Mount,
    add_floating_hand,
    track_reference,
)
from tasks.grasping.hands.hand import PALM_DOWN, PHYSICS_DT, poses, set_physics
from tasks.grasping.hands.models import HANDS, hand_named

STATION = Mount("right_", (0.1, 0.2, 0.6), (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0))
DT = 0.05  # s
TRACK = jax.jit(lambda reference, at, action, ranges: track_reference(reference, at, action, ranges, DT))
every_hand = pytest.mark.parametrize("name", HANDS)


@functools.cache
def carried(name: str) -> mujoco.MjModel:
    spec = load_spec("scenes/floor.xml")
    set_physics(spec)
    add_floating_hand(spec, hand_named(name), STATION)
    return compile_spec(spec)


def palm(model: mujoco.MjModel, **axes: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the palm is, all joints at zero but those named: (3,) m and its axes (3, 3)."""
    data = mujoco.MjData(model)
    data.qpos[:] = 0
    for axis, value in axes.items():
        data.joint(STATION.prefix + axis).qpos[0] = value
    mujoco.mj_kinematics(model, data)
    site = data.site(f"{STATION.prefix}palm")
    return site.xpos.copy(), site.xmat.reshape(3, 3).copy()


@every_hand
def test_the_palm_is_at_the_station(name: str) -> None:
    pos, axes = palm(carried(name))
    np.testing.assert_allclose(pos, STATION.pos, atol=1e-6)
    np.testing.assert_allclose(axes, matrix_from_quat(jnp.array(STATION.quat)), atol=1e-6)


@every_hand
def test_slides_follow_the_world_and_hinges_turn_about_the_palm(name: str) -> None:
    model = carried(name)
    home, upright = palm(model)
    for number, axis in enumerate(AXES):
        pos, axes = palm(model, **{axis: 0.1})
        if number < 3:
            np.testing.assert_allclose(pos - home, 0.1 * np.eye(3)[number], atol=1e-6)
            np.testing.assert_allclose(axes, upright, atol=1e-6)
        else:
            np.testing.assert_allclose(pos, home, atol=1e-6)
            np.testing.assert_allclose(axes[:, number - 3], upright[:, number - 3], atol=1e-6)
            assert np.arccos((np.trace(upright.T @ axes) - 1) / 2) == pytest.approx(0.1, abs=1e-4)


def driven(model: mujoco.MjModel, name: str, action: np.ndarray, seconds: float, push: float = 0.0) -> np.ndarray:
    """(steps, 2, 6) positions and velocities while an action is held; `push` in N down, on the base."""
    data, base, layout = mujoco.MjData(model), FloatingBase.of(model, STATION), hand_named(name).layout(model, "right_")
    shape = poses(hand_named(name)).closed
    data.qpos[layout.qpos], data.ctrl[layout.actuators] = shape.joints, shape.targets
    data.xfrc_applied[base.body, 2] = -push
    reference, rows = np.zeros(6, np.float32), []
    for _ in range(round(seconds / DT)):
        at = data.qpos[base.qpos].astype(np.float32)
        data.ctrl[base.actuators], reference = TRACK(reference, at, action.astype(np.float32), base.ranges)
        for _ in range(round(DT / PHYSICS_DT)):
            mujoco.mj_step(model, data)
            rows.append((data.qpos[base.qpos].copy(), data.qvel[base.qvel].copy()))
    return np.array(rows)


@pytest.mark.parametrize(("axis", "speed", "most"), [(1, SPEED, ACCELERATION), (3, TURNING, TURNING_ACCELERATION)])
def test_it_gets_as_fast_as_the_arm_and_no_faster(axis: int, speed: float, most: float) -> None:
    """All the way to the end of its range, where it must brake."""
    velocity = driven(carried("leap"), "leap", np.eye(6)[axis], 2.0)[:, 1, axis]
    assert 0.9 * min(speed, 1.4) < velocity.max() < 1.02 * speed
    gained = np.abs(np.diff(velocity, prepend=0.0)) / PHYSICS_DT
    assert 0.8 * most < gained.max() < 1.1 * most
    assert abs(velocity[-1]) < 0.01


def test_a_slanted_way_is_no_faster_than_a_straight_one() -> None:
    rest = np.zeros(6, np.float32)
    velocity, _ = map(np.asarray, TRACK(rest, rest, rest + 1, STATION.ranges))
    assert np.linalg.norm(velocity[:3]) == pytest.approx(SPEED, rel=1e-5)
    assert np.linalg.norm(velocity[3:]) == pytest.approx(TURNING, rel=1e-5)


@every_hand
def test_it_holds_its_place_with_a_weight_on_it(name: str) -> None:
    moved = np.abs(driven(carried(name), name, np.zeros(6), 1.0, push=5.0)[:, 0])
    assert moved[:, :3].max() < 0.005
    assert moved[:, 3:].max() < 0.02


def test_a_reference_stays_in_its_range_and_near_the_base() -> None:
    (low, high), rng = STATION.ranges.T, np.random.default_rng(0)
    for _ in range(20):
        at = rng.uniform(low, high).astype(np.float32)
        reference, action = at + rng.uniform(-LEAD, LEAD), rng.uniform(-1.0, 1.0, 6)
        after = np.asarray(TRACK(reference.astype(np.float32), at, action.astype(np.float32), STATION.ranges)[1])
        assert ((after >= low - 1e-6) & (after <= high + 1e-6)).all()
        assert (np.abs(after - at) <= LEAD + 1e-6).all()


@pytest.mark.parametrize("axis", range(6))
def test_it_stops_at_the_end_of_its_range(axis: int) -> None:
    reached = driven(carried("leap"), "leap", np.eye(6)[axis], 2.5)[-20:, 0, axis]
    assert reached == pytest.approx(STATION.ranges[axis, 1], abs=0.01)


def test_two_hands_fit_into_one_scene_and_only_shadows_forearm_stays_behind() -> None:
    for name in HANDS:
        hand, spec = hand_named(name), load_spec("scenes/floor.xml")
        for mount in (STATION, Mount("left_", (0, -0.2, 0.5), PALM_DOWN)):
            add_floating_hand(spec, hand, mount)
        model = compile_spec(spec)
        assert model.nu == 2 * (len(AXES) + len(hand.actuator_names))
        weight = model.body_mass.sum() / 2
        assert weight == pytest.approx(hand.mass + 0.2, abs=1e-6) if name != "shadow" else weight < 1.5
