"""Tasks small enough to compile in seconds: a ball that any engine moves, and a body that lands on a leg."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import mujoco
from jax import Array

from embodied.core.facets import Language
from embodied.core.hooks import Observation, Timing
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World

EXPLODE = 0.99  # an action above this pushes with a force that no number holds

BALL = """
<mujoco>
  <option integrator="Euler"/>
  <worldbody>
    <camera name="side" pos="0 -2 1"/>
    <body name="ball" pos="0 0 1">
      <freejoint/>
      <inertial pos="0 0 0" mass="1" diaginertia=".01 .02 .025"/>
      <geom size=".1" contype="0" conaffinity="1"/>
      <site name="imu"/>
      <site name="rim" pos=".1 .02 0" euler="20 30 40"/>
    </body>
  </worldbody>
  <sensor>
    <framepos name="position" objtype="xbody" objname="ball"/>
    <framequat name="orientation" objtype="xbody" objname="ball"/>
    <framelinvel name="linvel_w" objtype="xbody" objname="ball"/>
    <frameangvel name="angvel_w" objtype="xbody" objname="ball"/>
    <framexaxis name="ahead" objtype="site" objname="rim"/>
    <framezaxis name="up" objtype="site" objname="rim"/>
    <framepos name="rim_position" objtype="site" objname="rim"/>
    <framequat name="rim_orientation" objtype="site" objname="rim"/>
    <framelinvel name="rim_linvel_w" objtype="site" objname="rim"/>
    <velocimeter name="rim_velocity" site="rim"/>
    <gyro name="gyro" site="rim"/>
    <accelerometer name="accelerometer" site="imu"/>
  </sensor>
</mujoco>
"""

LANDER = """
<mujoco>
  <option integrator="implicitfast" iterations="20" ls_iterations="20"/>
  <default><geom condim="3" friction=".8"/></default>
  <worldbody>
    <camera name="side" pos="0 -2 1"/>
    <geom name="floor" type="plane" size="0 0 1" contype="1" conaffinity="0"/>
    <body name="torso" pos="0 0 .42">
      <freejoint/>
      <geom type="sphere" size=".12" mass="2" contype="0" conaffinity="1"/>
      <site name="imu" pos=".02 0 .05" euler="10 0 30"/>
      <body name="leg" pos="0 0 -.1">
        <joint name="hip" axis="0 1 0" range="-60 60" damping=".2" armature=".01"/>
        <geom type="capsule" fromto="0 0 -.02 .05 0 -.25" size=".03" mass=".4" contype="0" conaffinity="0"/>
        <site name="ankle" pos=".05 0 -.25"/>
        <body name="foot" pos=".05 0 -.25">
          <joint name="knee" type="slide" axis="0 0 1" range="-.05 .05" stiffness="800" damping="10"/>
          <geom name="foot" type="sphere" size=".05" mass=".2" contype="0" conaffinity="1"/>
          <site name="sole" type="sphere" size=".07"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><position name="hip" joint="hip" kp="20" kv="1"/></actuator>
  <sensor>
    <framepos name="position" objtype="xbody" objname="torso"/>
    <framequat name="orientation" objtype="xbody" objname="torso"/>
    <framezaxis name="up" objtype="site" objname="imu"/>
    <jointpos name="hip" joint="hip"/>
    <jointpos name="knee" joint="knee"/>
    <jointvel name="hip_speed" joint="hip"/>
    <gyro name="gyro" site="imu"/>
    <velocimeter name="velocity" site="imu"/>
    <framelinvel name="linvel_w" objtype="xbody" objname="torso"/>
    <accelerometer name="accelerometer" site="imu"/>
    <force name="ankle_force" site="ankle"/>
    <torque name="ankle_torque" site="ankle"/>
    <touch name="contact" site="sole"/>
    <actuatorfrc name="hip_force" actuator="hip"/>
  </sensor>
</mujoco>
"""


@dataclasses.dataclass(frozen=True)
class ToyConfig:
    """Options of the toys."""

    mass_low: float = 0.5
    """Smallest factor on the mass of an episode."""
    mass_high: float = 2.0
    """Largest factor."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """A toy's state."""

    life: Array
    """() int32 steps after which the episode fails; some exceed the time limit."""
    age: Array
    """() int32 steps so far."""
    spin: Array
    """() a number drawn at every step."""
    level: Array
    """() int32 episodes of this environment before this one."""


