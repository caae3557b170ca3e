"""`locomotion/reach-*`: a body of any form reaches targets on the ground in any direction, from any heading.

After 3D-SGRL (Chen et al., ICML 2023), with these differences: a target lies a few metres away and is replaced when it
is reached (there it is a direction, at 10 km); the control step is 20 ms for every family (there 8 ms, and 40 ms for
the cheetah); a reward for walking where the body points is left out, since it may walk sideways.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.body_rows import FEATURES, SLOTS, actions_of
from embodied.core.facets import CommandRange, Language, Operator, Pictures
from embodied.core.hooks import UNCHANGED, Changes, Observation, Timing
from embodied.core.randomization import Range, Term
from embodied.core.task import Task
from embodied.core.world import Control, Outcome, ResetState, World
from embodied.math.rewards import squared_norm
from embodied.math.rotations import quat_conjugate, quat_from_axis_angle, quat_from_yaw, quat_multiply, quat_rotate
from embodied.math.sampling import between
from embodied.storage.bounds import NOT_NEGATIVE, Bounded, BoundError
from tasks.locomotion.morphologies import class_name
from tasks.locomotion.morphologies.description import Limb
from tasks.locomotion.morphologies.families import FAMILIES, Family
from tasks.locomotion.morphologies.model import Layout, build_spec, standing_height

CLEARANCE = 0.02  # m over the floor at the start
INSIDE = 1e-3  # rad inside its range where a joint starts: on the limit itself, rounding decides whether it is felt


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of the reward terms, per control step."""

    approach: float = 1.0
    """Speed towards the target, m/s."""
    alive: float = 0.5
    """1 at every step that is no failure."""
    control: float = -1e-3
    """Sum of squared controls."""


@dataclasses.dataclass(frozen=True)
class ReachConfig(Bounded):
    """Options of the reach tasks."""

    target_distance: tuple[float, float] = (2.0, 6.0)
    """m to a new target along the ground, drawn uniformly."""
    reach: float = 0.5
    """m along the ground from the torso to a target that counts as reached."""
    noise: Annotated[float, NOT_NEGATIVE] = 0.05
    """Half-width of the noise on joint angles (rad) and on all velocities (m/s, rad/s) at the start."""
    weights: Weights = dataclasses.field(default_factory=Weights)
    """Weights of the reward terms."""

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.target_distance
        if not 0 < self.reach < low <= high:
            raise BoundError(f"expected 0 < reach={self.reach} < target_distance={self.target_distance}, low to high")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState:
    """State of one episode."""

    target: Array
    """(2,) m, world frame."""
    distance: Array
    """() m from the torso to the target along the ground."""
    approach: Array
    """() m/s towards the target over the last control step."""
    reached: Array
    """() targets reached so far."""


