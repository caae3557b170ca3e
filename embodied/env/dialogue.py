"""What a robot is told in an episode, and what it may ask before it acts.

instructions = words_of(env)               # of every environment
instructions[0].paraphrases[0]             # "Pick up the block. The red one."
said = dialogues_of(env)[0]
said.instruction, said.question, said.answer
# "Pick up the block.", "Which block do you mean: the red one or the blue one?", "The red one."
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np

from embodied.core.instruction import Dialogue, Instruction
from embodied.errors import EmbodiedError, listing

if TYPE_CHECKING:
    from torch import Tensor

    from embodied.env.env import Env

Tell: TypeAlias = "Callable[[Tensor, Mapping[str, Tensor]], Sequence[str]]"
"""Which environments begin an episode, (k,) int64, and what all of them observe, to what each of the k is told."""


def words_of(env: Env, rows: Sequence[int] | None = None) -> list[Instruction]:
    """What every environment is told in its running episode; of some `rows` only."""
    task, places = env.task, range(env.num_envs) if rows is None else rows
    if not task.instruction_varies:
        return [Instruction(tuple(task.instruction))] * len(places)
    state = jax.tree.map(np.asarray, env.simulator.episode().task_state)
    return [task.episode_instruction(jax.tree.map(lambda leaf, place=place: leaf[place], state)) for place in places]


def first_words(env: Env) -> Tell:
    """Tells each episode what it is told."""
    return lambda rows, obs: [words.paraphrases[0] for words in words_of(env, rows.tolist())]


def wrong_words(env: Env) -> Tell:
    """Tells each episode something else that could be done in it; where there is nothing, what it is told."""
    return lambda rows, obs: [(words.wrong or words.paraphrases)[0] for words in words_of(env, rows.tolist())]


def dialogues_of(env: Env, rows: Sequence[int] | None = None) -> list[Dialogue]:
    """The dialogues of the running episodes; of some `rows` only.

    Raises:
        EmbodiedError: the task has none.
    """
    check_dialogue(env)
    found = [words.dialogue for words in words_of(env, rows)]
    return [dialogue for dialogue in found if dialogue is not None]


def check_dialogue(env: Env) -> None:
    """Check that a task's instructions can be asked about.

    Raises:
        EmbodiedError: they cannot.
    """
    if env.task.instruction_varies:
        return
    from embodied.registry import join_content

    registry = join_content()
    known = listing(name for name in registry if registry[name].load().instruction_varies)
    raise EmbodiedError(
        f"'{env.name}' says the same in every episode, so there is nothing to ask; expected a task whose instruction "
        f"may fit several things: {known}"
    )
