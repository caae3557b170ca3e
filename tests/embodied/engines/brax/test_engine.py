"""Brax against MuJoCo on small models, and what the engine says of models that it cannot run."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.world import Control, ResetState, World
from embodied.engines import make_engine
from embodied.engines.brax.engine import BraxState
from embodied.env.registry import join_content
from embodied.errors import EngineError
from tests.kit.physics import Scene, held

pytestmark = pytest.mark.timeout(280)

TRUNK = """\
    <body name="trunk" pos="0 0 1">
      <freejoint/>
      <geom type="box" size=".1 .06 .04" mass="2" contype="0" conaffinity="0"/>
      <body name="head" pos="-.1 0 .05" quat=".9 0 .4 .1">
        <geom type="box" size=".03 .02 .05" pos=".01 0 0" mass=".3" contype="0" conaffinity="0"/>
        <body name="tail" pos="-.05 0 0">
          <joint name="wag" type="ball" pos="0 .01 0"/>
          <geom type="capsule" size=".01" fromto="0 0 0 -.2 0 0" mass=".1" contype="0" conaffinity="0"/>
        </body>
      </body>
      <body name="arm" pos=".1 0 0" quat=".9 .1 .3 .2">
        <joint name="shoulder" axis="0 1 0" pos="0 .01 0" armature=".05"/>
        <joint name="twist" axis="1 0 1" pos="0 .02 0" armature=".01"/>
        <joint name="stretch" type="slide" axis="1 1 0" stiffness="50" damping="2"/>
        <geom type="capsule" size=".02" fromto="0 0 0 .2 0 0" mass=".4" contype="0" conaffinity="0"/>
        <body name="forearm" pos=".2 0 0">
          <joint name="elbow" axis="0 .6 .8" ref=".3"/>
          <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2" mass=".2" contype="0" conaffinity="0"/>
          <body name="tip" pos="0 0 -.2">
            <joint name="reach" type="slide" axis="0 0 1" ref=".1" stiffness="20" armature=".1"/>
            <geom size=".03" mass=".1" contype="0" conaffinity="0"/>
          </body>
        </body>
      </body>
    </body>
"""
MECHANISMS = f"""
<mujoco>
  <option integrator="implicitfast"/>
  <worldbody>
    <body name="rod" pos="0 0 2">
      <joint name="hinge" axis="0 1 0" damping=".1" armature=".05"/>
      <geom type="capsule" size=".05" fromto="0 0 0 0 0 -.5" mass="1" contype="0" conaffinity="0"/>
      <site name="tip" pos="0 0 -.5"/>
    </body>
    <body name="hand" pos="1 0 .5" quat=".8 .6 0 0" gravcomp="1">
      <joint name="wrist" axis="0 1 0" damping=".1"/>
      <geom type="box" size=".05 .02 .02" mass=".5" contype="0" conaffinity="0"/>
      <body name="left" pos="0 0 .05">
        <joint name="left" type="slide" axis="0 1 0" range="0 .04" damping="5"/>
        <geom type="box" size=".01 .01 .03" mass=".05" contype="0" conaffinity="0"/>
      </body>
      <body name="right" pos="0 0 .05">
        <joint name="right" type="slide" axis="0 -1 0" range="0 .04" damping="5"/>
        <geom type="box" size=".01 .01 .03" mass=".1" contype="0" conaffinity="0"/>
      </body>
    </body>
    <body name="wheel" pos="2 0 0">
      <joint name="brake" axis="0 0 1" frictionloss=".05" range="-400 400"/>
      <inertial pos="0 0 0" mass="1" diaginertia=".01 .01 .02"/>
    </body>
    <body name="gate" pos="2 0 1">
      <joint name="stop" axis="0 0 1" range="-30 30"/>
      <inertial pos=".2 0 0" mass=".5" diaginertia=".005 .005 .005"/>
    </body>
    <body name="frame" mocap="true">
      <body name="leaf" pos="0 0 .1">
        <joint name="leaf" axis="0 0 1"/>
        <geom size=".05" pos=".2 0 0" mass="1" contype="0" conaffinity="0"/>
        <site name="handle" pos=".2 0 0"/>
      </body>
    </body>
{TRUNK}  </worldbody>
  <tendon><fixed name="split"><joint joint="left" coef=".5"/><joint joint="right" coef=".5"/></fixed></tendon>
  <equality><joint joint1="left" joint2="right"/></equality>
  <actuator>
    <position joint="hinge" kp="5" kv=".2"/><position name="grip" tendon="split" kp="200" kv="5"/><motor joint="stop"/>
    <motor joint="shoulder"/><motor joint="elbow"/>
  </actuator>
  <sensor>
    <framepos name="tip" objtype="site" objname="tip"/>
    <framepos name="handle" objtype="site" objname="handle"/>
    <jointpos name="angle" joint="hinge"/>
    <gyro name="gyro" site="tip"/>
    <jointactuatorfrc name="torque" joint="hinge"/>
  </sensor>
