"""Bullet against closed forms and against MuJoCo on the same models, and what it says of models it cannot run."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec, compose
from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.engines.pybullet.quaternions import wxyz_from_xyzw, xyzw_from_wxyz
from embodied.errors import EngineError
from tests.kit.physics import Scene

pytest.importorskip("pybullet", exc_type=ImportError)
pytestmark = pytest.mark.timeout(120)

BODY = """
<mujoco>
  <worldbody>
    <body name="body" pos="0 0 1">
      <freejoint/>
      <inertial pos=".1 .02 -.03" quat=".9 .1 .3 .2" mass="1.5" diaginertia=".01 .02 .025"/>
      <geom size=".1" contype="0" conaffinity="0"/>
      <site name="site" pos=".1 .2 .3" euler="20 30 40"/>
    </body>
  </worldbody>
  <sensor>
    <framepos name="centre" objtype="body" objname="body"/>
    <framelinvel name="centre_vel" objtype="body" objname="body"/>
    <frameangvel name="angvel" objtype="xbody" objname="body"/>
    <framequat name="axes" objtype="body" objname="body"/>
    <gyro name="gyro" site="site"/>
    <velocimeter name="velocimeter" site="site"/>
    <accelerometer name="accelerometer" site="site"/>
  </sensor>
</mujoco>
"""
ARM = """
<mujoco>
  <worldbody>
    <body pos=".1 0 2" quat=".9 .1 .3 .2">
      <joint name="shoulder" axis=".3 1 0" pos=".02 .03 .05" damping=".05" armature=".02"/>
      <inertial pos=".1 .02 -.3" quat=".9 .1 .3 .2" mass="1.5" diaginertia=".01 .02 .025"/>
      <body pos="0 .1 -.5" quat=".5 .1 .3 .8">
        <joint name="elbow" axis="0 1 .2" pos=".02 0 .05" stiffness="3" damping=".02"/>
        <inertial pos=".1 .02 -.1" mass=".5" diaginertia=".01 .02 .025"/>
        <body name="hand" pos="0 .1 0">
          <joint type="slide" axis="1 0 .5" stiffness="50" ref=".1"/>
          <joint axis="1 0 0"/>
          <joint axis="0 0 1" ref=".2" armature=".001"/>
          <geom size=".05" mass=".2" contype="0" conaffinity="0"/>
          <site name="site" pos=".1 .2 .3"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="elbow" joint="elbow" kp="5" kv=".1" forcerange="-2 2"/>
    <motor name="shoulder" joint="shoulder" gear="2"/>
  </actuator>
  <sensor>
    <framepos name="hand" objtype="site" objname="site"/>
    <framelinvel name="hand_vel" objtype="body" objname="hand"/>
    <frameangvel name="hand_angvel" objtype="xbody" objname="hand"/>
    <jointpos name="elbow" joint="elbow"/>
    <jointvel name="elbow_vel" joint="elbow"/>
    <actuatorfrc name="force" actuator="elbow"/>
    <jointactuatorfrc name="torque" joint="shoulder"/>
  </sensor>
</mujoco>
"""
BOX = "<mujoco><worldbody>{}</worldbody>{}</mujoco>"
FREE = "<body name='b' pos='0 0 1'><freejoint/><geom name='g' size='.1'/>{}</body>"
HINGE = "<body><joint name='j' {}/><geom name='g' size='.1'/><site name='s'/></body>"


def begun(scene: Any, engine: str, qpos: Any, qvel: Any, **fields: Any) -> Any:
    """An engine with one environment at a state."""
    built: Any = make_engine(engine, scene, 1)
    started(built, qpos, qvel, **fields)
    return built


def started(engine: Any, qpos: Any, qvel: Any, **fields: Any) -> None:
    """Begin at a state, given in numpy's arrays, as host engines take it."""
    positions, velocities = (np.array([each], float) for each in (qpos, qvel))
    model: Any = {name: np.asarray(value)[None] for name, value in fields.items()}
    start: Any = {"qpos": positions, "qvel": velocities, "task_state": None, "model": model}
    engine.reset(np.arange(1), ResetState(**start))