class Reach(Task[TaskState]):
    """A body of some form reaches targets on the ground.

    Task: get within 0.5 m of the target, then of the next, which lies 2 to 6 m away in any direction. Randomised:
    heading, target, joint angles and velocities a little. Success: at least one target reached, and not fallen.
    Failure: the torso leans or sinks further than the family allows.

    Action: torques, three numbers for each part but the torso, for hinges about x, y and z; those of hinges that the
    part does not have do nothing.
    """

    family: ClassVar[Family]
    variant: ClassVar[str]
    config_type = ReachConfig
    config: ReachConfig
    language = Language.of(
        "Go to the target.", "Reach the point on the ground.", "Walk to the marked spot, then to the next."
    )
    timing = Timing(physics_dt=0.004, substeps=5, episode_seconds=20.0)

    def __init__(self, config: ReachConfig | None = None, changes: Changes = UNCHANGED) -> None:
        super().__init__(config, changes)
        self.layout = Layout.of(self.body, self.model)
        self.height = standing_height(self.body)

    @property
    def body(self) -> Limb:
        return self.family.variants[self.variant]

    def build_spec(self) -> mujoco.MjSpec:
        """The body on a floor; solver and integrator as for the quadrupeds, see `tasks.locomotion.joystick`."""
        spec = build_spec(self.body, self.family)
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
        spec.option.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
        spec.option.iterations, spec.option.ls_iterations = 6, 8
        return spec

    def declared_terms(self) -> tuple[Term, ...]:
        noise, around = self.config.noise, Range.spread("direction", 180.0, "degrees")
        distance = Range("distance along the ground", *self.config.target_distance, "m")
        return (
            Term("heading", "of the body at the start", optional=False, ranges=(around,)),
            Term("target", "a new one whenever it is reached", optional=False, ranges=(distance, around)),
            Term(
                "pose", "each joint at the start, from the standing pose and within its limits", optional=False,
                ranges=(Range.spread("angle", noise, "rad"),),
            ),
            Term(
                "velocity", "each degree of freedom at the start", optional=False,
                ranges=(Range.spread("speed", noise, "m/s or rad/s"),),
            ),
        )  # fmt: skip

    def reset(self, key: Array) -> ResetState[TaskState]:
        model, layout, noise = self.model, self.layout, self.config.noise
        sizes = np.cumsum([layout.has.sum(), model.nv, 1])
        pose, speed, heading, aim = jnp.split(jax.random.uniform(key, (int(sizes[-1]) + 2,)), sizes)
        limits = layout.limits[layout.has] + INSIDE * np.array([1.0, -1.0], np.float32)
        angles = jnp.clip(noise * (2 * pose - 1), limits[:, 0], limits[:, 1])
        root = jnp.concatenate([jnp.array([0.0, 0.0, self.height + CLEARANCE]), quat_from_yaw(2 * jnp.pi * heading[0])])
        qpos = jnp.zeros(model.nq).at[:7].set(root).at[layout.qpos[layout.has]].set(angles)
        target = self._draw_target(jnp.zeros(2), aim)
        zero = jnp.zeros(())
        state = TaskState(target=target, distance=jnp.linalg.norm(target), approach=zero, reached=zero)
        return ResetState(qpos, noise * (2 * speed - 1), state)

    def _draw_target(self, origin: Array, uniform: Array) -> Array:
        angle = 2 * jnp.pi * uniform[0]
        return origin + between(self.config.target_distance, uniform[1]) * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def apply_action(self, world: World, state: TaskState, command: Array) -> tuple[Control, TaskState]:
        del world
        return Control(ctrl=command[self.layout.motors]), state

    def post_step(self, world: World, state: TaskState, action: Array, key: Array) -> TaskState:
        del action
        place = world["torso_pos"][:2]
        distance = jnp.linalg.norm(state.target - place)
        approach = (state.distance - distance) / self.timing.control_dt
        there = distance < self.config.reach
        target = jnp.where(there, self._draw_target(place, jax.random.uniform(key, (2,))), state.target)
        return TaskState(target, jnp.linalg.norm(target - place), approach, state.reached + there)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """`policy`: for each part a row of `embodied.core.body_rows.FEATURES`, noiseless, vectors in the world frame.

        A term is a part, named as in the model: torso; thigh, shin, foot, lower shin; upper and lower arm; tail; left
        and right ones, front (f) and back (b) ones. Together the terms reshape to
        `(parts, embodied.core.body_rows.WIDTH)`.
        """
        del key
        rows = self._rows(world, state)
        return {"policy": {name: rows[part] for part, name in enumerate(self.layout.names)}}

    def _rows(self, world: World, state: TaskState) -> Array:
        """(parts, WIDTH) features."""
        layout = self.layout
        parts = len(layout.names)
        pos, quat, linvel, angvel = (self._sensed(world, what) for what in ("pos", "quat", "linvel", "angvel"))
        angle = jnp.where(layout.has, world.qpos[layout.qpos], 0.0)
        low, high = layout.limits[..., 0], layout.limits[..., 1]
        span = np.where(layout.has, high - low, 1.0)
        turned = jax.vmap(quat_rotate, (0, None))
        direction = (state.target - pos[0, :2]) / jnp.maximum(jnp.linalg.norm(state.target - pos[0, :2]), 1e-6)
        everywhere = functools.partial(jnp.broadcast_to, shape=(parts, 1))
        values = {
            "position": pos - pos[0],
            "velocity": linvel,
            "angular_velocity": angvel,
            "forward": turned(quat, jnp.array([1.0, 0.0, 0.0])),
            "up": turned(quat, jnp.array([0.0, 0.0, 1.0])),
            "target": jnp.broadcast_to(jnp.append(direction, 0.0), (parts, 3)),
            "present": jnp.ones((parts, 1)),
            "parent": jnp.asarray(layout.parents + 1.0)[:, None],
            "height": pos[:, 2:],
            "distance": everywhere(state.distance),
            "length": jnp.asarray(layout.size[:, :1]),
            "radius": jnp.asarray(layout.size[:, 1:]),
            "angle": angle,
            "fraction": jnp.where(layout.has, (2 * angle - low - high) / span, 0.0),
            "speed": jnp.where(layout.has, world.qvel[layout.qvel], 0.0),
            "lower": jnp.asarray(low),
            "upper": jnp.asarray(high),
            "strength": jnp.asarray(layout.strength),
        }
        values |= {f"axis_{slot}": axis for slot, axis in enumerate(world_axes(quat, layout.axes, angle))}
        return jnp.concatenate([values[feature.name] for feature in FEATURES], axis=1).astype(jnp.float32)

    def _sensed(self, world: World, what: str) -> Array:
        """(parts, k) a sensor of every part."""
        return jnp.stack([world[f"{name}_{what}"] for name in self.layout.names])

    def rewards(self, world: World, state: TaskState, action: Array) -> Mapping[str, Array]:
        return {
            "approach": state.approach,
            "alive": 1.0 - self._fallen(world).astype(jnp.float32),
            "control": squared_norm(action[self.layout.motors]),
        }

    def outcome(self, world: World, state: TaskState) -> Outcome:
        """Success: a target reached and still up. Failure: fallen."""
        fallen = self._fallen(world)
        return Outcome(success=(state.reached > 0) & ~fallen, failure=fallen)

    def _fallen(self, world: World) -> Array:
        """() bool, whether the torso leans too far or is too low."""
        upright = quat_rotate(world["torso_quat"], jnp.array([0.0, 0.0, 1.0]))[2]
        low = world["torso_pos"][2] < self.family.fall_height * self.height
        return low | (upright < math.cos(self.family.fall_lean))

    metric_units: Mapping[str, str] = {"approach_speed": "m/s", "target_distance": "m"}

    def metrics(self, world: World, state: TaskState) -> Mapping[str, Array]:
        """Speed towards the target in m/s, distance to it in m, and the targets reached so far, all on average."""
        return {"approach_speed": state.approach, "target_distance": state.distance, "reached": state.reached}

    @functools.cached_property
    def operator(self) -> Operator:
        """The target, as far from the middle of the floor as one is from the next; measured is the torso's position."""
        far = self.config.target_distance[1]
        return Operator(
            commands={"target": "x and y m of the point on the ground to reach, world frame"},
            ranges=tuple(CommandRange(axis, "m", -far, far, "target", (i,)) for i, axis in enumerate("xy")),
            measured=lambda world, state: world["torso_pos"][:2],
        )

    @functools.cached_property
    def pictures(self) -> Pictures:
        return Pictures(markers=lambda world, state: {"target": jnp.append(state.target, 0.05)})


