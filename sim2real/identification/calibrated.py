"""A task on the robot that a calibration found, with what the calibration leaves open drawn anew in every episode.

`train --calibration twin/` is this. What the log decided replaces what the task would draw of the same numbers; all
else (ground, pushes, sensor noise) varies as the task says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.task import Task
from embodied.core.world import ResetState
from embodied.errors import listing
from sim2real.identification.calibration import Calibration
from sim2real.identification.model_fields import written
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.twins import crazyflie
from tasks.locomotion.legged import LeggedTask
from tasks.manipulation.common.tabletop import Tabletop
from tasks.swarm import hover
from tasks.swarm.dynamics.quadrotor import Quadrotor
from tasks.swarm.hover import Hover


def calibrated(task: Task[Any], calibration: Calibration, width: float = 1.0) -> Task[Any]:
    """The same task on a calibrated robot.

    Args:
        task: Of a kind in `KINDS`, as its class makes it from its config.
        calibration: Of the same robot.
        width: Factor on the standard deviations with which every episode draws a robot about the estimate; 0: the
            estimate itself.

    Raises:
        CalibrationError: the calibration is of another robot, the task cannot be given one or not such a delay, or the
            width is negative.
    """
    if not 0 <= width < np.inf:
        raise CalibrationError(f"a calibration of width {width}; expected a factor on standard deviations, 0 or more")
    own = type(task)
    base = next((base for base in KINDS if issubclass(own, base)), None)
    if base is None:
        kinds = listing(kind.__name__ for kind in KINDS)
        raise CalibrationError(f"a {own.__name__} cannot be given a calibration; tasks of these kinds can: {kinds}")
    members = {"calibration": calibration, "width": width, "__doc__": own.__doc__, "__qualname__": own.__qualname__}
    kind: Any = type(own.__name__, (KINDS[base], own), members)
    result: Calibrated = kind(task.config)
    if (robot := result.robot_name) != calibration.robot:
        raise CalibrationError(f"the calibration is of a {calibration.robot}; {own.__name__} has a {robot}")
    delay = calibration.of(Kind.DELAY).get("", 0.0)
    if delay > result.longest_delay:
        raise CalibrationError(
            f"the robot's commands are {delay:.4f} s late; {own.__name__} can be trained with at most "
            f"{result.longest_delay:g} s"
        )
    return result


class Calibrated(Task[Any]):
    """What a calibrated task does otherwise; stands before the task's own class."""

    calibration: ClassVar[Calibration]
    width: ClassVar[float]
    robot_name: str
    """As calibrations call it."""

    @property
    def longest_delay(self) -> float:
        """s that commands may be late: one control step."""
        return self.timing.control_dt

    @property
    def variations(self) -> Mapping[str, str]:
        """Also what is drawn from the calibration."""
        free = self.calibration.free
        kinds = ", ".join(dict.fromkeys(e.parameter.kind.value for e in free))
        drawn = f"normal about their estimates, {self.width:g} x the standard deviations" if self.width else "not drawn"
        what = f"{len(free)} parameters ({kinds}) from '{self.calibration.source}': {drawn}"
        return {**super().variations, "calibration": what}

    def build_spec(self) -> mujoco.MjSpec:
        """The task's scene, with the estimates in it."""
        spec = super().build_spec()  # type: ignore[safe-super]  # the task's own class comes next
        self.calibration.apply(spec)
        return spec

    def reset(self, key: Array) -> ResetState[Any]:
        """As the task begins, with a robot that the log allows."""
        key, draw = jax.random.split(key)
        return self._as_calibrated(super().reset(key), self.draw_robot(draw))  # type: ignore[safe-super]

    def restart(self, key: Array, state: Any) -> ResetState[Any]:
        """As the task goes on, with a robot that the log allows."""
        key, draw = jax.random.split(key)
        # The task may call its own `reset`, and so ours; what counts is drawn last.
        return self._as_calibrated(super().restart(key, state), self.draw_robot(draw))

    def draw_robot(self, key: Array) -> Array:
        """(p,) values of all parameters, of one robot: `Calibration.draw`, of another width, in JAX."""
        as_float32 = lambda numbers: jnp.asarray(numbers, jnp.float32)  # noqa: E731
        root = as_float32(self.width * self.calibration.root)
        drawn = as_float32(self.calibration.values) + root @ jax.random.normal(key, (root.shape[1],))
        return jnp.clip(drawn, *map(as_float32, self.calibration.bounds))

    def of_kind(self, values: Array, kind: Kind) -> dict[str, Array]:
        """Target -> value () of the parameters of a kind."""
        estimates = enumerate(self.calibration.estimates)
        return {e.parameter.target: values[i] for i, e in estimates if e.parameter.kind is kind}

    def fields(self, values: Array, own: Mapping[str, Array]) -> dict[str, Array]:
        """MjModel fields of an episode, from those that the task drew."""
        result = written(self.model, self.calibration.estimates, values, own)
        # Without a width the model itself says the rest, and episodes need none of their own.
        return result if self.width else {name: result[name] for name in own}

    def remembered(self, state: Any, values: Array) -> Any:
        """The task's state, with what the values decide in it."""
        del values
        return state

    def _as_calibrated(self, start: ResetState[Any], values: Array) -> ResetState[Any]:
        state = self.remembered(start.task_state, values)
        return dataclasses.replace(start, task_state=state, model=self.fields(values, start.model))

    def late(self, values: Array) -> Array:
        """() s, the delay among the values."""
        return jnp.clip(self.of_kind(values, Kind.DELAY)[""], 0.0, self.longest_delay)