class Toy(Task[TaskState]):
    """What the toys share: every sensor is observed, an episode fails after a drawn number of steps."""

    config_type = ToyConfig
    config: ToyConfig
    language = Language.of("Move.")
    timing = Timing(physics_dt=0.002, substeps=4, episode_seconds=0.008 * 12)
    xml = ""

    @property
    def reward_weights(self) -> Mapping[str, float]:
        return {"alive": 1.0, "height": 0.5}

    def build_spec(self) -> mujoco.MjSpec:
        return mujoco.MjSpec.from_string(self.xml)

    def reset(self, key: Array) -> ResetState[TaskState]:
        drawn = jax.random.uniform(key, (self.model.nq + self.model.nv + 2,), minval=-1.0)
        place, motion, life, factor = jnp.split(
            drawn, [self.model.nq, self.model.nq + self.model.nv, self.model.nq + self.model.nv + 1]
        )
        qpos = jnp.asarray(self.model.qpos0, jnp.float32) + self.spread * place
        qpos = qpos.at[3:7].divide(jnp.linalg.norm(qpos[3:7]))
        zero = jnp.zeros((), jnp.int32)
        state = TaskState(life=(10 + 7 * life[0]).astype(jnp.int32), age=zero, spin=jnp.zeros(()), level=zero)
        low, high = self.config.mass_low, self.config.mass_high
        scale = low + (high - low) * (0.5 + 0.5 * factor[0])
        model = {
            "body_mass": jnp.asarray(self.model.body_mass, jnp.float32) * scale,
            "body_inertia": jnp.asarray(self.model.body_inertia, jnp.float32) * scale,
        }
        return ResetState(qpos, motion, state, model if high > low else {})

    def restart(self, key: Array, state: TaskState) -> ResetState[TaskState]:
        start = self.reset(key)
        return dataclasses.replace(start, task_state=dataclasses.replace(start.task_state, level=state.level + 1))

    @property
    def spread(self) -> Array:
        """(nq,) how far starts lie from the model's own pose."""
        return jnp.full(self.model.nq, 0.3)

    def push(self, command: Array) -> Array:
        """(nbody, 6) an overwhelming force on the first body while the last action exceeds `EXPLODE`."""
        force = jnp.where(command[-1] > EXPLODE, 1e30, 0.0)
        return jnp.zeros((self.model.nbody, 6)).at[1, 2].set(force)

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del world, action
        return dataclasses.replace(state, age=state.age + 1, spin=jax.random.uniform(key))

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        noise = jax.random.normal(key, (1,))
        sensors = {name: world[name] for name in world.layout.names}
        return {"policy": {**sensors, "noise": noise}, "critic": {"age": state.age.astype(jnp.float32)}}

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        del state, action
        return {"alive": jnp.ones(()), "height": world["position"][2]}

    def outcome(self, world: World, state: TaskState) -> Outcome:
        return Outcome(success=world["position"][0] > 0, failure=state.age >= state.life)

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        return {"height": world["position"][2], "drawn": state.spin}


class Ball(Toy):
    """A free ball pushed by forces, at every physics step."""

    action_size = 3
    applies_every_substep = True
    xml = BALL

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        wrench = self.push(command).at[1, :3].add(5.0 * command).at[1, 3:].add(0.1 * command)
        return Control(wrench=wrench), state


FIELDS = {"xpos": 6, "cvel": 12, "cfrc_ext": 12}
"""MjData fields of a model of two bodies, the world among them, and their sizes."""
USERS = "".join(f'<user name="{name}" dim="{size}"/>' for name, size in FIELDS.items())


class Watched(Ball):
    """The ball with its MjData watched by user sensors."""

    xml = BALL.replace("</sensor>", f"{USERS}</sensor>")


class Speck(Ball):
    """The ball with one sensor, its force held over a control step: what compiles soonest on any engine."""

    applies_every_substep = False
    xml = re.sub(r"<sensor>(\s*<framepos [^>]*>).*</sensor>", r"<sensor>\1</sensor>", BALL, flags=re.DOTALL)


class Lander(Toy):
    """A body with a sprung leg that falls on a floor; one hip motor, and a wrench to disturb it."""

    action_size = 2
    xml = LANDER

    @property
    def spread(self) -> Array:
        # Low enough to land within the episode.
        return jnp.full(self.model.nq, 0.1).at[2].set(0.05).at[8].set(0.0)

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        return Control(ctrl=command[:1], wrench=self.push(command)), state
