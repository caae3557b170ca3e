"""A task on the robot that a calibration found, with what the calibration leaves open drawn anew in every episode.

`train --calibration twin/` is this. What the log decided replaces what the task would draw of the same numbers; all
else (ground, pushes, sensor noise) varies as in the task. `sim2real.export` takes the nominal task: a bundle describes
the meaning of actions, not the mass of a leg.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.randomization import Distribution, Range, Term
from embodied.core.task import Task, TaskWrapper
from embodied.core.world import ResetState
from embodied.errors import listing
from sim2real.identification.calibration import Calibration
from sim2real.identification.model_fields import written
from sim2real.identification.parameters import CalibrationError, Kind
from sim2real.twins import crazyflie
from tasks.locomotion.legged import LeggedTask
from tasks.manipulation.common.tabletop import Tabletop
from tasks.manipulation.track_pose import PANDA, TrackPose
from tasks.swarm.single.hover import Hover


def calibrated(task: Task[Any], calibration: Calibration, width: float = 1.0) -> Calibrated:
    """The same task on a calibrated robot.

    Args:
        task: Of a kind in `KINDS`.
        calibration: Of the same robot.
        width: Factor on the standard deviations with which every episode draws a robot about the estimate; 0: the
            estimate itself.

    Raises:
        CalibrationError: the calibration is of another robot, the task cannot be given one or not such a delay, or the
            width is negative.
    """
    if not 0 <= width < np.inf:
        raise CalibrationError(f"a calibration of width {width}; expected a factor on standard deviations, 0 or more")
    own = task.unwrapped
    kind = next((kind for kind in KINDS if isinstance(own, kind)), None)
    if kind is None:
        kinds = listing(kind.__name__ for kind in KINDS)
        raise CalibrationError(f"a {own} cannot be given a calibration; tasks of these kinds can: {kinds}")
    return KINDS[kind](task, calibration, width)


class Calibrated(TaskWrapper[Any]):
    """A task on a calibrated robot: its model is compiled with the estimates in the scene."""

    robot_name: str
    """As calibrations call it."""

    def __init__(self, task: Task[Any], calibration: Calibration, width: float) -> None:
        super().__init__(task)
        if self.robot_name != calibration.robot:
            own = self.robot_name
            raise CalibrationError(f"the calibration is of a {calibration.robot}; {task.unwrapped} has a {own}")
        delay = calibration.of(Kind.DELAY).get("", 0.0)
        if delay > self.longest_delay:
            raise CalibrationError(
                f"the robot's commands are {delay:.4f} s late; {task.unwrapped} can be trained with at most "
                f"{self.longest_delay:g} s"
            )
        # What a task derives from its model when it is made is to be the calibrated robot's, too.
        self.task = task.rebuilt(spec_edits=[calibration.apply])
        self.calibration, self.width = calibration, width

    @property
    def longest_delay(self) -> float:
        """s that commands may be late: one control step."""
        return self.timing.control_dt

    @property
    def deployed(self) -> Task[Any]:
        """The task on the calibrated model: a real robot has its own delays and encoder errors."""
        return self.task.deployed

    @functools.cached_property
    def terms(self) -> tuple[Term, ...]:
        free = self.calibration.free
        kinds = ", ".join(dict.fromkeys(e.parameter.kind.value for e in free))
        what = f"{len(free)} parameters ({kinds}) from '{self.calibration.source}', about their estimates"
        term = Term("calibration", what, optional=False, ranges=self._drawn_ranges(), no_range="not drawn")
        return (*self.task.terms, term)

    def _drawn_ranges(self) -> tuple[Range, ...]:
        """Of every parameter that is drawn; together they are correlated, and each is kept within its bounds."""
        spreads = np.linalg.norm(self.width * self.calibration.root, axis=1)
        drawn = [row for row in zip(self.calibration.estimates, spreads, strict=True) if row[1] > 0]
        return tuple(
            Range.spread(e.name, float(sd), e.parameter.unit, Distribution.NORMAL, about=e.value) for e, sd in drawn
        )

    def reset(self, key: Array) -> ResetState[Any]:
        key, draw = jax.random.split(key)
        return self._as_calibrated(self.task.reset(key), self.draw_robot(draw))

    def restart(self, key: Array, state: Any) -> ResetState[Any]:
        key, draw = jax.random.split(key)
        return self._as_calibrated(self.task.restart(key, state), self.draw_robot(draw))

    def draw_robot(self, key: Array) -> Array:
        """(p,) values of all parameters, of one robot: `Calibration.draw`, of another width, in JAX."""
        as_float32 = lambda numbers: jnp.asarray(numbers, jnp.float32)  # noqa: E731
        root = as_float32(self.width * self.calibration.root)
        drawn = as_float32(self.calibration.values) + root @ jax.random.normal(key, (root.shape[1],))
        return jnp.clip(drawn, *map(as_float32, self.calibration.bounds))

    def of_kind(self, values: Array, kind: Kind) -> dict[str, Array]:
        """Body, joint or actuator -> value () of the parameters of a kind."""
        mine = [(i, e.parameter) for i, e in enumerate(self.calibration.estimates) if e.parameter.kind is kind]
        return {name: values[i] for i, parameter in mine for name in parameter.members}

    def fields(self, values: Array, own: Mapping[str, Array]) -> dict[str, Array]:
        """MjModel fields of an episode, from those that the task drew."""
        result = written(self.model, self.calibration.estimates, values, own)
        # Without a width the model itself holds the rest, and episodes need no values of their own.
        return result if self.width else {name: result[name] for name in own}

    def parameters(self, values: Array, state: Any) -> dict[str, Any]:
        """Fields of the task's `state` that the values decide."""
        del values, state
        return {}

    def _as_calibrated(self, drawn: ResetState[Any], values: Array) -> ResetState[Any]:
        parameters = self.parameters(values, drawn.task_state)
        state = dataclasses.replace(drawn.task_state, **parameters) if parameters else drawn.task_state
        return dataclasses.replace(drawn, task_state=state, model=self.fields(values, drawn.model))

    def delay(self, values: Array) -> Array:
        return jnp.clip(self.of_kind(values, Kind.DELAY)[""], 0.0, self.longest_delay)


