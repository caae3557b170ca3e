"""The families of bodies: names, limbs, split; and one policy for all of them, however the world is turned."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied import train
from embodied.core.body_rows import COLUMNS, VECTOR_WIDTH, WIDTH, parts_in
from embodied.core.episode import flatten_observation
from embodied.core.world import World
from embodied.env.factory import make
from embodied.env.registry import join_content
from embodied.errors import UnknownNameError
from embodied.math.rotations import quat_from_yaw, quat_multiply
from policies.networks.build import make_actor
from policies.networks.mlp import Activation, Architecture, NetworkConfig
from policies.training.loading import load_policy
from tasks.locomotion.morphologies import class_name, reach
from tasks.locomotion.morphologies.description import mirrored, without
from tasks.locomotion.morphologies.families import FAMILIES, task_name
from tasks.locomotion.morphologies.reach import Reach, ReachConfig, TaskState
from tests.kit.hooks import compiled
from tests.kit.worlds import jitted

VARIANTS = [(family.name, variant) for family in FAMILIES.values() for variant in family.variants]
SMALLEST = [(family.name, min(family.variants, key=lambda v: int(v.partition("_")[0]))) for family in FAMILIES.values()]
CONFIG = NetworkConfig((32, 32), Activation.SILU, output_gain=1.0, architecture=Architecture.PARTS)


@functools.cache
def task_of(family: str, variant: str) -> Reach:
    return getattr(reach, class_name(family, variant))()


State = tuple[np.ndarray, np.ndarray, np.ndarray]


def state_of(task: Reach, seed: int) -> State:
    """Some pose in mid-air, velocities, and a target (2,) m."""
    rng = np.random.default_rng(seed)
    qpos, qvel = rng.uniform(-0.5, 0.5, task.model.nq), rng.normal(0, 2, task.model.nv)
    qpos[:3], qpos[3:7] = rng.normal(0, 1, 3), rng.normal(0, 1, 4)
    qpos[3:7] /= np.linalg.norm(qpos[3:7])
    return qpos, qvel, rng.uniform(-5, 5, 2)


def rows_of(task: Reach, qpos: np.ndarray, qvel: np.ndarray, target: np.ndarray) -> torch.Tensor:
    """The observation (1, parts x WIDTH) in that state."""
    distance = jnp.asarray(np.linalg.norm(target - qpos[:2]), jnp.float32)
    state = TaskState(jnp.asarray(target, jnp.float32), distance, jnp.zeros(()), jnp.zeros(()))
    flat = observer(task)(World.posed(task.model, qpos, qvel), state, jax.random.PRNGKey(0))
    return torch.from_numpy(np.array(flat)[None])


@functools.cache
def observer(task: Reach) -> Callable[..., jax.Array]:
    return jax.jit(lambda *now: flatten_observation(task.observe(*now))["policy"])


def described(task: Reach, seed: int) -> torch.Tensor:
    """An observation (1, parts x WIDTH) of the body's own form, in which everything that moves is random."""
    layout = task.layout
    rows = np.random.default_rng(seed).normal(size=(len(layout.names), WIDTH))
    rows[:, COLUMNS["present"]], rows[:, COLUMNS["parent"]] = 1.0, layout.parents[:, None] + 1.0
    rows[:, COLUMNS["strength"]] = layout.strength
    rows[:, COLUMNS["target"]] = [0.6, 0.8, 0.0]
    return torch.tensor(rows, dtype=torch.float32).flatten()[None]


def rotated(rows: torch.Tensor, yaw: float) -> torch.Tensor:
    """The observation with all its vectors turned about the vertical."""
    turn = torch.tensor([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]]).float()
    table = rows.view(-1, WIDTH).clone()
    table[:, :VECTOR_WIDTH] = (table[:, :VECTOR_WIDTH].unflatten(1, (-1, 3)) @ turn.T).flatten(1)
    return table.flatten()[None]


def turned(state: State, yaw: float) -> State:
    """The state with the whole world turned about the vertical: pose, velocities and target."""
    qpos, qvel, target = (array.copy() for array in state)
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    qpos[:2], qvel[:2], target = turn @ qpos[:2], turn @ qvel[:2], turn @ target
    # A free joint's angular velocity is in the body's own frame, which turns along.
    qpos[3:7] = jitted(quat_multiply)(jitted(quat_from_yaw)(yaw), qpos[3:7])
    return qpos, qvel, target


def test_the_families_have_the_published_variants() -> None:
    assert {name: len(family.variants) for name, family in FAMILIES.items()} == {
        "hopper": 3,
        "walker": 8,
        "humanoid": 8,
        "cheetah": 10,
    }
    names = join_content()
    for family, variant in VARIANTS:
        assert task_name(family, variant) in names
    assert task_name("walker", "3_left_knee_right_knee") == "locomotion/reach-walker-3-left-knee-right-knee"
    assert names[task_name("cheetah", "13_tail")].variant_of == "locomotion/reach-cheetah-14-full"
    assert names["locomotion/reach-cheetah-14-full"].variant_of is None


