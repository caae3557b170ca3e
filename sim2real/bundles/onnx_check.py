"""Which ONNX models are accepted: those that `bundles.onnx_graph` could have written. Needs neither torch nor jax."""

from __future__ import annotations

from typing import Any

from embodied.errors import EmbodiedError
from sim2real.contract.contract import Contract

INPUT, OUTPUTS = "observation", ("action", "target")
MAX_NODES = 256  # an exported policy of as many layers as anybody trains has fewer
OPERATORS = {"Sub", "Mul", "Add", "Max", "Min", "Gemm", "Elu", "Tanh", "Relu", "Sigmoid"}
"""All that a policy needs: a model with any other is not ours."""


def onnx_package() -> Any:
    try:
        import onnx
    except ImportError:
        raise EmbodiedError('bundles need the package onnx: pip install "embodied-sim[sim2real]"') from None
    return onnx


def inspect(data: bytes, contract: Contract) -> dict[str, str]:
    """Check that bytes hold a model such as `build` makes, before a runtime sees them; its metadata.

    Raises:
        ValueError: Says what is wrong: no model, other operators, data outside the file, other inputs or outputs.
    """
    onnx = onnx_package()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # Protobuf's own exceptions share no base class across its versions.
        raise ValueError("not an ONNX model") from error
    graph = model.graph
    names = [name for node in graph.node for name in (node.op_type, node.name, *node.input, *node.output)]
    if not all(isinstance(name, str) for name in (*names, *(entry.name for entry in graph.initializer))):
        raise ValueError("it has names that are not text")
    if other := {node.op_type for node in graph.node} - OPERATORS:
        raise ValueError(f"it has operators that no exported policy has: {', '.join(sorted(other))}")
    if len(graph.node) > MAX_NODES:
        raise ValueError(f"it has {len(graph.node)} operators; an exported policy has at most {MAX_NODES}")
    if model.functions or any(node.domain for node in graph.node) or len(graph.sparse_initializer):
        raise ValueError("it has functions, foreign operators or sparse constants; no exported policy has")
    if any(entry.data_location != onnx.TensorProto.DEFAULT or entry.external_data for entry in graph.initializer):
        raise ValueError("its constants lie in other files; those of an exported policy are inside")
    found = [(entry.name, _shape(entry)) for entry in (*graph.input, *graph.output)]
    expected = [(INPUT, ("batch", contract.observation_size))]
    expected += [(name, ("batch", contract.action_size)) for name in OUTPUTS]
    if found != expected:
        raise ValueError(f"it maps {_signature(found)}; the contract says {_signature(expected)}")
    return {entry.key: entry.value for entry in model.metadata_props}


def _shape(value: Any) -> tuple[str | int, ...]:
    return tuple(size.dim_param or size.dim_value for size in value.type.tensor_type.shape.dim)


def _signature(ends: list[tuple[str, tuple[str | int, ...]]]) -> str:
    return ", ".join(f"{name}{list(shape)}" for name, shape in ends)
