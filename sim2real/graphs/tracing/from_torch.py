"""A policy in torch as nodes of a graph: `torch.export` writes it in few operators, which are translated here."""

from __future__ import annotations

import dataclasses
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from sim2real.graphs.graph import Builder, GraphError

if TYPE_CHECKING:
    from policies.policy import Policy

UNARY = {
    "neg": "neg", "abs": "abs", "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tanh": "tanh",
    "floor": "floor", "sign": "sign", "logical_not": "not",
}  # fmt: skip
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "max", "minimum": "min", "lt": "lt", "le": "le",
    "eq": "eq", "logical_and": "min", "logical_or": "max", "atan2": "atan2", "pow": "pow",
}  # fmt: skip
SWAPPED = {"gt": "lt", "ge": "le"}
SAME = ("view", "squeeze", "unsqueeze", "clone", "_to_copy", "alias", "detach", "reshape", "_unsafe_view", "dropout")
MOVES = {
    "permute": lambda places, order: places.transpose(order),
    "transpose": lambda places, a, b: places.swapaxes(a, b),
    "t": lambda places: places.T,
    "select": lambda places, axis, index: np.take(places, index, axis),
    "flip": lambda places, axes: np.flip(places, axes),
}
"""Operators that only move numbers: name -> the same move of an array of their places."""
REDUCE = {"sum": "sum", "amax": "max", "amin": "min", "mean": "sum", "any": "max", "all": "min", "prod": "prod"}


class _Acting(nn.Module):
    """A policy's network with its bounds, as `Policy.__call__` applies them."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network: Any = network

    def forward(self, observation: Tensor, *hidden: Tensor) -> tuple[Tensor, ...]:
        action, *following = self.network.step(observation, *hidden) if hidden else (self.network(observation),)
        return (action.clamp(-1.0, 1.0), *following)


@dataclasses.dataclass(frozen=True)
class PolicyNodes:
    """Translation of a policy into nodes of a graph.

    Raises:
        GraphError: when called, where the network does what has no translation.
    """

    policy: Policy

    @property
    def memory(self) -> int:
        """Numbers that it remembers from step to step; 0: none."""
        return self.policy.memory

    def __call__(self, build: Builder, given: Sequence[int]) -> list[int]:
        """From the nodes of an observation and of the memory to those of the action and of the next memory."""
        size, policy = build.size(given[0]), self.policy
        if not policy.fits(size, policy.action_size):
            raise GraphError(f"the policy reads {policy.observation_size} numbers; the task observes {size}")
        return inline_all(build, _Acting(policy.network).eval().cpu().float(), given)


def inline(build: Builder, module: nn.Module, x: int) -> int:
    """The node that a module gives of a node, seen as a batch of one row."""
    return inline_all(build, module, [x])[0]


def inline_all(build: Builder, module: nn.Module, given: Sequence[int]) -> list[int]:
    """The nodes that a module gives of several, seen as batches of one row."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        example = tuple(torch.zeros(1, build.size(x)) for x in given)
        program = torch.export.export(module, example).run_decompositions()
    return _Lowering(build, program, given).result()


