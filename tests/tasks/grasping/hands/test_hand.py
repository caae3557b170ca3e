"""The hands: published numbers, kinematics, coupling, touch, grasping, engines, errors."""

from __future__ import annotations

import dataclasses
import functools

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import load_spec
from embodied.errors import EmbodiedError, UnknownNameError
from tasks.grasping.hands.hand import (
    MOUNTED,
    PALM_DOWN,
    PALM_UP,
    PANDA_PAYLOAD,
    PHYSICS_DT,
    Hand,
    check_width,
    closing,
    mounted,
    pinching,
    poses,
    set_physics,
    spec_of,
)
from tasks.grasping.hands.models import HANDS, hand_named
from tasks.manipulation.common import panda

HEIGHT = 0.5  # m, of the palm in these tests
THUMB_UP = (np.sqrt(0.5), np.sqrt(0.5), 0.0, 0.0)  # wxyz: the palm looks sideways
GRASP_AT = {"allegro": 0.005, "leap": 0.0, "shadow": 0.0}  # m along the palm's x: where a cylinder lies across it

every_hand = pytest.mark.parametrize("name", HANDS)


@functools.cache
def alone(name: str, quat: tuple[float, ...] = PALM_UP) -> mujoco.MjModel:
    spec = spec_of(hand_named(name), (0, 0, HEIGHT), quat)
    set_physics(spec)
    return spec.compile()


def posed(model: mujoco.MjModel, hand: Hand, pose: str) -> mujoco.MjData:
    data, layout, found = mujoco.MjData(model), hand.layout(model), getattr(poses(hand), pose)
    data.qpos[layout.qpos], data.ctrl[layout.actuators] = found.joints, found.targets
    mujoco.mj_forward(model, data)
    return data


# Published numbers.

DEGREE = np.pi / 180
ALLEGRO_FINGER = [(-0.47, 0.47), (-0.196, 1.61), (-0.174, 1.709), (-0.227, 1.618)]
LEAP_FINGER = [(-1.047, 1.047), (-0.314, 2.23), (-0.506, 1.885), (-0.366, 2.042)]
SHADOW_FINGER = [(-20 * DEGREE, 20 * DEGREE), (-15 * DEGREE, 90 * DEGREE), (0, 90 * DEGREE), (0, 90 * DEGREE)]
LIMITS = {  # rad, in the makers' order
    "allegro": [*ALLEGRO_FINGER * 3, (0.263, 1.396), (-0.105, 1.163), (-0.189, 1.644), (-0.162, 1.719)],
    "leap": [*LEAP_FINGER * 3, (-0.349, 2.094), (-0.47, 2.443), (-1.2, 1.9), (-1.34, 1.88)],
    "shadow": [
        (-30 * DEGREE, 10 * DEGREE),
        (-40 * DEGREE, 28 * DEGREE),
        *SHADOW_FINGER * 3,
        (0, 45 * DEGREE),
        *SHADOW_FINGER,
        *[(low * DEGREE, high * DEGREE) for low, high in ((-60, 60), (0, 70), (-12, 12), (-40, 40), (-15, 90))],
    ],
}
TORQUES = {"allegro": 0.70, "leap": 0.93}  # N m
SIZES = {"allegro": (16, 16, 4), "leap": (16, 16, 4), "shadow": (24, 20, 5)}  # joints, servos, fingers
MASSES = {"allegro": 1.08, "leap": 0.746, "shadow": 3.794}  # kg


@every_hand
def test_joints_are_the_published_ones_in_number_order_and_range(name):
    hand, model = hand_named(name), alone(name)
    assert (len(hand.joint_names), len(hand.actuator_names), len(hand.fingers)) == SIZES[name]
    assert (model.njnt, model.nu) == SIZES[name][:2], "nothing moves that the hand does not name"
    assert hand.fingers[-1] == "thumb"
    np.testing.assert_allclose(hand.layout(model).limits, LIMITS[name], atol=1e-5)
    assert [model.actuator(i).name for i in range(model.nu)] == list(hand.actuator_names)


@every_hand
def test_servos_are_limited_to_the_published_torque_and_their_joints_range(name):
    hand, model = hand_named(name), alone(name)
    layout = hand.layout(model)
    assert model.actuator_forcelimited.all()
    if name in TORQUES:
        np.testing.assert_allclose(model.actuator_forcerange, [[-TORQUES[name], TORQUES[name]]] * model.nu)
    for target, actuator in zip(layout.targets, hand.actuator_names, strict=True):
        if actuator in hand.joint_names:
            np.testing.assert_allclose(target, layout.limits[hand.joint_names.index(actuator)], atol=1e-6)
        else:
            np.testing.assert_allclose(target, (0, np.pi), atol=1e-5)


