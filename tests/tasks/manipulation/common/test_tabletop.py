"""The shared core: draws, observations, rewards, the hand, fixtures and scripts; what holds for all is tested there."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.core.world import World
from embodied.env.env import Env
from embodied.env.factory import make
from embodied.robot.prepared.arm import HAND_ABOVE_TCP
from policies.training.loading import load_policy
from tasks.manipulation.benchmarks import MT50
from tasks.manipulation.common import objects, panda
from tasks.manipulation.common.draws import CANDIDATES, Box, Ranges
from tasks.manipulation.common.rewards import both, near
from tasks.manipulation.common.skills import STEP
from tasks.manipulation.common.tabletop import (
    BACK,
    LEAD,
    LEFT,
    MIDDLE,
    WORKSPACE,
    TabletopConfig,
)
from tests.kit.scripts import rollout
from tests.kit.tabletop import CORNERS, begun, played, tabletop
from tests.kit.worlds import NUM_ENVS, jitted, world

pytestmark = pytest.mark.timeout(280)


@pytest.fixture
def env() -> Env:
    return world("manipulation/reach", "mujoco")


# Draws.


def test_where_no_candidate_is_valid_the_farthest_corners_stand_in() -> None:
    box = Box((0.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    ranges = Ranges(box, box, apart=1.41)  # only two opposite corners are as far apart
    starts, goals = jax.jit(jax.vmap(ranges.draw))(jax.random.split(jax.random.PRNGKey(0), 200))
    assert (np.linalg.norm(np.subtract(starts, goals), axis=1) >= 1.41).all()
    assert CANDIDATES < 100, "the candidates alone would not have found them"


def test_an_impossible_distance_is_refused() -> None:
    box = Box((0.0, 0.0, 0.0), (1.0, 1.0, 0.0))
    with pytest.raises(ValueError, match=r"apart=1.5 m: no start and goal are as far"):
        Ranges(box, box, apart=1.5)


def test_a_key_decides_a_start_so_keys_may_stand_for_goals() -> None:
    draw = jitted(tabletop("push").reset)
    first, again, other = (draw(jax.random.PRNGKey(seed)).task_state.goal for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


# The hand.


@pytest.mark.parametrize(("joints", "x", "y"), [(MIDDLE, 0.0, 0.6), (BACK, 0.0, 0.4), (LEFT, -0.5, 0.6)])
def test_the_hand_starts_where_its_name_says_and_points_down(joints: Any, x: float, y: float) -> None:
    pos, rot = jitted(panda.tcp_pose)(np.array(joints, np.float32))
    np.testing.assert_allclose(pos, (x, y, 0.15), atol=1e-4)
    np.testing.assert_allclose(rot, panda.HAND_DOWN, atol=2e-3)


def test_an_action_of_one_moves_the_hand_by_a_centimetre_a_step(env: Env) -> None:
    """Within the servos' lag: after ten full steps and ten at rest 10 cm, and never more than 5 cm behind."""
    for axis, sign in ((0, 1), (1, 1), (2, 1), (0, -1), (2, -1)):
        obs = start = env.reset(0)["policy"][0, :3].clone()
        action = torch.zeros(env.action_shape)
        action[:, axis] = sign
        for step in range(20):
            obs = env.step(action if step < 10 else torch.zeros(env.action_shape)).obs["policy"][0, :3]
            lead = np.asarray(env.task_state.target)[0] - (obs.numpy() - [0, 0, HAND_ABOVE_TCP])
            assert np.linalg.norm(lead) <= LEAD + 0.01
        moved = (obs - start).numpy()
        assert sign * moved[axis] == pytest.approx(10 * STEP, abs=0.012)
        assert np.abs(np.delete(moved, axis)).max() < 0.01


def test_an_arm_within_its_makers_limits_accelerates_less_and_arrives_all_the_same() -> None:
    limited = played(type(tabletop("reach"))(TabletopConfig(arm_limits=True)), 160)
    most = []
    for episode in (limited, played("reach", 60)):
        ratios = np.diff(episode.worlds.qpos[..., :7].astype(float), n=2, axis=0) / panda.CONTROL_DT**2
        most.append(np.abs(ratios / panda.ACCELERATION_LIMITS).max())
    assert limited.success.any(0).all()
    assert most[0] < 1.02
    assert most[1] > 3.0


def test_the_target_stays_in_the_workspace(env: Env) -> None:
    env.reset(0)
    action = torch.tensor([[1.0, 1.0, -1.0, 0.0]]).repeat(NUM_ENVS, 1)
    for _ in range(80):
        env.step(action)
    target = np.asarray(env.task_state.target)
    assert (target <= np.asarray(WORKSPACE.high) + 1e-6).all()
    np.testing.assert_allclose(target[:, 2], WORKSPACE.low[2], atol=1e-6)


def test_the_gripper_closes_and_opens(env: Env) -> None:
    env.reset(0)
    for effort, opening in ((1.0, 0.29), (-1.0, 0.99)):  # Meta-World's
        action = torch.tensor([[0.0, 0.0, 0.0, effort]]).repeat(NUM_ENVS, 1)
        for _ in range(30):
            env.step(action)
        obs = env.step(action).obs["policy"]
        np.testing.assert_allclose(obs[:, 3], opening, atol=0.02)


# Observations.


