"""`Graph`: a computation over flat float32 arrays of fixed sizes, small enough to read, to run and to translate.

Every value is a vector. Static index lists replace shapes: a slice, a transpose, a broadcast, a squeeze are
all one operation, `take`. So eleven kinds of node are enough for every task's observations and actions, and each
has one line of numpy here, one of ONNX in `to_onnx`, one loop of C in `to_c`.

Truth values are 0 and 1, whole numbers floats.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from embodied.errors import EmbodiedError

Vector = np.ndarray


class GraphError(EmbodiedError):
    """A computation that has no translation."""


class Op(enum.StrEnum):
    """Kind of a node."""

    INPUT = "input"
    CONSTANT = "constant"
    UNARY = "unary"
    """A function of each number, one of `UNARY`."""
    BINARY = "binary"
    """Of two vectors of one size, or a vector and a single number; one of `BINARY`."""
    WHERE = "where"
    """The second where the first is not 0, else the third."""
    CONCAT = "concat"
    TAKE = "take"
    """Numbers at fixed places: `indices`."""
    LOOKUP = "lookup"
    """Numbers of the first at the places given by the second."""
    REDUCE = "reduce"
    """Each run of `width` numbers to one: sum, max, min or prod."""
    MATMUL = "matmul"
    """(m, k) times (k, n), row by row; `width` is k, and `columns` n."""
    ARGSORT = "argsort"
    """Places of each run of `width` numbers in ascending order; the first of equal ones first."""
    FAILED = "failed"
    """Operation without a translation; an error only where it is needed."""


UNARY: Mapping[str, Callable[[Vector], Vector]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "not": lambda x: 1.0 - x,
    "isfinite": lambda x: np.isfinite(x).astype(np.float32),
}
BINARY: Mapping[str, Callable[[Vector, Vector], Vector]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
}
REDUCE: Mapping[str, Callable[..., Vector]] = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One vector and where it comes from."""

    op: Op
    size: int
    inputs: tuple[int, ...] = ()
    """Numbers of earlier nodes."""
    name: str = ""
    """Of an input; which function of `UNARY`, `BINARY` or `REDUCE`; why it failed."""
    value: Vector | None = None
    """(size,) float32 of a constant."""
    indices: Vector | None = None
    """(size,) int64 of `take`."""
    width: int = 1
    columns: int = 1


@dataclasses.dataclass(frozen=True)
class Graph:
    """A computation: nodes in the order in which they are computed."""

    nodes: tuple[Node, ...]
    inputs: Mapping[str, int]
    """Name -> its node."""
    outputs: Mapping[str, int]
    kept: Mapping[str, Vector]
    """Input -> places, int64, of the numbers that are left of a requested `Builder.input`: it takes these only."""

    def run(self, **inputs: Vector) -> dict[str, Vector]:
        """Name -> (size,) float32 of every output. Slow and exact: the reference for translations."""
        values: list[Vector] = []
        with np.errstate(all="ignore"):
            for node in self.nodes:
                if node.op is Op.INPUT:
                    value = np.asarray(inputs[node.name], np.float32).reshape(-1)
                    if value.size != node.size:
                        raise GraphError(f"input '{node.name}' has {value.size} numbers; expected {node.size}")
                else:
                    value = computed(node, [values[i] for i in node.inputs])
                values.append(value)
        return {name: values[i] for name, i in self.outputs.items()}

    def sizes(self, names: Mapping[str, int]) -> dict[str, int]:
        return {name: self.nodes[i].size for name, i in names.items()}


def computed(node: Node, given: Sequence[Vector]) -> Vector:
    """(size,) float32, a node's value of those of its inputs."""
    match node.op:
        case Op.CONSTANT:
            assert node.value is not None
            return node.value
        case Op.UNARY:
            value = UNARY[node.name](given[0])
        case Op.BINARY:
            value = BINARY[node.name](given[0], given[1])
        case Op.WHERE:
            value = np.where(given[0] != 0, given[1], given[2])
        case Op.CONCAT:
            value = np.concatenate(given)
        case Op.TAKE:
            value = given[0][node.indices]
        case Op.LOOKUP:
            value = given[0][given[1].astype(np.int64)]
        case Op.REDUCE:
            value = REDUCE[node.name](given[0].reshape(-1, node.width), axis=1)
        case Op.MATMUL:
            value = given[0].reshape(-1, node.width) @ given[1].reshape(node.width, node.columns)
        case Op.ARGSORT:
            value = np.argsort(given[0].reshape(-1, node.width), axis=1, kind="stable")
        case _:
            raise GraphError(node.name)
    return np.asarray(value, np.float32).reshape(-1)


