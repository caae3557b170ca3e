"""The slim gripper on the Panda: what makes policies written for Meta-World work."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.scenes import load_spec
from embodied.robot.prepared.arm import HAND_ABOVE_TCP
from tasks.manipulation.common import panda
from tasks.manipulation.common.robots import SLIM_GRIPPER, slim_panda, slim_xml
from tasks.manipulation.common.tabletop import FLOORLESS, WORKSPACE
from tests.kit.tabletop import played, tabletop
from tests.kit.worlds import jitted

pytestmark = pytest.mark.timeout(200)

LOWEST = 0.046  # m, where Meta-World's hand comes to rest at its floor
CONTACT = 0.018  # m between Meta-World's pads when they are closed


def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(slim_xml())


def test_it_takes_the_hands_place_with_its_names() -> None:
    ours, franka = model(), load_spec(panda.ASSET).compile()
    for kind in ("njnt", "nu", "nsensor", "nsensordata", "neq", "ntendon", "nq"):
        assert getattr(ours, kind) == getattr(franka, kind), kind
    for index in range(ours.nsensor):
        assert franka.sensor(ours.sensor(index).name).dim == ours.sensor(index).dim
    assert [ours.actuator(i).name for i in range(ours.nu)] == [franka.actuator(i).name for i in range(franka.nu)]
    assert load_spec(SLIM_GRIPPER).compile().body_mass.sum() < 1.0  # kg; the Panda carries 3


def test_its_kinematics_are_the_models() -> None:
    """With the hand down, and tilted, the tcp is where MuJoCo has it; the base stands higher by the extension."""
    robot, rng = slim_panda(), np.random.default_rng(0)
    tcp = jitted(robot.tcp)
    scene = robot.compose("scenes/table.xml").compile()
    data = mujoco.MjData(scene)
    for _ in range(5):
        joints = np.array(panda.HOME) + rng.uniform(-0.3, 0.3, 7)
        data.qpos[:7] = joints
        mujoco.mj_kinematics(scene, data)
        np.testing.assert_allclose(tcp(np.float32(joints)), data.site("tcp").xpos, atol=1e-5)
        np.testing.assert_allclose(
            data.site("hand").xpos - data.site("tcp").xpos,
            -HAND_ABOVE_TCP * data.site("tcp").xmat.reshape(3, 3)[:, 2],
            atol=1e-6,
        )


def test_the_hand_comes_down_as_low_as_metaworlds_and_slides_there() -> None:
    down, aside = (
        np.tile(np.array(action, np.float32), (steps, 4, 1))
        for action, steps in (([0, 0, -1, 1], 60), ([1, 0, -1, 1], 40))
    )
    # Nothing lies before the robot.
    hand = played("button-press", 100, np.concatenate([down, aside])).worlds["hand_pos"]
    np.testing.assert_allclose(hand[59, :, 2], LOWEST, atol=0.002)
    assert (hand[99, :, 0] - hand[59, :, 0] > 0.25).all(), "a hand that is led down does not jam on the table"


def test_its_pads_do_not_meet_and_are_open_as_far_as_metaworlds() -> None:
    robot = slim_panda()
    low, high = model().joint("finger_joint1").range
    assert 2 * low == pytest.approx(CONTACT)
    openings = [float(robot.opening(jnp.full(2, q))[0]) for q in (low, 0.02, high)]
    np.testing.assert_allclose(openings, [0.29, 0.51, 0.99], atol=1e-3)


def test_it_closes_at_small_efforts_as_metaworlds() -> None:
    """What Meta-World shows of its gripper after 30 steps of a constant effort, from open, measured on 3.1.1."""
    theirs = {-0.1: 1.0, 0.02: 0.956, 0.05: 0.894, 0.1: 0.788, 0.2: 0.574, 0.3: 0.372}
    efforts, seen = np.array([*theirs, 0.0, 0.0], np.float32).reshape(2, 4), []
    for four in efforts:
        actions = np.zeros((30, 4, 4), np.float32)
        actions[..., 3] = four
        fingers = played("push", 30, actions).worlds.qpos[-1, :, 7:9]
        seen += [slim_panda().opening(jnp.asarray(pair)) for pair in fingers]
    off = np.abs(np.ravel(seen)[: len(theirs)] - list(theirs.values()))
    assert (off[:4] < 0.05).all()
    assert (off[4:] < 0.12).all(), "faster efforts do without Meta-World's 100 kg of armature"


@pytest.mark.parametrize(("effort", "force"), [(0.02, 8.0), (0.1, 40.0), (0.5, 70.0), (1.0, 70.0)])
def test_small_efforts_hold_firmly(effort: float, force: float) -> None:
    """Closed, each finger presses with 400 N times the effort, 70 at most."""
    scene = model()
    data = mujoco.MjData(scene)
    data.joint("finger_joint1").qpos = data.joint("finger_joint2").qpos = scene.joint("finger_joint1").range[0]
    data.actuator("gripper").ctrl = effort
    mujoco.mj_forward(scene, data)
    np.testing.assert_allclose(data.joint("finger_joint1").qfrc_actuator, -force, rtol=1e-6)


@pytest.mark.parametrize("name", ["door-lock", "faucet-open", "hand-insert", "lever-pull", "pick-out-of-hole"])
def test_some_tasks_have_no_floor(name: str) -> None:
    assert tabletop(name).workspace == FLOORLESS
    assert FLOORLESS.low[2] < 0.0 < WORKSPACE.low[2]
