"""Domain randomisation: named terms that draw an episode's own model fields, and what derives from them.

A term is pure JAX and runs at every reset. The host engine recomputes derived constants with `mj_setConst`;
`DerivedConstants` is the same in JAX, for the fused engines.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.errors import EngineError, UnknownNameError
from embodied.math.rotations import matrix_from_quat

Fields = Mapping[str, Array]

INERTIAL = frozenset({"body_mass", "body_inertia", "body_ipos", "body_iquat", "dof_armature"})
"""Fields whose change leaves derived constants stale, and which `DerivedConstants` follows."""
GEOMETRIC = frozenset({"qpos0", "body_pos", "body_quat", "jnt_pos", "jnt_axis"})
"""Fields that would move the reference pose; the fused engines cannot vary them."""


UNITS: Mapping[str, str] = {
    "body_mass": "kg",
    "body_inertia": "kg m^2",
    "body_ipos": "m",
    "body_pos": "m",
    "geom_pos": "m",
    "geom_size": "m",
    "geom_friction": "1",
    "opt_gravity": "m/s^2",
}
"""Model field -> unit of its elements, where it is the same for all (MuJoCo's XML reference, SI)."""


class Distribution(enum.StrEnum):
    """Distribution of a number over its range."""

    UNIFORM = "uniform"
    BALL = "uniform in a ball"
    NORMAL = "normal"


@dataclasses.dataclass(frozen=True)
class Range:
    """Range of a number that a variation draws. Terms draw from these objects, so the listed ranges are the drawn ones.

    Raises:
        ValueError: it does not begin with its smaller number.
    """

    quantity: str
    """Drawn quantity, such as `factor`, `shift` or `tilt`."""
    low: float
    """Smallest; of a normal distribution, one standard deviation below the mean; of a ball, 0."""
    high: float
    """Largest; of a normal distribution, one standard deviation above the mean; of a ball, its radius."""
    unit: str
    """Of both; 1 where there is none."""
    distribution: Distribution = Distribution.UNIFORM

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(
                f"range of {self.quantity!r}: low={self.low} must not exceed high={self.high} (the smaller first)"
            )

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f" {self.unit}"
        if self.distribution is Distribution.NORMAL:
            mean, spread = (self.low + self.high) / 2, (self.high - self.low) / 2
            return f"{self.quantity} {self.distribution} {mean:.4g}{unit}, standard deviation {spread:.4g}{unit}"
        return f"{self.quantity} {self.distribution} {self.low:.4g} to {self.high:.4g}{unit}"

    @classmethod
    def spread(
        cls, quantity: str, size: float, unit: str, distribution: Distribution = Distribution.UNIFORM, about: float = 0
    ) -> Range:
        """A range from `size` below `about` to `size` above it."""
        return cls(quantity, about - size, about + size, unit, distribution)

    def draw(self, key: Array, shape: tuple[int, ...]) -> Array:
        """Uniform numbers from the range, of a shape."""
        return jax.random.uniform(key, shape, minval=self.low, maxval=self.high)


@dataclasses.dataclass(frozen=True)
class Term:
    """One named source of variation between episodes: of model fields, of a number in the task's state, or any other.

    A task declares its terms once (`Task.declared_terms`). What is listed and left out by name follows from them.
    """

    name: str
    """Unique in its task; the name of the switch on the command line."""
    description: str
    """Varied quantity; `ranges` give its extent."""
    apply: Callable[[Array, Fields], dict[str, Array]] | None = None
    """`(key, fields so far) -> changed MjModel fields`, drawn by `draw`; terms compose in the order a task lists them.
    None: the task itself draws what varies."""
    state_field: str | None = None
    """Field of the task's state that holds what was drawn, where that is a physical parameter."""
    nominal: float = 0.0
    """Value of that field without randomisation."""
    optional: bool = True
    """Whether the term can be left out."""
    ranges: tuple[Range, ...] = ()
    """Range of every number that is drawn."""
    no_range: str = ""
    """Reason why `ranges` cannot describe what is drawn."""
    factor_of: Mapping[str, Sequence[int] | None] = dataclasses.field(default_factory=dict)
    """Model field -> its rows, or None for all, that what is drawn multiplies."""

    @property
    def summary(self) -> str:
        """Description and ranges, in a line."""
        ranges = "; ".join(map(str, self.ranges)) or self.no_range
        return f"{self.description}: {ranges}" if ranges else self.description

    def varies(self, model: mujoco.MjModel) -> bool:
        """Whether what is drawn makes a difference to a model; a factor of nothing but zeros does not."""
        fields = ((getattr(model, field, np.ones(1)), rows) for field, rows in self.factor_of.items())
        return not self.factor_of or any(np.any(value if rows is None else value[list(rows)]) for value, rows in fields)


def scale(
    name: str, field: str, low: float, high: float, rows: Sequence[int] | None = None, *, shared: bool = False
) -> Term:
    """Multiply rows of a model field by U(low, high): one factor each, or one for all with `shared`."""
    return _uniform(name, field, _range(name, "factor", low, high, "1"), rows, shared)


def offset(
    name: str, field: str, low: float, high: float, rows: Sequence[int] | None = None, *, shared: bool = False
) -> Term:
    """Add U(low, high), in the field's unit, to every element of some rows of a model field."""
    unit = UNITS.get(field, f"as {field}")
    return _uniform(name, field, _range(name, "addend", low, high, unit), rows, shared)


def _range(name: str, quantity: str, low: float, high: float, unit: str) -> Range:
    """A uniform range of the term `name`, which an error mentions."""
    if low > high:
        raise ValueError(f"randomisation term {name!r}: low={low} must not exceed high={high}")
    return Range(quantity, low, high, unit)


def _uniform(name: str, field: str, drawn_from: Range, rows: Sequence[int] | None, shared: bool) -> Term:
    factor = drawn_from.quantity == "factor"

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        value = fields[field]
        index = jnp.arange(value.shape[0]) if rows is None else jnp.asarray(rows)
        chosen = value[index]
        # A factor is one per row (a body's whole inertia); an offset is one per element (a 3-D shift).
        per_row = (len(index),) + (1,) * (chosen.ndim - 1) if factor else chosen.shape
        drawn = drawn_from.draw(key, (1,) * chosen.ndim if shared else per_row)
        return {field: value.at[index].set(chosen * drawn if factor else chosen + drawn)}

    each = "one for all" if shared else ("one per row" if factor else "one per element")
    return Term(name, f"{field}, {each}", apply, ranges=(drawn_from,), factor_of={field: rows} if factor else {})


def scale_bodies(name: str, low: float, high: float, rows: Sequence[int]) -> Term:
    """Scale the mass and the inertia of some bodies together, as a body of another density has them."""
    drawn_from = _range(name, "factor", low, high, "1")

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        index = jnp.asarray(rows)
        factor = drawn_from.draw(key, (len(rows),))
        return {
            "body_mass": fields["body_mass"].at[index].multiply(factor),
            "body_inertia": fields["body_inertia"].at[index].multiply(factor[:, None]),
        }

    factor_of = {"body_mass": rows, "body_inertia": rows}
    return Term(name, "body_mass and body_inertia, one per body", apply, ranges=(drawn_from,), factor_of=factor_of)


def scale_servos(name: str, low: float, high: float, rows: Sequence[int]) -> Term:
    """Scale gain and bias of some position servos together: stiffness and damping of a stronger or weaker motor."""
    drawn_from = _range(name, "factor", low, high, "1")

    def apply(key: Array, fields: Fields) -> dict[str, Array]:
        index = jnp.asarray(rows)
        factor = drawn_from.draw(key, (len(rows), 1))
        return {
            "actuator_gainprm": fields["actuator_gainprm"].at[index].multiply(factor),
            "actuator_biasprm": fields["actuator_biasprm"].at[index].multiply(factor),
        }

    factor_of = {"actuator_gainprm": rows, "actuator_biasprm": rows}
    described = "actuator_gainprm and actuator_biasprm, one per servo"
    return Term(name, described, apply, ranges=(drawn_from,), factor_of=factor_of)


def require_ranges(what: str, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Check that every range of a config begins with its smaller number.

    Raises:
        ValueError: one does not; names it after `what`.
    """
    for name, (low, high) in ranges.items():
        if not low <= high:
            raise ValueError(f"{what}.{name}=({low}, {high}); expected the smaller number first")


def without(terms: Sequence[Term], names: Iterable[str]) -> tuple[Term, ...]:
    """The terms less those of some names; "all" stands for every optional one.

    Raises:
        UnknownNameError: a name is of no term that can be left out.
    """
    optional = [term.name for term in terms if term.optional]
    left_out = set(names)
    for name in sorted(left_out - {*optional, "all"}):
        raise UnknownNameError("variation", name, (*optional, "all"))
    left_out |= set(optional) if "all" in left_out else set()
    return tuple(term for term in terms if term.name not in left_out)


def draw(model: mujoco.MjModel, terms: Sequence[Term], key: Array, fields: Fields | None = None) -> dict[str, Array]:
    """Draw the terms of model fields once; returns `fields`, which differ from the model's already, and those drawn."""
    base = _Defaults(model)
    changed: dict[str, Array] = dict(fields or {})
    for index, apply in enumerate(term.apply for term in terms if term.apply is not None):
        changed.update(apply(jax.random.fold_in(key, index), _Overlay(base, changed)))
    return changed


class _Defaults(dict[str, Array]):
    """The model's own fields, converted on first use."""

    def __init__(self, model: mujoco.MjModel) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, field: str) -> Array:
        if not isinstance(getattr(self._model, field, None), np.ndarray):
            raise ValueError(f"a randomisation term names the model field {field!r}, which MjModel does not have")
        return jnp.asarray(getattr(self._model, field), jnp.float32)


class _Overlay(dict[str, Array]):
    """Fields that earlier terms changed, over the model's own fields."""

    def __init__(self, base: _Defaults, changed: dict[str, Array]) -> None:
        super().__init__(changed)
        self._base = base

    def __missing__(self, field: str) -> Array:
        return self._base[field]


@dataclasses.dataclass(frozen=True)
class DerivedConstants:
    """Constants that `mj_setConst` derives from inertial fields at the reference pose, as a function in JAX.

    The reference pose does not depend on inertial fields, so the Jacobians of the body frames are constants;
    the joint-space inertia follows as sum_b J_b' I_b J_b + armature, and every inverse weight from its inverse.
    """

    model: mujoco.MjModel
    rotations: np.ndarray
    """(nbody, 3, 3) body frame -> world at the reference pose."""
    linear: np.ndarray
    """(nbody, 3, nv) Jacobian of each body frame's origin."""
    angular: np.ndarray
    """(nbody, 3, nv) angular Jacobian of each body."""

    @classmethod
    def from_model(cls, model: mujoco.MjModel) -> DerivedConstants:
        """Measure the Jacobians at `qpos0` with C MuJoCo."""
        data = mujoco.MjData(model)
        data.qpos[:] = model.qpos0
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        linear = np.zeros((model.nbody, 3, model.nv))
        angular = np.zeros((model.nbody, 3, model.nv))
        for body in range(model.nbody):
            mujoco.mj_jacBody(model, data, linear[body], angular[body], body)
        return cls(model, data.xmat.reshape(-1, 3, 3).copy(), linear, angular)

    def __call__(self, fields: dict[str, Array]) -> dict[str, Array]:
        """`fields` with `body_subtreemass`, `body_invweight0`, `dof_invweight0` added where they go stale.

        Raises:
            EngineError: a field would move the reference pose.
        """
        if moved := sorted(GEOMETRIC & fields.keys()):
            raise EngineError(f"the model fields {moved} move the reference pose; a fused engine cannot vary them")
        if not INERTIAL & fields.keys():
            return fields
        value = lambda name: jnp.asarray(fields.get(name, getattr(self.model, name)), jnp.float32)  # noqa: E731
        mass, armature = value("body_mass"), value("dof_armature")
        linear, angular = self._at_com(value("body_ipos"))
        inverse = jnp.linalg.inv(
            self._joint_inertia(mass, value("body_inertia"), value("body_iquat"), armature, linear)
        )
        return {
            **fields,
            "body_subtreemass": self._subtree_mass(mass),
            "body_invweight0": self._body_weights(linear, angular, inverse),
            "dof_invweight0": self._dof_weights(jnp.diagonal(inverse)),
        }

    def _at_com(self, ipos: Array) -> tuple[Array, Array]:
        """Jacobians (nbody, 3, nv) of each body's centre of mass."""
        arm = jnp.einsum("bij,bj->bi", self.rotations, ipos)
        angular = jnp.asarray(self.angular, jnp.float32)
        return jnp.asarray(self.linear, jnp.float32) - jnp.cross(arm[:, :, None], angular, axis=1), angular

    def _joint_inertia(self, mass: Array, inertia: Array, iquat: Array, armature: Array, linear: Array) -> Array:
        """(nv, nv) joint-space inertia at the reference pose."""
        frames = jnp.einsum("bij,bjk->bik", self.rotations, jax.vmap(matrix_from_quat)(iquat))
        spin = jnp.einsum("bji,bjv->biv", frames, jnp.asarray(self.angular, jnp.float32))
        moving = jnp.einsum("b,biv,biw->vw", mass, linear, linear)
        return moving + jnp.einsum("bi,biv,biw->vw", inertia, spin, spin) + jnp.diag(armature)

    def _subtree_mass(self, mass: Array) -> Array:
        """(nbody,) mass of each body with all its descendants."""
        member = np.eye(self.model.nbody, dtype=np.float32)
        for body in range(self.model.nbody - 1, 0, -1):
            member[self.model.body_parentid[body]] += member[body]
        return jnp.asarray(member) @ mass

    def _body_weights(self, linear: Array, angular: Array, inverse: Array) -> Array:
        """(nbody, 2) mean inverse inertia of each body against forces and torques; zero for the static ones."""
        translation = jnp.einsum("biv,vw,biw->b", linear, inverse, linear) / 3
        rotation = jnp.einsum("biv,vw,biw->b", angular, inverse, angular) / 3
        moves = jnp.asarray(self.model.body_weldid != 0)
        return jnp.where(moves[:, None], jnp.stack([translation, rotation], axis=1), 0.0)

    def _dof_weights(self, diagonal: Array) -> Array:
        """(nv,) inverse inertia per degree of freedom; the axes of a free or ball joint share their mean."""
        mixing = np.eye(self.model.nv, dtype=np.float32)
        for joint in range(self.model.njnt):
            first = self.model.jnt_dofadr[joint]
            kind = self.model.jnt_type[joint]
            blocks = {mujoco.mjtJoint.mjJNT_FREE: 2, mujoco.mjtJoint.mjJNT_BALL: 1}.get(mujoco.mjtJoint(kind), 0)
            for block in range(blocks):
                rows = slice(first + 3 * block, first + 3 * block + 3)
                mixing[rows, rows] = 1 / 3
        return jnp.asarray(mixing) @ diagonal
