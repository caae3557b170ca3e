"""pick-among: two or three objects on a table, of which the instruction names one or fits several."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import torch
from jax import Array
from torch import Tensor

from embodied.core.facets import Language, Pictures
from embodied.core.hooks import Timing
from embodied.core.instruction import Instruction
from embodied.core.randomization import Term
from embodied.core.world import Outcome, ResetState, World
from embodied.env.env import Env
from embodied.env.step import array_from_tensor, tensor_from_array
from embodied.env.wrappers.instructions import InstructionSource
from tasks.manipulation.common import objects, panda
from tasks.manipulation.common import tabletop as table
from tasks.manipulation.common.draws import Box, scattered
from tasks.manipulation.common.rewards import both, grasp, reach, share
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, carry, fetch, raised, steer
from tasks.manipulation.common.tabletop import Placement, Tabletop, TabletopConfig
from tasks.manipulation.instructed.dialogues import clarified, dialogue, instructions
from tasks.questions.ambiguity import ObjectDescription, referents, resolved

REST = 0.02  # m, height of an object's centre on the table
LIFTED = 0.08  # m above that, at which an object counts as picked up
HELD = 0.12  # m above that, where the script holds it
AREA = Box((-0.13, 0.57, REST), (0.13, 0.77, REST))  # m, where objects stand, in view of the two cameras
HELD_AREA = Box((*AREA.low[:2], REST + HELD), (*AREA.high[:2], REST + HELD))  # m, where the script holds them
APART = 0.11  # m between two objects: an open finger's outside is 5.3 cm from the grip, and half an object 2 cm wide
AWAY = (0.0, 3.0, REST)  # m, where the third object is, out of sight, when there are two
THINGS = ("object", "other", "third")
"""Bodies. The first is the target: place and appearance of all are drawn alike. So nothing is exchanged when an episode
begins, and scripts and critics read the same sensors in every episode."""
TERSE = 2 / 3  # of the instructions name the kind alone; of those 4 in 7 fit several things

COLOURS = {"red": objects.RED, "green": objects.GREEN, "blue": objects.BLUE, "yellow": objects.YELLOW}
"""Colour word -> RGBA."""
KINDS = ("block", "can")
"""Both collide as the same box; a can is round, with lids of steel."""
LOOKS = len(COLOURS) * len(KINDS)
PHRASES = (*KINDS, *(f"{colour} {kind}" for kind in KINDS for colour in COLOURS))


class Telling(StrEnum):
    """Part of the dialogue in the instruction, for policies that do not ask."""

    CLARIFIED = "clarified"
    """The instruction, and the user's answer where it fits several objects."""
    FIRST = "first"
    """The instruction alone."""


