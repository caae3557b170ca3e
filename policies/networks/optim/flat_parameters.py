"""Many parameters as slices of one vector: clipped, averaged over ranks, stepped and tracked by one kernel each.

The loss of every learner goes through autograd into one AdamW. A hand-written backward pass of perceptrons was removed:
a whole training by autograd took 0.91 of its time on hover and 1.07 on Go1 (ppo_paths.json).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from policies.networks.optim import distributed

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's, as proposed (Kingma and Ba 2015, algorithm 1)


def join(parameters: Iterable[nn.Parameter]) -> Tensor:
    """Move `parameters`, which must be on their device by now, into one vector, of which they become views.

    Returns:
        (P,) the vector, detached; what is written into it the parameters show.
    """
    own = list(parameters)
    flat = torch.cat([p.detach().reshape(-1) for p in own])
    for p, part in zip(own, flat.split([p.numel() for p in own]), strict=True):
        p.data = part.view_as(p)
    return flat


class FlatAdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019) on one vector that holds every parameter."""

    vector: Tensor
    """(P,) the parameters."""
    parameters: list[nn.Parameter]
    """Views of the vector, in the order in which they were given."""
    learning_rate: float | Tensor
    """Adam's step size; a schedule sets it before each step."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float | Tensor,
        *,
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
    ) -> None:
        """Move `parameters` into one vector.

        Args:
            parameters: On their device by now.
            learning_rate: A () tensor may be changed in place, which never waits for the device.
            weight_decay: By which share of itself, times the learning rate, each parameter shrinks per step.
            max_grad_norm: Norm to which longer gradients are shortened; None leaves them.
        """
        self.parameters = list(parameters)
        self.vector, self.learning_rate = join(self.parameters), learning_rate
        self._weight_decay, self._max_norm = weight_decay, max_grad_norm
        distributed.broadcast_(self.vector)
        self._moments = {
            "step": torch.zeros((), device=self.vector.device),
            "exp_avg": torch.zeros_like(self.vector),
            "exp_avg_sq": torch.zeros_like(self.vector),
        }

    def descend(self, loss: Tensor) -> Tensor:
        """Take one step down the gradient of a loss, averaged over ranks.

        Other parameters that the loss depends on are left alone, and no gradient is computed for them.

        Returns:
            () norm of the gradient before it was shortened.
        """
        return self.step(distributed.mean_(self.gradient(loss)))

    def gradient(self, loss: Tensor) -> Tensor:
        """(P,) gradient of a loss, of this rank alone."""
        parts = torch.autograd.grad(loss, self.parameters)
        return torch.cat([part.reshape(-1) for part in parts])

    @torch.no_grad()
    def step(self, gradient: Tensor, held: int = 0) -> Tensor:
        """Take one step down a (P,) gradient, which is shortened in place; returns its norm () before that.

        The first `held` parameters stay as they are; Adam's moments of them are gathered, so that their first step,
        when they are let go, is not longer than any other.
        """
        norm = torch.linalg.vector_norm(gradient)
        if self._max_norm is not None:
            gradient.mul_((self._max_norm / (norm + 1e-6)).clamp(max=1.0))
        before = self.vector[:held].clone()
        # As a function: torch.optim.AdamW's first object imports torch's compiler, for seconds.
        step, first, second = ([moment] for moment in self._moments.values())
        adamw(
            [self.vector], [gradient], first, second, [], step, fused=True, amsgrad=False, beta1=BETA1, beta2=BETA2,
            lr=self.learning_rate, weight_decay=self._weight_decay, eps=EPSILON, maximize=False,
        )  # fmt: skip
        self.vector[:held] = before
        return norm

    def state(self) -> dict[str, Tensor]:
        """Parameters and moments."""
        return {name: tensor.clone() for name, tensor in ({"parameters": self.vector} | self._moments).items()}

    @torch.no_grad()
    def load_state(self, tree: Mapping[str, Tensor]) -> None:
        self.vector.copy_(tree["parameters"])
        for name, moment in self._moments.items():
            moment.copy_(tree[name])