class CalibratedLegs(Calibrated):
    """Legged robots: delay and encoder errors are the task's latency and encoder bias."""

    @property
    def robot_name(self) -> str:  # type: ignore[override]
        """Its own."""
        task: Any = self
        return str(task.robot.name)

    def remembered(self, state: Any, values: Array) -> Any:
        """With delay and encoder biases; legs that were not in the log keep what was drawn."""
        task: Any = self
        names = list(task.robot.joint_names)
        biases = self.of_kind(values, Kind.ENCODER_BIAS)
        rows = np.array([names.index(name) for name in biases], int)
        bias = state.encoder_bias.at[rows].set(jnp.stack(list(biases.values()))) if biases else state.encoder_bias
        return dataclasses.replace(state, encoder_bias=bias, latency=self.late(values))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DroneState(hover.TaskState):
    """Hover's state, and what drone it is in this episode."""

    values: Array
    """(p,) of the calibration's parameters."""


class CalibratedHover(Calibrated):
    """A drone: rotors, drag, mass and delay are those of the calibration."""

    robot_name = "crazyflie"

    def __init__(self, config: Any = None) -> None:
        """Check that the drone is the one that is calibrated.

        Raises:
            CalibrationError: another preset.
        """
        super().__init__(config)
        if self.config.preset is not crazyflie.PRESET:
            raise CalibrationError(f"preset {self.config.preset}: calibrations are of {crazyflie.PRESET}")

    def drone_of(self, values: Array) -> Quadrotor:
        """The drone with these values (p,)."""
        kinds = [estimate.parameter.kind for estimate in self.calibration.estimates]
        task: Any = self
        return crazyflie.changed(task.drone, {kind: values[i] for i, kind in enumerate(kinds)})

    def flown(self, state: DroneState) -> Quadrotor:
        """That of this episode."""
        return self.drone_of(state.values)

    def remembered(self, state: hover.TaskState, values: Array) -> DroneState:
        """With the drone, and its delay."""
        own = {field.name: getattr(state, field.name) for field in dataclasses.fields(hover.TaskState)}
        return DroneState(**{**own, "latency": self.late(values)}, values=values)

    def fields(self, values: Array, own: Mapping[str, Array]) -> dict[str, Array]:
        """Mass and moments of inertia."""
        drone, body = self.drone_of(values), self.model.body("cf").id
        mass = jnp.asarray(self.model.body_mass, jnp.float32).at[body].set(drone.mass)
        inertia = jnp.asarray(self.model.body_inertia, jnp.float32).at[body].set(jnp.stack(drone.inertia))
        return {**own, "body_mass": mass, "body_inertia": inertia}


class CalibratedArm(Calibrated):
    """The Panda at its table; its tasks simulate no delay."""

    robot_name = "panda"
    longest_delay = np.inf  # type: ignore[assignment]


KINDS: Mapping[type[Task[Any]], type[Calibrated]] = {
    LeggedTask: CalibratedLegs,
    Hover: CalibratedHover,
    Tabletop: CalibratedArm,
}
"""Kind of task -> what it does otherwise once it is calibrated."""
