"""A function that is traced once is the function."""

import jax
import jax.numpy as jnp
import numpy as np

from embodied.math.tracing import traced_once


def test_it_is_traced_once_for_each_shape_whatever_program_it_occurs_in() -> None:
    traces: list[tuple[tuple[int, ...], str]] = []

    @traced_once("way")
    def turned(x: jax.Array, way: str) -> jax.Array:
        """What it does."""
        traces.append((x.shape, way))
        return -x if way == "back" else x

    @jax.jit
    def both(x: jax.Array) -> jax.Array:
        return turned(turned(x, "back"), "back") + turned(x, "on")

    np.testing.assert_array_equal(both(jnp.arange(3.0)), 2 * np.arange(3))
    np.testing.assert_array_equal(jax.jit(lambda x: turned(x, "back"))(jnp.arange(3.0)), -np.arange(3))
    assert traces == [((3,), "back"), ((3,), "on")]
    np.testing.assert_array_equal(jax.vmap(lambda x: turned(x, "back"))(jnp.ones((4, 3))), -np.ones((4, 3)))
    assert len(traces) == 2
    assert turned.__doc__ == "What it does."
