"""A script that takes what it has heard of, and guesses where that fits several: motor skill without doubt.

It tells what asking alone is worth, apart from how well a policy grasps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.env.dialogue import Tell
from embodied.env.env import Env, array_from_tensor, tensor_from_array
from tasks.manipulation.common.skills import Seen, raised, steer
from tasks.manipulation.instructed.among import HELD, PickAmong, TaskState
from tasks.questions.ambiguity import referents, resolved


def understood(task: PickAmong, state: TaskState, heard: str) -> tuple[int, ...]:
    """Numbers of the things that fit what a robot has heard: an instruction, and perhaps an answer.

    Args:
        task: Whose episode it is.
        state: Of one environment, numpy arrays.
        heard: One sentence, or two.

    Raises:
        EmbodiedError: it names no kind of thing.
    """
    seen, order = task.sights(state)
    instruction, _, answer = heard.partition(". ")
    marks = referents(seen, instruction)
    settled = resolved(seen, instruction, answer) if answer.strip() else None
    return tuple(order[mark - 1] for mark in ((settled,) if settled else marks))


class Listener:
    """Observation groups of N environments to actions (N, 4) by the script, for what each has heard."""

    def __init__(self, env: Env, tell: Tell, seed: int = 0) -> None:
        """In environments of pick-among.

        Args:
            env: Where it acts.
            tell: What each episode is told when it begins.
            seed: Of guesses.
        """
        assert isinstance(env.task, PickAmong)
        self.env, self.tell, self.task = env, tell, env.task
        self._random = np.random.default_rng(seed)
        self._chosen = np.zeros(env.num_envs, np.int32)
        self._act = jax.jit(jax.vmap(self._towards))

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, 4) in [-1, 1]."""
        episode = self.env.simulator.episode()
        rows = np.flatnonzero(np.asarray(episode.steps) == 0)
        if len(rows):
            state = jax.tree.map(np.asarray, episode.task_state)
            for row, heard in zip(rows, self.tell(torch.as_tensor(rows), obs), strict=True):
                own: Any = jax.tree.map(lambda leaf, row=row: leaf[row], state)
                self._chosen[row] = self._guess(understood(self.task, own, heard))
        world, places = self.env.world(), range(1, 4)
        things = jnp.stack([world[f"object{place}_pos"] for place in places], 1)
        action = self._act(array_from_tensor(obs["policy"]), episode.task_state.stands, things, self._chosen)
        return tensor_from_array(action, self.env.device)

    def _guess(self, fitting: tuple[int, ...]) -> int:
        """One of them; where none fits, anything that is surely there."""
        return int(self._random.choice(fitting or (0, 1)))

    def _towards(self, policy: Array, stands: Array, things: Array, chosen: Array) -> Array:
        """The script's action, with the chosen thing in place of the one that is meant."""
        goal = raised(stands[chosen], HELD)
        seen = dataclasses.replace(Seen.of(policy), object=things[chosen], goal=goal)
        return steer(seen, self.task.script(seen))
