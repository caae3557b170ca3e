"""The shared core: draws, observations, rewards, the hand, fixtures, and the scripts of the first seven tasks."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import torch

from embodied.engines.mjx.buffers import admitted_pairs
from embodied.env.env import Env
from embodied.errors import EmbodiedError
from embodied.factory import make
from embodied.registry import join_content
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50
from tasks.manipulation.common import objects, panda
from tasks.manipulation.common.draws import CANDIDATES, Box, Ranges
from tasks.manipulation.common.rewards import FULL, both, near
from tasks.manipulation.common.skills import STEP
from tasks.manipulation.common.tabletop import BACK, LEAD, LEFT, MIDDLE, WORKSPACE, TabletopConfig
from tests.kit.worlds import build_env
from tests.tasks.manipulation.doors import HANDLE, ToyDoor

N = 8  # as in the contract of tasks, whose compiled programs are found in the cache
NAMES = [f"manipulation/{name}" for name in MT50]
each_task = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if join_content()[name].variant_of else []) for name in NAMES],
)
every_task = pytest.mark.parametrize("name", NAMES)
pytestmark = pytest.mark.timeout(280)


@functools.cache
def env_of(name: str) -> Env:
    return make(name, num_envs=N, engine="mujoco", device="cpu")


@functools.cache
def task_of(name: str) -> Any:
    return join_content()[name].load()()


def rollout(env: Env, policy: Any, steps: int, seed: int = 0) -> list[Any]:
    """Observation, action and step of a number of control steps."""
    obs, rows = env.reset(seed), []
    for _ in range(steps):
        action = policy(obs)
        step = env.step(action)
        rows.append((obs, action, step))
        obs = step.obs
    return rows


# Draws.


@every_task
def test_every_draw_lies_in_its_range_and_is_valid(name: str) -> None:
    ranges = task_of(name).ranges
    starts, goals = (
        np.asarray(p) for p in jax.jit(jax.vmap(ranges.draw))(jax.random.split(jax.random.PRNGKey(1), 20_000))
    )
    for points, box in ((starts, ranges.start), (goals, ranges.goal or ranges.start)):
        assert (points >= np.asarray(box.low, np.float32)).all()
        assert (points <= np.asarray(box.high, np.float32)).all()
        varied = np.ptp(box.corners, 0) > 0
        # Start and goal that have to be apart leave no room for some ends of the ranges.
        filled = 0.15 if ranges.apart else 0.01
        np.testing.assert_allclose(np.ptp(points, 0)[varied], np.ptp(box.corners, 0)[varied], rtol=filled)
    assert (np.linalg.norm((starts - goals)[:, :2], axis=1) >= ranges.apart - 1e-6).all()


def test_where_no_candidate_is_valid_the_farthest_corners_stand_in() -> None:
    box = Box((0.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    ranges = Ranges(box, box, apart=1.41)  # only two opposite corners are as far apart
    starts, goals = jax.jit(jax.vmap(ranges.draw))(jax.random.split(jax.random.PRNGKey(0), 200))
    assert (np.linalg.norm(np.asarray(starts - goals), axis=1) >= 1.41).all()
    assert CANDIDATES < 100, "the candidates alone would not have found them"


def test_an_impossible_distance_is_refused() -> None:
    box = Box((0.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    with pytest.raises(ValueError, match=r"apart=1.5 m: no start and goal are as far"):
        Ranges(box, box, apart=1.5)


def test_a_key_decides_a_start_so_keys_may_stand_for_goals() -> None:
    task = task_of("manipulation/push")
    first, again, other = (task.reset(jax.random.PRNGKey(seed)).task_state.goal for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# The hand.


@pytest.mark.parametrize(("joints", "x", "y"), [(MIDDLE, 0.0, 0.6), (BACK, 0.0, 0.4), (LEFT, -0.5, 0.6)])
def test_the_hand_starts_where_its_name_says_and_points_down(joints: Any, x: float, y: float) -> None:
    pos, rot = panda.tcp_pose(jnp.asarray(joints))
    np.testing.assert_allclose(pos, (x, y, 0.15), atol=1e-4)
    np.testing.assert_allclose(rot, panda.HAND_DOWN, atol=2e-3)


def test_an_action_of_one_moves_the_hand_by_a_centimetre_a_step() -> None:
    """Within the servos' lag: after ten full steps and ten at rest 10 cm, and never more than 5 cm behind."""
    env = env_of("manipulation/reach")
    for axis, sign in ((0, 1), (1, 1), (2, 1), (0, -1), (2, -1)):
        obs = start = env.reset(0)["policy"][0, :3].clone()
        action = torch.zeros(N, 4)
        action[:, axis] = sign
        for step in range(20):
            obs = env.step(action if step < 10 else torch.zeros(N, 4)).obs["policy"][0, :3]
            lead = np.asarray(env.task_state.target)[0] - (obs.numpy() - [0, 0, panda.HAND_ABOVE_TCP])
            assert np.linalg.norm(lead) <= LEAD + 0.01
        moved = (obs - start).numpy()
        assert sign * moved[axis] == pytest.approx(10 * STEP, abs=0.012)
        assert np.abs(np.delete(moved, axis)).max() < 0.01