def test_the_split_is_the_published_one() -> None:
    assert {name: family.held_out for name, family in FAMILIES.items()} == {
        "hopper": (),
        "walker": ("3_left_knee_right_knee", "6_right_foot"),
        "humanoid": ("7_left_leg", "8_right_knee"),
        "cheetah": ("11_leftbkneen_rightffoot", "12_tail_leftffoot"),
    }
    for family in FAMILIES.values():
        assert not set(family.train) & set(family.held_out)
        assert set(family.train) | set(family.held_out) == set(family.variants)


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_a_variant_compiles_with_as_many_parts_as_its_name_says(family: str, variant: str) -> None:
    task = task_of(family, variant)
    parts = int(variant.partition("_")[0])
    assert len(task.layout.names) == parts == task.model.nbody - 1
    assert task.action_size == 3 * (parts - 1)
    assert task.model.nu == len(task.layout.motors) == task.model.nv - 6
    assert [task.model.body(i + 1).name for i in range(parts)] == list(task.layout.names)
    # Action entries reach the motors of their own part and slot.
    slots = [f"{name}_{axis}" for name in task.layout.names[1:] for axis in "xyz"]
    assert [slots[i] for i in task.layout.motors] == [task.model.actuator(i).name for i in range(task.model.nu)]


def test_a_body_stands_on_the_floor() -> None:
    for family, variant in VARIANTS:
        task = task_of(family, variant)
        data = mujoco.MjData(task.model)
        mujoco.mj_forward(task.model, data)
        lowest = min(
            (data.geom_xpos[g, 2] - abs(data.geom_xmat[g, 8]) * task.model.geom_size[g, 1] - task.model.geom_size[g, 0])
            for g in range(task.model.ngeom)
            if task.model.geom_bodyid[g]
        )
        assert lowest == pytest.approx(0, abs=1e-9)


def test_left_and_right_are_mirror_images() -> None:
    body = FAMILIES["humanoid"].variants["9_full"]
    limbs = {limb.name: limb for limb in body}
    assert mirrored(mirrored(limbs["right_thigh"])) == limbs["right_thigh"]
    task = task_of("humanoid", "9_full")
    rng = np.random.default_rng(0)
    qpos = task.model.qpos0.copy()
    for joint in range(1, task.model.njnt):
        name = task.model.joint(joint).name
        if name.startswith("right_"):
            low, high = task.model.joint(joint).range
            for side in (name, name.replace("right_", "left_")):
                qpos[task.model.joint(side).qposadr[0]] = rng.uniform(low, high) if side == name else qpos[
                    task.model.joint(name).qposadr[0]
                ]  # fmt: skip
    data = mujoco.MjData(task.model)
    data.qpos = qpos
    mujoco.mj_kinematics(task.model, data)
    for name in ("shin", "lower_arm"):
        right, left = data.body(f"right_{name}").xpos, data.body(f"left_{name}").xpos
        np.testing.assert_allclose(left, right * [1, -1, 1], atol=1e-9)


def test_an_unknown_limb_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown limb 'wing'"):
        without(FAMILIES["walker"].variants["7_full"], ("wing",))


def test_a_target_must_not_be_reached_where_it_is_drawn() -> None:
    with pytest.raises(ValueError, match=r"expected 0 < reach=3.0 < target_distance=\(2.0, 6.0\)"):
        ReachConfig(reach=3.0)


def test_features_say_where_the_parts_are_and_about_which_axes_they_turn() -> None:
    task = task_of("humanoid", "9_full")
    state = state_of(task, 0)
    rows = rows_of(task, *state).view(-1, WIDTH).numpy()
    data = mujoco.MjData(task.model)
    data.qpos, data.qvel = state[:2]
    mujoco.mj_forward(task.model, data)
    torso = data.body("torso").xpos
    for row, name in zip(rows, task.layout.names, strict=True):
        np.testing.assert_allclose(row[COLUMNS["position"]], data.body(name).xpos - torso, atol=1e-5)
        np.testing.assert_allclose(row[COLUMNS["up"]], data.body(name).xmat.reshape(3, 3)[:, 2], atol=1e-5)
        for slot, axis in enumerate("xyz"):
            if f"{name}_{axis}" in [task.model.joint(j).name for j in range(task.model.njnt)]:
                joint = data.joint(f"{name}_{axis}")
                np.testing.assert_allclose(row[COLUMNS[f"axis_{slot}"]], joint.xaxis, atol=1e-5)
                assert row[COLUMNS["angle"]][slot] == pytest.approx(joint.qpos[0], abs=1e-5)
                assert row[COLUMNS["speed"]][slot] == pytest.approx(joint.qvel[0], abs=1e-4)
            else:
                assert not row[COLUMNS[f"axis_{slot}"]].any()
    np.testing.assert_array_equal(rows[:, COLUMNS["parent"]][:, 0], [0, 1, 2, 1, 4, 1, 6, 1, 8])