class CalibratedJoints(Calibrated):
    """Joints with position servos: delay and encoder errors are the task's latency and encoder bias."""

    @property
    def joints(self) -> Sequence[str]:
        """Names, in the order of actions."""
        raise NotImplementedError

    def parameters(self, values: Array, state: Any) -> dict[str, Any]:
        """Latency and encoder biases; joints that were not in the log keep what was drawn."""
        names = list(self.joints)
        biases = {name: b for name, b in self.of_kind(values, Kind.ENCODER_BIAS).items() if name in names}
        rows = np.array([names.index(name) for name in biases], int)
        bias = state.encoder_bias.at[rows].set(jnp.stack(list(biases.values()))) if biases else state.encoder_bias
        return {"encoder_bias": bias, "latency": self.delay(values)}


class CalibratedLegs(CalibratedJoints):
    """Legged robots."""

    @property
    def robot_name(self) -> str:  # type: ignore[override]
        return str(self.robot.name)

    @property
    def joints(self) -> Sequence[str]:
        return self.robot.joint_names


class CalibratedTrackPose(CalibratedJoints):
    """An arm of any model; fingers that were in the log have no place in its state."""

    @property
    def robot_name(self) -> str:  # type: ignore[override]
        return Path(self.task.config.robot or PANDA).stem

    @property
    def joints(self) -> Sequence[str]:
        return self.joint_names


class CalibratedHover(Calibrated):
    """A drone: rotors, drag, mass and delay are those of the calibration."""

    robot_name = "crazyflie"

    def __init__(self, task: Task[Any], calibration: Calibration, width: float) -> None:
        hover: Any = task.unwrapped
        if not hover.drone.crazyflie:
            raise CalibrationError(f"robot {task.config.robot}: calibrations are of the Crazyflie {crazyflie.PRESET}")
        if task.config.preset is not crazyflie.PRESET:
            raise CalibrationError(f"preset {task.config.preset}: calibrations are of {crazyflie.PRESET}")
        super().__init__(task, calibration, width)

    def constants(self, values: Array) -> dict[str, Any]:
        kinds = [estimate.parameter.kind for estimate in self.calibration.estimates]
        return crazyflie.constants(self.drone, {kind: values[i] for i, kind in enumerate(kinds)})

    def parameters(self, values: Array, state: Any) -> dict[str, Any]:
        constants = jax.tree.map(lambda number: jnp.asarray(number, jnp.float32), self.constants(values))
        return {"constants": constants, "latency": self.delay(values)}

    def fields(self, values: Array, own: Mapping[str, Array]) -> dict[str, Array]:
        drone, body = self.constants(values), self.model.body("cf").id
        mass = jnp.asarray(self.model.body_mass, jnp.float32).at[body].set(drone["mass"])
        inertia = jnp.asarray(self.model.body_inertia, jnp.float32).at[body].set(jnp.stack(drone["inertia"]))
        return {**own, "body_mass": mass, "body_inertia": inertia}


class CalibratedArm(Calibrated):
    """The Panda at its table; its tasks simulate no delay."""

    robot_name = "panda"
    longest_delay = np.inf  # type: ignore[assignment]


KINDS: Mapping[type[Task[Any]], type[Calibrated]] = {
    LeggedTask: CalibratedLegs,
    Hover: CalibratedHover,
    Tabletop: CalibratedArm,
    TrackPose: CalibratedTrackPose,
}
"""Kind of task -> its wrapper."""