def world_axes(quat: Array, axes: np.ndarray, angle: Array) -> list[Array]:
    """The hinges' axes as they lie in the world.

    Args:
        quat: (parts, 4) wxyz, orientation of each part.
        axes: (parts, slots, 3) unit vectors in the part's frame, or 0.
        angle: (parts, slots) rad.

    Returns:
        (parts, 3) for each slot.
    """
    rotate, multiply = jax.vmap(quat_rotate), jax.vmap(quat_multiply)
    found: list[Array] = []
    for slot in reversed(range(SLOTS)):
        axis = jnp.asarray(axes[:, slot], jnp.float32)
        found.insert(0, rotate(quat, axis))
        # Hinges act in their order: without the last hinge's turn, the part stands as the one before left it.
        turn = jax.vmap(quat_from_axis_angle)(axis, angle[:, slot])
        quat = multiply(quat, jax.vmap(quat_conjugate)(turn))
    return found


def _classes() -> Iterator[type[Reach]]:
    """A task for every variant of every family."""
    for family in FAMILIES.values():
        for variant, body in family.variants.items():
            attributes = {
                "family": family,
                "variant": variant,
                "action_size": actions_of(len(list(body))),
                "__doc__": f"{family.name.capitalize()} `{variant}`. {Reach.__doc__}",
                "__module__": __name__,
            }
            yield type(class_name(family.name, variant), (Reach,), attributes)


# The registry finds tasks as attributes of modules.
globals().update({cls.__name__: cls for cls in _classes()})
