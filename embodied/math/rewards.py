"""The vocabulary of rewards: bounded shaping, tracking kernels, costs and their weights.

A task's rewards are named terms without weights; `weigh` joins them with the weights of
the task's config, so that a log can show each term by its name. All functions are pure
JAX and work elementwise unless documented otherwise.
"""

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from embodied.errors import closest, listing
from embodied.math.tracing import traced_once

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Sigmoid", "gaussian_kernel", "limit_violation", "squared_norm", "tolerance", "weigh"]


class Sigmoid(enum.StrEnum):
    """Fall-off of `tolerance`: f(d) for the distance d to the interval, in margins.

    Each falls from f(0) = 1 to f(1) = v, the value at the margin, and never rises.
    """

    GAUSSIAN = "gaussian"
    """v^(d^2): flat at the top, vanishing soon after the margin."""
    HYPERBOLIC = "hyperbolic"
    """1 / cosh(a d): flat at the top, exponential tail."""
    LONG_TAIL = "long_tail"
    """1 / (1 + a d^2): flat at the top, some gradient at any distance."""
    RECIPROCAL = "reciprocal"
    """1 / (1 + a d): pointed at the top, the longest tail."""
    LAPLACE = "laplace"
    """v^d: pointed at the top, exponential tail."""
    TANH_SQUARED = "tanh_squared"
    """1 - tanh(a d)^2: flat at the top, exponential tail."""
    COSINE = "cosine"
    """(1 + cos(a d)) / 2 until it reaches zero, zero beyond: smooth at both ends."""
    LINEAR = "linear"
    """1 - a d until it reaches zero, zero beyond."""
    QUADRATIC = "quadratic"
    """1 - a d^2 until it reaches zero, zero beyond: flat at the top."""


def _fall_off(sigmoid: Sigmoid, distance: Array, value: float) -> Array:
    """The sigmoid at `distance` >= 0, in margins, for the given value at 1."""
    match sigmoid:
        case Sigmoid.GAUSSIAN:
            return jnp.exp(math.log(value) * jnp.square(distance))
        case Sigmoid.HYPERBOLIC:
            return _sech(math.acosh(1.0 / value) * distance)
        case Sigmoid.LONG_TAIL:
            return 1.0 / (1.0 + (1.0 / value - 1.0) * jnp.square(distance))
        case Sigmoid.RECIPROCAL:
            return 1.0 / (1.0 + (1.0 / value - 1.0) * distance)
        case Sigmoid.LAPLACE:
            return jnp.exp(math.log(value) * distance)
        case Sigmoid.TANH_SQUARED:
            return jnp.square(_sech(math.atanh(math.sqrt(1.0 - value)) * distance))
        case Sigmoid.COSINE:
            angle = math.acos(2.0 * value - 1.0) * distance
            return 0.5 * (1.0 + jnp.cos(jnp.minimum(angle, jnp.pi)))
        case Sigmoid.LINEAR:
            return jnp.maximum(1.0 - (1.0 - value) * distance, 0.0)
        case Sigmoid.QUADRATIC:
            return jnp.maximum(1.0 - (1.0 - value) * jnp.square(distance), 0.0)


def _sech(x: Array) -> Array:
    """1 / cosh(x) for x >= 0, by the decaying exponential alone, because cosh overflows far away."""
    decay = jnp.exp(-x)
    return 2.0 * decay / (1.0 + jnp.square(decay))


def tolerance(
    x: ArrayLike,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = 0.0,
    margin: ArrayLike = 0.0,
    sigmoid: Sigmoid | str = Sigmoid.GAUSSIAN,
    value_at_margin: float = 0.1,
) -> Array:
    """Reward for keeping a quantity within an interval: 1 inside, falling off outside.

    To make a reward reach zero at distance D, use `"linear"` with `margin=D / 2` and
    `value_at_margin=0.5`.

    Args:
        x: The quantity, any shape and unit.
        lower: Lower end of the interval, in the unit of `x`; `-inf` for none.
        upper: Upper end of the interval, in the unit of `x`; `inf` for none.
        margin: Distance from the interval at which the reward is `value_at_margin`, in the
            unit of `x`; zero for a reward of 0 anywhere outside. May be drawn per episode.
        sigmoid: Shape of the fall-off.
        value_at_margin: Reward at that distance, strictly between 0 and 1.

    Returns:
        Shape of `x`, in [0, 1]. NaN stays NaN.

    Raises:
        ValueError: unknown sigmoid, `lower` above `upper`, negative margin, or a value at the
            margin outside (0, 1). Bounds and margin are only checked outside of `jax.jit`
            or where they are constants.

    Source: the tolerance function of the DeepMind Control Suite, arXiv:1801.00690, section 2.
    """
    sigmoid = _chosen(sigmoid)
    if not 0.0 < value_at_margin < 1.0:
        raise ValueError(f"value_at_margin is {value_at_margin}; expected a number strictly between 0 and 1")
    if _known(lower, upper) and not np.all(np.less_equal(lower, upper)):
        raise ValueError(f"lower is {lower} and upper is {upper}; expected lower <= upper")
    if _known(margin) and not np.all(np.greater_equal(margin, 0.0)):
        raise ValueError(f"margin is {margin}; expected a number >= 0")

    quantity, low, high, fall = (jnp.asarray(value) for value in (x, lower, upper, margin))
    return _tolerance(quantity, low, high, fall, sigmoid, float(value_at_margin))