</mujoco>
"""
"""A pendulum, a hand of two fingers, a braked wheel, a gate with a stop, a flying trunk: one program for all."""
FLOATER = f"""
<mujoco>
  <option integrator="Euler" gravity="0 0 0"/>
  <worldbody>
{TRUNK}  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>
</mujoco>
"""
"""The trunk alone, without weight."""
FLOATING = (
    [0, 0, 1, 1, 0, 0, 0, 0.8, 0.1, 0.5, -0.3, 0.2, -0.3, 0.01, 0.5, 0.08],
    [1, 0.5, 2, 0.5, -0.4, 0.8, 2.0, -3.0, 1.0, 1.0, -2.0, 0.1, 1.5, 0.3],
)
MOVING = ([0.5, 0.1, 0, 0, 0, 0, 0, *FLOATING[0]], [1.0, 0.5, 0, 0, 2.0, 0, 2.0, *FLOATING[1]])
PLACE = np.array([[3.0, 4.0, 5.0]])
TOUCHING = """
<mujoco>
  <worldbody>
    <geom type="plane" size="0 0 1" friction=".5"/>
    <body name="ball" pos="5 0 .15">
      <freejoint/>
      <geom size=".1" mass="2"/>
      <site name="skin" size=".11"/>
    </body>
    <body name="sled" pos="0 0 .05">
      <freejoint/>
      <geom type="box" size=".2 .1 .05" mass="3" friction=".5"/>
      <site name="sole" type="sphere" size=".3"/>
    </body>
    <geom name="slope" type="plane" size="0 0 1" pos="10 0 0" quat=".973249 0 .229753 0" friction=".1"
      contype="2" conaffinity="0"/>
    <body name="crate" pos="10.02236 0 .04472" quat=".973249 0 .229753 0">
      <freejoint/>
      <geom name="crate" type="box" size=".2 .1 .05" mass="3" contype="0" conaffinity="2"/>
    </body>
  </worldbody>
  <sensor><touch name="ball" site="skin"/><touch name="sled" site="sole"/></sensor>
</mujoco>
"""
"""A floor with a falling ball and a sliding sled, and a slope of 1 to 2 with a crate; one program for all."""
PLACES = [5, 0, 0.15, 1, 0, 0, 0, 0, 0, 0.05, 1, 0, 0, 0, 10.02236, 0, 0.04472, 0.973249, 0, 0.229753, 0]
LANDING = (PLACES, [0, 0, 0, 0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


class Body(Scene):
    """A registered task's model, at its physics step."""

    def __init__(self, name: str) -> None:
        task = join_content()[name].load()()
        super().__init__(task.model, task.timing.physics_dt)


@functools.cache
def brax_program(scene: Any) -> Any:
    """State, control, model fields and number of physics steps -> the world then."""
    engine: Any = make_engine("brax", scene, 1)

    def run(qpos: Any, qvel: Any, control: Control, fields: Any, steps: Any) -> World:
        # As `start` gives it, without its sensors, which would compile as long again.
        begun = BraxState(jnp.zeros(()), qpos, qvel, jnp.zeros(scene.model.nsensordata), fields)
        return engine.world(jax.lax.fori_loop(0, steps, lambda _, physics: engine.step(physics, control, 1), begun))

    return jax.jit(run)


