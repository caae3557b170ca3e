"""`locomotion/sumo`: two ants in a ring; an ant that leaves it, or is turned over, has lost."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.facets import Language, Team
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Distribution, Range, Term
from embodied.core.scenes import load_spec
from embodied.core.task import Task
from embodied.core.world import Outcome, ResetState, World
from embodied.math.rotations import quat_from_yaw, quat_rotate, quat_rotate_inverse, up_vector
from embodied.storage.bounds import POSITIVE, Bounded, BoundError

SIDES = {"red": (0.70, 0.15, 0.12, 1.0), "blue": (0.13, 0.30, 0.70, 1.0)}  # name of an agent -> RGBA of its shell
MOTORS, JOINTS = 8, 8  # of an ant
ROOT_QPOS, ROOT_QVEL = 7, 6  # numbers of its free joint
HEIGHT = 0.75  # m, of the torso at the start, as in Gymnasium's Ant-v5
NOISE = 0.1  # rad, m, m/s and rad/s, of the start, as in Gymnasium's Ant-v5
REACH = 1.0  # m from the torso's centre to a foot, about: two ants that start 2 m apart do not touch
ANTS, BOTH = 2, 3  # bits of a contact that distinguish ants from the floor (1)
FRICTION, MARGIN = (1.0, 0.5, 0.5), 0.01  # of the floor: sliding, torsional and rolling (m); m; as in Ant-v5
ARENA = 8 * 2**20  # bytes for the contacts and constraints of one environment, of which MuJoCo would reserve 15 MB
LINE = 0.08  # m, width of the ring's border


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step of 50 ms, of each ant."""

    won: float = 20.0
    """1 for who wins the bout, -1 for who loses it, when it ends."""
    push: float = 0.5
    """Speed of the opponent away from the middle of the ring, less the ant's own, m/s."""
    closing: float = 0.3
    """Speed at which the two come closer, m/s."""
    ctrl: float = -0.01
    """Sum of squared actions."""