def test_an_arm_within_its_makers_limits_accelerates_less_and_arrives_all_the_same() -> None:
    def accelerations(env: Env) -> tuple[np.ndarray, np.ndarray]:
        rows = rollout(env, load_policy("expert", env), 160)
        joints = torch.stack([obs["proprio"][:, 4:] for obs, _, _ in rows]).double().numpy()
        ratios = np.diff(joints, n=2, axis=0) / panda.CONTROL_DT**2 / panda.ACCELERATION_LIMITS
        return np.abs(ratios).max((1, 2)), torch.stack([step.success for _, _, step in rows]).any(0).numpy()

    limited, arrived = accelerations(make("manipulation/reach", N, "mujoco", device="cpu", arm_limits=True))
    free, _ = accelerations(env_of("manipulation/reach"))
    assert arrived.all()
    assert limited.max() < 1.02
    assert free.max() > 3.0
    with pytest.raises(EmbodiedError, match=r"arm_limits are the Panda's; models such as '.*arm.urdf' name no accel"):
        TabletopConfig(arm_limits=True, robot="arm.urdf")


def test_the_target_stays_in_the_workspace() -> None:
    env = env_of("manipulation/reach")
    env.reset(0)
    action = torch.tensor([[1.0, 1.0, -1.0, 0.0]]).repeat(N, 1)
    for _ in range(80):
        env.step(action)
    target = np.asarray(env.task_state.target)
    assert (target <= np.asarray(WORKSPACE.high) + 1e-6).all()
    np.testing.assert_allclose(target[:, 2], WORKSPACE.low[2], atol=1e-6)


def test_the_gripper_closes_and_opens() -> None:
    env = env_of("manipulation/reach")
    env.reset(0)
    for effort, opening in ((1.0, 0.29), (-1.0, 0.99)):  # Meta-World's
        action = torch.tensor([[0.0, 0.0, 0.0, effort]]).repeat(N, 1)
        for _ in range(30):
            env.step(action)
        obs = env.step(action).obs["policy"]
        np.testing.assert_allclose(obs[:, 3], opening, atol=0.02)


# Observations.


def test_the_39_numbers_are_in_the_documented_places() -> None:
    env = env_of("manipulation/pick-place")
    env.reset(0)
    policy = load_policy("random", env)
    env.step(policy({"policy": torch.zeros(N, 39)}))
    before = env.world()
    obs = env.step(policy({"policy": torch.zeros(N, 39)})).obs["policy"].numpy()
    world, state = env.world(), env.task_state
    assert obs.shape == (N, 39)
    np.testing.assert_allclose(obs[:, :3], world["hand_pos"], atol=1e-6)
    np.testing.assert_allclose(obs[:, :3] - world["tcp_pos"], [[0, 0, panda.HAND_ABOVE_TCP]] * N, atol=2e-3)
    np.testing.assert_allclose(obs[:, 3], (2 * np.mean(world.qpos[:, 7:9], 1) + 0.011) / 0.1, atol=1e-6)
    np.testing.assert_allclose(obs[:, 4:11], world.qpos[:, 9:16], atol=1e-5)
    assert not obs[:, 11:18].any(), "there is no second object"
    np.testing.assert_allclose(obs[:, 18:21], before["hand_pos"], atol=1e-6)
    np.testing.assert_allclose(obs[:, 36:], state.goal, atol=1e-6)