def walk(engine: Any, steps: int, ctrl: Any = None, wrench: Any = None) -> World:
    """The world after some physics steps."""
    for _ in range(steps):
        engine.step(Control(ctrl=ctrl, wrench=wrench), 1)
    return engine.world()


@pytest.fixture(scope="module")
def go1() -> Scene:
    spec = compose("scenes/floor.xml", "robots/go1/go1.xml")
    spec.compiler.discardvisual = True
    return Scene(compile_spec(spec), 0.004)


def test_a_thrown_body_falls_as_galilei_says_and_keeps_its_angular_momentum() -> None:
    """0.3 s at 1 ms: semi-implicit Euler's own error is g t dt / 2 = 1.5 mm."""
    scene = Scene(BODY, 0.001)
    quat = np.array([0.9, 0.1, 0.2, 0.3]) / np.linalg.norm([0.9, 0.1, 0.2, 0.3])
    engine = begun(scene, "pybullet", [0, 0, 1, *quat], [1, 2, 3, 1, -2, 3])
    first, last = engine.world(), walk(engine, 300)
    fall = first["centre"][0] + 0.3 * first["centre_vel"][0] - [0, 0, 9.81 * 0.3**2 / 2]
    np.testing.assert_allclose(last["centre"][0], fall, atol=2e-3)
    np.testing.assert_allclose(last["centre_vel"][0], first["centre_vel"][0] - [0, 0, 9.81 * 0.3], atol=1e-3)
    spins = []
    for world in (first, last):
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, world["axes"][0].astype(float))
        frame = axes.reshape(3, 3)
        spins.append(frame @ np.diag([0.01, 0.02, 0.025]) @ frame.T @ world["angvel"][0])
    np.testing.assert_allclose(spins[1], spins[0], rtol=0, atol=5e-3 * float(np.linalg.norm(spins[0])))
    np.testing.assert_allclose(engine.world().time, 0.3, rtol=1e-5)


def test_a_pushed_body_moves_as_in_mujoco() -> None:
    scene = Scene(BODY, 0.001)
    state = [0, 0, 1, 1, 0, 0, 0], [1, 2, 3, 1, -2, 3]
    wrench = np.zeros((1, 2, 6))
    wrench[0, 1] = [1, 2, -3, 0.1, 0.05, -0.02]
    bullet, expected = (walk(begun(scene, name, *state), 100, wrench=wrench) for name in ("pybullet", "mujoco"))
    np.testing.assert_allclose(bullet.qpos, expected.qpos, atol=1e-3)
    np.testing.assert_allclose(bullet.qvel, expected.qvel, atol=3e-3)
    np.testing.assert_allclose(bullet["gyro"], expected["gyro"], atol=3e-3)
    np.testing.assert_allclose(bullet["velocimeter"], expected["velocimeter"], atol=3e-3)
    np.testing.assert_allclose(bullet["accelerometer"], expected["accelerometer"], atol=2e-2 * 10)


def test_an_arm_swings_as_in_mujoco() -> None:
    """0.3 s at 0.5 ms: servo, motor, spring, damping, armature, joints off their body's origin, three on a body."""
    scene = Scene(ARM, 0.0005)
    state = np.array([0.3, 0.4, 0.1, 0.2, 0.1]), [1, 0, 0, 0.1, 0.3]
    ctrl = np.array([[0.5, 0.4]])
    bullet, expected = (walk(begun(scene, name, *state), 600, ctrl) for name in ("pybullet", "mujoco"))
    assert np.abs(expected.qpos[0] - state[0]).max() > 0.3
    np.testing.assert_allclose(bullet.qpos, expected.qpos, atol=1e-3)
    np.testing.assert_allclose(bullet.qvel, expected.qvel, atol=5e-3)
    np.testing.assert_allclose(bullet.sensordata, expected.sensordata, atol=5e-3)


