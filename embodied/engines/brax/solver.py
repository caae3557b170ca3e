"""The forces of constraints: contacts, limits, dry friction and coupled joints, as a convex problem solved by Newton.

Brax writes a row for each edge of a contact's friction pyramid and for each limit: a Jacobian J, a softness R and the
acceleration a* that the constraint requires, with MuJoCo's formulas. The solver is not Brax's, which minimises
|J M^-1 J' f + R f + J a0 - a*|^2 over f >= 0 by projected gradients: this is not the complementarity problem that it
stands for, has that one's condition number squared, and lacks forces that are bounded on both sides or on none, which
dry friction and couplings need. Here the acceleration a minimises Gauss's principle instead,

    1/2 (a - a0)' M (a - a0) + sum_i s_i(J_i a - a*_i),

where s_i is quadratic with stiffness 1 / R_i and grows linearly where the force would leave its bounds.

Source: Todorov, Convex and analytically-invertible dynamics with contacts and constraints (2014); MuJoCo's
documentation, "Computation", primal problem.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array

ITERATIONS = 10
"""Newton steps at most; most steps of a walking robot need three, six suffice where its feet land."""
TOLERANCE = 1e-4
"""Largest change of a Newton step, relative to the largest acceleration, after which the next would change nothing
that single precision holds."""
SEARCHES = 6
"""Steps of the search along each Newton direction; its derivative is piecewise linear."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Rows:
    """Constraints, one a row."""

    jacobian: Array
    """(rows, nv)."""
    softness: Array
    """(rows,) 1 / kg or 1 / (kg m^2), acceleration that a force of one still leaves; 0 where the row is not active."""
    wanted: Array
    """(rows,) m/s^2 or rad/s^2."""
    low: Array
    """(rows,) N or N m, smallest force."""
    high: Array
    """(rows,) N or N m, largest force."""

    def and_(self, other: Rows) -> Rows:
        """These and the others."""
        return jax.tree.map(lambda one, two: jnp.concatenate([one, two]), self, other)


def solve(mass: Array, smooth: Array, rows: Rows) -> Array:
    """The forces (rows,) of the constraints.

    Args:
        mass: (nv, nv) joint-space inertia.
        smooth: (nv,) N or N m, all other forces.
        rows: The constraints.
    """
    stiffness = jnp.where(rows.softness > 0, 1.0 / jnp.maximum(rows.softness, 1e-12), 0.0)
    free = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(mass), smooth)

    def forces(residual: Array) -> tuple[Array, Array]:
        """The forces (rows,) and how much they change with the residual."""
        force = -stiffness * residual
        within = (force > rows.low) & (force < rows.high)
        return jnp.clip(force, rows.low, rows.high), jnp.where(within, stiffness, 0.0)

    def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, acceleration, _ = carry
        residual = rows.jacobian @ acceleration - rows.wanted
        force, active = forces(residual)
        slope = mass @ (acceleration - free) - rows.jacobian.T @ force
        curvature = mass + (rows.jacobian.T * active) @ rows.jacobian
        direction = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(curvature), slope)
        along, own = rows.jacobian @ direction, direction @ mass @ direction
        offset = direction @ mass @ (acceleration - free)

        def search(_: int, bracket: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            """Newton on the derivative along the direction, kept between the ends of what is known to hold its zero."""
            low, high, size = bracket
            force, active = forces(residual + size * along)
            derivative = offset + size * own - along @ force
            low, high = jnp.where(derivative < 0, size, low), jnp.where(derivative < 0, high, size)
            size = size - derivative / jnp.maximum(own + active @ along**2, 1e-30)
            return low, high, jnp.where((size > low) & (size < high), size, 0.5 * (low + jnp.minimum(high, low + 2.0)))

        start = jnp.zeros(()), jnp.asarray(jnp.inf), jnp.ones(())
        size = jax.lax.fori_loop(0, SEARCHES, search, start)[2]
        change = size * direction
        small = jnp.abs(change).max() <= TOLERANCE * (1.0 + jnp.abs(acceleration).max())
        return count + 1, acceleration + change, small

    def unfinished(carry: tuple[Array, Array, Array]) -> Array:
        return (carry[0] < ITERATIONS) & ~carry[2]

    begin = jnp.zeros((), jnp.int32), free, jnp.zeros((), bool)
    _, acceleration, _ = jax.lax.while_loop(unfinished, step, begin)
    return forces(rows.jacobian @ acceleration - rows.wanted)[0]
