"""Scenes to learn from when to ask: what cameras see as episodes begin, what is said, and whether it is clear."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from embodied.core.instruction import Instruction
from embodied.core.task import PROPRIO
from embodied.datasets.episode import Episode
from embodied.env.dialogue import check_dialogue, words_of
from embodied.env.env import Env
from embodied.rendering.cameras import PREFIX
from policies.vla.asking.asker import ACT, ASK


def scenes(env: Env, count: int, seed: int, on_scene: Callable[[int], object] = lambda done: None) -> list[Episode]:
    """Starts of `count` episodes, each an `Episode` of one step: whether to ask, and what there is to see.

    The action's first number is `ASK` or `ACT`. Two more for each phrase of `Instruction.matches` say whether it fits
    anything, and several things: a network that is only told when to ask guesses by the words, and never begins to look. Labels
    are exact: the simulation counts.

    Args:
        env: Has cameras; begins anew.
        count: How many.
        seed: Of the starts.
        on_scene: Called with how many there are.

    Raises:
        EmbodiedError: the task says the same in every episode.
    """
    check_dialogue(env)
    found: list[Episode] = []
    for wave in range(-(-count // env.num_envs)):
        begin = int(np.random.SeedSequence([seed, wave]).generate_state(1)[0] >> 1)
        obs = {group: values.cpu().numpy() for group, values in env.reset(begin).items()}
        views = {group.removeprefix(PREFIX): obs[group].transpose(0, 2, 3, 1) for group in env.pixel_shapes}
        for place, words in enumerate(words_of(env, range(min(env.num_envs, count - len(found))))):
            said = words.dialogue
            assert said is not None  # checked above
            found.append(
                Episode(
                    task=env.name,
                    instruction=said.instruction,
                    images={camera: frames[place : place + 1].copy() for camera, frames in views.items()},
                    state=obs[PROPRIO][place : place + 1].copy(),
                    action=np.where([[said.ambiguous, *_there(words)]], ASK, ACT).astype(np.float32),
                    success=True,
                    seed=begin,
                )
            )
        on_scene(len(found))
    return found


def _there(words: Instruction) -> list[bool]:
    """Of every phrase, whether it fits anything, and several things."""
    return [count > few for count in words.matches.values() for few in (0, 1)]