def brax_world(scene: Any, state: tuple[Any, Any], control: Control, steps: int, **fields: Any) -> World:
    """The world after some physics steps of Brax."""
    single = jax.tree.map(
        np.float32, (state[0], state[1], control, fields), is_leaf=lambda part: isinstance(part, list)
    )
    return jax.tree.map(np.asarray, brax_program(scene)(*single, steps))


def mujoco_world(scene: Any, state: tuple[Any, Any], control: Control, steps: int) -> World:
    """The same of C MuJoCo, without the axis of environments."""
    engine: Any = make_engine("mujoco", scene, 1)
    qpos, qvel = (np.array([part], float) for part in state)
    start: Any = {"qpos": qpos, "qvel": qvel}
    engine.reset(np.arange(1), ResetState(**start, task_state=None, model={}))
    engine.step(jax.tree.map(lambda leaf: np.asarray(leaf)[None], control), steps)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0], engine.world())


@pytest.fixture(scope="module")
def mechanisms() -> Any:
    """Compiled once for all tests."""
    scene = Scene(MECHANISMS, 0.001)
    brax_world(scene, MOVING, held(ctrl=np.zeros(5), mocap_pos=PLACE), 1)
    return scene


def test_a_servo_moves_a_pendulum_as_in_mujoco(mechanisms: Any) -> None:
    control = held(ctrl=np.array([-0.5, 0, 0, 0, 0]), mocap_pos=PLACE)
    found, expected = (run(mechanisms, MOVING, control, 300) for run in (brax_world, mujoco_world))
    assert abs(expected.qpos[0] - 0.5) > 0.3
    np.testing.assert_allclose(found.qpos[0], expected.qpos[0], atol=1e-4)
    np.testing.assert_allclose(found["tip"], expected["tip"], atol=1e-4)
    np.testing.assert_allclose(found["torque"], expected["torque"], atol=5e-3)
    np.testing.assert_allclose(found["gyro"], expected["gyro"], atol=1e-3)


def test_a_hinged_child_goes_along_with_its_mocap_body(mechanisms: Any) -> None:
    """Turning at 2 rad/s, where the control has it."""
    found = brax_world(mechanisms, MOVING, held(ctrl=np.zeros(5), mocap_pos=PLACE), 100)
    np.testing.assert_allclose(found["handle"], [3 + 0.2 * np.cos(0.2), 4 + 0.2 * np.sin(0.2), 5.1], atol=1e-4)


def test_coupled_fingers_close_by_a_tendon_as_in_mujoco(mechanisms: Any) -> None:
    """Slides in a turned frame, a joint equality, a fixed tendon, gravity compensation, implicit damping."""
    control = held(ctrl=np.array([0, 0.03, 0, 0, 0]), mocap_pos=PLACE)
    found, expected = (run(mechanisms, MOVING, control, 200) for run in (brax_world, mujoco_world))
    assert expected.qpos[2] > 0.015
    np.testing.assert_allclose(found.qpos[1:4], expected.qpos[1:4], atol=1e-3)
    np.testing.assert_allclose(found.qpos[2], found.qpos[3], atol=1e-3)


def test_dry_friction_stops_a_wheel_and_a_limit_a_gate(mechanisms: Any) -> None:
    """The wheel at 2 rad/s: friction .05 N m on .02 kg m^2 stops it after 0.8 s and 0.8 rad."""
    rest = brax_world(mechanisms, MOVING, held(ctrl=np.array([0, 0, 0.5, 0, 0]), mocap_pos=PLACE), 1000)
    np.testing.assert_allclose(rest.qpos[4:6], [0.8, np.pi / 6], atol=0.02)
    assert np.abs(rest.qvel[4:6]).max() < 0.05


@pytest.fixture(scope="module")
def touching() -> Any:
    """Compiled once for both tests."""
    scene = Scene(TOUCHING, 0.002)
    touched(scene, 1)
    return scene