@every_hand
def test_mass_is_the_published_one_and_every_inertia_is_possible(name):
    model = alone(name)
    assert model.body_mass.sum() == pytest.approx(MASSES[name], abs=1e-6)
    assert hand_named(name).mass == MASSES[name]
    inertia = np.sort(model.body_inertia[1:], axis=1)
    assert (inertia[:, 0] > 0).all()
    assert (inertia[:, 0] + inertia[:, 1] >= inertia[:, 2] * (1 - 1e-9)).all()


# Kinematics, from the makers' files: (xyz in m, rpy in rad, axis) of each joint in its parent, then the fingertip.
# Frames are the makers'; `FROM_MAKER` has our axes as its rows.

Z, Y, X = (0, 0, 1), (0, 1, 0), (1, 0, 0)
LINK = ((0.0164, Y), (0.054, Y), (0.0384, Y))
HALF = np.pi / 2


def allegro_finger(y: float, z: float, roll: float):
    return [((0, y, z), (roll, 0, 0), Z), *(((0, 0, length), (0, 0, 0), axis) for length, axis in LINK), (0, 0, 0.0267)]


def leap_finger(y: float):
    return [
        ((-0.0070952, y, -0.0187224), (HALF, HALF, 0), (0, 0, -1)),
        ((-0.0122, 0.0381, 0.0145), (-HALF, 0, HALF), (0, 0, -1)),
        ((0.015, 0.0143, -0.013), (HALF, -HALF, 0), (0, 0, -1)),
        ((0, -0.0361, 0.0002), (0, 0, 0), (0, 0, -1)),
        (0, -0.048, 0.015),
    ]


def shadow_finger(knuckles, axis):
    straight = (0, 0, 0)
    return [
        *knuckles[:-1],
        (knuckles[-1], straight, axis),
        (straight, straight, X),
        ((0, 0, 0.045), straight, X),
        ((0, 0, 0.025), straight, X),
        (0, 0, 0.026),
    ]


FROM_MAKER = {
    "allegro": np.array([[0, 0, 1], [0, -1, 0], [1, 0, 0]]),
    "leap": np.diag([1, -1, -1]),
    "shadow": np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]]),
}
CHAINS = {
    "allegro": {
        "index": allegro_finger(0.0435, -0.001542, -5 * DEGREE),
        "middle": allegro_finger(0, 0.0007, 0),
        "ring": allegro_finger(-0.0435, -0.001542, 5 * DEGREE),
        "thumb": [
            ((-0.0182, 0.019333, -0.045987), (0, -95 * DEGREE, -90 * DEGREE), (-1, 0, 0)),
            ((-0.027, 0.005, 0.0399), (0, 0, 0), Z),
            ((0, 0, 0.0177), (0, 0, 0), Y),
            ((0, 0, 0.0514), (0, 0, 0), Y),
            (0, 0, 0.0423),
        ],
    },
    "leap": {
        "index": leap_finger(0.0230578),
        "middle": leap_finger(-0.0223922),
        "ring": leap_finger(-0.0678422),
        "thumb": [
            ((-0.0693952, -0.0012422, -0.0216224), (0, HALF, 0), (0, 0, -1)),
            ((0, 0.0143, -0.013), (HALF, -HALF, 0), (0, 0, -1)),
            ((0, 0.0145, -0.017), (-HALF, 0, 0), (0, 0, -1)),
            ((0, 0.0466, 0.0002), (0, 0, np.pi), (0, 0, -1)),
            (0, -0.06, -0.015),
        ],
    },
    "shadow": {  # from the palm
        "index": shadow_finger([(0.033, 0, 0.095)], (0, -1, 0)),
        "middle": shadow_finger([(0.011, 0, 0.099)], (0, -1, 0)),
        "ring": shadow_finger([(-0.011, 0, 0.095)], Y),
        "little": shadow_finger(
            [((-0.033, 0, 0.02071), (0, 0, 0), (np.cos(55 * DEGREE), 0, np.sin(55 * DEGREE))), (0, 0, 0.06579)], Y
        ),
        "thumb": [
            ((0.034, -0.00858, 0.029), (0, 45 * DEGREE, 0), (0, 0, -1)),
            ((0, 0, 0), (0, 0, 0), X),
            ((0, 0, 0.038), (0, 0, 0), X),
            ((0, 0, 0), (0, 0, 0), (0, -1, 0)),
            ((0, 0, 0.032), (0, 0, -HALF), X),
            (0, 0, 0.0275),
        ],
    },
}


