"""Scenes from which a network learns when to ask: first images of episodes, instructions, and exact labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from embodied.core.hooks import PIXELS, PROPRIO
from embodied.core.instruction import Instruction
from embodied.env.env import Env
from embodied.env.vec_env import image_shapes
from embodied.env.wrappers.instructions import instructions_of, require_dialogues
from embodied.storage.datasets.episode import Episode
from policies.vla.asking.clarification import ACT, ASK


def make_scenes(
    env: Env, count: int, seed: int, on_scene: Callable[[int], object] = lambda done: None
) -> list[Episode]:
    """The first steps of `count` episodes, each an `Episode` of one step: whether to ask, and what is in the scene.

    The action's first number is `ASK` or `ACT`. Two more for each phrase of `Instruction.matches` are whether it fits
    any object, and several: trained on the first number alone, a network guesses by the text and never learns to use
    the images. Labels are exact: the simulation counts.

    The environments have cameras, and are reset by `seed`; `on_scene` is called with the number of scenes so far.

    Raises:
        EmbodiedError: the task has the same instruction in every episode.
    """
    require_dialogues(env)
    found: list[Episode] = []
    for wave in range(-(-count // env.num_envs)):
        begin = int(np.random.SeedSequence([seed, wave]).generate_state(1)[0] >> 1)
        obs = {group: values.cpu().numpy() for group, values in env.reset(begin).items()}
        images = image_shapes(env.observation_spec)
        views = {group.removeprefix(PIXELS): obs[group].transpose(0, 2, 3, 1) for group in images}
        for place, instruction in enumerate(instructions_of(env, range(min(env.num_envs, count - len(found))))):
            dialogue = instruction.dialogue
            assert dialogue is not None  # checked above
            found.append(
                Episode(
                    task=env.name,
                    instruction=dialogue.instruction,
                    images={camera: frames[place : place + 1].copy() for camera, frames in views.items()},
                    state=obs[PROPRIO][place : place + 1].copy(),
                    action=np.where([[dialogue.ambiguous, *_matches(instruction)]], ASK, ACT).astype(np.float32),
                    success=True,
                    seed=begin,
                )
            )
        on_scene(len(found))
    return found


def _matches(instruction: Instruction) -> list[bool]:
    """For every phrase, whether it fits any object, and several."""
    return [count > few for count in instruction.matches.values() for few in (0, 1)]