def test_the_previous_step_is_copied_and_at_the_start_the_present() -> None:
    rows = rollout(env_of("manipulation/push"), lambda obs: torch.ones(N, 4), 4)
    first = rows[0][0]["policy"]
    assert torch.equal(first[:, 18:36], first[:, :18])
    for obs, _, step in rows:
        assert torch.equal(step.obs["policy"][:, 18:36], obs["policy"][:, :18])


def test_proprioception_is_the_robots_own() -> None:
    """Hand, opening and the arm's joints; neither objects nor the goal."""
    task = task_of("manipulation/push")
    start, key = task.reset(jax.random.PRNGKey(0)), jax.random.PRNGKey(0)
    pose = start.qpos[np.array([task.model.joint(name).qposadr[0] for name in panda.ARM_JOINTS])]
    seen = [
        task.observe(posed(task, start, **joints), dataclasses.replace(start.task_state, goal=goal), key)["proprio"]
        for joints, goal in (({}, start.task_state.goal), ({"object": np.array([0.2, 0.8, 0.1])}, jnp.zeros(3)))
    ]
    assert [np.shape(term) for term in seen[0].values()] == [(3,), (1,), (7,)]
    np.testing.assert_array_equal(seen[0]["joint_pos"], pose)
    jax.tree.map(np.testing.assert_array_equal, *seen)
    moved = task.observe(posed(task, start, joint4=np.array([-2.0])), start.task_state, key)["proprio"]
    assert np.abs(moved["hand"] - seen[0]["hand"]).max() > 0.01


@pytest.mark.parametrize("name", ["reach", "push", "push-back", "pick-place", "sweep"])
def test_cameras_see_a_mark_at_goals_that_nothing_else_shows(name: str) -> None:
    """It is for the eye alone, and absent where the goal is hidden."""
    task = task_of(f"manipulation/{name}")
    start = task.reset(jax.random.PRNGKey(3))
    place = task.visual_model.body(objects.GOAL).mocapid[0]
    np.testing.assert_array_equal(task.mocap_positions(start.task_state)[place], start.task_state.goal)
    assert task.visual_model.body(objects.GOAL).geomnum == 1
    assert task.model.body(objects.GOAL).geomnum == 0
    hidden = type(task)(TabletopConfig(hide_goal=True))
    assert hidden.visual_model.nmocap == task.visual_model.nmocap - 1
    assert hidden.reset(jax.random.PRNGKey(3)).mocap_pos is None


def test_a_hidden_goal_is_zero_for_the_policy_alone() -> None:
    task = join_content()["manipulation/push"].load()(TabletopConfig(hide_goal=True))
    start = task.reset(jax.random.PRNGKey(0))
    world = posed(task, start)
    seen = task.observe(world, start.task_state, jax.random.PRNGKey(0))
    assert not np.asarray(seen["policy"]["goal"]).any()
    np.testing.assert_array_equal(seen["critic"]["goal"], start.task_state.goal)


def posed(task: Any, start: Any, **joints: np.ndarray) -> Any:
    """The world of a start, with some free joints elsewhere."""
    from embodied.core.world import World

    qpos = np.array(start.qpos)
    for name, value in joints.items():
        first = task.model.joint(name).qposadr[0]
        qpos[first : first + len(value)] = value
    return World.posed(task.model, qpos, np.zeros(task.model.nv))


# Rewards.