def turn(axis, angle: float) -> np.ndarray:
    """Rodrigues' formula."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def published_tip(chain, joints: np.ndarray) -> np.ndarray:
    """Where a chain ends, in the maker's palm frame, m; `joints` rad from the palm outwards."""
    pos, axes = np.zeros(3), np.eye(3)
    for (offset, (roll, pitch, yaw), axis), angle in zip(chain[:-1], joints, strict=True):
        pos = pos + axes @ np.array(offset)
        axes = axes @ turn(Z, yaw) @ turn(Y, pitch) @ turn(X, roll) @ turn(axis, angle)
    return pos + axes @ np.array(chain[-1])


@every_hand
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_fingertips_are_where_the_published_kinematics_puts_them(name, seed):
    """At zero, and at random angles."""
    model = load_spec(hand_named(name).asset).compile()
    data = mujoco.MjData(model)
    data.qpos[:] = 0 if seed is None else np.random.default_rng(seed).uniform(*model.jnt_range.T)
    mujoco.mj_forward(model, data)
    palm = data.body("palm")
    for finger, chain in CHAINS[name].items():
        body, path = model.site(f"{finger}_tip").bodyid[0], []
        while model.body(body).name != "palm":
            path += [data.qpos[model.jnt_qposadr[model.body_jntadr[body]]]] * model.body_jntnum[body]
            body = model.body_parentid[body]
        expected = FROM_MAKER[name] @ published_tip(chain, np.array(path[::-1]).ravel())
        tip = palm.xmat.reshape(3, 3).T @ (data.sensor(f"{finger}_tip_pos").data - palm.xpos)
        np.testing.assert_allclose(tip, expected, atol=2e-6, err_msg=finger)


@every_hand
def test_palm_frame_points_along_the_fingers_and_out_of_the_palm(name):
    hand, model = hand_named(name), alone(name)
    data = posed(model, hand, "opened")
    np.testing.assert_allclose(data.sensor("palm_pos").data, (0, 0, HEIGHT), atol=1e-9)
    np.testing.assert_allclose(data.sensor("palm_quat").data, PALM_UP, atol=1e-9)
    fingers = np.array([data.sensor(f"{finger}_tip_pos").data for finger in hand.fingers[:-1]])
    assert (fingers[:, 0] > 0.08).all(), "stretched fingers point to +x"
    bent = posed(model, hand, "home")
    for finger in hand.fingers[:-1]:
        assert bent.sensor(f"{finger}_tip_pos").data[2] > data.sensor(f"{finger}_tip_pos").data[2] + 0.01, finger
    assert fingers[0, 1] < fingers[-1, 1], "a right hand, palm up: the index finger is on the right"
    assert data.sensor("thumb_tip_pos").data[1] < 0


# Contact.


@every_hand
@pytest.mark.parametrize("pose", ["home", "opened", "pinch"])
def test_resting_hand_touches_nothing_and_stays(name, pose):
    hand, model = hand_named(name), alone(name)
    data = posed(model, hand, pose)
    assert data.ncon == 0
    start = data.qpos.copy()
    for _ in range(round(1 / PHYSICS_DT)):
        mujoco.mj_step(model, data)
        assert data.ncon == 0
    assert np.abs(data.qpos - start).max() < 0.05, "servos carry the fingers"
    assert np.abs(data.qvel).max() < 0.02


@every_hand
def test_fingertips_meet_other_fingers_and_no_neighbouring_links_meet(name):
    hand, model = hand_named(name), alone(name)
    data = posed(model, hand, "closed")
    pairs = {tuple(sorted((contact.geom1, contact.geom2))) for contact in data.contact}
    assert pairs, "a fist on nothing: fingertips meet thumb or palm"
    for first, second in pairs:
        bodies = model.geom_bodyid[[first, second]]
        assert model.body_parentid[bodies[0]] != bodies[1]
        assert model.body_parentid[bodies[1]] != bodies[0]
        assert any(model.geom(i).name.endswith("_tip") for i in (first, second))


