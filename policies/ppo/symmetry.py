"""Left-right symmetry in proximal policy optimisation: weights that are symmetric.

For a symmetric robot, the mirror image of a transition is as good a sample as the transition (Mittal et al. 2024,
arXiv:2403.04359, section III), with the same advantage, return and probability of having been sampled.

A perceptron computes a mirrored output from a mirrored input if each layer's weights W and biases b fulfil W = R W Q
and b = R b, with the reflections Q of its inputs and R of its outputs; hidden units are reflected by reversing their
order (an equivariant network of the group of two elements; Ordoñez-Apraez et al. 2023, arXiv:2302.10433). Weights that
begin so stay so if every gradient is averaged with its image, since Adam treats all numbers alike. That average is the
gradient of the transitions and their mirror images together, without computing the latter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from embodied.math.symmetry import Mirror, Reflection, unchanged
from policies.algorithm import SettingsError
from policies.networks.mlp import MLP, Critic, GaussianActor
from policies.ppo.actor_critic import ActorCritic
from policies.ppo.addition import Addition

TOLERANCE = 1e-4  # between weights and their image, of rounding in a long training


def symmetric(
    networks: ActorCritic, mirror: Callable[[], Mirror] | None, groups: tuple[str, str], vector: Tensor
) -> tuple[SymmetricParameters, dict[str, TorchReflection]]:
    """Make fresh parameters (P,) of actor and critic, both perceptrons that read these groups, symmetric.

    Returns:
        The parameters' symmetry, and the reflection of each observation group.

    Raises:
        EmbodiedError: the environment has no mirror.
    """
    if mirror is None:
        raise SettingsError("symmetry is used, but no mirror of the environment was given; expected VecEnv.mirror")
    found = mirror()
    parameters = SymmetricParameters(networks.actor, networks.critic, found, groups)
    parameters.begin(vector)
    return parameters, {group: TorchReflection(found.observed[group], vector.device) for group in groups}


class TorchReflection:
    """A signed permutation of the last axis of tensors."""

    def __init__(self, reflection: Reflection, device: torch.device) -> None:
        self.index = torch.tensor(reflection.index, device=device)
        self.sign = torch.tensor(reflection.sign, dtype=torch.float32, device=device)

    def __call__(self, values: Tensor) -> Tensor:
        """The image of (..., n) values."""
        return values.index_select(-1, self.index) * self.sign


class SymmetricParameters(Addition):
    """Holds the parameters of an actor and a critic, both perceptrons, to those that are symmetric."""

    def __init__(self, actor: GaussianActor, critic: Critic, mirror: Mirror, observed: tuple[str, str]) -> None:
        """Find each parameter's image, the actor's first; `observed` are the groups that actor and critic read."""
        action = mirror.action
        networks = ((actor.mean, mirror.observed[observed[0]], action),)
        networks += ((critic.value, mirror.observed[observed[1]], unchanged(1)),)
        deviations = Reflection(action.index, (1,) * len(action))
        parts = [deviations, *(part for network in networks for part in _of_perceptron(*network))]
        self._image = TorchReflection(Reflection.joined(parts), actor.log_std.device)
        self._linears = [linear for network, *_ in networks for linear in _perceptron(network).linears]

    @torch.no_grad()
    def begin(self, vector: Tensor) -> None:
        """Make fresh parameters (P,) symmetric, with weights of the same spread as before."""
        for linear in self._linears:
            linear.weight.mul_(math.sqrt(2))  # halves the variance below: the mean of two independent numbers
        self.average_(vector)

    def gradient(self, gradient: Tensor) -> None:
        """Average a gradient (P,) with its image, so that symmetric parameters stay so."""
        self.average_(gradient)

    def average_(self, vector: Tensor) -> None:
        """Replace parameters, or a gradient of theirs, (P,), by the mean with their image."""
        vector.add_(self._image(vector)).mul_(0.5)

    def holds(self, vector: Tensor) -> bool:
        """Whether parameters (P,) are symmetric, but for rounding."""
        return (vector - self._image(vector)).abs().max().item() <= TOLERANCE


def _perceptron(network: torch.nn.Module) -> MLP:
    assert isinstance(network, MLP)
    return network


def _of_perceptron(network: torch.nn.Module, inputs: Reflection, outputs: Reflection) -> Iterator[Reflection]:
    """Reflections of weights and biases, in the order of a perceptron's parameters."""
    linears = _perceptron(network).linears
    for linear in linears:
        width = linear.out_features
        following = outputs if linear is linears[-1] else Reflection(tuple(range(width))[::-1], (1,) * width)
        yield following.rows(inputs)
        yield following
        inputs = following