class _Lowering:
    """Turns an exported program's calls into nodes."""

    def __init__(self, build: Builder, program: Any, given: Sequence[int]) -> None:
        self.build, self.program, self.given = build, program, given
        self.values: dict[Any, Any] = {}
        """Call -> its node; of calls that give several, a list."""

    def result(self) -> list[int]:
        graph, given = self.program.graph, iter(self.given)
        kept = {**self.program.state_dict, **self.program.constants}
        signature = self.program.graph_signature
        names = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        names |= signature.inputs_to_lifted_tensor_constants
        for node in graph.nodes:
            if node.op == "placeholder":
                named = names.get(node.name)
                known = named is not None
                number = self.build.constant(kept[named].detach().cpu().float().numpy()) if known else next(given)
                self.values[node] = number
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                return [self.values[one] for one in node.args[0]]
        raise GraphError("the network returns nothing")

    def _call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        name = str(node.target).split(".")[1]
        lower = getattr(self, f"on_{name}", None)
        if lower is not None:
            return lower(node)
        given = node.args
        if name.startswith("_assert"):
            return self.build.constant(0.0)  # nothing reads it
        if name in SAME:
            return self._value(given[0])
        if name in MOVES:
            return self._moved(node, lambda places: MOVES[name](places, *given[1:]))
        if name in UNARY:
            return self.build.unary(UNARY[name], self._value(given[0]))
        if name in BINARY:
            return self.build.binary(BINARY[name], *(self._wide(one, node) for one in given[:2]))
        if name in SWAPPED:
            return self.build.binary(SWAPPED[name], *(self._wide(given[place], node) for place in (1, 0)))
        if name in REDUCE:
            return self._reduced(node, REDUCE[name], name == "mean")
        raise GraphError(f"the network uses {node.target}, which has no translation")

    def _value(self, argument: Any) -> int:
        return self.build.constant(float(argument)) if isinstance(argument, (int, float)) else self.values[argument]

    def _wide(self, argument: Any, like: Any) -> int:
        """An operand in the shape of a call's result; single numbers stay single."""
        x = self._value(argument)
        if self.build.size(x) == 1 or _shape(argument) == _shape(like):
            return x
        return self.build.take(x, np.broadcast_to(_places(argument), _shape(like)))

    def _moved(self, node: Any, move: Callable[[np.ndarray], np.ndarray]) -> int:
        return self.build.take(self._value(node.args[0]), move(_places(node.args[0])))

    def _full(self, x: int, size: int) -> int:
        return x if self.build.size(x) == size else self.build.take(x, np.zeros(size))

    def on_expand(self, node: Any) -> int:
        return self._moved(node, lambda places: np.broadcast_to(places, _shape(node)))

    def on_slice(self, node: Any) -> int:
        given: tuple[Any, ...] = node.args[1:]
        window: tuple[Any, ...] = (*given, *(0, None, None, 1)[len(given) :])
        axis, start, stop, step = window
        return self._moved(node, lambda places: places[(slice(None),) * axis + (slice(start, stop, step),)])

    def on_split_with_sizes(self, node: Any) -> list[int]:
        x, sizes, axis = (*node.args, 0)[:3]
        parts = np.split(_places(x), np.cumsum(sizes)[:-1], axis)
        return [self.build.take(self._value(x), part) for part in parts]

    def on_cat(self, node: Any) -> int:
        parts, axis = node.args[0], node.args[1] if len(node.args) > 1 else 0
        starts = np.cumsum([0, *(math.prod(_shape(part)) for part in parts)])
        places = [start + _places(part) for start, part in zip(starts, parts, strict=False)]
        return self.build.take(self.build.concat([self._value(part) for part in parts]), np.concatenate(places, axis))

    def on_full(self, node: Any) -> int:
        return self.build.constant(np.full(_shape(node), float(node.args[1])))

    on_full_like = on_full

    def on_arange(self, node: Any) -> int:
        return self.build.constant(np.arange(*node.args))

    def on_scalar_tensor(self, node: Any) -> int:
        return self.build.constant(float(node.args[0]))

    def on_where(self, node: Any) -> int:
        size = math.prod(_shape(node))
        which, yes, no = (self._full(self._wide(one, node), size) for one in node.args)
        return self.build.where(which, yes, no)

    def on_clamp(self, node: Any) -> int:
        x, low, high = (*node.args, None, None)[:3]
        result = self._value(x)
        if low is not None:
            result = self.build.binary("max", result, self.build.constant(float(low)))
        return result if high is None else self.build.binary("min", result, self.build.constant(float(high)))

    def on_clamp_min(self, node: Any) -> int:
        return self.build.binary("max", self._value(node.args[0]), self._value(node.args[1]))

    def on_relu(self, node: Any) -> int:
        return self.build.binary("max", self._value(node.args[0]), self.build.constant(0.0))

    def on_elu(self, node: Any) -> int:
        build, x = self.build, self._value(node.args[0])
        zero = build.constant(0.0)
        below = build.binary("sub", build.unary("exp", build.binary("min", x, zero)), build.constant(1.0))
        return build.where(build.binary("lt", zero, x), x, below)

    def on_sigmoid(self, node: Any) -> int:
        return self._sigmoid(self._value(node.args[0]))

    def _sigmoid(self, x: int) -> int:
        build = self.build
        one = build.constant(1.0)
        return build.binary("div", one, build.binary("add", one, build.unary("exp", build.unary("neg", x))))

    def on_silu(self, node: Any) -> int:
        x = self._value(node.args[0])
        return self.build.binary("mul", x, self._sigmoid(x))

    def on_rsqrt(self, node: Any) -> int:
        return self.build.binary("div", self.build.constant(1.0), self.build.unary("sqrt", self._value(node.args[0])))

    def on_ne(self, node: Any) -> int:
        return self.build.unary("not", self.build.binary("eq", *(self._wide(one, node) for one in node.args[:2])))

    def on_pow(self, node: Any) -> int:
        x, exponent = node.args[:2]
        if exponent == 2:
            return self.build.binary("mul", self._value(x), self._value(x))
        return self.build.binary("pow", self._wide(x, node), self._wide(exponent, node))

    def on_mm(self, node: Any) -> int:
        return self._product(*node.args[:2])

    def _product(self, a: Any, b: Any) -> int:
        (_, width), (_, columns) = _shape(a), _shape(b)
        return self.build.matmul(self._value(a), self._value(b), width, columns)

    def on_addmm(self, node: Any) -> int:
        return self.build.binary("add", self._product(*node.args[1:3]), self._wide(node.args[0], node))

    def on_bmm(self, node: Any) -> int:
        a, b = node.args[:2]
        (count, _, width), (_, _, columns) = _shape(a), _shape(b)
        build = self.build
        parts = [
            build.matmul(build.take(self._value(a), one), build.take(self._value(b), other), width, columns)
            for one, other in zip(_places(a).reshape(count, -1), _places(b).reshape(count, -1), strict=True)
        ]
        return build.concat(parts)

    def _reduced(self, node: Any, how: str, mean: bool = False) -> int:
        x = node.args[0]
        shape = _shape(x)
        axes = node.args[1] if len(node.args) > 1 and node.args[1] is not None else list(range(len(shape)))
        axes = [axis % len(shape) for axis in (axes if isinstance(axes, Sequence) else [axes])]
        return self._over(self._value(x), shape, axes, how, mean)

    def _over(self, x: int, shape: Sequence[int], axes: Sequence[int], how: str, mean: bool = False) -> int:
        order = [*(axis for axis in range(len(shape)) if axis not in axes), *axes]
        width = math.prod(shape[axis] for axis in axes)
        places = np.arange(math.prod(shape)).reshape(shape).transpose(order)
        result = self.build.reduce(how, self.build.take(x, places), width)
        return self.build.binary("div", result, self.build.constant(float(width))) if mean else result

    def on_linalg_vector_norm(self, node: Any) -> int:
        given: tuple[Any, ...] = node.args
        whole: tuple[Any, ...] = (*given, *(None, 2, None)[len(given) :])
        x, order, axes = whole[:3]
        if order != 2:
            raise GraphError(f"the network uses a norm of order {order}, which has no translation")
        shape, value = _shape(x), self._value(x)
        axes = [axis % len(shape) for axis in (axes or range(len(shape)))]
        return self.build.unary("sqrt", self._over(self.build.binary("mul", value, value), shape, axes, "sum"))

    def on_native_layer_norm(self, node: Any) -> list[int]:
        """Result first; nothing reads mean and deviation in an inference."""
        x, sizes, weight, bias, small = node.args
        shape, build, value = _shape(x), self.build, self._value(x)
        axes = list(range(len(shape) - len(sizes), len(shape)))
        back = _back(shape, axes)
        away = build.binary("sub", value, build.take(self._over(value, shape, axes, "sum", mean=True), back))
        variance = self._over(build.binary("mul", away, away), shape, axes, "sum", mean=True)
        deviation = build.unary("sqrt", build.binary("add", variance, build.constant(float(small))))
        result = build.binary("div", away, build.take(deviation, back))
        for name, argument in (("mul", weight), ("add", bias)):
            if argument is not None:
                wide = build.take(self._value(argument), np.broadcast_to(_places(argument), shape))
                result = build.binary(name, result, wide)
        return [result]

    def on__softmax(self, node: Any) -> int:
        x, axis = node.args[:2]
        shape, build = _shape(x), self.build
        axis %= len(shape)
        back, value = _back(shape, [axis]), self._value(x)
        highest = build.take(self._over(value, shape, [axis], "max"), back)
        raised = build.unary("exp", build.binary("sub", value, highest))
        return build.binary("div", raised, build.take(self._over(raised, shape, [axis], "sum"), back))


def _shape(argument: Any) -> tuple[int, ...]:
    return tuple(argument.meta["val"].shape) if hasattr(argument, "meta") else ()


def _back(shape: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """Places among numbers that were reduced along some axes, in the shape that there was before."""
    inner = [1 if axis in axes else size for axis, size in enumerate(shape)]
    return np.broadcast_to(np.arange(math.prod(inner)).reshape(inner), shape)


def _places(argument: Any) -> np.ndarray:
    shape = _shape(argument)
    return np.arange(math.prod(shape)).reshape(shape)
