"""Trajectories of a policy: hand position, gripper opening and actions of one episode per environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from embodied.core.hooks import PROPRIO
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, listing

HAND, OPENING = "hand", "opening"
"""Terms of the group `proprio`: hand position (3) m, world frame; gripper opening (1), 1 open, 0 closed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode until success or its end, T control steps."""

    hand: Tensor
    """(T, 3) m, hand position, world frame."""
    opening: Tensor
    """(T,) gripper opening, 1 open, 0 closed."""
    action: Tensor
    """(T, A) in [-1, 1]."""
    success: bool


def record_trajectories(
    env: Env, rule: PolicyFunction, seed: int, horizon: int = 0, on_step: Callable[[int], None] | None = None
) -> tuple[Trajectory, ...]:
    """One episode in every environment, of `horizon` control steps at most; 0: the task's own.

    With the same seed every policy has the same initial states. `on_step` is called with how many steps there were.

    Raises:
        EmbodiedError: the proprioception lacks hand position or gripper opening.
    """
    hand, opening = _slices(env)
    limit = min(horizon or env.max_episode_steps, env.max_episode_steps)
    obs, running = env.reset(seed), torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    success, length = torch.zeros_like(running), torch.zeros_like(running, dtype=torch.int64)
    observed, acted = [], []
    for time in range(limit):
        observed.append(obs[PROPRIO].clone())
        acted.append(rule(obs).clone())
        step = env.step(acted[-1])
        obs = step.obs
        length += running
        success |= step.success & running
        running = running & ~(step.success | step.done)
        if on_step is not None:
            on_step(time + 1)
        if not bool(running.any()):
            break
    states, actions = torch.stack(observed, 1).cpu(), torch.stack(acted, 1).cpu()
    return tuple(
        Trajectory(states[row, :end, hand], states[row, :end, opening][:, 0], actions[row, :end], bool(solved))
        for row, (end, solved) in enumerate(zip(length.tolist(), success.tolist(), strict=True))
    )


def _slices(env: Env) -> tuple[slice, slice]:
    """Places of hand position and gripper opening in the group `proprio`."""
    terms, first, found = env.observation_terms.get(PROPRIO, {}), 0, {}
    for name, shape in terms.items():
        found[name] = slice(first, first := first + (shape[0] if shape else 1))
    if missing := [name for name in (HAND, OPENING) if name not in found]:
        told = listing(terms) or "nothing"
        raise EmbodiedError(f"the proprioception of '{env.name}' does not tell {listing(missing)}; it tells {told}")
    return found[HAND], found[OPENING]