@pytest.mark.parametrize(
    ("family", "variant"),
    [pytest.param(*pair, marks=[] if pair in SMALLEST[:2] else pytest.mark.slow) for pair in VARIANTS],
)
def test_turning_the_world_leaves_the_actions_as_they_are(family: str, variant: str) -> None:
    """Yaw of body, velocities and target alike in MuJoCo: torques about the body's own axes are the same."""
    task = task_of(family, variant)
    actor = make_actor(WIDTH * len(task.layout.names), task.action_size, CONFIG, generator=generator())
    for seed, yaw in enumerate((0.4, 2.0, -2.7)):
        state = state_of(task, seed)
        with torch.no_grad():
            before, after = actor(rows_of(task, *state)), actor(rows_of(task, *turned(state, yaw)))
            other = actor(rows_of(task, *turned(state, yaw)[:2], state[2]))
        torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
        assert before.abs().max() > 1e-2
        assert (other - before).abs().max() > 1e-3  # the target alone stayed: that is another situation


def test_one_policy_acts_on_every_variant_of_every_family() -> None:
    actor = make_actor(WIDTH * 2, 3, CONFIG, generator=generator())
    for family, variant in VARIANTS:
        task = task_of(family, variant)
        obs = described(task, 0)
        assert parts_in(obs.shape[1]) == len(task.layout.names)
        assert actor.fits(obs.shape[1], task.action_size)
        action = actor(obs)
        assert action.shape == (1, task.action_size)
        idle = np.setdiff1d(np.arange(task.action_size), task.layout.motors)
        assert not action[0, idle].any()
        assert action[0, task.layout.motors].abs().min() > 0
        torch.testing.assert_close(actor(rotated(obs, 1.3)), action, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_physics_of_every_variant_stays_finite(family: str, variant: str) -> None:
    task = task_of(family, variant)
    data = mujoco.MjData(task.model)
    rng = np.random.default_rng(0)
    for _ in range(200 * task.timing.substeps):
        data.ctrl = rng.uniform(-1, 1, task.model.nu)
        mujoco.mj_step(task.model, data)
    assert np.isfinite(data.qpos).all()
    assert np.isfinite(data.qvel).all()


def test_a_reached_target_is_replaced_and_counts_as_success() -> None:
    task = compiled(task_of("walker", "7_full"))
    start = task.reset(jax.random.PRNGKey(0))
    qpos = np.array(start.qpos)
    world = World.posed(task.model, qpos, np.zeros(task.model.nv))
    near = TaskState(jnp.array([0.3, 0.0]), jnp.array(0.32), jnp.zeros(()), jnp.zeros(()))
    after = task.post_step(world, near, jnp.zeros(task.action_size), jax.random.PRNGKey(1))
    assert float(after.approach) == pytest.approx(0.02 / task.timing.control_dt, rel=1e-3)
    assert float(after.reached) == 1
    low, high = task.config.target_distance
    assert low <= float(after.distance) <= high
    assert bool(task.outcome(world, after).success)
    assert not bool(task.outcome(world, near).success)
    qpos[3:7] = [np.cos(0.6), np.sin(0.6), 0, 0]  # leans by 1.2 rad
    fallen = task.outcome(World.posed(task.model, qpos, np.zeros(task.model.nv)), after)
    assert bool(fallen.failure)
    assert not bool(fallen.success)


@pytest.mark.slow
def test_one_policy_is_trained_on_a_family_and_runs_on_another_body(tmp_path: Path) -> None:
    words = ["reach-hopper", "--num-envs", "12", "--steps", "64", "--ppo.unroll", "8", "--evaluate-episodes", "0"]
    assert train.main([*words, "--out", str(tmp_path / "run")]) == 0
    env = make("locomotion/reach-walker-6-right-foot", num_envs=2, engine="mujoco")
    assert load_policy(tmp_path / "run", env)(env.reset()).shape == (2, env.action_size)


def test_each_family_is_a_suite_with_its_published_split() -> None:
    suites = join_content().suites
    for family in FAMILIES.values():
        suite = suites[f"reach-{family.name}"]
        assert suite.tasks == tuple(task_name(family.name, variant) for variant in family.train)
        assert suite.held_out == tuple(task_name(family.name, variant) for variant in family.held_out)
        assert not suite.identified, "a policy sees the body, it is not told which"


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