@every_hand
def test_touch_sensors_report_what_is_pressed_on_them_and_nothing_else(name):
    """A ball pushed by 5 N onto the middle of each pad, from its front: the first to feel it is that pad."""
    hand = hand_named(name)
    spec = spec_of(hand, (0, 0, HEIGHT))
    set_physics(spec)
    spec.option.gravity = (0, 0, 0)
    ball = spec.worldbody.add_body(name="ball")
    ball.add_freejoint(name="ball")
    radius = 0.008
    ball.add_geom(name="ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius, 0, 0], mass=0.02)
    model = spec.compile()
    place = model.joint("ball").qposadr[0]
    touching = [*hand.fingers, *hand.pads]
    for pad in touching:
        data = posed(model, hand, "opened")
        site = data.site(f"{pad}_touch")
        frame = data.site(f"{pad}_tip" if pad in hand.fingers else f"{pad}_touch").xmat.reshape(3, 3)
        body = data.xmat[model.site(f"{pad}_touch").bodyid[0]].reshape(3, 3)
        out = frame[:, 2] if pad in hand.fingers else body[:, 2]
        data.qpos[place : place + 3] = site.xpos + out * (radius + 0.014)
        mujoco.mj_forward(model, data)
        assert all(data.sensor(f"{other}_touch").data[0] == 0 for other in touching)
        data.xfrc_applied[model.body("ball").id, :3] = -5 * out
        felt = set[str]()
        for _ in range(100):
            mujoco.mj_step(model, data)
            felt = {other for other in touching if data.sensor(f"{other}_touch").data[0] > 0.5}
            if felt:
                break
        assert felt == {pad}


@functools.cache
def holding(name: str, quat: tuple[float, ...], width: float) -> tuple[mujoco.MjModel, Hand]:
    """A hand and a cylinder of 200 g across its palm, `width` m thick and 12 cm long."""
    hand = hand_named(name)
    spec = spec_of(hand, (0, 0, HEIGHT), quat)
    set_physics(spec)
    axes = np.zeros(9)
    mujoco.mju_quat2Mat(axes, np.array(quat))
    turned, across = np.zeros(4), np.array([np.sqrt(0.5), np.sqrt(0.5), 0, 0])
    mujoco.mju_mulQuat(turned, np.array(quat), across)
    pos = (0, 0, HEIGHT) + axes.reshape(3, 3) @ (GRASP_AT[name], 0, width / 2 + 0.006)
    rod = spec.worldbody.add_body(name="rod", pos=pos, quat=turned)
    rod.add_freejoint(name="rod")
    rod.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[width / 2, 0.06, 0], mass=0.2)
    return spec.compile(), hand


def grasped(name: str, quat: tuple[float, ...], width: float) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """Close within .7 s without gravity, as if the rod stood on something; then half a second of rest."""
    model, hand = holding(name, quat, width)
    layout, data = hand.layout(model), posed(model, hand, "opened")
    gravity, model.opt.gravity = model.opt.gravity.copy(), 0
    targets = np.array([closing(hand, share) for share in np.linspace(0, 1, round(0.7 / PHYSICS_DT))])
    for target in targets:
        data.ctrl[layout.actuators] = target
        mujoco.mj_step(model, data)
    mujoco.mj_step(model, data, nstep=round(0.5 / PHYSICS_DT))
    model.opt.gravity = gravity
    return model, data


@every_hand
@pytest.mark.parametrize(
    ("quat", "width"),
    [(PALM_DOWN, 0.06), (THUMB_UP, 0.06), (PALM_DOWN, None)],
    ids=["palm down", "thumb up", "as wide as it claims"],
)
def test_closed_hand_holds_a_cylinder(name, quat, width):
    model, data = grasped(name, quat, width or hand_named(name).width)
    before = data.body("rod").xpos.copy()
    mujoco.mj_step(model, data, nstep=round(1 / PHYSICS_DT))
    assert np.linalg.norm(data.body("rod").xpos - before) < (0.01 if width else 0.015)
    touched = [finger for finger in hand_named(name).fingers if data.sensor(f"{finger}_touch").data[0] > 0.5]
    assert len(touched) >= (3 if width else 0)


@every_hand
def test_open_hand_drops_the_cylinder(name):
    """The grasp is what holds it, not the shape of the open hand."""
    model, hand = holding(name, PALM_DOWN, 0.06)
    data = posed(model, hand, "opened")
    mujoco.mj_step(model, data, nstep=round(0.5 / PHYSICS_DT))
    assert data.body("rod").xpos[2] < HEIGHT - 0.3


