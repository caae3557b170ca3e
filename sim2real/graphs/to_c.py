"""A graph as C99: one loop for each node, static memory, no dependency but math.h."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from sim2real.graphs.graph import Graph, Node, Op

WIDTH = 110  # characters of a line of numbers
UNARY = {
    "neg": "-{0}", "abs": "fabsf({0})", "sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))", "sqrt": "sqrtf({0})",
    "exp": "expf({0})", "log": "logf({0})", "sin": "sinf({0})", "cos": "cosf({0})", "asin": "asinf({0})",
    "acos": "acosf({0})", "atan": "atanf({0})", "tanh": "tanhf({0})", "floor": "floorf({0})", "ceil": "ceilf({0})",
    "not": "1.0f - {0}", "isfinite": "isfinite({0}) ? 1.0f : 0.0f",
}  # fmt: skip
BINARY = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "max": "{0} > {1} || isnan({0}) ? {0} : {1}", "min": "{0} < {1} || isnan({0}) ? {0} : {1}", "pow": "powf({0}, {1})",
    "atan2": "atan2f({0}, {1})", "fmod": "fmodf({0}, {1})", "lt": "{0} < {1} ? 1.0f : 0.0f",
    "le": "{0} <= {1} ? 1.0f : 0.0f", "eq": "{0} == {1} ? 1.0f : 0.0f",
}  # fmt: skip
REDUCE = {
    "sum": ("0.0f", "r += {0};"),
    "prod": ("1.0f", "r *= {0};"),
    "max": ("-INFINITY", "r = {0} > r || isnan({0}) ? {0} : r;"),
    "min": ("INFINITY", "r = {0} < r || isnan({0}) ? {0} : r;"),
}
SINGLE = (Op.UNARY, Op.BINARY, Op.WHERE)
FORMS: Mapping[Op, Callable[[str], str]] = {
    Op.UNARY: lambda name: UNARY[name],
    Op.BINARY: lambda name: BINARY[name],
    Op.WHERE: lambda name: "{0} != 0.0f ? {1} : {2}",
}
"""Functions of single numbers -> their expression in C, of the function's name."""


def identifier(name: str) -> str:
    """A name as C takes it."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")


def number(value: float) -> str:
    """The shortest literal that a compiler rounds to this float32."""
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return np.format_float_scientific(np.float32(value), unique=True, trim="0") + "f"


def wrapped(texts: Iterable[str], indent: str = "    ") -> str:
    """Entries of an initialiser, in lines of at most `WIDTH` characters."""
    lines, line = [], indent
    for text in texts:
        if len(line) + len(text) + 2 > WIDTH:
            lines.append(line.rstrip())
            line = indent
        line += f"{text}, "
    return "\n".join([*lines, line.rstrip().rstrip(",")])


class CText:
    """The tables and statements that compute a graph's outputs.

    Functions of single numbers that follow each other share a loop: what no other statement needs is not stored.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, str]) -> None:
        """Write them.

        Args:
            graph: What to compute.
            inputs: Name of an input -> the C expression of its array.
        """
        self.graph = graph
        self.tables: list[str] = []
        self.memory: list[str] = []
        self.statements: list[str] = []
        self._tables: dict[tuple[str, bytes], str] = {}
        self.names = [
            inputs.get(node.name, f"v{i}") if node.op is Op.INPUT else f"v{i}" for i, node in enumerate(graph.nodes)
        ]
        readers: list[set[int]] = [set() for _ in graph.nodes]
        for i, node in enumerate(graph.nodes):
            for j in node.inputs:
                readers[j].add(i)
        for i in graph.outputs.values():
            readers[i].add(len(graph.nodes))
        for loop in _loops(graph):
            self._loop(loop, readers)

    def output(self, name: str) -> str:
        """The array of an output."""
        return self.names[self.graph.outputs[name]]

    def _table(self, kind: str, texts: list[str], key: bytes) -> str:
        if (kind, key) not in self._tables:
            name = self._tables[kind, key] = f"{kind[0]}{len(self._tables)}"
            c_type = "float" if kind == "numbers" else "unsigned short"
            self.tables.append(f"static const {c_type} {name}[{len(texts)}] = {{\n{wrapped(texts)}\n}};")
        return self._tables[kind, key]

    def _loop(self, numbers: list[int], readers: list[set[int]]) -> None:
        """The statement of one node, or of functions of single numbers in one loop."""
        first = self.graph.nodes[numbers[0]]
        if first.op is Op.INPUT:
            return
        if first.op is Op.CONSTANT:
            assert first.value is not None
            texts = [number(value) for value in first.value]
            self.names[numbers[0]] = self._table("numbers", texts, first.value.tobytes())
            return
        kept = [i for i in numbers if not readers[i] <= {*numbers}]
        self.memory += [f"static float v{i}[{self.graph.nodes[i].size}];" for i in kept]
        if first.op not in SINGLE:
            given = [self.names[j] for j in first.inputs]
            self.statements.append(self._statement(first, self.names[numbers[0]], given))
            return
        lines = []
        for i in numbers:
            node = self.graph.nodes[i]
            value = FORMS[node.op](node.name).format(*(self._at(node, j, numbers) for j in node.inputs))
            local = any(reader in numbers for reader in readers[i])
            lines += [f"const float w{i} = {value};"] if local else []
            lines += [f"v{i}[i] = {f'w{i}' if local else value};"] if i in kept else []
        head = f"for (i = 0; i < {first.size}; i++)"
        body = "\n        ".join(lines)
        self.statements.append(f"{head} {body}" if len(lines) == 1 else f"{head} {{\n        {body}\n    }}")

    def _at(self, node: Node, source: int, loop: list[int]) -> str:
        """One number of a node's input within a loop."""
        if source in loop:
            return f"w{source}"
        single = self.graph.nodes[source].size == 1 and node.size > 1
        return f"{self.names[source]}[{0 if single else 'i'}]"

    def _statement(self, node: Node, out: str, given: list[str]) -> str:
        loop = f"for (i = 0; i < {node.size}; i++) "
        match node.op:
            case Op.CONCAT:
                lines, start = [], 0
                for j, name in zip(node.inputs, given, strict=True):
                    size = self.graph.nodes[j].size
                    lines.append(f"for (i = 0; i < {size}; i++) {out}[{start} + i] = {name}[i];")
                    start += size
                return "\n    ".join(lines)
            case Op.TAKE:
                return self._take(node, out, given[0], loop)
            case Op.LOOKUP:
                return f"{loop}{out}[i] = {given[0]}[(int){given[1]}[i]];"
            case Op.REDUCE:
                first, step = REDUCE[node.name]
                each = step.format(f"{given[0]}[i * {node.width} + j]")
                body = [f"float r = {first};", f"for (j = 0; j < {node.width}; j++) {each}", f"{out}[i] = r;"]
                return "\n        ".join([f"{loop}{{", *body]) + "\n    }"
            case Op.MATMUL:
                rows = node.size // node.columns
                return f"product({given[0]}, {given[1]}, {out}, {rows}, {node.width}, {node.columns});"
        return f"order({given[0]}, {out}, {node.size // node.width}, {node.width});"

    def _take(self, node: Node, out: str, given: str, loop: str) -> str:
        indices = node.indices
        assert indices is not None
        if len(indices) == 1:
            return f"{out}[0] = {given}[{indices[0]}];"
        steps = np.unique(np.diff(indices))
        if len(steps) == 1:
            first, step = int(indices[0]), int(steps[0])
            place = str(first) if step == 0 else f"{first} + {step} * i" if step != 1 else f"{first} + i"
            return f"{loop}{out}[i] = {given}[{place}];"
        table = self._table("places", [str(place) for place in indices], indices.astype("<i8").tobytes())
        return f"{loop}{out}[i] = {given}[{table}[i]];"


