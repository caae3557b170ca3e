"""How a policy goes about a task: where the hand went, what the fingers did, and when it was done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from embodied.core.task import PROPRIO
from embodied.env.env import Env
from embodied.errors import EmbodiedError, listing
from policies.training.loading import ActionRule

HAND, OPENING = "hand", "opening"
"""Terms of the group `proprio`: where the hand is, (3) m, world frame; how far it is open, (1), 1 open, 0 closed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """One episode, until it was solved or over: T control steps."""

    hand: Tensor
    """(T, 3) m, world frame."""
    opening: Tensor
    """(T,) of the gripper, 1 open, 0 closed."""
    action: Tensor
    """(T, A) in [-1, 1]."""
    success: bool
    """Whether it was solved."""


def observe_conduct(
    env: Env, rule: ActionRule, seed: int, horizon: int = 0, on_step: Callable[[int], None] | None = None
) -> tuple[Trace, ...]:
    """One episode in every environment of `env`, from the starts of a seed.

    Args:
        env: Whose proprioception tells of hand and opening.
        rule: Observation groups to actions.
        seed: Of the starts: the same one gives every policy the same.
        horizon: Control steps at most; 0: the task's own.
        on_step: Called after each step with how many there were.

    Raises:
        EmbodiedError: the proprioception does not tell.
    """
    hand, opening = _places(env)
    limit = min(horizon or env.max_episode_steps, env.max_episode_steps)
    obs, running = env.reset(seed), torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    success, length = torch.zeros_like(running), torch.zeros_like(running, dtype=torch.int64)
    seen, done = [], []
    for time in range(limit):
        seen.append(obs[PROPRIO].clone())
        done.append(rule(obs).clone())
        step = env.step(done[-1])
        obs = step.obs
        length += running
        success |= step.success & running
        running = running & ~(step.success | step.done)
        if on_step is not None:
            on_step(time + 1)
        if not bool(running.any()):
            break
    states, actions = torch.stack(seen, 1).cpu(), torch.stack(done, 1).cpu()
    return tuple(
        Trace(states[row, :end, hand], states[row, :end, opening][:, 0], actions[row, :end], bool(solved))
        for row, (end, solved) in enumerate(zip(length.tolist(), success.tolist(), strict=True))
    )


def _places(env: Env) -> tuple[slice, slice]:
    """Where hand and opening lie in the group `proprio`."""
    terms, first, found = env.observation_terms.get(PROPRIO, {}), 0, {}
    for name, shape in terms.items():
        found[name] = slice(first, first := first + (shape[0] if shape else 1))
    if missing := [name for name in (HAND, OPENING) if name not in found]:
        told = listing(terms) or "nothing"
        raise EmbodiedError(f"the proprioception of '{env.name}' does not tell {listing(missing)}; it tells {told}")
    return found[HAND], found[OPENING]