def test_armature_acts_on_a_floating_robot_as_in_mujoco(go1: Scene) -> None:
    """A Go1 without weight kicks all legs for 0.2 s: trunk to 0.01 in quaternion, joints to 0.02 rad."""
    model = go1.model.__copy__()
    model.opt.gravity[:] = 0
    model.dof_frictionloss[:] = 0
    scene = Scene(model, 0.001)
    home, stance = model.key("home").qpos.copy(), model.key("home").ctrl
    home[2] = 3
    kick = stance + 0.4 * np.random.default_rng(0).standard_normal(12)
    bullet, expected = (
        walk(begun(scene, name, home, np.zeros(18)), 200, kick[None]) for name in ("pybullet", "mujoco")
    )
    assert np.abs(expected.qpos[0] - home).max() > 0.2
    np.testing.assert_allclose(bullet.qpos[0, :7], expected.qpos[0, :7], atol=1e-2)
    np.testing.assert_allclose(bullet.qpos[0, 7:], expected.qpos[0, 7:], atol=2e-2)


def test_sensors_of_a_state_are_mujocos(go1: Scene) -> None:
    """Kinematic sensors of the same state, before any step: 1e-4."""
    random = np.random.default_rng(1)
    home = go1.model.key("home").qpos.copy()
    home[:3] += np.array([0, 0, 2]) + random.uniform(-1, 1, 3)
    home[3:7] = random.standard_normal(4)
    home[3:7] /= np.linalg.norm(home[3:7])
    home[7:] += random.uniform(-0.3, 0.3, 12)
    speed = random.standard_normal(18)
    shifted = go1.model.body_ipos.copy()
    shifted[1] += [0.03, -0.02, 0.04]
    bullet, expected = (begun(go1, name, home, speed, body_ipos=shifted).world() for name in ("pybullet", "mujoco"))
    for name in bullet.layout.names:
        if "touch" not in name and "torque" not in name and name != "accelerometer":
            np.testing.assert_allclose(bullet[name], expected[name], atol=1e-4, err_msg=name)


def test_a_dropped_go1_stands_as_in_mujoco(go1: Scene) -> None:
    home, stance = go1.model.key("home").qpos.copy(), go1.model.key("home").ctrl[None]
    home[2] += 0.02
    bullet, expected = (walk(begun(go1, name, home, np.zeros(18)), 250, stance) for name in ("pybullet", "mujoco"))
    assert bullet["upvector"][0, 2] > 0.999
    assert np.abs(bullet.qvel).max() < 0.05
    np.testing.assert_allclose(bullet["position"][0, 2], expected["position"][0, 2], atol=4e-3)
    np.testing.assert_allclose(bullet.qpos[0, 7:], expected.qpos[0, 7:], atol=0.04)
    np.testing.assert_allclose(bullet["accelerometer"][0], [0, 0, 9.81], atol=0.5)
    legs = ("FR", "FL", "RR", "RL")
    weight = sum(float(bullet[f"{leg}_foot_touch"][0, 0]) for leg in legs)
    assert weight == pytest.approx(9.81 * go1.model.body_mass.sum(), rel=0.03)
    for leg in legs:
        torque = f"{leg}_calf_torque"
        np.testing.assert_allclose(bullet[torque], expected[torque], atol=1.0, err_msg=torque)


def test_a_reset_world_remembers_nothing(go1: Scene) -> None:
    home, stance = go1.model.key("home").qpos.copy(), go1.model.key("home").ctrl[None]
    engine = begun(go1, "pybullet", home, np.zeros(18))
    first = walk(engine, 20, stance)
    started(engine, home, np.zeros(18))
    again = walk(engine, 20, stance)
    np.testing.assert_array_equal(first.qpos, again.qpos)
    np.testing.assert_array_equal(first.sensordata, again.sensordata)


def test_a_resumed_world_goes_on_as_before(go1: Scene) -> None:
    """Contacts are found again: to 1e-5 rad over 20 ms on the floor."""
    home, stance = go1.model.key("home").qpos.copy(), go1.model.key("home").ctrl[None]
    engine = begun(go1, "pybullet", home, np.zeros(18))
    walk(engine, 30, stance)
    state = engine.state()
    expected = walk(engine, 5, stance)
    other = begun(go1, "pybullet", home, np.ones(18))
    other.load_state(state)
    np.testing.assert_allclose(walk(other, 5, stance).qpos, expected.qpos, atol=1e-5)