@dataclasses.dataclass(frozen=True)
class PickAmongConfig(TabletopConfig):
    """Options of pick-among."""

    telling: Telling = Telling.CLARIFIED
    """The instruction of a policy that does not ask: clarified, as after the dialogue, or first, without the answer."""
    twins: bool = False
    """Whether two objects may have the same kind and colour, so that only their places tell them apart."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState(table.TaskState):
    """Objects and instruction of an episode."""

    stands: Array
    """(3, 3) m, initial positions of the objects."""
    looks: Array
    """(3) int32, kind and colour of each: KINDS x COLOURS."""
    three: Array
    """() bool, whether there is a third."""
    terse: Array
    """() bool, whether the instruction names the kind alone."""
    wording: Array
    """() int32, number of its template."""


class PickAmong(Tabletop):
    """Task: pick up the target, one of two or three objects. Randomised: their number, places, kinds and colours, and
    the instruction: the kind alone or with the colour, so that it fits one object or several.

    Success: the target at least 8 cm up. Failure: another one up there, which ends the episode.
    """

    config_type = PickAmongConfig
    config: PickAmongConfig
    timing = Timing(physics_dt=panda.CONTROL_DT / 2, substeps=2, episode_seconds=320 * panda.CONTROL_DT)
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 5.0}

    @property
    def drawn_boxes(self) -> tuple[Box, ...]:
        return AREA, HELD_AREA

    def declared_terms(self) -> tuple[Term, ...]:
        described = f"two or three things, at least {APART:g} m apart; which they are and what is said is drawn, too"
        return (Term("start", described, optional=False, ranges=AREA.ranges("start")),)

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """Three bodies, each with the visual geoms of a block and a can, of which each episode shows one."""
        for slot, name in enumerate(THINGS, 1):
            body = objects.free_body(spec, name, slot)
            side = objects.PUCK_SIDE
            objects.loose(body, type=objects.BOX, size=[side] * 3, mass=objects.PUCK_MASS, group=3)
            for part, shape in SHAPES.items():
                objects.looks(body, name=f"{name}_{part}", rgba=objects.WHITE, **shape)

    def draw(self, key: Array) -> ResetState[Any]:
        stand, look, count, say, word = jax.random.split(key, 5)
        stands, three = scattered(stand, AREA, 3, APART), jax.random.bernoulli(count)
        stands = stands.at[2].set(jnp.where(three, stands[2], jnp.asarray(AWAY)))
        start = self.begin(self.place(stands, stands[0].at[2].add(HELD)))
        state = TaskState(
            **vars(start.task_state),
            stands=stands,
            looks=jax.random.choice(look, LOOKS, (3,), replace=self.config.twins).astype(jnp.int32),
            three=three,
            terse=jax.random.bernoulli(say, TERSE),
            wording=jax.random.randint(word, (), 0, 3),
        )
        return dataclasses.replace(start, task_state=state)

    def place(self, start: Array, goal: Array) -> Placement:
        return Placement(goal, dict(zip(THINGS, start, strict=True)))

    def solved(self, world: World, state: table.TaskState) -> Array:
        del state
        return world["object1_pos"][2] > REST + LIFTED

    def outcome(self, world: World, state: table.TaskState) -> Outcome:
        """Success as `solved`; failure where another object is up."""
        solved = self.solved(world, state)
        wrong = jnp.maximum(world["object2_pos"][2], world["object3_pos"][2]) > REST + LIFTED
        return Outcome(success=solved, failure=wrong & ~solved)

    def progress(self, world: World, state: table.TaskState) -> Mapping[str, Array]:
        del state
        thing = world["object1_pos"]
        held = grasp(world, thing)
        lifted = both(held, share(thing[2], REST, REST + LIFTED))
        return {"reach": reach(world, thing, 0.01), "grasp": held, "lift": lifted}

    def script(self, seen: Seen) -> Aim:
        return fetch(seen, seen.object, then=Aim(carry(seen, seen.goal), CLOSE))

    @functools.cached_property
    def pictures(self) -> Pictures:
        return dataclasses.replace(super().pictures, geom_appearance=self._geom_appearance)

    def _geom_appearance(self, state: table.TaskState) -> Mapping[str, Array]:
        """The geoms of each object's kind in its colour; the others are invisible."""
        assert isinstance(state, TaskState)
        colours, shown = jnp.asarray(list(COLOURS.values())), jnp.array([True, True, state.three])
        found = {}
        for number, name in enumerate(THINGS):
            kind, colour = state.looks[number] // len(COLOURS), state.looks[number] % len(COLOURS)
            for part, shape in SHAPES.items():
                rgba = jnp.asarray(objects.STEEL) if part in LIDS else colours[colour]
                visible = shown[number] & (kind == KINDS.index("block" if part == "block" else "can"))
                rgba = rgba.at[3].set(jnp.where(visible, 1.0, 0.0))
                found[f"{name}_{part}"] = jnp.concatenate([*_placed(shape), rgba])
        return found

    @functools.cached_property
    def language(self) -> Language:  # pyright: ignore[reportIncompatibleVariableOverride]  # computed from the task
        texts = ("Pick up the thing that is meant.", "Take what you are told and hold it up.")
        return Language(texts, self._episode_instruction)

    def _episode_instruction(self, state: table.TaskState) -> Instruction:
        """The instruction in every template; clear ones for other objects; the dialogue; matches of every phrase."""
        assert isinstance(state, TaskState)
        seen, order = self.describe_objects(state)
        wanted = order.index(0) + 1
        meant, others = seen[wanted - 1], [sight for sight in seen if sight.mark != wanted]
        phrase, first = meant.noun if state.terse else meant.full, int(state.wording)
        said = [dialogue(seen, wanted, text) for text in instructions(phrase, first)]
        told = clarified(said) if self.config.telling is Telling.CLARIFIED else tuple(one.instruction for one in said)
        wrong = [text for other in others if other.full != meant.full for text in instructions(other.full, first)[:1]]
        fits = {phrase: sum(phrase in (sight.noun, sight.full) for sight in seen) for phrase in PHRASES}
        return Instruction(told, tuple(wrong), said[0], fits)

    def describe_objects(self, state: TaskState) -> tuple[tuple[ObjectDescription, ...], tuple[int, ...]]:
        """The objects at the start, marked 1, 2 ... from the left; and the index in `THINGS` of each mark."""
        there = range(3 if state.three else 2)
        order = tuple(sorted(there, key=lambda number: float(state.stands[number, 0])))
        seen = []
        for mark, number in enumerate(order, 1):
            kind, colour = divmod(int(state.looks[number]), len(COLOURS))
            noun, word = KINDS[kind], list(COLOURS)[colour]
            seen.append(ObjectDescription(mark, f"{word} {noun}", noun, word, float(state.stands[number, 0])))
        return tuple(seen), order

    def instructed_expert(self, env: Env, instructions: InstructionSource, seed: int = 0) -> InstructedExpert:
        """The script in environments of this task, towards what each instruction names; `seed` of its guesses."""
        return InstructedExpert(self, env, instructions, seed)