def test_the_39_numbers_are_in_the_documented_places_and_the_step_before_is_copied(env: Env) -> None:
    first = env.reset(0)["policy"]
    assert torch.equal(first[:, 18:36], first[:, :18]), "at the start the present"
    policy = load_policy("random", env)
    env.step(policy({"policy": first}))
    before = env.world()
    step = env.step(policy({"policy": first}))
    obs = step.obs["policy"].numpy()
    now, state = env.world(), env.task_state
    assert obs.shape == (NUM_ENVS, 39)
    np.testing.assert_allclose(obs[:, :3], now["hand_pos"], atol=1e-6)
    np.testing.assert_allclose(obs[:, :3] - now["tcp_pos"], [[0, 0, HAND_ABOVE_TCP]] * NUM_ENVS, atol=2e-3)
    np.testing.assert_allclose(obs[:, 3], (2 * np.mean(now.qpos[:, 7:9], 1) + 0.011) / 0.1, atol=1e-6)
    np.testing.assert_allclose(obs[:, 4:11], now.qpos[:, 9:16], atol=1e-5)
    assert not obs[:, 11:18].any(), "there is no second object"
    np.testing.assert_allclose(obs[:, 18:21], before["hand_pos"], atol=1e-6)
    np.testing.assert_allclose(obs[:, 36:], state.goal, atol=1e-6)
    after = env.step(policy({"policy": first}))
    assert torch.equal(after.obs["policy"][:, 18:36], step.obs["policy"][:, :18])


def test_proprioception_is_the_robots_own() -> None:
    """Hand, opening and the arm's joints; neither objects nor the goal."""
    task, start, _ = begun("push")
    pose = start.qpos[[task.model.joint(name).qposadr[0] for name in panda.ARM_JOINTS]]
    elsewhere = dataclasses.replace(start.task_state, goal=np.zeros(3, np.float32))
    seen = [
        sensed(task, state, **joints)["proprio"]
        for joints, state in (({}, start.task_state), ({"object": (0.2, 0.8, 0.1, 1, 0, 0, 0)}, elsewhere))
    ]
    shapes = {name: term.shape for name, term in seen[0].items()}
    assert shapes == {"hand": (3,), "opening": (1,), "joint_pos": (7,)}
    np.testing.assert_array_equal(seen[0]["joint_pos"], pose)
    jax.tree.map(np.testing.assert_array_equal, *seen)
    assert np.abs(sensed(task, start.task_state, joint4=-2.0)["proprio"]["hand"] - seen[0]["hand"]).max() > 0.01


def sensed(task: Any, state: Any, **joints: Any) -> Any:
    """What is observed with some joints elsewhere."""
    data = begun("push", **joints).data
    posed = World.posed(task.model, data.qpos, data.qvel)
    return jax.tree.map(np.asarray, jitted(task.observe)(posed, state, jax.random.PRNGKey(0)))


@pytest.mark.parametrize("name", ["reach", "push", "push-back", "pick-place", "sweep"])
def test_cameras_see_a_mark_at_goals_that_nothing_else_shows(name: str) -> None:
    """It is for the eye alone, and absent where the goal is hidden."""
    task, start, _ = begun(name)
    place = task.visual_model.body(objects.GOAL).mocapid[0]
    state = jax.tree.map(jnp.asarray, start.task_state)
    np.testing.assert_array_equal(task.pictures.mocap_positions(state)[place], state.goal)
    assert task.visual_model.body(objects.GOAL).geomnum == 1
    assert task.model.body(objects.GOAL).geomnum == 0
    hidden = type(task)(TabletopConfig(hide_goal=True))
    assert hidden.visual_model.nmocap == task.visual_model.nmocap - 1
    assert jax.eval_shape(hidden.reset, jax.random.PRNGKey(3)).mocap_pos is None


def test_a_hidden_goal_is_zero_for_the_policy_alone() -> None:
    task = type(tabletop("push"))(TabletopConfig(hide_goal=True))
    state = begun("push").start.task_state
    seen = sensed(task, state)
    assert not seen["policy"]["goal"].any()
    np.testing.assert_array_equal(seen["critic"]["goal"], state.goal)


# Rewards.


def test_conjunction_is_bounded_and_symmetric() -> None:
    a, b = (grid.ravel().astype(np.float32) for grid in np.meshgrid(np.linspace(0, 1, 11), np.linspace(0, 1, 11)))
    value = np.asarray(jitted(both)(a, b))
    assert (value >= 0).all()
    assert (value <= np.minimum(a, b) + 1e-6).all()
    np.testing.assert_allclose(value, jitted(both)(b, a))
    assert float(near(0.2)) == pytest.approx(0.1)


# Scripts; `test_metaworld.py` has one episode of each from four starts.


@pytest.mark.slow
@pytest.mark.parametrize("name", MT50)
def test_scripts_solve_their_tasks_fifty_times(name: str) -> None:
    env = make(f"manipulation/{name}", num_envs=50, engine="mujoco", device="cpu")
    success = torch.stack([step.success for step in rollout(env, load_policy("expert", env), 500, seed=5)])
    assert success.any(0).float().mean() >= 0.98
    assert success[-1].float().mean() >= 0.98, "and stay solved"


def test_a_seed_decides_a_whole_episode(env: Env) -> None:
    expert = load_policy("expert", env)
    runs = [torch.stack([step.obs["policy"] for step in rollout(env, expert, 20, seed)]) for seed in (1, 1, 2)]
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_a_fixture_stands_where_it_was_drawn_and_so_does_what_slides_on_it_in_every_step() -> None:
    task, starts = tabletop("window-open"), [begun("window-open", corner) for corner in CORNERS]
    base = np.array([start.task_state.fixtures[0] for _, start, _ in starts])
    np.testing.assert_allclose(base, task.ranges.start.corners[[*CORNERS]], atol=1e-6)
    sensed = [data.sensor("object1_pos").data for _, _, data in starts]
    np.testing.assert_allclose(sensed, base + task.point, atol=1e-4)
    episode = played("window-open", 180)
    np.testing.assert_allclose(episode.worlds["object1_pos"][2], base + task.point, atol=1e-4)
    np.testing.assert_array_equal(episode.states.fixtures[-1][:, 0], base)