def touched(scene: Any, steps: int, friction: float = 0.5) -> World:
    """What has become of ball, sled and crate, whose coefficient of friction is the episode's own."""
    own = scene.model.geom_friction.copy()
    own[scene.model.geom("crate").id, 0] = friction
    return brax_world(scene, LANDING, Control(), steps, geom_friction=own)


def test_a_ball_comes_to_rest_on_the_floor(touching: Any) -> None:
    found = touched(touching, 400)
    np.testing.assert_allclose(found.qpos[:3], [5, 0, 0.1], atol=2e-3)
    np.testing.assert_allclose(found["ball"], 2 * 9.81, rtol=0.02)
    assert np.abs(found.qvel[:6]).max() < 0.02


def test_friction_stops_a_sled(touching: Any) -> None:
    """At 1 m/s and a coefficient of .5: after v^2 / (2 mu g) = 0.102 m; its corners carry its weight meanwhile."""
    found = touched(touching, 200)
    np.testing.assert_allclose(found.qpos[7:14], [0.102, 0, 0.05, 1, 0, 0, 0], atol=1e-2)
    np.testing.assert_allclose(found["sled"], 3 * 9.81, rtol=0.05)
    assert np.abs(found.qvel[6:12]).max() < 0.05


@pytest.mark.parametrize("friction", [0.6, 0.4])
def test_a_crate_slides_down_a_ramp_that_is_steeper_than_its_friction(touching: Any, friction: float) -> None:
    """With a coefficient of .6 it creeps on the slope of .5, with .4 it slides: g (sin - mu cos)."""
    found = touched(touching, 150, friction)
    speed = 0.3 * max(0.0, 4.387 - friction * 8.774)
    np.testing.assert_allclose(found.qvel[12:15], [0.894427 * speed, 0, -0.447214 * speed], atol=0.06)


def mechanics(model: mujoco.MjModel, qpos: Any, qvel: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """Energy J, momentum N s and angular momentum N m s about the common centre of mass, by MuJoCo, rotors left out."""
    copy, data = model.__copy__(), mujoco.MjData(model)
    copy.opt.enableflags = mujoco.mjtEnableBit.mjENBL_ENERGY
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(copy, data)
    mujoco.mj_subtreeVel(copy, data)
    return float(data.energy.sum()), model.body_mass.sum() * data.subtree_linvel[0], data.subtree_angmom[0].copy()


def test_every_kind_of_joint_moves_as_in_mujoco(mechanisms: Any) -> None:
    """Free, ball, two hinges and a slide on one body, references, springs, rotors, a body without joints."""
    control = held(ctrl=np.array([0, 0, 0, 0.6, -0.05]), mocap_pos=PLACE)
    found, expected = (run(mechanisms, MOVING, control, 100) for run in (brax_world, mujoco_world))
    assert np.abs(np.asarray(expected.qpos) - MOVING[0]).max() > 0.15
    # A ball joint of three hinges is integrated hinge by hinge: of first order in the step, as MuJoCo is.
    np.testing.assert_allclose(found.qpos[7:], expected.qpos[7:], atol=2e-3)
    np.testing.assert_allclose(found.qvel[7:], expected.qvel[7:], atol=3e-2)


@pytest.mark.slow
def test_a_flying_body_keeps_its_momentum_and_its_energy() -> None:
    xml = FLOATER
    for rotor in (' armature=".05"', ' armature=".01"', ' armature=".1"', ' damping="2"'):
        xml = xml.replace(rotor, "")
    scene = Scene(xml, 0.0005)
    world = brax_world(scene, FLOATING, held(ctrl=np.zeros(2)), 500)
    first, last = mechanics(scene.model, *FLOATING), mechanics(scene.model, world.qpos, world.qvel)
    np.testing.assert_allclose(last[0], first[0], rtol=0.02)
    np.testing.assert_allclose(last[1], first[1], atol=2e-2)
    np.testing.assert_allclose(last[2], first[2], atol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "effort"), [("half-cheetah", 0.3), ("hopper", 0.3), ("walker2d", 0.02), ("ant", 0.1)])
