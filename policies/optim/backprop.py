"""Forward and backward passes through an MLP, written out.

Autograd allocates an activation or a gradient for almost every operation, and on a CPU walking through fresh memory
costs as much as the arithmetic. The passes here stay in a few buffers. A test holds them equal to autograd.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from policies.networks.mlp import MLP, Activation

aten = torch.ops.aten


class _Layer(NamedTuple):
    """A linear layer and the memory around it, all of them views."""

    weight: Tensor
    """(outputs, inputs)."""
    transposed: Tensor
    """(inputs, outputs), the same numbers."""
    bias: Tensor
    """(outputs,)."""
    before: Tensor
    """(B, outputs) values before the activation."""
    after: Tensor
    """(B, outputs) values after it; may share memory with `before`."""
    gradient: Tensor
    """(B, outputs) derivative of the loss by `after`, then by `before`; free during the forward pass."""


class Tape:
    """Memory for one pass forward and back through an MLP."""

    def __init__(
        self,
        mlps: Sequence[MLP],
        rows: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Allocate.

        Args:
            mlps: The networks it is to serve, one at a time; their parameters may change, but not move.
            rows: Largest batch.
            device: Where batches are.
            dtype: Of everything.
        """
        widths = [[layer.out_features for layer in mlp.linears] for mlp in mlps]

        def memory(*offsets: int) -> list[Tensor]:
            sizes = [0] * (1 + max(map(len, widths)))
            for network in widths:
                for offset in offsets:
                    for i, width in enumerate(network, offset):
                        sizes[i] = max(sizes[i], width)
            return [torch.empty(rows * size, device=device, dtype=dtype) for size in sizes]

        # The gradient of a layer overwrites the values of the layer above it.
        self._after = memory(0, 1)
        # Only SiLU's derivative needs what went in; the others follow from what came out, which may overwrite it.
        self._before = memory(0) if any(mlp.activation is Activation.SILU for mlp in mlps) else []
        self._layers: dict[tuple[MLP, int], list[_Layer]] = {}

    @torch.no_grad()
    def forward(self, mlp: MLP, obs: Tensor, out: Tensor | None = None) -> Tensor:
        """Output of `mlp` on (B, inputs) rows, into `out` if given; remembers what `backward` needs."""
        *hidden, last = self._prepared(mlp, len(obs))
        x = obs
        for layer in hidden:
            torch.addmm(layer.bias, x, layer.transposed, out=layer.before)
            x = _activate(mlp.activation, layer)
        return torch.addmm(last.bias, x, last.transposed, out=last.after if out is None else out)

    @torch.no_grad()
    def backward(self, mlp: MLP, obs: Tensor, gradient: Tensor, into: Sequence[Tensor]) -> None:
        """Differentiate the last `forward`, once.

        Args:
            mlp: The network it went through.
            obs: (B, inputs) rows it was given.
            gradient: (B, outputs) derivative of a loss by the output.
            into: Receives the derivatives by the parameters, in their order and shapes.
        """
        layers = self._prepared(mlp, len(obs))
        for i in range(len(layers) - 1, -1, -1):
            below = layers[i - 1] if i else None
            torch.mm(gradient.t(), below.after if below else obs, out=into[2 * i])
            torch.sum(gradient, 0, out=into[2 * i + 1])
            if below:
                torch.mm(gradient, layers[i].weight, out=below.gradient)
                gradient = _differentiate(mlp.activation, below)

    def _prepared(self, mlp: MLP, rows: int) -> list[_Layer]:
        """The layers with their memory cut to a batch of `rows`."""
        key = (mlp, rows)
        if key not in self._layers:
            self._layers[key] = [self._layer(mlp, i, rows) for i in range(len(mlp.linears))]
        return self._layers[key]

    def _layer(self, mlp: MLP, i: int, rows: int) -> _Layer:
        linear = mlp.linears[i]
        weight, bias = linear.weight.detach(), linear.bias.detach()

        def cut(memory: Tensor) -> Tensor:
            return memory[: rows * len(weight)].view(rows, len(weight))

        after = cut(self._after[i])
        before = cut(self._before[i]) if mlp.activation is Activation.SILU else after
        return _Layer(weight, weight.t(), bias, before, after, gradient=cut(self._after[i + 1]))


def _activate(activation: Activation, layer: _Layer) -> Tensor:
    before, after = layer.before, layer.after
    match activation:
        case Activation.TANH:
            return torch.tanh(before, out=after)
        case Activation.RELU:
            return torch.clamp(before, min=0.0, out=after)
        case Activation.ELU:
            # max(x, exp(min(x, 0)) - 1); torch's own takes twice as long over its branch.
            below_zero = torch.clamp(before, max=0.0, out=layer.gradient).exp_().sub_(1.0)
            return torch.maximum(before, below_zero, out=after)
        case Activation.SILU:
            return aten.silu.out(before, out=after)


def _differentiate(activation: Activation, layer: _Layer) -> Tensor:
    """Turn the derivative by an activation's output into that by its input, in place."""
    gradient, after = layer.gradient, layer.after
    match activation:
        case Activation.TANH:
            return aten.tanh_backward.grad_input(gradient, after, grad_input=gradient)
        case Activation.RELU:
            return aten.threshold_backward.grad_input(gradient, after, 0.0, grad_input=gradient)
        case Activation.ELU:
            return aten.elu_backward.grad_input(gradient, 1.0, 1.0, 1.0, True, after, grad_input=gradient)
        case Activation.SILU:
            return aten.silu_backward.grad_input(gradient, layer.before, grad_input=gradient)
