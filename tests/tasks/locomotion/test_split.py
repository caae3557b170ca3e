"""A robot as a team moves as the robot alone does under the joined actions, bit by bit; a number tells agents apart."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import embodied
from embodied.core.task import has_expert
from embodied.core.world import World
from embodied.errors import EmbodiedError
from embodied.parts import SplitRobot
from tasks.locomotion.classic.ant import Ant
from tasks.locomotion.classic.split import Ant4x2, AntTeamConfig, visible
from tests.kit.hooks import blank
from tests.kit.scripts import hosted
from tests.kit.worlds import jitted, task_of

N, KEY = 3, jax.random.PRNGKey(0)
ROBOTS = {"half-cheetah-2x3": "half-cheetah", "ant-4x2": "ant", "humanoid-17x1": "humanoid"}
ORDER = {"half-cheetah-2x3": range(6), "ant-4x2": (2, 3, 4, 5, 6, 7, 0, 1), "humanoid-17x1": range(17)}
"""Entries of the robot's action in the order of the agents: the ant's motors begin with those of leg 4."""

pytestmark = pytest.mark.timeout(200)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_teams_actions_are_joined_in_order_and_each_agent_sees_what_the_robot_does(name: str) -> None:
    team, alone = (task_of(f"locomotion/{one}") for one in (name, ROBOTS[name]))
    assert isinstance(team, SplitRobot)
    agents = team.count
    actions = np.arange(alone.action_size, dtype=np.float32)
    joined = np.asarray(team.joined(jnp.asarray(actions.reshape(agents, -1))))
    np.testing.assert_array_equal(joined[list(ORDER[name])], actions)
    world, state = World.zeros(alone.model), blank(alone).task_state
    world = dataclasses.replace(world, qpos=jnp.arange(alone.model.nq) / 10, qvel=jnp.arange(alone.model.nv) / 10)
    seen, single = (jitted(one.observe)(world, state, KEY) for one in (team, alone))
    (number,) = set(seen["policy"]) - set(single["policy"])
    np.testing.assert_array_equal(seen["policy"][number], np.eye(agents))
    for group in ("policy", "critic"):
        for term, value in single["policy"].items():
            np.testing.assert_array_equal(seen[group][term], np.tile(value, (agents, 1)), err_msg=term)


@pytest.mark.parametrize(
    "name", ["half-cheetah-2x3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ant-4x2", "humanoid-17x1"))]
)
def test_a_robot_as_a_team_is_the_robot_to_the_bit(name: str) -> None:
    team, alone = (task_of(f"locomotion/{one}") for one in (name, ROBOTS[name]))
    actions = np.random.default_rng(0).uniform(-1, 1, (20, N, *team.action_shape)).astype(np.float32)
    joined = np.empty((20, N, alone.action_size), np.float32)
    joined[..., list(ORDER[name])] = actions.reshape(joined.shape)
    ours, theirs = hosted(team, 20, actions, count=N), hosted(alone, 20, joined, count=N)
    np.testing.assert_array_equal(ours.worlds.qpos, theirs.worlds.qpos)
    np.testing.assert_array_equal(ours.worlds.qvel, theirs.worlds.qvel)
    agents = team.action_shape[0]
    np.testing.assert_array_equal(ours.seen["critic"], np.repeat(theirs.seen["policy"][:, :, None], agents, 2))
    np.testing.assert_array_equal(ours.failure, theirs.failure)
    for term, value in theirs.terms.items():
        np.testing.assert_array_equal(ours.terms[term], value, err_msg=term)


def test_a_leg_is_an_agent() -> None:
    """Legs in the order of their numbers, hip before ankle."""
    task = Ant4x2()
    model = task.model
    action = jnp.arange(8.0).reshape(4, 2)
    moved = {model.joint(model.actuator_trnid[i, 0]).name: float(task.joined(action)[i]) for i in range(8)}
    assert moved == {
        f"{part}_{leg}": 2 * (leg - 1) + k for leg in (1, 2, 3, 4) for k, part in enumerate(("hip", "ankle"))
    }


def test_agents_may_see_joints_up_to_a_distance_only() -> None:
    """From a leg of the ant, the other hips are one joint away, their ankles two."""
    task = Ant4x2(AntTeamConfig(agent_obsk=0))
    model = task.model
    for within, count in ((0, 2), (1, 5), (2, 8)):
        own = [[model.joint(name).id for name in names] for names in Ant4x2.joints]
        places, speeds = visible(model, own, within)
        assert (places.sum(1) == 7 + count).all()  # of the root everything
        assert (speeds.sum(1) == 6 + count).all()
    env = embodied.make("locomotion/ant-4x2", 2, "mujoco", device="cpu", agent_obsk=0)
    policy = env.reset(seed=0)["policy"]
    assert env.observation_spec["policy"].shape == (4, 13 + 14 + 4)
    assert env.observation_spec["critic"].shape == (4, 105)
    assert ((policy[..., :13] != 0).sum(-1) == 5 + 2).all()
    leg = model.joint("hip_1").qposadr[0] - 2
    assert (policy[:, 0, leg : leg + 2] != 0).all()
    with pytest.raises(EmbodiedError, match="agent_obsk=-1; expected 0 or more joints"):
        Ant4x2(AntTeamConfig(agent_obsk=-1))


def test_a_team_is_a_task_of_its_own() -> None:
    task = Ant4x2()
    assert repr(task) == "Ant4x2"
    assert task.unwrapped is task
    assert not has_expert(task)
    assert not has_expert(Ant4x2)
    assert task.action_shape == (4, 2)
    assert dict(task.reward_weights) == dict(Ant().reward_weights)
    without = task.without(rewards=["ctrl"])
    assert without.action_shape == (4, 2)
    with pytest.raises(EmbodiedError, match="agents of this task cannot change places: no `seen_by` says what each"):
        task.team.seen_by(None, None, jnp.asarray(1))  # type: ignore[arg-type]  # refused before it looks


@pytest.mark.parametrize(
    ("joints", "message"),
    [
        ([[0, 1], [2, 3]], "expected each of the 8 of one robot once"),
        ([[0, 1, 2, 3], [4, 5, 6, 6]], "expected each of the 8 of one robot once"),
        ([[0, 1, 2], [3, 4, 5, 6, 7]], "expected as many for each agent"),
    ],
)
def test_joints_are_shared_out_evenly(joints: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SplitRobot(Ant(), joints)


def test_any_task_of_one_robot_can_be_shared_out() -> None:
    task = task_of("locomotion/go1-joystick-flat")
    team = SplitRobot(task, np.arange(12).reshape(4, 3).tolist())
    assert set(team.observation_terms["critic"]) == set(task.observation_terms["critic"])
    assert jax.eval_shape(team.reset, KEY).qpos.shape == (task.model.nq,)
