"""Places of calibrated parameters in a compiled model, so that every episode can have values of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from sim2real.identification.calibration import Estimate
from sim2real.identification.parameters import Kind


@dataclasses.dataclass(frozen=True)
class Place:
    """A number of a model that a parameter decides, or a row of numbers."""

    field: str
    """Of MjModel."""
    row: int
    column: int | None = None
    """None: the row's only number."""
    factor: float = 1.0
    """The number is so many times the parameter's value."""


@dataclasses.dataclass(frozen=True)
class Scaled:
    """A whole row of a model that grows as a parameter differs from its estimate."""

    field: str
    row: int


Find = Callable[[mujoco.MjModel, str], tuple[Place | Scaled, ...]]


def _joint(field: str) -> Find:
    return lambda model, name: (Place(field, int(model.joint(name).dofadr[0])),)


def _com(axis: int) -> Find:
    return lambda model, name: (Place("body_ipos", model.body(name).id, axis),)


def _inertia(model: mujoco.MjModel, name: str) -> tuple[Place | Scaled, ...]:
    return (Scaled("body_inertia", model.body(name).id),)


def _gains(*places: tuple[str, int, float]) -> Find:
    return lambda model, name: tuple(
        Place(field, model.actuator(name).id, column, factor) for field, column, factor in places
    )


def _strength(model: mujoco.MjModel, name: str) -> tuple[Place | Scaled, ...]:
    return tuple(Scaled(field, model.actuator(name).id) for field in ("actuator_gainprm", "actuator_biasprm"))


PLACES: Mapping[Kind, Find] = {
    Kind.MASS: lambda model, name: (Place("body_mass", model.body(name).id), *_inertia(model, name)),
    Kind.INERTIA: _inertia,
    Kind.COM_X: _com(0),
    Kind.COM_Y: _com(1),
    Kind.COM_Z: _com(2),
    # Centre of mass and inertia stay those of the estimated payload.
    Kind.PAYLOAD: lambda model, name: (Place("body_mass", int(model.site(name).bodyid[0])),),
    Kind.FRICTION: _joint("dof_frictionloss"),
    Kind.FRICTION_TIME: lambda model, name: (),  # no engine varies it: episodes have the estimate
    Kind.DAMPING: _joint("dof_damping"),
    Kind.ARMATURE: _joint("dof_armature"),
    Kind.STRENGTH: _strength,
    Kind.STIFFNESS: _gains(("actuator_gainprm", 0, 1.0), ("actuator_biasprm", 1, -1.0)),
    Kind.SERVO_DAMPING: _gains(("actuator_biasprm", 2, -1.0)),
}
"""Fields of a compiled model that hold what `parameters.APPLY` writes into its description."""


def written(
    model: mujoco.MjModel, estimates: Sequence[Estimate], values: Array, own: Mapping[str, Array]
) -> dict[str, Array]:
    """Fields of an episode: `own`, as its task drew them, and in their place what the estimated parameters decide.

    Args:
        model: With the estimates in it.
        estimates: Of all p parameters; those that were not estimated decide nothing.
        values: (p,) of this episode.
        own: MjModel field -> values.
    """
    result = dict(own)
    current = lambda field: result.get(field, jnp.asarray(getattr(model, field), jnp.float32))  # noqa: E731
    places = [
        (place, index)
        for index, estimate in enumerate(estimates)
        if estimate.parameter.free and estimate.parameter.kind in PLACES
        for name in estimate.parameter.members
        for place in PLACES[estimate.parameter.kind](model, name)
    ]
    # One operation for all places of a field: one for each would take XLA long to compile.
    for field in dict.fromkeys(place.field for place, _ in places):
        mine = [(place, index) for place, index in places if place.field == field]
        if scaled := [(place.row, index) for place, index in mine if isinstance(place, Scaled)]:
            rows, index = np.array(scaled).T
            ratio = values[index] / np.array([estimates[i].value for i in index], np.float32)
            # A row that two parameters scale grows by both.
            growth = jnp.ones(getattr(model, field).shape[0]).at[rows].multiply(ratio)
            nominal = jnp.asarray(getattr(model, field), jnp.float32)
            result[field] = current(field).at[rows].set((nominal * growth[:, None])[rows])
        for column in dict.fromkeys(place.column for place, _ in mine if isinstance(place, Place)):
            rows, index, factors = np.array(
                [(p.row, i, p.factor) for p, i in mine if isinstance(p, Place) and p.column == column]
            ).T
            rows, index = rows.astype(int), index.astype(int)
            where = rows if column is None else (rows, column)
            # Of the model with the estimates, so that a link's mass and its payload add up.
            nominal = np.asarray(getattr(model, field)[where], np.float32)
            change = (values[index] - np.array([estimates[i].value for i in index], np.float32)) * factors
            result[field] = current(field).at[where].set(nominal).at[where].add(change.astype(jnp.float32))
    return result