@traced_once("sigmoid", "value_at_margin")
def _tolerance(x: Array, lower: Array, upper: Array, margin: Array, sigmoid: Sigmoid, value_at_margin: float) -> Array:
    inside = (lower <= x) & (x <= upper)
    distance = jnp.where(inside, 0.0, jnp.maximum(lower - x, x - upper))
    # Not a plain 0 or 1, so that a NaN in x is still seen.
    hard = jnp.where(distance > 0.0, 0.0, 1.0 - distance)
    soft = _fall_off(sigmoid, distance / jnp.where(margin > 0.0, margin, 1.0), value_at_margin)
    return jnp.where(margin > 0.0, soft, hard)


def gaussian_kernel(error_squared: ArrayLike, sigma: ArrayLike) -> Array:
    """Reward for tracking: exp(-error_squared / sigma), 1 without error.

    Args:
        error_squared: Squared error, in squared units, any shape; see `squared_norm`.
        sigma: Scale, in the same squared units: at this squared error the reward is 1/e.
            It is divided by as it is, neither squared nor doubled.

    Returns:
        Shape of `error_squared`, in (0, 1].

    Raises:
        ValueError: `sigma` is not positive. Only checked where it is known before `jax.jit`.

    Source: the tracking rewards of legged_gym; Rudin et al., arXiv:2109.11978, table of rewards.
    """
    if _known(sigma) and not np.all(np.greater(sigma, 0.0)):
        raise ValueError(f"sigma is {sigma}; expected a number > 0")
    return jnp.exp(-jnp.asarray(error_squared) / sigma)


def squared_norm(x: Array) -> Array:
    """Sum of squares over the last axis.

    Args:
        x: `(..., n)`, any unit; a leading axis may count agents or feet.

    Returns:
        `(...)` in squared units. Unlike a norm, smooth at zero.
    """
    return jnp.sum(jnp.square(x), axis=-1)


def limit_violation(x: Array, lower: ArrayLike, upper: ArrayLike) -> Array:
    """Excess of a vector beyond its limits, summed over the last axis; a cost.

    Args:
        x: `(..., n)`, any unit: joint positions, velocities, torques.
        lower: `(n,)` or scalar, in the unit of `x`; `-inf` for none.
        upper: `(n,)` or scalar, in the unit of `x`; `inf` for none.

    Returns:
        `(...)` in the unit of `x`, zero within the limits, never negative. NaN stays NaN.
    """
    return jnp.sum(jnp.maximum(lower - x, 0.0) + jnp.maximum(x - upper, 0.0), axis=-1)


def weigh(terms: Mapping[str, Array], weights: "Mapping[str, float] | DataclassInstance") -> dict[str, Array]:
    """Multiply each reward term by the weight of the same name.

    Args:
        terms: Name -> unweighted term, any shape.
        weights: Name -> weight; or a dataclass with one number per field, as a config holds it.

    Returns:
        Name -> weighted term, in the order of `terms`.

    Raises:
        ValueError: the names differ. Says which terms lack a weight and which weights lack a
            term: either is a reward silently left out.
    """
    if isinstance(weights, Mapping):
        table = dict(weights)
    elif dataclasses.is_dataclass(weights) and not isinstance(weights, type):
        table = {field.name: getattr(weights, field.name) for field in dataclasses.fields(weights)}
    else:
        raise ValueError(f"weights is {weights!r}; expected a mapping from name to number, or a dataclass instance")

    faults = [f"term {name!r} has no weight{_guess(name, table)}" for name in terms if name not in table]
    faults += [f"weight {name!r} has no term{_guess(name, terms)}" for name in table if name not in terms]
    if faults:
        raise ValueError(
            f"reward terms and weights differ: {'; '.join(faults)}."
            f" Terms: {listing(terms) or 'none'}. Weights: {listing(table) or 'none'}."
        )
    return {name: table[name] * term for name, term in terms.items()}


def _chosen(sigmoid: Sigmoid | str) -> Sigmoid:
    try:
        return Sigmoid(sigmoid)
    except ValueError:
        names = [choice.value for choice in Sigmoid]
        guess = _guess(str(sigmoid), names)
        raise ValueError(f"unknown sigmoid {str(sigmoid)!r}{guess}; choices: {', '.join(names)}") from None


def _known(*values: ArrayLike) -> bool:
    """Whether the values can be read now, rather than only when the compiled program runs."""
    return not any(isinstance(value, Tracer) for value in values)


def _guess(name: str, known: Iterable[str]) -> str:
    """` (did you mean ...?)` where a known name resembles `name`, else nothing."""
    guesses = closest(name, known, limit=1)
    return f" (did you mean {guesses[0]!r}?)" if guesses else ""
