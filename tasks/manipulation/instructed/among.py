"""pick-among: two or three things on a table, of which the instruction names one or fits several."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.core.instruction import Instruction
from embodied.core.task import Timing
from embodied.core.world import Outcome, ResetState, World
from embodied.env.dialogue import Tell
from tasks.manipulation.common import objects, panda
from tasks.manipulation.common import tabletop as table
from tasks.manipulation.common.draws import Box, scattered
from tasks.manipulation.common.rewards import both, grasp, reach, share
from tasks.manipulation.common.skills import CLOSE, Aim, Seen, carry, fetch
from tasks.manipulation.common.tabletop import Placement, Tabletop, TabletopConfig
from tasks.manipulation.instructed.dialogues import dialogue, heard, instructions
from tasks.questions.ambiguity import Sight

if TYPE_CHECKING:
    from embodied.env.env import Env
    from policies.training.loading import ActionRule

REST = 0.02  # m, height of a thing's middle on the table
LIFTED = 0.08  # m above that, at which a thing counts as picked up
HELD = 0.12  # m above that, where the script holds it
AREA = Box((-0.13, 0.57, REST), (0.13, 0.77, REST))  # m, where things stand, in view of the two cameras
APART = 0.11  # m between two things: an open finger's outside is 6.5 cm from the tcp, and half a thing 2 cm wide
AWAY = (0.0, 3.0, REST)  # m, where the third thing is, unseen, when there are two
THINGS = ("object", "other", "third")
"""Bodies. The first is the one that is meant, whatever it looks like: so it is any of them alike."""
TERSE = 2 / 3  # of the instructions name the kind alone; of those 4 in 7 fit several things

COLOURS = {"red": objects.RED, "green": objects.GREEN, "blue": objects.BLUE, "yellow": objects.YELLOW}
"""Colour word -> RGBA."""
KINDS = ("block", "can")
"""Both collide as the same box; a can is round, with lids of steel."""
LOOKS = len(COLOURS) * len(KINDS)
PHRASES = (*KINDS, *(f"{colour} {kind}" for kind in KINDS for colour in COLOURS))


class Telling(StrEnum):
    """How much of the dialogue a robot is told that does not ask by itself."""

    CLARIFIED = "clarified"
    """The instruction, and the user's answer where it fits several things."""
    FIRST = "first"
    """The instruction alone."""


