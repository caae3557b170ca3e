"""The instructions of running episodes, and where policies get those of episodes that begin.

instructions = instructions_of(env)        # of every environment
instructions[0].paraphrases[0]             # "Pick up the block. The red one."
dialogue = dialogues_of(env)[0]
dialogue.instruction, dialogue.question, dialogue.answer
# "Pick up the block.", "Which block do you mean: the red one or the blue one?", "The red one."
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from torch import Tensor

from embodied.core.facets import Language
from embodied.core.instruction import Dialogue, Instruction
from embodied.env.env import Env
from embodied.env.registry import join_content
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, listing

InstructionSource: TypeAlias = Callable[[Tensor, Mapping[str, Tensor]], Sequence[str]]
"""Environments whose episodes begin, (k,) int64, and the observation of all, to the instructions of the k."""


@runtime_checkable
class InstructedTask(Protocol):
    """A task with a scripted policy that follows instructions."""

    def instructed_expert(self, env: Env, instructions: InstructionSource, seed: int = 0) -> PolicyFunction:
        """The script in environments of the task; `seed` of its guesses."""
        ...


def instructions_of(env: Env, rows: Sequence[int] | None = None) -> list[Instruction]:
    """The instructions of the running episodes; of some `rows` only."""
    task, places = env.task, range(env.num_envs) if rows is None else rows
    language = task.language or Language.of()
    if not language.varies:
        return [Instruction(language.instructions)] * len(places)
    state = jax.tree.map(np.asarray, env.task_state)
    return [language.instruction(jax.tree.map(lambda leaf, place=place: leaf[place], state)) for place in places]


def default_instructions(env: Env) -> InstructionSource:
    """Each episode's default instruction."""
    return lambda rows, obs: [one.paraphrases[0] for one in instructions_of(env, rows.tolist())]


def wrong_instructions(env: Env) -> InstructionSource:
    """For each episode an instruction for something else; where there is none, the default one."""
    return lambda rows, obs: [(one.wrong or one.paraphrases)[0] for one in instructions_of(env, rows.tolist())]


def dialogues_of(env: Env, rows: Sequence[int] | None = None) -> list[Dialogue]:
    """The dialogues of the running episodes; of some `rows` only.

    Raises:
        EmbodiedError: the task has none.
    """
    require_dialogues(env)
    found = [instruction.dialogue for instruction in instructions_of(env, rows)]
    return [dialogue for dialogue in found if dialogue is not None]


def require_dialogues(env: Env) -> None:
    """Check that a robot may ask about a task's instructions.

    Raises:
        EmbodiedError: there is nothing to ask.
    """
    if env.task.language and env.task.language.varies:
        return
    registry = join_content()
    # Only a language that a task computes can vary; it takes seconds to make every task.
    computed = [name for name in registry if isinstance(registry[name].load().language, functools.cached_property)]
    languages = {name: registry[name].load()().language for name in computed}
    known = listing(name for name, language in languages.items() if language and language.varies)
    raise EmbodiedError(
        f"'{env.name}' says the same in every episode, so there is nothing to ask; expected a task whose instruction "
        f"may fit several things: {known}"
    )