def referred(task: PickAmong, state: TaskState, text: str) -> tuple[int, ...]:
    """Indices of the objects that fit an instruction, and perhaps an answer after it.

    Args:
        task: Task of the episode.
        state: State of one environment, numpy arrays.
        text: One sentence, or two.

    Raises:
        EmbodiedError: it names no kind of object.
    """
    seen, order = task.describe_objects(state)
    instruction, _, answer = text.partition(". ")
    marks = referents(seen, instruction)
    settled = resolved(seen, instruction, answer) if answer.strip() else None
    return tuple(order[mark - 1] for mark in ((settled,) if settled else marks))


class InstructedExpert:
    """The script for what each instruction names; it guesses where that fits several objects.

    Observation groups of N environments to actions (N, 4). It shows what asking alone is worth, apart from how well a
    learned policy grasps.
    """

    def __init__(self, task: PickAmong, env: Env, instructions: InstructionSource, seed: int = 0) -> None:
        self.task, self.env, self.instructions = task, env, instructions
        self._random = np.random.default_rng(seed)
        self._chosen = np.zeros(env.num_envs, np.int32)
        self._act = jax.jit(jax.vmap(self._towards))

    def __call__(self, obs: Mapping[str, Tensor]) -> Tensor:
        """(N, 4) in [-1, 1]."""
        episode = self.env.episode
        rows = np.flatnonzero(np.asarray(episode.steps) == 0)
        if len(rows):
            state = jax.tree.map(np.asarray, episode.task_state)
            for row, text in zip(rows, self.instructions(torch.as_tensor(rows), obs), strict=True):
                own: Any = jax.tree.map(lambda leaf, row=row: leaf[row], state)
                self._chosen[row] = self._guess(referred(self.task, own, text))
        world, places = self.env.world(), range(1, 4)
        things = jnp.stack([world[f"object{place}_pos"] for place in places], 1)
        action = self._act(array_from_tensor(obs["policy"]), episode.task_state.stands, things, self._chosen)
        return tensor_from_array(action, self.env.device)

    def _guess(self, fitting: tuple[int, ...]) -> int:
        """One of them; where none fits, one that is certainly there."""
        return int(self._random.choice(fitting or (0, 1)))

    def _towards(self, policy: Array, stands: Array, things: Array, chosen: Array) -> Array:
        """The script's action, with the chosen object in place of the target."""
        goal = raised(stands[chosen], HELD)
        seen = dataclasses.replace(Seen.of(policy), object=things[chosen], goal=goal)
        return steer(seen, self.task.script(seen))


RADIUS = objects.PUCK_RADIUS
LID = {"type": objects.CYLINDER, "size": [0.65 * RADIUS, 0.001, 0]}
LIDS = {"lid": {**LID, "pos": [0, 0, RADIUS]}, "bottom": {**LID, "pos": [0, 0, -RADIUS]}}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "block": {"type": objects.BOX, "size": [RADIUS] * 3, "pos": [0, 0, 0]},
    "can": {"type": objects.CYLINDER, "size": [RADIUS, RADIUS, 0], "pos": [0, 0, 0]},
    **LIDS,
}
"""Part of an object -> its geom; a can has lids."""


def _placed(shape: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Size, position and quaternion in the form of `Pictures.geom_appearance`."""
    return np.array(shape["size"], np.float32), np.array(shape["pos"], np.float32), np.array([1.0, 0, 0, 0], np.float32)
