"""What a robot is told in an episode, and what it may ask before it acts.

    told = words_of(env)                       # of every environment
    told[0].told[0]                            # "Pick up the block. The red one."
    said = dialogues_of(env)[0]
    said.instruction, said.question, said.answer
    # "Pick up the block.", "Which block do you mean: the red one or the blue one?", "The red one."

Source of the setting: Ask-to-Clarify (arXiv:2509.15061).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np

from embodied.errors import EmbodiedError, listing

if TYPE_CHECKING:
    from torch import Tensor

    from embodied.env.env import Env

Tell: TypeAlias = "Callable[[Tensor, Mapping[str, Tensor]], Sequence[str]]"
"""Which environments begin an episode, (k,) int64, and what all of them observe, to what each of the k is told."""


@dataclasses.dataclass(frozen=True)
class Dialogue:
    """What a user says to a robot, and answers if it asks."""

    instruction: str
    """As the user says it first. It may fit several things."""
    question: str | None
    """What there is to ask; None where the instruction fits one thing."""
    answer: str
    """What the user says when asked, needed or not."""

    @property
    def ambiguous(self) -> bool:
        """Whether there is something to ask."""
        return self.question is not None

    def heard(self, asked: bool) -> str:
        """What a robot has heard when it begins to act: the instruction, and the answer if it asked."""
        return f"{self.instruction} {self.answer}" if asked else self.instruction


@dataclasses.dataclass(frozen=True)
class Words:
    """One episode's task in words."""

    told: tuple[str, ...]
    """What is to be done, then paraphrases."""
    wrong: tuple[str, ...] = ()
    """Something else that could be done in this very episode: a policy that listens fails."""
    dialogue: Dialogue | None = None
    """Where the robot may ask first."""
    fits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Phrase -> how many things in this episode it fits; the same phrases in every episode of a task."""


def words_of(env: Env, rows: Sequence[int] | None = None) -> list[Words]:
    """What every environment is told in its running episode; of some `rows` only."""
    task, places = env.task, range(env.num_envs) if rows is None else rows
    if not task.words_differ:
        return [Words(tuple(task.instruction))] * len(places)
    state = jax.tree.map(np.asarray, env.simulator.episode().task_state)
    return [task.words(jax.tree.map(lambda leaf, place=place: leaf[place], state)) for place in places]


def first_words(env: Env) -> Tell:
    """Tells each episode what it is told."""
    return lambda rows, obs: [words.told[0] for words in words_of(env, rows.tolist())]


def wrong_words(env: Env) -> Tell:
    """Tells each episode something else that could be done in it; where there is nothing, what it is told."""
    return lambda rows, obs: [(words.wrong or words.told)[0] for words in words_of(env, rows.tolist())]


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
    if env.task.words_differ:
        return
    from embodied.registry import join_content

    registry = join_content()
    known = listing(name for name in registry if registry[name].load().words_differ)
    raise EmbodiedError(
        f"'{env.name}' says the same in every episode, so there is nothing to ask; expected a task whose instruction "
        f"may fit several things: {known}"
    )
