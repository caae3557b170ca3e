"""A function in JAX as nodes of a graph: its jaxpr, equation by equation, loops of known length unrolled.

Random draws have their mean: `jax.random.uniform` the middle of its range, `normal` 0. So a task adds no noise to its
observations: the robot has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from sim2real.graphs.graph import BINARY, UNARY, Builder

LONGEST = 256  # rounds of a loop that are written out
WIDEST = 4096  # numbers that a computed place may be among, to write there
OURS = {"is_finite": "isfinite", "rem": "fmod", "add_any": "add", "lt_to": "lt", "le_to": "le"}
"""Primitives of one or two operands that a graph calls otherwise."""
SWAPPED = {"gt": "lt", "ge": "le"}
REDUCE = {
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_or": "max",
    "reduce_and": "min",
}  # fmt: skip
MOVES: Mapping[str, Callable[[np.ndarray, Mapping[str, Any]], np.ndarray]] = {
    "transpose": lambda places, params: places.transpose(params["permutation"]),
    "rev": lambda places, params: np.flip(places, params["dimensions"]),
    "tile": lambda places, params: np.tile(places, params["reps"]),
}
"""Primitives that only move numbers: name -> the same move of an array of their places, by its parameters."""
ALIGNED = {*BINARY, *OURS, *SWAPPED, "ne", "and", "or", "select_n", "clamp"}
"""Primitives whose operands may have axes of length 1 where the result has longer ones."""
SAME = ("convert_element_type", "copy", "stop_gradient", "reduce_precision", "copy_p")
INLINE = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint")


def inline(build: Builder, function: Callable[..., Any], *arguments: Any) -> Any:
    """The nodes that a function gives, where its arguments are nodes.

    Args:
        build: Takes the new nodes.
        function: Pure, in JAX.
        *arguments: Trees of `Argument`, and of arrays that are known.

    Returns:
        What the function returns, with the number of a node for each array.
    """
    leaves, tree = jax.tree.flatten(arguments, is_leaf=lambda leaf: isinstance(leaf, Argument))
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]

    def flat(*values: Any) -> Any:
        return function(*jax.tree.unflatten(tree, values))

    closed, result = jax.make_jaxpr(flat, return_shape=True)(*shapes)
    given = [leaf.node if isinstance(leaf, Argument) else build.constant(leaf) for leaf in leaves]
    nodes = _Lowering(build).run(closed.jaxpr, closed.consts, given)
    return jax.tree.unflatten(jax.tree.structure(result), nodes)


class Argument:
    """A node that stands for an array of JAX."""

    def __init__(self, node: int, shape: Sequence[int], dtype: Any = np.float32) -> None:
        self.node, self.shape, self.dtype = node, tuple(shape), dtype


class _Lowering:
    """Turns equations into nodes. Shapes are those of the jaxpr; values flat, in C order."""

    def __init__(self, build: Builder) -> None:
        self.build = build

    def run(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[int]) -> list[int]:
        """Nodes of the outputs."""
        values: dict[Any, int] = {}
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            values[variable] = constant if isinstance(constant, int) else self._constant(constant)
        values |= dict(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> int:
            return self._constant(atom.val) if isinstance(atom, core.Literal) else values[atom]

        for equation in jaxpr.eqns:
            given = [read(atom) for atom in equation.invars]
            made = self._equation(equation, given)
            values |= dict(zip(equation.outvars, made, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _constant(self, value: Any) -> int:
        if jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.prng_key):
            return self.build.failed("a random key", max(1, math.prod(np.shape(value))))
        return self.build.constant(np.asarray(value))

    def _equation(self, equation: Any, given: list[int]) -> list[int]:
        name: str = equation.primitive.name
        called = equation.params.get("name", "")
        build = self.build
        if name in INLINE:
            if called == "_uniform":
                mean = build.binary("mul", build.constant(0.5), build.binary("add", *given[1:3]))
                return [self._spread(mean, _size(equation.outvars[0]))]
            if called.startswith("_normal"):
                return [build.constant(np.zeros(equation.outvars[0].aval.shape))]
            inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
            closed = inner if hasattr(inner, "consts") else None
            return self.run(closed.jaxpr if closed else inner, closed.consts if closed else (), given)
        if name in ALIGNED:
            given = [
                self._aligned(node, atom, equation.outvars[0])
                for node, atom in zip(given, equation.invars, strict=True)
            ]
        lower = getattr(self, f"on_{name.replace('-', '_')}", None)
        if lower is not None:
            return lower(equation, given)
        ours = OURS.get(name, name)
        if ours in UNARY:
            return [build.unary(ours, given[0])]
        if ours in BINARY:
            return [build.binary(ours, *given)]
        if name in SWAPPED:
            return [build.binary(SWAPPED[name], given[1], given[0])]
        if name in REDUCE:
            return self._reduced(equation, given, REDUCE[name])
        if name in MOVES:
            return self._placed(equation, given, lambda places: MOVES[name](places, equation.params))
        if name in SAME:
            return self._same(equation, given)
        if name == "optimization_barrier":
            return given
        return self._failed(equation)

    def _failed(self, equation: Any, why: str = "") -> list[int]:
        given = [str(atom.aval) for atom in equation.invars]
        why = why or f"'{equation.primitive.name}' of {given} has no translation"
        return [self.build.failed(why, _size(out)) for out in equation.outvars]

    # Numbers.

    def _same(self, equation: Any, given: list[int]) -> list[int]:
        source, goal = (atom.aval.dtype for atom in (equation.invars[0], equation.outvars[0]))
        if np.issubdtype(source, np.floating) and np.issubdtype(goal, np.integer):
            return [self._truncated(given[0])]
        if goal == np.bool_ and source != np.bool_:
            return [self._not(self.build.binary("eq", given[0], self.build.constant(0.0)))]
        return given[:1]

    def _truncated(self, x: int) -> int:
        """Towards zero."""
        build = self.build
        return build.binary("mul", build.unary("sign", x), build.unary("floor", build.unary("abs", x)))

    def _not(self, x: int) -> int:
        return self.build.unary("not", x)

    def on_div(self, equation: Any, given: list[int]) -> list[int]:
        ratio = self.build.binary("div", *given)
        return [self._truncated(ratio) if np.issubdtype(equation.outvars[0].aval.dtype, np.integer) else ratio]

    def on_ne(self, equation: Any, given: list[int]) -> list[int]:
        return [self._not(self.build.binary("eq", *given))]

    def _truth(self, equation: Any, function: str, given: list[int]) -> list[int]:
        is_truth = equation.outvars[0].aval.dtype == np.bool_
        return [self.build.binary(function, *given)] if is_truth else self._failed(equation)

    def on_and(self, equation: Any, given: list[int]) -> list[int]:
        return self._truth(equation, "min", given)

    def on_or(self, equation: Any, given: list[int]) -> list[int]:
        return self._truth(equation, "max", given)

    def on_not(self, equation: Any, given: list[int]) -> list[int]:
        return [self._not(given[0])]

    def on_square(self, equation: Any, given: list[int]) -> list[int]:
        return [self.build.binary("mul", given[0], given[0])]

    def on_integer_pow(self, equation: Any, given: list[int]) -> list[int]:
        exponent, build = equation.params["y"], self.build
        result = build.constant(1.0)
        for _ in range(abs(exponent)):
            result = build.binary("mul", result, given[0])
        result = self._spread(result, build.size(given[0]))
        return [build.binary("div", build.constant(1.0), result) if exponent < 0 else result]

    def on_rsqrt(self, equation: Any, given: list[int]) -> list[int]:
        return [self.build.binary("div", self.build.constant(1.0), self.build.unary("sqrt", given[0]))]

    def on_logistic(self, equation: Any, given: list[int]) -> list[int]:
        half = self.build.binary("mul", self.build.constant(0.5), given[0])
        return [self._affine(self.build.unary("tanh", half), 0.5, 0.5)]

    def on_log1p(self, equation: Any, given: list[int]) -> list[int]:
        return [self.build.unary("log", self._affine(given[0], 1.0, 1.0))]

    def on_expm1(self, equation: Any, given: list[int]) -> list[int]:
        return [self._affine(self.build.unary("exp", given[0]), 1.0, -1.0)]

    def _affine(self, x: int, factor: float, more: float) -> int:
        build = self.build
        return build.binary("add", build.binary("mul", x, build.constant(factor)), build.constant(more))

    def on_clamp(self, equation: Any, given: list[int]) -> list[int]:
        low, x, high = given
        return [self.build.binary("min", self.build.binary("max", x, low), high)]

    def on_select_n(self, equation: Any, given: list[int]) -> list[int]:
        which, *cases = given
        if len(cases) == 2:
            return [self.build.where(which, cases[1], cases[0])]
        return self._chosen(which, [[case] for case in cases])

    def _chosen(self, which: int, cases: Sequence[list[int]]) -> list[int]:
        """The nodes of one of several cases, the last where `which` names no other."""
        build, result = self.build, cases[-1]
        for number, case in reversed([*enumerate(cases[:-1])]):
            here = build.binary("eq", which, build.constant(number))
            result = [build.where(here, one, other) for one, other in zip(case, result, strict=True)]
        return result

    # Places.

    def _aligned(self, x: int, atom: Any, out: Any) -> int:
        """An operand in the shape of the result; single numbers stay single."""
        goal = out.aval.shape
        if atom.aval.shape == goal or self.build.size(x) == 1:
            return x
        return self.build.take(x, np.broadcast_to(_places(atom), goal))

    def _spread(self, x: int, size: int) -> int:
        """A single number, as often as it is wanted."""
        return x if self.build.size(x) == size else self.build.take(x, np.zeros(size))

    def _placed(self, equation: Any, given: list[int], move: Callable[[np.ndarray], np.ndarray]) -> list[int]:
        """An equation that only moves numbers: `move` does to their places what the equation does to them."""
        return [self.build.take(given[0], move(_places(equation.invars[0])))]

    def on_reshape(self, equation: Any, given: list[int]) -> list[int]:
        return given[:1]

    on_squeeze = on_expand_dims = on_reshape

    def on_broadcast_in_dim(self, equation: Any, given: list[int]) -> list[int]:
        shape, dimensions = equation.params["shape"], equation.params["broadcast_dimensions"]

        def move(places: np.ndarray) -> np.ndarray:
            inner = [1] * len(shape)
            for axis, size in zip(dimensions, places.shape, strict=True):
                inner[axis] = size
            return np.broadcast_to(places.reshape(inner), shape)

        return self._placed(equation, given, move)

    def on_slice(self, equation: Any, given: list[int]) -> list[int]:
        params = equation.params
        steps = params["strides"] or (1,) * len(params["start_indices"])
        bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        window = tuple(slice(*bound) for bound in bounds)
        return self._placed(equation, given, lambda places: places[window])

    def on_split(self, equation: Any, given: list[int]) -> list[int]:
        cuts = np.cumsum(equation.params["sizes"])[:-1]
        parts = np.split(_places(equation.invars[0]), cuts, equation.params["axis"])
        return [self.build.take(given[0], part) for part in parts]

    def on_concatenate(self, equation: Any, given: list[int]) -> list[int]:
        starts = np.cumsum([0, *(self.build.size(node) for node in given)])
        parts = [start + _places(atom) for start, atom in zip(starts, equation.invars, strict=False)]
        places = np.concatenate(parts, equation.params["dimension"])
        return [self.build.take(self.build.concat(given), places)]

    def on_pad(self, equation: Any, given: list[int]) -> list[int]:
        places = _places(equation.invars[0])
        last = places.size  # the padding's place
        for axis, (low, high, inner) in enumerate(equation.params["padding_config"]):
            if min(low, high) < 0 or inner:
                return self._failed(equation)
            width = [(low, high) if other == axis else (0, 0) for other in range(places.ndim)]
            places = np.pad(places, width, constant_values=last)
        return [self.build.take(self.build.concat(given), places)]

    def on_iota(self, equation: Any, given: list[int]) -> list[int]:
        shape, axis = equation.params["shape"], equation.params["dimension"]
        inner = [-1 if other == axis else 1 for other in range(len(shape))]
        return [self.build.constant(np.broadcast_to(np.arange(shape[axis]).reshape(inner), shape))]

    def on_dynamic_slice(self, equation: Any, given: list[int]) -> list[int]:
        shape, sizes = equation.invars[0].aval.shape, equation.params["slice_sizes"]
        window = np.indices(sizes).reshape(len(sizes), -1)
        places = np.asarray(np.ravel_multi_index(tuple(window), shape) if sizes else np.zeros(1))
        limits = np.array(shape) - np.array(sizes)
        return [self.build.lookup(given[0], self._moved(places, given[1:], limits, _strides(shape)))]

    def _moved(self, places: np.ndarray, starts: Sequence[int], limits: np.ndarray, strides: np.ndarray) -> int:
        """Places that begin elsewhere: each axis by a number that is computed, kept in bounds."""
        build = self.build
        result = build.constant(places)
        for start, limit, stride in zip(starts, limits, strides, strict=True):
            kept = build.binary("min", build.binary("max", start, build.constant(0.0)), build.constant(limit))
            result = build.binary("add", result, build.binary("mul", kept, build.constant(stride)))
        return result

    def on_dynamic_update_slice(self, equation: Any, given: list[int]) -> list[int]:
        shape, window = equation.invars[0].aval.shape, equation.invars[1].aval.shape
        inside = np.asarray(np.ravel_multi_index(tuple(np.indices(window).reshape(len(window), -1)), shape))
        limits = np.array(shape) - np.array(window)
        places = self._moved(inside, given[2:], limits, _strides(shape))
        return [self._written(given[0], places, given[1], "set")]

    def _written(self, x: int, places: int, updates: int, how: str) -> int:
        """x with updates at places; places beyond it are left out."""
        build = self.build
        known = build.value(places)
        if known is not None and how == "set":
            source = np.arange(build.size(x))
            for number, place in enumerate(known.astype(int)):
                if 0 <= place < len(source):
                    source[place] = build.size(x) + number
            return build.take(build.concat([x, updates]), source)
        if build.size(x) * build.size(updates) > WIDEST**2:
            return build.failed("a computed place among too many", build.size(x))
        all_places = build.constant(np.arange(build.size(x)))
        for number in range(build.size(updates)):
            update = build.take(updates, [number])
            if how == "add":
                update = build.binary("add", x, update)
            elif how != "set":
                update = build.binary(how, x, self._spread(update, build.size(x)))
            here = build.binary("eq", all_places, build.take(places, [number]))
            x = build.where(here, self._spread(update, build.size(x)), x)
        return x

    def on_gather(self, equation: Any, given: list[int]) -> list[int]:
        numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
        shape, indices = equation.invars[0].aval.shape, equation.invars[1].aval.shape
        out = equation.outvars[0].aval.shape
        batch = [axis for axis in range(len(out)) if axis not in numbers.offset_dims]
        single = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
        kept = [axis for axis in range(len(shape)) if axis not in single]
        grid = np.indices(out)
        inside = np.zeros(out, np.int64)
        strides = _strides(shape)
        for axis, row_axis in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
            inside += strides[axis] * grid[batch[row_axis]]
        for axis, offset in zip(kept, numbers.offset_dims, strict=True):
            inside += strides[axis] * grid[offset]
        row = np.zeros(out, np.int64)  # of the indices
        for axis, size in zip(batch, indices[:-1], strict=True):
            row = row * size + grid[axis]
        starts = [
            self.build.take(given[1], row * indices[-1] + column) for column in range(len(numbers.start_index_map))
        ]
        axes = list(numbers.start_index_map)
        limits = np.array(shape)[axes] - np.array(sizes)[axes]
        return [self.build.lookup(given[0], self._moved(inside.reshape(-1), starts, limits, strides[axes]))]

    def _scattered(self, equation: Any, given: list[int], how: str) -> list[int]:
        numbers = equation.params["dimension_numbers"]
        shape, indices, updates = (atom.aval.shape for atom in equation.invars)
        if numbers.operand_batching_dims:
            return self._failed(equation)
        batch = [axis for axis in range(len(updates)) if axis not in numbers.update_window_dims]
        kept = [axis for axis in range(len(shape)) if axis not in numbers.inserted_window_dims]
        grid, strides = np.indices(updates), _strides(shape)
        inside = np.zeros(updates, np.int64)
        for axis, window in zip(kept, numbers.update_window_dims, strict=True):
            inside += strides[axis] * grid[window]
        row = np.zeros(updates, np.int64)
        for axis, size in zip(batch, indices[:-1], strict=True):
            row = row * size + grid[axis]
        places = self.build.constant(inside.reshape(-1))
        for column, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            start = self.build.take(given[1], row * indices[-1] + column)
            moved = self.build.binary("mul", start, self.build.constant(strides[axis]))
            places = self.build.binary("add", places, moved)
        return [self._written(given[0], self._spread(places, math.prod(updates)), given[2], how)]

    def on_scatter(self, equation: Any, given: list[int]) -> list[int]:
        return self._scattered(equation, given, "set")

    def on_scatter_add(self, equation: Any, given: list[int]) -> list[int]:
        return self._scattered(equation, given, "add")

    # Many numbers to few.

    def _reduced(self, equation: Any, given: list[int], how: str) -> list[int]:
        axes, rank = equation.params["axes"], len(equation.invars[0].aval.shape)
        order = [*(axis for axis in range(rank) if axis not in axes), *axes]
        width = math.prod(equation.invars[0].aval.shape[axis] for axis in axes)
        rows = self._placed(equation, given, lambda places: places.transpose(order))[0]
        return [self.build.reduce(how, rows, width)]

    def on_cumsum(self, equation: Any, given: list[int]) -> list[int]:
        axis, shape = equation.params["axis"], equation.invars[0].aval.shape
        if len(shape) != 1 or equation.params["reverse"]:
            return self._failed(equation)
        before = self.build.constant(np.triu(np.ones((shape[axis],) * 2)))
        return [self.build.matmul(given[0], before, shape[0], shape[0])]

    def on_argmin(self, equation: Any, given: list[int]) -> list[int]:
        return self._argextreme(equation, given, 1.0)

    def on_argmax(self, equation: Any, given: list[int]) -> list[int]:
        return self._argextreme(equation, given, -1.0)

    def _argextreme(self, equation: Any, given: list[int], sign: float) -> list[int]:
        (axis,), shape = equation.params["axes"], equation.invars[0].aval.shape
        rows = self._placed(equation, given, lambda places: np.moveaxis(places, axis, -1))[0]
        order = self.build.argsort(self.build.binary("mul", rows, self.build.constant(sign)), shape[axis])
        return [self.build.take(order, np.arange(0, math.prod(shape), shape[axis]))]

    def on_top_k(self, equation: Any, given: list[int]) -> list[int]:
        count, width = equation.params["k"], equation.invars[0].aval.shape[-1]
        rows = _size(equation.invars[0]) // width
        order = self.build.argsort(self.build.unary("neg", given[0]), width)
        first = np.arange(rows)[:, None] * width + np.arange(count)
        chosen = self.build.take(order, first)
        places = self.build.binary("add", chosen, self.build.constant(np.repeat(np.arange(rows) * width, count)))
        return [self.build.lookup(given[0], places), chosen]

    def on_sort(self, equation: Any, given: list[int]) -> list[int]:
        shape, axis = equation.invars[0].aval.shape, equation.params["dimension"]
        if equation.params["num_keys"] != 1 or axis != len(shape) - 1:
            return self._failed(equation)
        width = shape[-1]
        rows = np.repeat(np.arange(math.prod(shape) // width) * width, width)
        places = self.build.binary("add", self.build.argsort(given[0], width), self.build.constant(rows))
        return [self.build.lookup(x, places) for x in given]

    def on_dot_general(self, equation: Any, given: list[int]) -> list[int]:
        (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
        a, b = (atom.aval.shape for atom in equation.invars)
        free_a = [axis for axis in range(len(a)) if axis not in (*left, *left_batch)]
        free_b = [axis for axis in range(len(b)) if axis not in (*right, *right_batch)]
        width = math.prod(a[axis] for axis in left)
        columns = math.prod(b[axis] for axis in free_b)
        count = math.prod(a[axis] for axis in left_batch)
        places_a, places_b = (_places(atom) for atom in equation.invars)
        places_a = places_a.transpose([*left_batch, *free_a, *left]).reshape(count, -1)
        places_b = places_b.transpose([*right_batch, *right, *free_b]).reshape(count, -1)
        build = self.build
        parts = [
            build.matmul(build.take(given[0], one), build.take(given[1], other), width, columns)
            for one, other in zip(places_a, places_b, strict=True)
        ]
        return [build.concat(parts)]

    # Control flow.

    def on_scan(self, equation: Any, given: list[int]) -> list[int]:
        params, build = equation.params, self.build
        constants, carries, length = params["num_consts"], params["num_carry"], params["length"]
        if length > LONGEST:
            return self._failed(equation, f"a loop of {length} rounds")
        fixed, carry = given[:constants], given[constants : constants + carries]
        rows = given[constants + carries :]
        gathered: list[list[int]] = [[] for _ in equation.outvars[carries:]]
        order = range(length)
        for step in reversed(order) if params["reverse"] else order:
            here = []
            for x in rows:
                width = build.size(x) // length
                here.append(build.take(x, np.arange(step * width, (step + 1) * width)))
            made = self.run(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*fixed, *carry, *here])
            carry = made[:carries]
            for column, value in zip(gathered, made[carries:], strict=True):
                column.append(value)
        if params["reverse"]:
            gathered = [column[::-1] for column in gathered]
        return [*carry, *(build.concat(column) for column in gathered)]

    def on_cond(self, equation: Any, given: list[int]) -> list[int]:
        which, *arguments = given
        branches = [self.run(branch.jaxpr, branch.consts, arguments) for branch in equation.params["branches"]]
        return self._chosen(which, branches)


def _size(atom: Any) -> int:
    return math.prod(atom.aval.shape)


def _places(atom: Any) -> np.ndarray:
    """Places of an array's numbers, in its shape."""
    return np.arange(_size(atom)).reshape(atom.aval.shape)


def _strides(shape: Sequence[int]) -> np.ndarray:
    """(rank,) numbers from one entry of each axis to the next, flat and in C order."""
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
