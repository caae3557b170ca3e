"""A policy as an ONNX model, written operator by operator from its weights: no tracing, no surprises.

    observation (batch, n)  raw, in the contract's order and units
    action (batch, A)       in [-1, 1]
    target (batch, A)       what to write to the actuators, in their units, as `Contract.target` gives it

Normaliser and limits are inside. An observation that is not a number gives an action that is not a number: whatever
runs the model must check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from policies.networks.mlp import Activation
from sim2real.bundles.network import Network
from sim2real.contract.contract import Contract
from sim2real.graphs.onnx_check import INPUT, OUTPUTS, onnx_package

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

OPSET = 18
IR_VERSION = 8  # the first that holds opset 18, so that runtimes since 2022 read it
METADATA = ("contract", "sha256", "producer")
ACTIVATIONS: dict[Activation, tuple[str, ...]] = {
    Activation.ELU: ("Elu",),
    Activation.TANH: ("Tanh",),
    Activation.RELU: ("Relu",),
    Activation.SILU: ("Sigmoid", "Mul"),
}
"""Operators of each; a second one multiplies with the input."""


class _Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value, np.float32)
        return name

    def add(self, operator: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> str:
        self.nodes.append(onnx_package().helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def between(self, value: str, low: str, high: str, output: str) -> str:
        # Clip is free to turn what is not a number into a bound; Max and Min hand it on.
        return self.add("Min", (self.add("Max", (value, low), f"{output}/above"), high), output)


def build(network: Network, contract: Contract, contract_json: str) -> ModelProto:
    """The model of a policy.

    Args:
        network: The policy's numbers.
        contract: What its actions mean.
        contract_json: The contract's text, kept in the model so that the two cannot be separated.
    """
    graph = _Graph()
    value = _normalised(graph, network)
    for i, layer in enumerate(network.layers, 1):
        weight, bias = graph.constant(f"weight{i}", layer.weight), graph.constant(f"bias{i}", layer.bias)
        value = graph.add("Gemm", (value, weight, bias), f"layer{i}", transB=1)
        if i < len(network.layers):
            value = _activated(graph, value, network.activation)
    if network.squashed:
        value = graph.add("Tanh", (value,), "squashed")
    _targets(graph, value, contract)
    return _model(graph, network, contract_json, network.digest(contract_json))


def _normalised(graph: _Graph, network: Network) -> str:
    """The observation in standard deviations from its mean, clipped."""
    centred = graph.add("Sub", (INPUT, graph.constant("mean", network.mean)), "centred")
    scaled = graph.add("Mul", (centred, graph.constant("scale", network.scale)), "scaled")
    low, high = graph.constant("-clip", -network.clip), graph.constant("clip", network.clip)
    return graph.between(scaled, low, high, "normalised")


def _activated(graph: _Graph, value: str, activation: Activation) -> str:
    first, *factor = ACTIVATIONS[activation]
    result = graph.add(first, (value,), f"{value}/{first.lower()}")
    return graph.add(factor[0], (value, result), f"{value}/{activation}") if factor else result


def _targets(graph: _Graph, value: str, contract: Contract) -> None:
    """The outputs: actions, and the actuators' targets of `Contract.target`."""
    one, minus_one, zero = graph.constant("1", 1.0), graph.constant("-1", -1.0), graph.constant("0", 0.0)
    action = graph.between(value, minus_one, one, "action")
    rows = {name: graph.constant(name, contract.row(name)) for name in ("up", "down", "offset", "lower", "upper")}
    raised = graph.add("Mul", (graph.add("Max", (action, zero), "positive"), rows["up"]), "raised")
    lowered = graph.add("Mul", (graph.add("Min", (action, zero), "negative"), rows["down"]), "lowered")
    moved = graph.add("Add", (graph.add("Add", (raised, lowered), "change"), rows["offset"]), "moved")
    graph.between(moved, rows["lower"], rows["upper"], "target")


def _model(graph: _Graph, network: Network, contract_json: str, digest: str) -> ModelProto:
    onnx = onnx_package()
    inputs, actions = network.sizes
    kind = onnx.TensorProto.FLOAT
    made = onnx.helper.make_graph(
        graph.nodes,
        "policy",
        [onnx.helper.make_tensor_value_info(INPUT, kind, ["batch", inputs])],
        [onnx.helper.make_tensor_value_info(name, kind, ["batch", actions]) for name in OUTPUTS],
        [onnx.numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION, producer_name="embodied")
    metadata = zip(METADATA, (contract_json, digest, "embodied sim2real.export"), strict=True)
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    return model


def serialised(model: ModelProto) -> bytes:
    """The model's bytes, the same in every process."""
    return model.SerializeToString(deterministic=True)