class Builder:
    """Makes a graph node by node, and leaves out what need not be computed.

    Nodes are numbers. Constants are folded, index lists composed, products with 0 and 1 and sums with 0 taken away.
    Products with 0 are 0 here even for factors that are not finite.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._inputs: dict[str, int] = {}
        self._known: dict[object, int] = {}

    def input(self, name: str, size: int) -> int:
        if name not in self._inputs:
            self._inputs[name] = self._append(Node(Op.INPUT, size, name=name))
        return self._inputs[name]

    def constant(self, value: object) -> int:
        array = np.asarray(value).astype(np.float32).reshape(-1)
        return self._once(("constant", array.tobytes()), Node(Op.CONSTANT, array.size, value=array))

    def failed(self, why: str, size: int) -> int:
        return self._append(Node(Op.FAILED, size, name=why))

    def value(self, node: int) -> Vector | None:
        """Of a constant."""
        return self.nodes[node].value

    def size(self, node: int) -> int:
        return self.nodes[node].size

    def unary(self, name: str, x: int) -> int:
        return self._made(Op.UNARY, self.size(x), (x,), name)

    def binary(self, name: str, a: int, b: int) -> int:
        size = max(self.size(a), self.size(b)) if min(self.size(a), self.size(b)) else 0
        if (simple := self._simpler(name, a, b, size)) is not None:
            return simple
        return self._made(Op.BINARY, size, (a, b), name)

    def where(self, condition: int, yes: int, no: int) -> int:
        size = self.size(yes)
        known = self.value(condition)
        if yes == no or (known is not None and known.all()):
            return yes
        if known is not None and not known.any():
            return no
        if known is not None:  # numbers of either, at fixed places
            places = np.arange(size)
            return self.take(self.concat([yes, no]), np.where(np.broadcast_to(known, size) != 0, places, size + places))
        return self._made(Op.WHERE, size, (condition, yes, no))

    def concat(self, parts: Sequence[int]) -> int:
        parts = self._joined(parts)
        if len(parts) == 1:
            return parts[0]
        return self._made(Op.CONCAT, sum(self.size(part) for part in parts), tuple(parts))

    def _joined(self, parts: Sequence[int]) -> list[int]:
        """Parts without empty ones; numbers of the same node that follow each other are one part."""
        runs: list[tuple[int, list[Vector]]] = []
        for part in (inner for outer in parts for inner in self._parts(outer)):
            node = self.nodes[part]
            source, places = (node.inputs[0], node.indices) if node.op is Op.TAKE else (part, np.arange(node.size))
            assert places is not None
            if runs and runs[-1][0] == source:
                runs[-1][1].append(places)
            else:
                runs.append((source, [places]))
        return [self.take(source, np.concatenate(places)) for source, places in runs]

    def _parts(self, part: int) -> Sequence[int]:
        """A node's own parts where it is a concatenation; none for an empty one."""
        node = self.nodes[part]
        return node.inputs if node.op is Op.CONCAT else (part,) if node.size else ()

    def take(self, x: int, indices: Vector | Sequence[int]) -> int:
        indices = np.asarray(indices, np.int64).reshape(-1)
        node = self.nodes[x]
        if np.array_equal(indices, np.arange(node.size)):
            return x
        if node.op is Op.TAKE:
            assert node.indices is not None
            return self.take(node.inputs[0], node.indices[indices])
        if node.op is Op.CONCAT and indices.size:  # of one part only
            starts = np.cumsum([0, *(self.size(part) for part in node.inputs)])
            first = int(np.searchsorted(starts, indices.min(), side="right")) - 1
            if indices.max() < starts[first + 1]:
                return self.take(node.inputs[first], indices - starts[first])
        return self._made(Op.TAKE, indices.size, (x,), indices=indices)

    def lookup(self, x: int, places: int) -> int:
        known = self.value(places)
        if known is not None:
            return self.take(x, known.astype(np.int64))
        return self._made(Op.LOOKUP, self.size(places), (x, places))

    def reduce(self, name: str, x: int, width: int) -> int:
        if width == 1:
            return x
        return self._made(Op.REDUCE, self.size(x) // width, (x,), name, width=width)

    def matmul(self, a: int, b: int, width: int, columns: int) -> int:
        rows = self.size(a) // width
        return self._made(Op.MATMUL, rows * columns, (a, b), width=width, columns=columns)

    def argsort(self, x: int, width: int) -> int:
        return self._made(Op.ARGSORT, self.size(x), (x,), width=width)

    def graph(self, outputs: Mapping[str, int], whole: Iterable[str] = ()) -> Graph:
        """Graph of these outputs and of what they need, down to single numbers of inputs.

        Args:
            outputs: Name -> node.
            whole: Inputs that stay as they are if anything of them is needed.

        Raises:
            GraphError: they need what has no translation.
        """
        wanted = self._wanted(outputs.values())
        for name in whole:
            if (i := self._inputs.get(name)) in wanted:
                wanted[i] = np.ones(self.size(i), bool)
        other = Builder()
        made: dict[int, int] = {}
        for i in sorted(wanted):
            made[i] = self._narrowed(other, i, wanted, made)
        found = {name: made[i] for name, i in outputs.items()}
        nodes = other.needed(found.values())
        number = {old: new for new, old in enumerate(nodes)}
        return Graph(
            tuple(
                dataclasses.replace(node, inputs=tuple(number[j] for j in node.inputs))
                for node in (other.nodes[i] for i in nodes)
            ),
            {name: number[i] for name, i in other._inputs.items() if i in number},
            {name: number[i] for name, i in found.items()},
            {name: np.flatnonzero(wanted[i]) for name, i in self._inputs.items() if i in wanted},
        )

    def _wanted(self, outputs: Iterable[int]) -> dict[int, Vector]:
        """Node -> (size,) bool, which of its numbers some outputs need."""
        wanted = {i: np.ones(self.size(i), bool) for i in outputs}
        for i in reversed(self.needed(wanted)):
            node = self.nodes[i]
            if node.op is Op.FAILED and wanted[i].any():
                raise GraphError(node.name)
            for given, mask in zip(node.inputs, self._asked(node, wanted[i]), strict=True):
                wanted[given] = wanted.get(given, False) | mask
        return {i: mask for i, mask in wanted.items() if mask.any() or not mask.size}

    def _asked(self, node: Node, mask: Vector) -> list[Vector]:
        """Which numbers of its inputs a node needs for some of its own."""
        sizes = [self.size(given) for given in node.inputs]
        match node.op:
            case Op.UNARY | Op.BINARY | Op.WHERE:
                return [mask if size == node.size else np.full(size, mask.any()) for size in sizes]
            case Op.CONCAT:
                return np.split(mask, np.cumsum(sizes)[:-1])
            case Op.TAKE:
                assert node.indices is not None
                places = np.zeros(sizes[0], bool)
                places[node.indices[mask]] = True
                return [places]
            case Op.LOOKUP:
                return [np.full(sizes[0], mask.any()), mask]
            case Op.REDUCE:
                return [np.repeat(mask, node.width)]
            case Op.MATMUL:
                grid = mask.reshape(-1, node.columns)
                return [np.repeat(grid.any(1), node.width), np.tile(grid.any(0), node.width)]
            case Op.ARGSORT:
                return [np.repeat(mask.reshape(-1, node.width).any(1), node.width)]
        return []

    def _narrowed(self, other: Builder, i: int, wanted: Mapping[int, Vector], made: Mapping[int, int]) -> int:
        """A node in another builder that gives only the numbers that are wanted."""
        node, mask = self.nodes[i], wanted[i]
        places = np.flatnonzero(mask)

        def part(given: int, numbers: Vector) -> int:
            """Some numbers of an input, by their places in it."""
            where = np.cumsum(wanted[given]) - 1
            return other.take(made[given], where[numbers])

        def alike(given: int) -> int:
            """The same numbers of an input; a single one stays single."""
            return made[given] if self.size(given) == 1 else part(given, places)

        match node.op:
            case Op.INPUT:
                return other.input(node.name, len(places))
            case Op.CONSTANT:
                assert node.value is not None
                return other.constant(node.value[places])
            case Op.UNARY:
                return other.unary(node.name, part(node.inputs[0], places))
            case Op.BINARY:
                return other.binary(node.name, *(alike(given) for given in node.inputs))
            case Op.WHERE:
                return other.where(*(alike(given) for given in node.inputs))
            case Op.CONCAT:
                starts = np.cumsum([0, *(self.size(given) for given in node.inputs)])
                parts = [
                    part(given, np.flatnonzero(mask[start : start + self.size(given)]))
                    for given, start in zip(node.inputs, starts, strict=False)
                    if mask[start : start + self.size(given)].any()
                ]
                return other.concat(parts)
            case Op.TAKE:
                assert node.indices is not None
                return part(node.inputs[0], node.indices[places])
            case Op.LOOKUP:
                return other.lookup(made[node.inputs[0]], part(node.inputs[1], places))
            case Op.REDUCE:
                rows = places[:, None] * node.width + np.arange(node.width)
                return other.reduce(node.name, part(node.inputs[0], rows.reshape(-1)), node.width)
            case Op.MATMUL:
                grid = mask.reshape(-1, node.columns)
                rows, columns = np.flatnonzero(grid.any(1)), np.flatnonzero(grid.any(0))
                inside = np.arange(node.width)
                left = part(node.inputs[0], (rows[:, None] * node.width + inside).reshape(-1))
                right = part(node.inputs[1], (inside[:, None] * node.columns + columns).reshape(-1))
                whole = other.matmul(left, right, node.width, len(columns))
                return other.take(whole, np.flatnonzero(grid[np.ix_(rows, columns)].reshape(-1)))
        rows = np.flatnonzero(mask.reshape(-1, node.width).any(1))
        runs = (rows[:, None] * node.width + np.arange(node.width)).reshape(-1)
        order = other.argsort(part(node.inputs[0], runs), node.width)
        return other.take(order, np.flatnonzero(mask.reshape(-1, node.width)[rows].reshape(-1)))

    def needed(self, outputs: Iterable[int]) -> list[int]:
        """Numbers of the nodes that some nodes need, themselves included, in order."""
        found: set[int] = set()
        left = list(outputs)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left += self.nodes[node].inputs
        return sorted(found)

    def _simpler(self, name: str, a: int, b: int, size: int) -> int | None:
        """A node that a function of two equals, where one is known to be 0 or 1."""
        left, right = self.value(a), self.value(b)
        if left is not None and right is not None:
            return None
        zero = [known is not None and not known.any() for known in (left, right)]
        one = [known is not None and bool((known == 1).all()) for known in (left, right)]
        full = [self.size(x) == size for x in (a, b)]
        if name == "mul" and any(zero):
            return self.constant(np.zeros(size))
        if name == "div" and zero[0]:
            return self.constant(np.zeros(size))
        if (name == "add" and zero[0]) or (name == "mul" and one[0]):
            return b if full[1] else self.take(b, np.zeros(size))
        if (name in ("add", "sub") and zero[1]) or (name in ("mul", "div") and one[1]):
            return a if full[0] else self.take(a, np.zeros(size))
        return None

    def _made(self, op: Op, size: int, inputs: tuple[int, ...], name: str = "", **own: Any) -> int:
        node = Node(op, size, inputs, name, **own)
        given = [self.value(i) for i in inputs]
        if size == 0:
            return self.constant(np.zeros(0))
        if all(value is not None for value in given):
            with np.errstate(all="ignore"):
                return self.constant(computed(node, [value for value in given if value is not None]))
        places = None if node.indices is None else node.indices.tobytes()
        key = (op, inputs, name, places, node.width, node.columns)
        return self._once(key, node)

    def _once(self, key: object, node: Node) -> int:
        if key not in self._known:
            self._known[key] = self._append(node)
        return self._known[key]

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1