def pad_point(model: mujoco.MjModel, data: mujoco.MjData, finger: str) -> np.ndarray:
    """(3,) m: the middle of a fingertip's front half, where a pinch takes hold."""
    tip = data.site(f"{finger}_tip").xmat.reshape(3, 3)[:, 0]
    return data.geom(f"{finger}_tip").xpos + 0.6 * model.geom(f"{finger}_tip").size[1] * tip


@every_hand
def test_pinch_holds_a_small_box_between_the_fingertips(name):
    """3 cm and 50 g, the palm down."""
    hand = hand_named(name)
    spec = spec_of(hand, (0, 0, HEIGHT), PALM_DOWN)
    set_physics(spec)
    box = spec.worldbody.add_body(name="box")
    box.add_freejoint(name="box")
    box.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.015] * 3, mass=0.05)
    model = spec.compile()
    layout, data, place = hand.layout(model), posed(model, hand, "pinch"), model.joint("box").qposadr[0]
    fingers, thumb = (
        (pad_point(model, data, "index") + pad_point(model, data, "middle")) / 2,
        pad_point(model, data, "thumb"),
    )
    x = (fingers - thumb) / np.linalg.norm(fingers - thumb)
    assert np.linalg.norm(fingers - thumb) > 0.05
    z = np.cross(x, (0, 1, 0)) / np.linalg.norm(np.cross(x, (0, 1, 0)))
    data.qpos[place : place + 3] = (fingers + thumb) / 2
    mujoco.mju_mat2Quat(data.qpos[place + 3 : place + 7], np.stack([x, np.cross(z, x), z], 1).ravel())
    gravity, model.opt.gravity = model.opt.gravity.copy(), 0
    for target in np.array([pinching(hand, share) for share in np.linspace(0, 1, 80)]):
        data.ctrl[layout.actuators] = target
        mujoco.mj_step(model, data)
    mujoco.mj_step(model, data, nstep=20)
    before, model.opt.gravity = data.body("box").xpos.copy(), gravity
    mujoco.mj_step(model, data, nstep=round(1 / PHYSICS_DT))
    assert np.linalg.norm(data.body("box").xpos - before) < 0.01
    assert data.sensor("thumb_touch").data[0] > 1


# Coupling, motion.


def test_coupled_joints_bend_alike_in_the_air():
    """Ten times a fingertip's weight pulls the distal joints open; the spring between the two holds their ratio."""
    hand, model = hand_named("shadow"), alone("shadow")
    layout, data = hand.layout(model), posed(hand=hand, model=model, pose="opened")
    tendons = [hand.actuator_names.index(f"{finger}J0") for finger in ("FF", "MF", "RF", "LF")]
    data.qfrc_applied[[model.joint(f"{finger}J1").dofadr[0] for finger in ("FF", "MF", "RF", "LF")]] = -0.02
    for target in (0.4, 1.6, 2.6):
        data.ctrl[layout.actuators[tendons]] = target
        mujoco.mj_step(model, data, nstep=round(1 / PHYSICS_DT))
        for finger in ("FF", "MF", "RF", "LF"):
            middle, distal = (data.joint(f"{finger}J{i}").qpos[0] for i in (2, 1))
            assert middle + distal == pytest.approx(target, abs=0.06), finger
            assert middle == pytest.approx(distal, abs=0.07), finger


def test_distal_joint_never_bends_beyond_the_middle_one():
    """Something holds the middle phalanx back by .5 N m, half of what the servo can do."""
    hand, model = hand_named("shadow"), alone("shadow")
    data = posed(hand=hand, model=model, pose="opened")
    data.ctrl[hand.layout(model).actuators[hand.actuator_names.index("FFJ0")]] = 2.6
    for _ in range(round(1 / PHYSICS_DT)):
        data.qfrc_applied[model.joint("FFJ2").dofadr[0]] = -0.5
        mujoco.mj_step(model, data)
    assert data.joint("FFJ1").qpos[0] < data.joint("FFJ2").qpos[0] + 0.06