def test_the_classic_bodies_fly_as_in_mujoco(name: str, effort: float) -> None:
    """0.2 s of the same torques, 1 m up, from the middle of the joints' ranges: 0.01 rad and m."""
    time = 0.2
    scene = Body(f"locomotion/{name}")
    model, random = scene.model, np.random.default_rng(0)
    qpos, qvel = model.qpos0.copy(), 0.5 * random.standard_normal(model.nv)
    qpos[2 if name == "ant" else 1] += 1.0
    limited = model.jnt_limited.astype(bool)
    qpos[model.jnt_qposadr[limited]] = model.jnt_range[limited].mean(axis=1)
    control = held(ctrl=effort * random.uniform(-1, 1, model.nu))
    steps = round(time / scene.timing.physics_dt)
    found = brax_world(scene, (qpos, qvel), control, steps)
    expected = fine_mujoco(model, (qpos, qvel), control, time)
    assert np.abs(expected - qpos).max() > 0.1
    np.testing.assert_allclose(found.qpos, expected, atol=0.03)


def fine_mujoco(model: mujoco.MjModel, state: tuple[Any, Any], control: Control, time: float) -> np.ndarray:
    """qpos after some time of MuJoCo at a step so small that its integrator no longer matters."""
    copy, data = model.__copy__(), mujoco.MjData(model)
    copy.opt.timestep, copy.opt.integrator = 5e-5, mujoco.mjtIntegrator.mjINT_RK4
    data.qpos[:], data.qvel[:], data.ctrl[:] = *state, control.ctrl
    mujoco.mj_step(copy, data, round(time / copy.opt.timestep))
    return data.qpos


@pytest.mark.slow
def test_a_go1_stands_as_in_mujoco() -> None:
    """Dropped by 1 cm onto its home pose: the same height within 1 mm, its weight on its feet, each within 5 %."""
    scene = Body("locomotion/go1-joystick-flat")
    home, feet = scene.model.key("home"), [f"{name}_foot_touch" for name in ("FR", "FL", "RR", "RL")]
    qpos, control = home.qpos.copy(), held(ctrl=home.ctrl)
    qpos[2] += 0.01
    found, expected = (run(scene, (qpos, home.qvel), control, 250) for run in (brax_world, mujoco_world))
    np.testing.assert_allclose(found.qpos[2], expected.qpos[2], atol=1e-3)
    np.testing.assert_allclose(found.qpos[7:], expected.qpos[7:], atol=5e-3)
    forces, others = (np.concatenate([world[name] for name in feet]) for world in (found, expected))
    np.testing.assert_allclose(forces.sum(), scene.model.body_mass.sum() * 9.81, rtol=0.02)
    np.testing.assert_allclose(forces, others, rtol=0.05)


FREE = "<body name='b'><freejoint/><geom size='.1'/></body>"
TWO = "<body><joint name='j'/><geom size='.1'/><body><joint name='k'/><geom size='.1'/></body></body>"
STIFF = "<tendon><fixed name='t' stiffness='3' range='0 1'><joint joint='j' coef='1'/></fixed></tendon>"
HILLS = "<asset><hfield name='h' nrow='2' ncol='2' size='1 1 1 1'/></asset>"


@pytest.mark.parametrize(
    ("body", "extra", "message"),
    [
        ("<body><joint name='j' type='ball' range='0 1'/><geom size='.1'/></body>", "", "ball joint 'j'"),
        (FREE, "<equality><weld name='w' body1='b'/></equality>", "constraint 'w' is a weld"),
        (TWO, STIFF, "the tendon 't' has a limit and a spring"),
        (FREE, "<option density='1.2'/>", "no fluid; the model's has density 1.2"),
        ("<geom type='hfield' hfield='h'/>" + FREE, HILLS, "no height fields"),
        (FREE, "<sensor><user name='qfrc_bias' dim='6'/></sensor>", "the MjData field 'qfrc_bias'; it has xpos"),
    ],
)
def test_what_brax_cannot_do_is_one_clear_line(body: str, extra: str, message: str) -> None:
    with pytest.raises(EngineError, match="engine brax") as caught:
        brax_program(Scene(f"<mujoco><worldbody>{body}</worldbody>{extra}</mujoco>", 0.002))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