def test_an_episode_has_its_own_friction_mass_and_servo() -> None:
    """A box on a slope of 27 degrees slides with friction 0.2 and stays with 0.9."""
    body = "<body pos='0 0 .11'><freejoint/><geom name='box' type='box' size='.1 .1 .1' priority='1' mass='1'/></body>"
    xml = (
        f"<mujoco><option gravity='4.4 0 -8.8'/><worldbody><geom type='plane' size='0 0 1'/>{body}</worldbody></mujoco>"
    )
    scene = Scene(xml, 0.002)
    paths = []
    for friction in (0.2, 0.9):
        values = scene.model.geom_friction.copy()
        values[1, 0] = friction
        engine = begun(scene, "pybullet", scene.model.qpos0, np.zeros(6), geom_friction=values)
        paths.append(float(walk(engine, 250).qpos[0, 0]))
    np.testing.assert_allclose(paths[0], 0.5 * (4.4 - 0.2 * 8.8) * 0.5**2, rtol=0.1)
    assert abs(paths[1]) < 0.02


def test_joint_limits_and_dry_friction_hold() -> None:
    joint = "axis='0 1 0' range='-30 30' frictionloss='.5' limited='true'"
    scene = Scene(BOX.format(HINGE.format(joint), "<actuator><motor joint='j'/></actuator>"), 0.002)
    assert abs(walk(begun(scene, "pybullet", [0.1], [0]), 200, np.array([[0.45]])).qpos[0, 0] - 0.1) < 1e-3
    assert abs(walk(begun(scene, "pybullet", [0.1], [0]), 400, np.array([[1.0]])).qpos[0, 0] - np.pi / 6) < 1e-2


@pytest.fixture(scope="module")
def panda() -> Scene:
    """The arm alone, at the tables' step."""
    return Scene(compile_spec(compose("scenes/floor.xml", "robots/panda/panda.xml")), 0.00625)


HOME = np.array([0, 0.44, 0, -2.43, 0, 2.87, -0.785])  # rad


def test_a_servo_whose_damping_overshoots_leads_as_in_mujoco(panda: Scene) -> None:
    """A Panda at a step of 6.25 ms, its wrist's servos 3 times too damped for forces: 0.4 s to other targets.

    The arm is where MuJoCo's is to 12 mrad at every step, and there to 6 mrad at the end, its weight compensated: the
    wrist's servos, at their largest torque, tremble on both engines.
    """
    start, target = [*HOME, 0.02, 0.02], np.array([[*(HOME + 0.1), 0.0]])
    engines = [begun(panda, name, start, np.zeros(9)) for name in ("pybullet", "mujoco")]
    for _ in range(64):
        bullet, expected = (walk(engine, 1, target) for engine in engines)
        np.testing.assert_allclose(bullet.qpos[0, :7], expected.qpos[0, :7], atol=12e-3)
        np.testing.assert_allclose(engines[0].world().qpos[0, 7:], 0.02, atol=1e-3)
    np.testing.assert_allclose(engines[0].world().qpos[0, :7], target[0, :7], atol=6e-3)
    np.testing.assert_allclose(engines[0].world().qpos[0, :4], target[0, :4], atol=1e-3)


def test_geared_fingers_close_as_in_mujoco(panda: Scene) -> None:
    """By one motor on a tendon, at 0.25 m/s, both alike; then they press each other with its force, 70 N each."""
    engine = begun(panda, "pybullet", [*HOME, 0.04, 0.04], np.zeros(9))
    target = np.array([[*HOME, 1.0]])
    world = walk(engine, 16, target)
    np.testing.assert_allclose(world.qvel[0, 7:], -0.25, atol=0.01)
    np.testing.assert_allclose(world.qpos[0, 7:], 0.015, atol=2e-3)
    world = walk(engine, 40, target)
    np.testing.assert_allclose(world.qpos[0, 7:], 0.0, atol=1e-3)


