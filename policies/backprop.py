"""Forward and backward passes through an MLP, written out.

Autograd allocates an activation or a gradient for almost every operation, and on a CPU walking through fresh memory
costs as much as the arithmetic. The passes here stay in a few buffers that fit into a core's cache. A test holds
them equal to autograd.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from policies.networks import MLP, Activation

aten = torch.ops.aten


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
            mlps: The networks it is to serve, one at a time.
            rows: Largest batch.
            device: Where batches are.
            dtype: Of everything.
        """
        hidden = max(len(mlp.linears) - 1 for mlp in mlps)
        widest = max((layer.out_features for mlp in mlps for layer in mlp.linears[:-1]), default=0)

        def layers() -> list[Tensor]:
            return list(torch.empty(hidden, rows * widest, device=device, dtype=dtype))

        self._spare = torch.empty(rows * widest, device=device, dtype=dtype)
        self._after = layers()
        # Only SiLU's derivative needs what went in; the others follow from what came out, which may overwrite it.
        self._before = layers() if any(mlp.activation is Activation.SILU for mlp in mlps) else self._after

    @torch.no_grad()
    def forward(self, mlp: MLP, obs: Tensor, out: Tensor | None = None) -> Tensor:
        """Output of `mlp` on (B, inputs) rows, into `out` if given; remembers what `backward` needs."""
        *hidden, last = mlp.linears
        x = obs
        for i, layer in enumerate(hidden):
            before, after = self._hidden(mlp, i, len(obs))
            torch.addmm(layer.bias, x, layer.weight.t(), out=before)
            x = _activate(mlp.activation, before, after, self._spare[: after.numel()].view_as(after))
        if out is None:
            return torch.addmm(last.bias, x, last.weight.t())
        return torch.addmm(last.bias, x, last.weight.t(), out=out)

    @torch.no_grad()
    def backward(self, mlp: MLP, obs: Tensor, gradient: Tensor, into: Sequence[Tensor]) -> None:
        """Differentiate the last `forward`, once.

        Args:
            mlp: The network it went through.
            obs: (B, inputs) rows it was given.
            gradient: (B, outputs) derivative of a loss by the output.
            into: Receives the derivatives by the parameters, in their order and shapes.
        """
        spare = self._spare
        for i in range(len(mlp.linears) - 1, 0, -1):
            before, after = self._hidden(mlp, i - 1, len(obs))
            _differentiate_linear(gradient, after, into[2 * i : 2 * i + 2])
            below = torch.mm(gradient, mlp.linears[i].weight, out=spare[: after.numel()].view_as(after))
            gradient = _differentiate_activation(mlp.activation, below, before, after)
            spare = self._after[i - 1]  # has served; the next gradient may overwrite it
        _differentiate_linear(gradient, obs, into[:2])

    def _hidden(self, mlp: MLP, i: int, rows: int) -> tuple[Tensor, Tensor]:
        """Values of hidden layer i before and after its activation, which may share memory."""
        width = mlp.linears[i].out_features
        after = self._after[i][: rows * width].view(rows, width)
        if mlp.activation is not Activation.SILU:
            return after, after
        return self._before[i][: rows * width].view(rows, width), after


def _activate(activation: Activation, before: Tensor, after: Tensor, spare: Tensor) -> Tensor:
    match activation:
        case Activation.TANH:
            return torch.tanh(before, out=after)
        case Activation.RELU:
            return torch.clamp(before, min=0.0, out=after)
        case Activation.ELU:
            # max(x, exp(min(x, 0)) - 1), because torch's own takes twice as long over its branch.
            torch.clamp(before, max=0.0, out=spare).exp_().sub_(1.0)
            return torch.maximum(before, spare, out=after)
        case Activation.SILU:
            return aten.silu.out(before, out=after)


def _differentiate_activation(activation: Activation, gradient: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Turn the derivative by an activation's output into that by its input, in place."""
    match activation:
        case Activation.TANH:
            return aten.tanh_backward.grad_input(gradient, after, grad_input=gradient)
        case Activation.RELU:
            return aten.threshold_backward.grad_input(gradient, after, 0.0, grad_input=gradient)
        case Activation.ELU:
            return aten.elu_backward.grad_input(gradient, 1.0, 1.0, 1.0, True, after, grad_input=gradient)
        case Activation.SILU:
            return aten.silu_backward.grad_input(gradient, before, grad_input=gradient)


def _differentiate_linear(gradient: Tensor, inputs: Tensor, into: Sequence[Tensor]) -> None:
    weight, bias = into
    torch.mm(gradient.t(), inputs, out=weight)
    torch.sum(gradient, 0, out=bias)