@every_hand
def test_random_actions_for_two_seconds_stay_finite_and_slow(name):
    hand, model = hand_named(name), alone(name)
    layout, data = hand.layout(model), posed(model, hand, "home")
    rng = np.random.default_rng(0)
    for _ in range(round(2 / 0.05)):
        data.ctrl[layout.actuators] = rng.uniform(*layout.targets.T)
        for _ in range(round(0.05 / PHYSICS_DT)):
            mujoco.mj_step(model, data)
            assert np.isfinite(data.qpos).all()
            assert np.abs(data.qvel).max() < 120
    assert not any(data.warning[i].number for i in range(len(data.warning)))
    slack = 0.2
    assert (data.qpos > model.jnt_range[:, 0] - slack).all()
    assert (data.qpos < model.jnt_range[:, 1] + slack).all()


@every_hand
def test_closing_runs_straight_from_opened_to_closed(name):
    hand = hand_named(name)
    targets, opened, closed = hand.layout(alone(name)).targets, poses(hand).opened.targets, poses(hand).closed.targets
    np.testing.assert_allclose(closing(hand, 0), opened)
    np.testing.assert_allclose(closing(hand, 1), closed, atol=1e-6)
    np.testing.assert_allclose(closing(hand, 0.5), (opened + closed) / 2, atol=1e-6)
    np.testing.assert_allclose(closing(hand, 2), closing(hand, 1))
    np.testing.assert_allclose(pinching(hand, 1), poses(hand).pinched.targets, atol=1e-6)
    for pose in dataclasses.astuple(poses(hand)):
        assert (pose[1] >= targets[:, 0] - 1e-6).all()
        assert (pose[1] <= targets[:, 1] + 1e-6).all()


# On the arm.


@every_hand
def test_hand_on_the_panda_replaces_the_gripper_and_is_carried(name):
    hand = hand_named(name)
    spec = mounted(hand)
    set_physics(spec)
    model = spec.compile()
    layout, data = hand.layout(model, MOUNTED), mujoco.MjData(model)
    assert model.nu == 7 + len(hand.actuator_names)
    assert not any("finger_joint" in model.joint(i).name for i in range(model.njnt))
    data.qpos[:7] = data.ctrl[:7] = panda.HOME
    data.qpos[layout.qpos], data.ctrl[layout.actuators] = poses(hand).home.joints, poses(hand).home.targets
    mujoco.mj_forward(model, data)
    flange = data.body("link7").xpos + data.body("link7").xmat.reshape(3, 3)[:, 2] * panda.FLANGE
    np.testing.assert_allclose(data.site(f"{MOUNTED}mount").xpos, flange, atol=1e-9)
    palm = data.site(f"{MOUNTED}palm").xmat.reshape(3, 3)
    np.testing.assert_allclose(palm[:, 0], (0, 0, -1), atol=1e-6, err_msg="an arm that points down: fingers down")
    mujoco.mj_step(model, data, nstep=round(1 / PHYSICS_DT))
    assert np.abs(data.qpos[:7] - panda.HOME).max() < 1e-3
    payload = model.body(f"{MOUNTED}{hand.on_arm}").subtreemass
    assert 0.5 < payload < PANDA_PAYLOAD


# Engines.


@pytest.mark.slow
@every_hand
def test_warp_accepts_every_pair(name):
    pytest.importorskip("warp")
    mjx = pytest.importorskip("mujoco.mjx")
    mjx.put_model(alone(name), impl="warp")


# Errors.


def test_unknown_hand_names_those_that_exist():
    with pytest.raises(
        UnknownNameError, match=r"unknown hand 'alegro'; did you mean 'allegro'\? known: allegro, leap, sh"
    ):
        hand_named("alegro")


def test_too_wide_an_object_says_how_wide_the_hand_opens():
    hand = hand_named("shadow")
    check_width(hand, 0.05)
    with pytest.raises(EmbodiedError, match=r"the drill 9\.0 cm wide does not fit the hand 'shadow'.* up to 8\.0 cm"):
        check_width(hand, 0.09, "the drill")
    with pytest.raises(EmbodiedError, match=r"nan cm wide does not fit"):
        check_width(hand, float("nan"))
    with pytest.raises(EmbodiedError, match=r"an object 0\.0 cm wide does not fit"):
        check_width(hand, 0.0)


def test_too_heavy_a_hand_is_refused_by_the_arm():
    whole = dataclasses.replace(hand_named("shadow"), on_arm="forearm")
    with pytest.raises(
        EmbodiedError, match=r"the hand 'shadow' puts 3\.79 kg on the flange; the Panda carries 3\.00 kg"
    ):
        mounted(whole)