def test_conjunction_is_bounded_and_symmetric() -> None:
    a, b = (grid.ravel() for grid in jnp.meshgrid(jnp.linspace(0, 1, 11), jnp.linspace(0, 1, 11)))
    value = both(a, b)
    assert (value >= 0).all()
    assert (value <= jnp.minimum(a, b) + 1e-6).all()
    np.testing.assert_allclose(value, both(b, a))
    assert float(near(0.2)) == pytest.approx(0.1)


@each_task
def test_scripts_solve_their_tasks_and_rewards_are_10_exactly_where_they_are_solved(name: str) -> None:
    """And lie between 0 and 10 in every step, also of a policy that acts at random."""
    env = env_of(name)
    solved = {}
    for policy, steps in (("random", 100), ("expert", 200)):
        rows = [step for *_, step in rollout(env, load_policy(policy, env), steps, seed=11)]
        reward, success = torch.stack([step.reward for step in rows]), torch.stack([step.success for step in rows])
        assert (reward >= 0).all()
        assert torch.equal(reward == FULL, success)
        assert (reward[~success] < 8).all()
        solved[policy] = success.any(0)
    assert solved["expert"].all()


@pytest.mark.slow
@every_task
def test_scripts_solve_their_tasks_fifty_times(name: str) -> None:
    env = make(name, num_envs=50, engine="mujoco", device="cpu")
    rows = rollout(env, load_policy("expert", env), 500, seed=5)
    success = torch.stack([step.success for *_, step in rows])
    assert success.any(0).float().mean() >= 0.98
    assert success[-1].float().mean() >= 0.98, "and stay solved"


def test_a_seed_decides_a_whole_episode() -> None:
    env = env_of("manipulation/pick-place")
    expert = load_policy("expert", env)
    runs = [torch.stack([step.obs["policy"] for *_, step in rollout(env, expert, 60, seed)]) for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


# Scenes and fixtures.


@each_task
def test_scenes_are_simple_enough_for_mjx(name: str) -> None:
    """Accepted by MJX; few pairs of shapes that may meet. MJX-JAX makes room for every contact of every pair."""
    mjx = pytest.importorskip("mujoco.mjx")
    model = task_of(name).model
    mjx.put_model(model, impl="jax")
    assert admitted_pairs(model) <= 80
    assert mjx.make_data(model, impl="jax")._impl.contact.dist.shape[0] <= 250
    collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
    solid = [mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE]
    assert set(model.geom_type[collides]) <= {*map(int, solid), int(mujoco.mjtGeom.mjGEOM_SPHERE)}


@functools.cache
def door() -> ToyDoor:
    return ToyDoor()


# MJX-JAX compiles the arm for minutes: by default `tests/embodied/engines/test_mocap.py` shows it with a small model.
@pytest.mark.parametrize(
    "engine", ["mujoco", pytest.param("mjx-jax", marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
)
def test_a_fixture_stands_where_it_was_drawn_and_its_hinge_turns(engine: str) -> None:
    env = build_env(door(), engine, N)
    obs = env.reset(0)["policy"].numpy()
    state = env.task_state
    base = np.asarray(state.fixtures)[:, 0]
    assert len(np.unique(base, axis=0)) == N
    turn = 0.1  # rad
    along, across = HANDLE[:2]
    expected = [np.cos(turn) * along - np.sin(turn) * across, np.sin(turn) * along + np.cos(turn) * across, 0]
    np.testing.assert_allclose(obs[:, 4:7], base + expected, atol=1e-4)
    for _ in range(3):
        obs = env.step(torch.zeros(N, 4)).obs["policy"].numpy()
    np.testing.assert_allclose(obs[:, 4:7], base + expected, atol=1e-4)
    np.testing.assert_array_equal(np.asarray(env.task_state.fixtures)[:, 0], base)


def test_a_door_that_stands_anywhere_can_be_pushed_open() -> None:
    env = build_env(door(), "mujoco", N)
    rows = rollout(env, load_policy("expert", env), 150)
    assert torch.stack([step.success for *_, step in rows]).any(0).all()