def test_a_grasped_block_is_held_up_and_felt(panda: Scene) -> None:
    spec = compose("scenes/floor.xml", "robots/panda/panda.xml")
    data = mujoco.MjData(panda.model)
    data.qpos[:] = [*HOME, 0.02, 0.02]
    mujoco.mj_forward(panda.model, data)
    tcp = data.site("tcp").xpos
    block = spec.worldbody.add_body(name="block", pos=tcp)
    block.add_freejoint()
    block.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.02, 0.02, 0.02], mass=0.1)
    scene = Scene(compile_spec(spec), 0.00625)
    engine = begun(scene, "pybullet", [*HOME, 0.021, 0.021, *tcp, 1, 0, 0, 0], np.zeros(15))
    world = walk(engine, 160, np.array([[*HOME, 1.0]]))
    assert abs(world.qpos[0, 11] - tcp[2]) < 5e-3
    for finger in ("left", "right"):
        assert float(world[f"{finger}_pad_touch"][0, 0]) == pytest.approx(70.0, rel=0.1)


def test_a_damped_free_ball_slows_as_in_mujoco() -> None:
    free = "<body><joint type='free' damping='.5'/><geom size='.1' mass='1'/></body>"
    scene = Scene(BOX.format(free, "").replace("<worldbody>", "<option gravity='0 0 0'/><worldbody>"), 0.002)
    state = [0, 0, 1, 1, 0, 0, 0], [1, 0, 0, 0, 2, 0]
    bullet, expected = (walk(begun(scene, name, *state), 200) for name in ("pybullet", "mujoco"))
    assert expected.qvel[0, 0] < 0.9
    np.testing.assert_allclose(bullet.qvel, expected.qvel, atol=5e-3)


def test_quaternion_orders_are_each_others_inverse() -> None:
    np.testing.assert_array_equal(wxyz_from_xyzw(np.array([1, 2, 3, 4])), [4, 1, 2, 3])
    np.testing.assert_array_equal(xyzw_from_wxyz(np.array([4, 1, 2, 3])), [1, 2, 3, 4])


J = HINGE.format("")
TWO = J + "<body><joint name='k'/><geom size='.1'/></body>"
STIFF = "<tendon><fixed name='t' stiffness='1'><joint joint='j' coef='1'/></fixed></tendon>"
MUSCLE = "<actuator><muscle name='m' joint='j' lengthrange='.1 1'/></actuator>"
LONG = "<body><freejoint/><geom name='e' type='ellipsoid' size='.1 .1 .2'/></body>"


@pytest.mark.parametrize(
    ("body", "extra", "message"),
    [
        ("<body><joint name='b' type='ball'/><geom size='.1'/></body>", "", "ball joint 'b'; it moves free"),
        (HINGE.format("type='slide' armature='1'"), "", "slide joint 'j' has armature"),
        (LONG, "", "'e' of type elli"),
        (J, "<sensor><force name='f' site='s'/></sensor>", "sensor 'f' of type force; it reads"),
        (J, MUSCLE, "actuator 'm': it has the act"),
        (FREE.format(""), "<equality><weld body1='b'/></equality>", "but of two joints; '#0' is of type weld"),
        (TWO, "<equality><joint joint1='j' joint2='k'/></equality>", "'#0' is none that gears make"),
        (J, STIFF, "the tendon 't' has stiffness"),
        ("<body gravcomp='1'><freejoint/><geom size='.1'/></body>", "", "no gravity compensation of floating bodies"),
    ],
)
def test_what_bullet_cannot_do_is_one_clear_line(body: str, extra: str, message: str) -> None:
    with pytest.raises(EngineError, match="engine pybullet") as caught:
        begun(Scene(BOX.format(body, extra), 0.002), "pybullet", [], [])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_field_that_cannot_vary_is_named() -> None:
    with pytest.raises(EngineError, match="cannot vary the model field 'jnt_axis'; it can vary"):
        begun(Scene(BODY, 0.002), "pybullet", [0, 0, 1, 1, 0, 0, 0], np.zeros(6), jnt_axis=np.zeros((1, 3)))


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "pybullet":
            raise ImportError("No module named 'pybullet'")
        return original(name, *rest)

    monkeypatch.delitem(sys.modules, "pybullet", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(EngineError, match=r"engine pybullet is not installed .*; pip install pybullet"):
        begun(Scene(BODY, 0.002), "pybullet", [], [])