def _loops(graph: Graph) -> list[list[int]]:
    """Numbers of nodes: each alone, or functions of single numbers of one size that follow each other together.

    Inputs and constants come first.
    """
    loops: list[list[int]] = []
    for i, node in enumerate(graph.nodes):
        if node.op in (Op.INPUT, Op.CONSTANT):
            loops.append([i])
    last: list[int] = []
    for i, node in enumerate(graph.nodes):
        if node.op in (Op.INPUT, Op.CONSTANT):
            continue
        if node.op in SINGLE and last and graph.nodes[last[0]].size == node.size and graph.nodes[last[0]].op in SINGLE:
            last.append(i)
            continue
        last = [i]
        loops.append(last)
    return loops


HELPERS = {
    "product": """/* Sums of several columns side by side stay in registers: none waits for another. */
static inline void side_by_side(const float *a, const float *b, float *out, int width, int columns, const int count) {
    float sum[16] = {0.0f};
    int k, c;
    for (k = 0; k < width; k++, b += columns) {
        for (c = 0; c < count; c++) sum[c] += a[k] * b[c];
    }
    for (c = 0; c < count; c++) out[c] = sum[c];
}

static void product(const float *a, const float *b, float *out, int rows, int width, int columns) {
    int r, c;
    for (r = 0; r < rows; r++, a += width, out += columns) {
        for (c = 0; columns - c >= 16; c += 16) side_by_side(a, b + c, out + c, width, columns, 16);
        for (; columns - c >= 4; c += 4) side_by_side(a, b + c, out + c, width, columns, 4);
        for (; c < columns; c++) side_by_side(a, b + c, out + c, width, columns, 1);
    }
}
""",
    "order": """static void order(const float *x, float *out, int rows, int width) {
    int r, k, j;
    for (r = 0; r < rows; r++) {
        const float *row = x + r * width;
        float *places = out + r * width;
        for (k = 0; k < width; k++) { /* insertion sort: stable */
            for (j = k; j > 0 && row[k] < row[(int)places[j - 1]]; j--) places[j] = places[j - 1];
            places[j] = (float)k;
        }
    }
}
""",
}
"""Functions that statements may call."""