@dataclasses.dataclass(frozen=True)
class PickAmongConfig(TabletopConfig):
    """Options of pick-among."""

    telling: Telling = Telling.CLARIFIED
    """What a policy is told that does not ask: clarified, as after the dialogue, or first, the instruction alone."""
    twins: bool = False
    """Whether two things may have the same kind and colour, so that only their places tell them apart."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TaskState(table.TaskState):
    """What an episode carries along."""

    stands: Array
    """(3, 3) m, where the things stand at the start."""
    looks: Array
    """(3) int32, kind and colour of each: KINDS x COLOURS."""
    three: Array
    """() bool, whether the third is there."""
    terse: Array
    """() bool, whether the instruction names the kind alone."""
    wording: Array
    """() int32, of its template."""


class PickAmong(Tabletop):
    """Task: pick up the thing that is meant, of two or three. Randomised: their number, places, kinds and colours, and
    what the user says: the kind alone or with the colour, so that it fits one or several.

    Success: the thing that is meant at least 8 cm up. Failure: another one up there, which ends the episode.
    """

    config_type = PickAmongConfig
    config: PickAmongConfig
    timing = Timing(physics_dt=panda.CONTROL_DT / 2, substeps=2, episode_seconds=320 * panda.CONTROL_DT)
    stages: ClassVar[Mapping[str, float]] = {"reach": 1.0, "grasp": 1.0, "lift": 5.0}
    instruction_varies = True
    instruction = ("Pick up the thing that is meant.", "Take what you are told and hold it up.")

    def furnish(self, spec: mujoco.MjSpec) -> None:
        """Three bodies, each a block and a can to look at, of which `looks` shows one."""
        for slot, name in enumerate(THINGS, 1):
            body = objects.free_body(spec, name, slot)
            side = objects.PUCK_SIDE
            objects.loose(body, type=objects.BOX, size=[side] * 3, mass=objects.PUCK_MASS, group=3)
            for part, shape in SHAPES.items():
                objects.looks(body, name=f"{name}_{part}", rgba=objects.WHITE, **shape)

    def draw(self, key: Array) -> ResetState[Any]:
        """Everything that an episode draws."""
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
        """Things where they were drawn, (3, 3) m."""
        return Placement(goal, dict(zip(THINGS, start, strict=True)))

    def solved(self, world: World, state: table.TaskState) -> Array:
        """The thing that is meant is up."""
        del state
        return world["object1_pos"][2] > REST + LIFTED

    def outcome(self, world: World, state: table.TaskState) -> Outcome:
        """Success as `solved`; failure where another thing is up."""
        solved = self.solved(world, state)
        wrong = jnp.maximum(world["object2_pos"][2], world["object3_pos"][2]) > REST + LIFTED
        return Outcome(success=solved, failure=wrong & ~solved)

    def progress(self, world: World, state: table.TaskState) -> Mapping[str, Array]:
        """The hand at the thing; the thing held; how high it is while so."""
        del state
        thing = world["object1_pos"]
        held = grasp(world, thing)
        lifted = both(held, share(thing[2], REST, REST + LIFTED))
        return {"reach": reach(world, thing, 0.01), "grasp": held, "lift": lifted}

    def script(self, seen: Seen) -> Aim:
        """Fetch it, and hold it up."""
        return fetch(seen, seen.object, then=Aim(carry(seen, seen.goal), CLOSE))

    def geom_appearance(self, state: TaskState) -> Mapping[str, Array]:
        """Of each thing, the shapes of its kind in its colour; the others are invisible."""
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

    def episode_instruction(self, state: TaskState) -> Instruction:
        """The instruction in every template; a clear one for another thing; the dialogue; what fits how many."""
        seen, order = self.sights(state)
        wanted = order.index(0) + 1
        meant, others = seen[wanted - 1], [sight for sight in seen if sight.mark != wanted]
        phrase, first = meant.noun if state.terse else meant.full, int(state.wording)
        said = [dialogue(seen, wanted, text) for text in instructions(phrase, first)]
        told = heard(said) if self.config.telling is Telling.CLARIFIED else tuple(one.instruction for one in said)
        wrong = [text for other in others if other.full != meant.full for text in instructions(other.full, first)[:1]]
        fits = {phrase: sum(phrase in (sight.noun, sight.full) for sight in seen) for phrase in PHRASES}
        return Instruction(told, tuple(wrong), said[0], fits)

    def sights(self, state: TaskState) -> tuple[tuple[Sight, ...], tuple[int, ...]]:
        """What stands there at the start, marked 1, 2 ... from the left; and which of `THINGS` bears each mark."""
        there = range(3 if state.three else 2)
        order = tuple(sorted(there, key=lambda number: float(state.stands[number, 0])))
        seen = []
        for mark, number in enumerate(order, 1):
            kind, colour = divmod(int(state.looks[number]), len(COLOURS))
            noun, word = KINDS[kind], list(COLOURS)[colour]
            seen.append(Sight(mark, f"{word} {noun}", noun, word, float(state.stands[number, 0])))
        return tuple(seen), order

    def listener(self, env: Env, tell: Tell, seed: int = 0) -> ActionRule:
        """The script, which takes what it has heard of: see `tasks.manipulation.instructed.listening`."""
        from tasks.manipulation.instructed.listening import Listener

        return Listener(env, tell, seed)


RADIUS = objects.PUCK_RADIUS
LID = {"type": objects.CYLINDER, "size": [0.65 * RADIUS, 0.001, 0]}
LIDS = {"lid": {**LID, "pos": [0, 0, RADIUS]}, "bottom": {**LID, "pos": [0, 0, -RADIUS]}}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "block": {"type": objects.BOX, "size": [RADIUS] * 3, "pos": [0, 0, 0]},
    "can": {"type": objects.CYLINDER, "size": [RADIUS, RADIUS, 0], "pos": [0, 0, 0]},
    **LIDS,
}
"""Part of a thing -> what it looks like; a can has lids."""


def _placed(shape: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
    """Size, position and quaternion as `Task.geom_appearance` wants them."""
    return np.array(shape["size"], np.float32), np.array(shape["pos"], np.float32), np.array([1.0, 0, 0, 0], np.float32)
