"""Which ONNX models are accepted: those that an export could have written. Needs neither torch nor jax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from embodied.errors import EmbodiedError
from sim2real.contract.contract import COMMAND, NEXT, STATE, Contract
from sim2real.contract.planner import PLANNED

MAX_NODES = 16384  # a control step with inverse kinematics has some 1,300
OPERATORS = {
    "Neg", "Abs", "Sign", "Sqrt", "Exp", "Log", "Sin", "Cos", "Asin", "Acos", "Atan", "Tanh", "Floor", "Ceil", "Add",
    "Sub", "Mul", "Div", "Max", "Min", "Pow", "Less", "LessOrEqual", "Equal", "ReduceSum", "ReduceMax", "ReduceMin",
    "ReduceProd", "Cast", "Where", "Concat", "Gather", "Reshape", "MatMul", "TopK", "Not", "Or", "IsNaN", "IsInf",
    "Mod", "Identity",
}  # fmt: skip
"""All that a control step needs, see `sim2real.graphs.to_onnx`: a model with any other is not ours."""
MAX_PLANNER_NODES = 65536  # an encoder of images of a hundred layers has some thousands
PLANNER_OPERATORS = OPERATORS | {
    "And", "ArgMax", "AveragePool", "BatchNormalization", "Clip", "Constant", "ConstantOfShape", "Conv", "CumSum",
    "Einsum", "Elu", "Erf", "Expand", "Flatten", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool",
    "Greater", "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish", "InstanceNormalization",
    "LayerNormalization", "LeakyRelu", "LogSoftmax", "MaxPool", "Pad", "Range", "Reciprocal", "ReduceL2", "ReduceMean",
    "ReduceSumSquare", "Relu", "Resize", "Shape", "Sigmoid", "Slice", "Softmax", "Softplus", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Pure functions of tensors, as torch writes a network that sees: no loops, no branches, no files."""


def onnx_package() -> Any:
    try:
        import onnx
    except ImportError:
        raise EmbodiedError('bundles need the package onnx: pip install "embodied-sim[sim2real]"') from None
    return onnx


def inspect(data: bytes, contract: Contract) -> dict[str, str]:
    """Check that bytes hold the `policy.onnx` of a contract, before a runtime sees them; its metadata.

    Raises:
        ValueError: Describes the fault: no model, other operators, data outside the file, other inputs or outputs.
    """
    return _inspected(data, OPERATORS, MAX_NODES, _expected(contract))


def inspect_planner(data: bytes, ends: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """The same of a `planner.onnx` with inputs and outputs of these shapes."""
    return _inspected(data, PLANNER_OPERATORS, MAX_PLANNER_NODES, list(ends.items()))


def _inspected(
    data: bytes, allowed: Set[str], most: int, expected: Sequence[tuple[str, tuple[str | int, ...]]]
) -> dict[str, str]:
    onnx = onnx_package()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # Protobuf's own exceptions share no base class across its versions.
        raise ValueError("not an ONNX model") from error
    graph = model.graph
    names = [name for node in graph.node for name in (node.op_type, node.name, *node.input, *node.output)]
    if not all(isinstance(name, str) for name in (*names, *(entry.name for entry in graph.initializer))):
        raise ValueError("it has names that are not text")
    if other := {node.op_type for node in graph.node} - allowed:
        raise ValueError(f"it has operators that no exported policy has: {', '.join(sorted(other))}")
    if len(graph.node) > most:
        raise ValueError(f"it has {len(graph.node)} operators; an exported policy has at most {most}")
    if model.functions or any(node.domain for node in graph.node) or len(graph.sparse_initializer):
        raise ValueError("it has functions, foreign operators or sparse constants; no exported policy has")
    if any(entry.data_location != onnx.TensorProto.DEFAULT or entry.external_data for entry in graph.initializer):
        raise ValueError("its constants lie in other files; those of an exported policy are inside")
    found = [(entry.name, _shape(entry)) for entry in (*graph.input, *graph.output)]
    if sorted(found) != sorted(expected):
        raise ValueError(f"it maps {_signature(found)}; the contract says {_signature(expected)}")
    return {entry.key: entry.value for entry in model.metadata_props}


def _expected(contract: Contract) -> list[tuple[str, tuple[str | int, ...]]]:
    """Name and shape of every input and output."""
    step = contract.step
    ends: list[tuple[str, tuple[str | int, ...]]] = [(source.name, (source.size,)) for source in step.sources]
    ends += [(f"{COMMAND}{one.name}", (one.size,)) for one in step.commands]
    ends += [(f"{STATE}{one.name}{end}", (one.size,)) for one in step.remembered for end in ("", NEXT)]
    ends += [(PLANNED, (step.action_size,))] if step.planner is not None else []
    sizes = {"observation": contract.observation_size, "action": step.action_size, "target": len(contract.actuators)}
    return ends + [(name, (size,)) for name, size in sizes.items()]


def _shape(value: Any) -> tuple[str | int, ...]:
    return tuple(size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim)


def _signature(ends: Sequence[tuple[str, tuple[str | int, ...]]]) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in ends)
