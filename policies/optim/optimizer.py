"""Adam on one vector that holds every parameter.

A policy has a dozen small tensors. As slices of one vector they are clipped, averaged over ranks and updated by one
kernel each instead of a dozen.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from policies.optim.flat_parameters import join
from policies.ppo.config import PPOConfig, Schedule

LR_FACTOR = 1.5  # by which one minibatch may change an adaptive learning rate


class FlatAdam:
    """Clips, schedules and applies gradients given as one vector."""

    def __init__(self, parameters: Iterable[nn.Parameter], config: PPOConfig) -> None:
        """Move `parameters`, which must be on their device by now, into one vector."""
        self.parameters = list(parameters)
        self.config = config
        self.flat = nn.Parameter(join(self.parameters))
        # A tensor, so that adapting it never waits for the device.
        self.learning_rate = torch.tensor(config.learning_rate, device=self.flat.device)
        self._adam = torch.optim.Adam([self.flat], lr=self.learning_rate, fused=True)
        self._moments = {
            "step": torch.zeros((), device=self.flat.device),
            "exp_avg": torch.zeros_like(self.flat),
            "exp_avg_sq": torch.zeros_like(self.flat),
        }
        self._adam.state[self.flat] = self._moments

    def views(self, vector: Tensor) -> list[Tensor]:
        """Parts of a vector as long as all parameters together, in the parameters' order and shapes."""
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]

    @torch.no_grad()
    def step(self, gradient: Tensor, kl: Tensor) -> Tensor:
        """Apply one gradient.

        Args:
            gradient: As long as all parameters together.
            kl: (), divergence of the present policy from the rollout's, which steers an adaptive learning rate.

        Returns:
            () norm of the gradient before clipping.
        """
        config = self.config
        if config.schedule is Schedule.ADAPTIVE:
            self._adapt(kl)
        norm = torch.linalg.vector_norm(gradient)
        self.flat.grad = gradient * (config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        self._adam.step()
        return norm

    def start(self, progress: float) -> None:
        """Set the learning rate of the coming update, a `progress` (0 to 1) of the way through training."""
        if self.config.schedule is Schedule.LINEAR:
            self.learning_rate.fill_(self.config.learning_rate * (1.0 - min(max(progress, 0.0), 1.0)))

    @torch.no_grad()
    def begin_anew(self) -> None:
        """Forget the moments, as if no step had been taken.

        Where a parameter's gradients were held at zero for many steps, Adam would else take its first real one for a
        small mean divided by a much smaller deviation, and step further than the learning rate.
        """
        for moment in self._moments.values():
            moment.zero_()

    def state(self) -> dict[str, Tensor]:
        """Parameters, moments and learning rate."""
        own = {"parameters": self.flat.detach(), "learning_rate": self.learning_rate}
        return {name: tensor.clone() for name, tensor in (own | self._moments).items()}

    @torch.no_grad()
    def load_state(self, tree: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        self.flat.copy_(tree["parameters"])
        self.learning_rate.copy_(tree["learning_rate"])
        for name, moment in self._moments.items():
            moment.copy_(tree[name])

    def _adapt(self, kl: Tensor) -> None:
        """Slow down where the policy moved too far, speed up where it barely moved."""
        rate, config = self.learning_rate, self.config
        slower = torch.where(kl > 2 * config.desired_kl, 1 / LR_FACTOR, 1.0)
        faster = torch.where(kl < config.desired_kl / 2, LR_FACTOR, 1.0)
        rate.mul_(slower * faster).clamp_(config.learning_rate_min, config.learning_rate_max)
