"""Check without a GPU whether a fused engine's programs can be built for an NVIDIA GPU.

JAX lowers a program for another platform than the one it runs on. What comes out is StableHLO for CUDA: it shows
operations that have no CUDA implementation, and calls back to Python, which would make the device wait in every step.
Only a GPU shows what XLA's compiler for the GPU makes of it.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr

from embodied.core.episode import environment_keys
from embodied.core.task import Task
from embodied.engines import make_engine
from embodied.env.vectorized import FusedPrograms
from embodied.errors import EngineError

PROBE = 4  # environments in the lowered program: their number changes shapes only


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A task's step and restart on a fused engine, lowered for CUDA."""

    state_bytes: int
    """Bytes of one environment's state, kept between steps."""
    widest_bytes: int
    """Bytes per environment of the results of the one operation that writes most: a lower bound of working memory."""
    calls: tuple[str, ...]
    """Names of the library functions that the programs call."""
    callbacks: tuple[str, ...]
    """Operations that call Python on the host; a program that has one is not lowered."""
    loops: int
    """`while` loops of the step whose end only the device knows: each condition is a wait of the host."""
    seconds: float
    """Time of tracing and lowering."""


def lower_for_cuda(task: Task[Any], engine: str, **options: Any) -> Lowered:
    """Lower the reset, the step and the restart of `task` on the fused engine `engine` for CUDA.

    Raises:
        EngineError: the engine cannot run the task's model, or has no such option.
        NotImplementedError: an operation of the program has no CUDA implementation.
    """
    begun = time.perf_counter()
    built: Any = make_engine(engine, task, PROBE, **options)
    if not built.fused:
        raise EngineError(f"engine {engine!r} is no program of JAX's; expected mjx, rigid or brax")
    programs = FusedPrograms(task, built)
    keys = environment_keys(0, PROBE)
    state, _ = jax.eval_shape(programs.reset, keys)
    action = jax.ShapeDtypeStruct((PROBE, *task.action_shape), jnp.float32)
    _, transition, _ = jax.eval_shape(programs.step, state, action)
    traced = [
        programs.reset.trace(keys),
        programs.step.trace(state, action),
        programs.restart.trace(state.physics, state.episode, transition),
    ]
    step = traced[1].jaxpr.jaxpr
    callbacks = {
        equation.primitive.name
        for program in traced
        for equation in equations(program.jaxpr.jaxpr)
        if "callback" in equation.primitive.name
    }
    # Without a GPU a callback cannot be lowered for one.
    texts = [] if callbacks else [program.lower(lowering_platforms=("cuda",)).as_text() for program in traced]
    # Warp's kernels go by generated names, which are numbered anew in every process.
    found = {name for text in texts for name in re.findall(r"custom_call @([\w.]+)", text)}
    return Lowered(
        state_bytes=bytes_of(jax.tree.leaves((state.physics, state.episode))) // PROBE,
        widest_bytes=max(bytes_of([out.aval for out in equation.outvars]) for equation in equations(step)) // PROBE,
        calls=tuple(sorted({"warp" if name.startswith("jax_callable_variadic") else name for name in found})),
        callbacks=tuple(sorted(callbacks)),
        loops=sum(equation.primitive.name == "while" for equation in equations(step)),
        seconds=time.perf_counter() - begun,
    )


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a jaxpr and of those within it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda value: isinstance(value, ClosedJaxpr | Jaxpr)):
            if isinstance(inner, ClosedJaxpr | Jaxpr):
                yield from equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)


def bytes_of(arrays: Any) -> int:
    """Bytes of arrays, or of what describes them."""
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays if hasattr(array, "dtype"))
