"""A graph as an ONNX model: one operator or a few for each node, vectors all the way, one robot at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sim2real.graphs.graph import Graph, Node, Op
from sim2real.graphs.onnx_check import onnx_package

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

OPSET = 18
IR_VERSION = 8  # the first that holds opset 18, so that runtimes since 2022 read it
UNARY = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos",
    "asin": "Asin", "acos": "Acos", "atan": "Atan", "tanh": "Tanh", "floor": "Floor", "ceil": "Ceil",
}  # fmt: skip
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"}
COMPARE = {"lt": "Less", "le": "LessOrEqual", "eq": "Equal"}
REDUCE = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def build(graph: Graph, name: str, metadata: dict[str, str]) -> ModelProto:
    """The model of a graph.

    Args:
        graph: Its inputs and outputs keep their names.
        name: Of the model's graph.
        metadata: Kept in the model.
    """
    return _Writer(graph).model(name, metadata)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._named: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        names = {i: name for name, i in graph.inputs.items()}
        self.names = [names.get(i, f"v{i}") for i in range(len(graph.nodes))]

    def model(self, name: str, metadata: dict[str, str]) -> ModelProto:
        onnx, graph = onnx_package(), self.graph
        for i, node in enumerate(graph.nodes):
            self._node(i, node)
        kind = onnx.TensorProto.FLOAT
        for output, i in graph.outputs.items():
            self.add("Identity", [self.names[i]], output)
        results = [
            onnx.helper.make_tensor_value_info(output, kind, [graph.nodes[i].size])
            for output, i in graph.outputs.items()
        ]
        made = onnx.helper.make_graph(
            self.nodes,
            name,
            [onnx.helper.make_tensor_value_info(one, kind, [graph.nodes[i].size]) for one, i in graph.inputs.items()],
            results,
            [onnx.numpy_helper.from_array(value, one) for one, value in self.constants.items()],
        )
        opset = onnx.helper.make_opsetid("", OPSET)
        model = onnx.helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION, producer_name="embodied")
        onnx.helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        outputs = [f"{output}/values", output] if operator == "TopK" else [output]
        self.nodes.append(onnx_package().helper.make_node(operator, inputs, outputs, name=output, **attributes))
        return output

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        array = np.asarray(value, kind)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._named:
            self._named[key] = f"c{len(self._named)}"
            self.constants[self._named[key]] = array
        return self._named[key]

    def _as(self, value: str, kind: str, output: str) -> str:
        return self.add("Cast", [value], output, to=getattr(onnx_package().TensorProto, kind))

    def _shaped(self, value: str, shape: tuple[int, ...], output: str) -> str:
        return self.add("Reshape", [value, self.constant(shape, np.int64)], output)

    def _node(self, i: int, node: Node) -> None:
        out, given = self.names[i], [self.names[j] for j in node.inputs]
        match node.op:
            case Op.CONSTANT:
                assert node.value is not None
                self.constants[out] = node.value
            case Op.UNARY:
                self._unary(node, given[0], out)
            case Op.BINARY:
                self._binary(node, given, out)
            case Op.WHERE:
                self.add("Where", [self._as(given[0], "BOOL", f"{out}/if"), *given[1:]], out)
            case Op.CONCAT:
                self.add("Concat", given, out, axis=0)
            case Op.TAKE:
                assert node.indices is not None
                self.add("Gather", [given[0], self.constant(node.indices, np.int64)], out)
            case Op.LOOKUP:
                self.add("Gather", [given[0], self._as(given[1], "INT64", f"{out}/places")], out)
            case Op.REDUCE:
                rows = self._shaped(given[0], (-1, node.width), f"{out}/rows")
                self.add(REDUCE[node.name], [rows, self.constant([1], np.int64)], out, keepdims=0)
            case Op.MATMUL:
                right = self._shaped(given[1], (node.width, node.columns), f"{out}/right")
                if node.size == node.columns:  # a vector times a matrix is a vector
                    self.add("MatMul", [given[0], right], out)
                    return
                left = self._shaped(given[0], (-1, node.width), f"{out}/left")
                self._shaped(self.add("MatMul", [left, right], f"{out}/product"), (-1,), out)
            case Op.ARGSORT:
                rows = self._shaped(given[0], (-1, node.width), f"{out}/rows")
                count = self.constant([node.width], np.int64)
                order = self.add("TopK", [rows, count], f"{out}/order", axis=1, largest=0, sorted=1)
                self._shaped(self._as(order, "FLOAT", f"{out}/float"), (-1,), out)

    def _unary(self, node: Node, x: str, out: str) -> None:
        if node.name == "not":
            self.add("Sub", [self.constant([1.0]), x], out)
        elif node.name == "isfinite":
            odd = self.add(
                "Or", [self.add("IsNaN", [x], f"{out}/nan"), self.add("IsInf", [x], f"{out}/inf")], f"{out}/odd"
            )
            self._as(self.add("Not", [odd], f"{out}/finite"), "FLOAT", out)
        else:
            self.add(UNARY[node.name], [x], out)

    def _binary(self, node: Node, given: list[str], out: str) -> None:
        if node.name in COMPARE:
            self._as(self.add(COMPARE[node.name], given, f"{out}/is"), "FLOAT", out)
        elif node.name == "fmod":
            self.add("Mod", given, out, fmod=1)
        elif node.name == "atan2":
            self._atan2(given[0], given[1], out)
        else:
            self.add(BINARY[node.name], given, out)

    def _atan2(self, y: str, x: str, out: str) -> None:
        """Of the smaller over the larger, which is never infinite, then put into its octant."""
        add, zero = self.add, self.constant([0.0])
        tall = add("Less", [add("Abs", [x], f"{out}/|x|"), add("Abs", [y], f"{out}/|y|")], f"{out}/tall")
        low = add("Where", [tall, y, x], f"{out}/low")
        flat = add("Equal", [low, zero], f"{out}/zero")
        safe = add("Where", [flat, self.constant([1.0]), low], f"{out}/safe")
        ratio = add("Div", [add("Where", [tall, x, y], f"{out}/high"), safe], f"{out}/ratio")
        angle = add("Atan", [ratio], f"{out}/atan")
        below = add("Less", [y, zero], f"{out}/below")
        half = add("Where", [below, self.constant([-math.pi / 2]), self.constant([math.pi / 2])], f"{out}/half")
        whole = add("Where", [below, self.constant([-math.pi]), self.constant([math.pi])], f"{out}/whole")
        behind = add("Less", [x, zero], f"{out}/behind")
        near = add("Add", [angle, add("Where", [behind, whole, zero], f"{out}/turn")], f"{out}/near")
        add("Where", [tall, add("Sub", [half, angle], f"{out}/steep"), near], out)
