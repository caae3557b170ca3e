"""`traced_once`: for small functions that occur many times in a program, and in many programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax

F = TypeVar("F", bound=Callable[..., Any])


def traced_once(*static: str) -> Callable[[F], F]:
    """`jax.jit`, with the function's type: JAX traces its Python once for each shape of arguments, not at every use.

    XLA inlines it, so a program computes the same.

    Args:
        static: Names of arguments that are no arrays, whose values the trace depends on.
    """

    def decorate(function: F) -> F:
        traced: Any = jax.jit(function, static_argnames=static)
        return traced

    return decorate