@dataclasses.dataclass(frozen=True)
class SumoConfig(Bounded):
    """Options of `locomotion/sumo`."""

    radius: float = 2.5
    """m, of the ring."""
    distance: float = 2.4
    """m between the ants at the start."""
    seconds: Annotated[float, POSITIVE] = 15.0
    """s after which who is nearer to the middle of the ring wins."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""
    without: tuple[str, ...] = ()
    """Variations to leave out, by name; all leaves out every one of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 * REACH <= self.distance < 2 * self.radius:
            raise BoundError(
                f"distance={self.distance} m, radius={self.radius} m; expected ants at least {2 * REACH} m apart, so "
                "that they do not touch, and both in the ring"
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """Distances in the bout, and how they changed."""

    away: Array
    """(2,) m from the middle of the ring along the floor."""
    gap: Array
    """() m between the torsos along the floor."""
    outward: Array
    """(2,) m/s away from the middle over the last control step."""
    closing: Array
    """() m/s by which the gap narrowed over it."""


@dataclasses.dataclass(frozen=True)
class Bodies:
    """Both torsos and their joints; each array begins with an axis of 2."""

    pos: Array
    """(2, 3) m."""
    quat: Array
    """(2, 4) wxyz, body to world."""
    vel: Array
    """(2, 3) m/s, world frame."""
    angvel: Array
    """(2, 3) rad/s, body frame."""
    joint_pos: Array
    """(2, 8) rad."""
    joint_vel: Array
    """(2, 8) rad/s."""

    @classmethod
    def of(cls, world: World) -> Bodies:
        """Taken from qpos and qvel, which begin with the red ant's."""
        qpos, qvel = world.qpos.reshape(2, -1), world.qvel.reshape(2, -1)
        return cls(
            qpos[:, :3], qpos[:, 3:ROOT_QPOS], qvel[:, :3], qvel[:, 3:ROOT_QVEL], qpos[:, ROOT_QPOS:],
            qvel[:, ROOT_QVEL:],
        )  # fmt: skip


class Sumo(Task[TaskState]):
    """Two ants, each of which tries to push the other out of a ring, or to turn it over.

    After the sumo of Bansal et al., "Emergent complexity via multi-agent competition" (ICLR 2018, arXiv:1710.03748).
    Teams: `red` and `blue`, alike and with opposed rewards, but for the small one for coming closer. An ant has lost
    when its torso's centre has left the ring, or its back points below the horizon; after 15 s, when it is farther from
    the middle. So there is no draw. Randomised: where on a circle the ants begin, opposite each other, which way
    each faces, pose and velocity. Success: red has won, which ends the episode. Failure: blue has.

    Action: torque of each motor of the ant, leg by leg hip then ankle, in the order of legs 4, 1, 2, 3.
    """

    config_type = SumoConfig
    config: SumoConfig
    language = Language.of(
        "Push the other ant out of the ring.", "Win the sumo bout.", "Stay in the ring, and the other not."
    )
    action_size = MOTORS
    ends_when_solved = True
    metric_units: Mapping[str, str] = {"distance": "m"}

    def __init__(self, config: SumoConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.timing = Timing(physics_dt=0.01, substeps=5, episode_seconds=self.config.seconds)

    def build_spec(self) -> mujoco.MjSpec:
        spec = load_spec("scenes/floor.xml")
        spec.modelname = "sumo"
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.memory = ARENA
        spec.stat.center, spec.stat.extent = (0.0, 0.0, 0.3), self.config.radius
        spec.worldbody.add_camera(
            name="track", pos=[0, -2.0 * self.config.radius, 1.6 * self.config.radius], xyaxes=[1, 0, 0, 0, 0.625, 0.78]
        )
        floor = spec.geom("floor")
        floor.priority, floor.friction, floor.margin = 0, FRICTION, MARGIN
        for name, radius, height, colour in (
            ("border", self.config.radius, 0.002, (0.95, 0.95, 0.92, 1.0)),
            ("ring", self.config.radius - LINE, 0.004, (0.80, 0.66, 0.45, 1.0)),
        ):
            spec.worldbody.add_geom(
                name=name, type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[radius, height, 0], rgba=colour, group=2,
                contype=0, conaffinity=0,
            )  # fmt: skip
        for number, (side, colour) in enumerate(SIDES.items()):
            self._add_ant(spec, side, colour, collides=number == 0)
        return spec

    def _add_ant(self, spec: mujoco.MjSpec, side: str, colour: tuple[float, ...], collides: bool) -> None:
        """Attach an ant, whose limbs pass through each other and not through those of the other one.

        Geoms touch where a bit of the `contype` of one is in the `conaffinity` of the other: it is enough that the
        first ant has `ANTS` in the one, and the second in the other.
        """
        ant = load_spec("robots/ant/ant.xml")
        ant.material("ant_shell").rgba = colour
        for geom in ant.geoms:
            if geom.group != 2:
                geom.contype, geom.conaffinity = (ANTS, 1) if collides else (0, BOTH)
        spec.attach(ant, prefix=f"{side}_", frame=spec.worldbody.add_frame())

    def declared_terms(self) -> tuple[Term, ...]:
        ranges = (
            Range("the way from the middle of the ring to the red ant", -np.pi, np.pi, "rad"),
            Range("heading of each ant", -np.pi, np.pi, "rad"),
            Range.spread("each number of an ant's pose, from the reference", NOISE, "m or rad"),
            Range.spread("each number of its velocity", NOISE, "m/s or rad/s", Distribution.NORMAL),
        )
        return (Term("start", "place, pose and velocity at the start", optional=False, ranges=ranges),)

    def reset(self, key: Array) -> ResetState[TaskState]:
        way, heading, pose, velocity = jax.random.split(key, 4)
        angle = jax.random.uniform(way, minval=-jnp.pi, maxval=jnp.pi) + jnp.array([0.0, jnp.pi])
        flat = self.config.distance / 2 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1)
        turn = jax.vmap(quat_from_yaw)(jax.random.uniform(heading, (2,), minval=-jnp.pi, maxval=jnp.pi))
        noise = NOISE * jax.random.uniform(pose, (2, 3 + JOINTS), minval=-1.0)
        pos = jnp.concatenate([flat, jnp.full((2, 1), HEIGHT)], -1) + noise[:, :3]
        qpos = jnp.concatenate([pos, turn, noise[:, 3:]], -1).ravel()
        qvel = NOISE * jax.random.normal(velocity, (self.model.nv,))
        away, gap = measured(pos)
        return ResetState(qpos, qvel, TaskState(away, gap, jnp.zeros(2), jnp.zeros(())))

    def process_action(self, world: World, state: TaskState, action: Array, key: Array) -> tuple[Array, TaskState]:
        """Controls (16,) of both ants."""
        del world, key
        return action.ravel(), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action, key
        away, gap = measured(Bodies.of(world).pos)
        dt = self.timing.control_dt
        return TaskState(away, gap, outward=(away - state.away) / dt, closing=(state.gap - gap) / dt)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy` (2, 51): state of an ant, of the ring and of the other ant; vectors in its torso's frame.

        `height` (1) m; `up` (3), the world's z axis; `velocity` (3) m/s; `gyro` (3) rad/s; `joint_pos` (8) rad;
        `joint_vel` (8) 10 rad/s; `middle` (3) m, the way to the middle of the ring; `edge` (1) m to the ring's edge;
        `opponent` (3) m, the way to its torso; `opponent_velocity` (3) m/s, relative to its own; `opponent_forward` and
        `opponent_up` (3 each), its x and z axes; `opponent_joint_pos` (8) rad; `time_left` (1), of 1 at the start.
        """
        del key
        ants = Bodies.of(world)
        other = jnp.array([1, 0])
        seen = jax.vmap(quat_rotate_inverse)
        up = jax.vmap(up_vector)(ants.quat)
        forward = jax.vmap(quat_rotate, (0, None))(ants.quat, jnp.eye(3)[0])
        centre = -ants.pos.at[:, 2].set(0.0)
        left = 1.0 - world.time / self.config.seconds
        terms = {
            "height": ants.pos[:, 2:],
            "up": seen(ants.quat, jnp.broadcast_to(jnp.eye(3)[2], (2, 3))),
            "velocity": seen(ants.quat, ants.vel),
            "gyro": ants.angvel,
            "joint_pos": ants.joint_pos,
            "joint_vel": 0.1 * ants.joint_vel,
            "middle": seen(ants.quat, centre),
            "edge": (self.config.radius - state.away)[:, None],
            "opponent": seen(ants.quat, ants.pos[other] - ants.pos),
            "opponent_velocity": seen(ants.quat, ants.vel[other] - ants.vel),
            "opponent_forward": seen(ants.quat, forward[other]),
            "opponent_up": seen(ants.quat, up[other]),
            "opponent_joint_pos": ants.joint_pos[other],
            "time_left": jnp.broadcast_to(left, (2, 1)),
        }
        return {"policy": terms}

    def lost(self, world: World, state: TaskState) -> Array:
        """(2,) bool, whether each ant has lost at this instant; at most one has."""
        turned = jax.vmap(up_vector)(Bodies.of(world).quat)[:, 2] < 0
        out = (state.away > self.config.radius) | turned
        over = jnp.any(out) | (world.time > self.config.seconds - self.timing.control_dt / 2)
        farther = state.away[0] > state.away[1]
        red = jnp.where(out[0] == out[1], farther, out[0])
        return jnp.stack([red, ~red]) & over

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        lost = self.lost(world, state).astype(jnp.float32)
        return {
            "won": lost[::-1] - lost,
            "push": state.outward[::-1] - state.outward,
            "closing": jnp.broadcast_to(state.closing, (2,)),
            "ctrl": jnp.sum(action**2, -1),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: red has won. Failure: blue has."""
        red, blue = self.lost(world, state)
        return Outcome(success=blue, failure=red)

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """m between the torsos along the floor."""
        del world
        return {"distance": state.gap}

    @functools.cached_property
    def team(self) -> Team:
        return Team(2, {"red": (0,), "blue": (1,)}, self._seen_by)

    def _seen_by(self, world: World, state: TaskState, agent: Array) -> tuple[World, TaskState]:
        places = jnp.array([agent, 1 - agent])
        swapped = dataclasses.replace(
            world, qpos=world.qpos.reshape(2, -1)[places].ravel(), qvel=world.qvel.reshape(2, -1)[places].ravel()
        )
        return swapped, dataclasses.replace(state, away=state.away[places], outward=state.outward[places])


def measured(pos: Array) -> tuple[Array, Array]:
    """(2,) m from the middle of the ring, and () m between, of torsos at (2, 3) m, along the floor."""
    flat = pos[:, :2]
    return jnp.sqrt(jnp.sum(flat**2, -1) + 1e-12), jnp.sqrt(jnp.sum((flat[1] - flat[0]) ** 2) + 1e-12)
