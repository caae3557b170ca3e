"""pick-among: what instructions fit is counted exactly, answers settle it, and only the thing that is meant counts."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from embodied.core.instruction import Dialogue
from embodied.core.world import World
from embodied.env.factory import make
from embodied.env.wrappers.instructions import default_instructions, dialogues_of, instructions_of, wrong_instructions
from embodied.errors import EmbodiedError
from policies.training.loading import load_policy
from policies.vla.asking import evaluate as command
from tasks.manipulation.common.draws import Box, scattered
from tasks.manipulation.instructed.dialogues import TEMPLATES, clarified, dialogue, instructions
from tasks.manipulation.instructed.pick_among import (
    APART,
    AREA,
    AWAY,
    COLOURS,
    KINDS,
    LIFTED,
    REST,
    THINGS,
    InstructedExpert,
    PickAmong,
    TaskState,
    Telling,
    referred,
)
from tasks.manipulation.instructed.pick_among import PickAmongConfig as Config
from tasks.questions.ambiguity import ObjectDescription, referents, resolved
from tests.kit.worlds import jitted, world

N = 75


@functools.cache
def drawn(twins: bool = False) -> tuple[PickAmong, list[Any]]:
    """A task, and the states of many starts."""
    task = PickAmong(Config(twins=twins))
    keys = jax.random.split(jax.random.PRNGKey(7), N)
    state = jax.tree.map(np.asarray, jax.jit(jax.vmap(task.draw))(keys).task_state)
    return task, [jax.tree.map(lambda leaf, row=row: leaf[row], state) for row in range(N)]


def dialogue_in(task: PickAmong, state: Any) -> Dialogue:
    """What may be said about it."""
    said = task.language.instruction(state).dialogue
    assert said is not None
    return said


def seen_in(task: PickAmong, state: Any) -> tuple[tuple[ObjectDescription, ...], int]:
    """What is there, and the mark of what is meant."""
    seen, order = task.describe_objects(state)
    return seen, order.index(0) + 1


@pytest.mark.parametrize("twins", [False, True])
def test_what_an_instruction_fits_is_what_a_count_over_the_things_says(twins: bool) -> None:
    task, states = drawn(twins)
    for state in states[:5]:
        seen, _ = task.describe_objects(state)
        phrases = [*KINDS, *(f"{colour} {kind}" for colour in COLOURS for kind in KINDS)]
        counted = task.language.instruction(state).matches
        assert set(counted) == set(phrases)
        for phrase, template in itertools.product(phrases, TEMPLATES):
            *colour, kind = phrase.split()
            fits = tuple(s.mark for s in seen if s.noun == kind and (not colour or s.colour == colour[0]))
            assert referents(seen, template.format(phrase)) == fits
            assert counted[phrase] == len(fits)


@pytest.mark.parametrize("twins", [False, True])
def test_a_question_is_asked_where_several_fit_and_its_answer_settles_it(twins: bool) -> None:
    task, states = drawn(twins)
    for state in states:
        seen, wanted = seen_in(task, state)
        said = dialogue_in(task, state)
        fits = referents(seen, said.instruction)
        assert wanted in fits
        assert said.ambiguous == (len(fits) > 1)
        if said.ambiguous:
            assert resolved(seen, said.instruction, said.answer) == wanted
        assert referred(task, state, said.full_instruction(asked=True)) == (0,)
        assert len(referred(task, state, said.instruction)) == len(fits)


def test_robots_are_told_the_dialogue_or_its_first_sentence_and_wrong_words_mean_another_thing() -> None:
    task, states = drawn()
    first = PickAmong(Config(telling=Telling.FIRST))
    for state in states[:50]:
        words, alone = task.language.instruction(state), first.language.instruction(state)
        said = dialogue_in(task, state)
        assert alone.paraphrases[0] == said.instruction
        assert words.paraphrases[0] == said.full_instruction(said.ambiguous)
        assert all(referred(task, state, told) == (0,) for told in words.paraphrases)
        assert len({told.split(".")[0] for told in words.paraphrases}) == len(TEMPLATES)
        assert words.wrong
        for text in words.wrong:
            (thing,) = referred(task, state, text)
            assert thing in (1, 2 if state.three else 1)


def test_draws() -> None:
    """Things are apart and of any looks alike; a third to a half of the instructions is unclear."""
    task, states = drawn()
    stands, looks = np.stack([m.stands for m in states]), np.stack([m.looks for m in states])
    three = np.array([m.three for m in states])
    for places, count in ((stands[three], 3), (stands[~three], 2)):
        for a, b in itertools.combinations(range(count), 2):
            assert np.linalg.norm(places[:, a] - places[:, b], axis=1).min() >= APART
        assert (places[:, :count] >= np.array(AREA.low, np.float32)).all()
        assert (places[:, :count] <= np.array(AREA.high, np.float32)).all()
    np.testing.assert_array_equal(stands[~three, 2], np.tile(np.array(AWAY, np.float32), (N - three.sum(), 1)))
    assert 0.35 < three.mean() < 0.65
    assert (np.diff(np.sort(looks), axis=1) > 0).all(), "no two look the same"
    assert len(np.unique(looks[:, 0])) == len(COLOURS) * len(KINDS)
    ambiguous = np.mean([dialogue_in(task, state).ambiguous for state in states])
    assert 0.28 < ambiguous < 0.48  # expected: two thirds of 4/7
    single = jitted(task.draw)(jax.random.split(jax.random.PRNGKey(7), N)[5]).task_state
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-6), states[5], single)


def test_positions_that_never_fit_stand_in_a_row() -> None:
    box = Box((0.0, 0.0, 0.0), (1.0, 0.5, 0.0))
    draw = jax.jit(jax.vmap(lambda key: scattered(key, box, 3, 0.5)))
    draws = np.asarray(draw(jax.random.split(jax.random.PRNGKey(0), 100)))
    rows = (np.asarray(draws) == np.array([[0, 0.25, 0], [0.5, 0.25, 0], [1, 0.25, 0]], np.float32)).all((1, 2))
    assert rows.any()
    gaps = [np.linalg.norm(draws[:, a] - draws[:, b], axis=1) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert np.min(gaps) >= 0.5 - 1e-6
    with pytest.raises(ValueError, match=r"apart=0.6 m: in a row, 3 positions are 0.5 m apart"):
        scattered(jax.random.PRNGKey(0), box, 3, 0.6)


def test_each_thing_shows_the_shapes_of_its_kind_in_its_colour() -> None:
    task, states = drawn()
    for state in states[:15]:
        looks = {name: np.asarray(row) for name, row in task.pictures.geom_appearance(state).items()}
        assert set(looks) <= {task.visual_model.geom(number).name for number in range(task.visual_model.ngeom)}
        for number, name in enumerate(THINGS):
            parts = {part: looks[f"{name}_{part}"][10:] for part in ("block", "can", "lid", "bottom")}
            visible = {part: rgba for part, rgba in parts.items() if rgba[3]}
            kind, colour = divmod(int(state.looks[number]), len(COLOURS))
            if number == 2 and not state.three:
                assert not visible
                continue
            assert set(visible) == ({"block"} if KINDS[kind] == "block" else {"can", "lid", "bottom"})
            np.testing.assert_allclose(visible[KINDS[kind]], list(COLOURS.values())[colour])
        plain = task.visual_model.geom("object_block")
        np.testing.assert_allclose(looks["object_block"][:6], [*plain.size, *plain.pos], atol=1e-6)


@pytest.mark.parametrize(("up", "success", "failure"), [(0, True, False), (1, False, True), (2, False, True)])
def test_only_the_thing_that_is_meant_counts(up: int, success: bool, failure: bool) -> None:
    task = drawn()[0]
    start = jitted(task.draw)(jax.random.PRNGKey(1))
    for height, counts in ((LIFTED + 0.01, True), (LIFTED - 0.01, False)):
        qpos = np.array(start.qpos)
        qpos[task.model.joint(THINGS[up]).qposadr[0] + 2] = REST + height
        outcome = jitted(task.outcome)(World.posed(task.model, qpos, start.qvel), start.task_state)
        assert (bool(outcome.success), bool(outcome.failure)) == (success and counts, failure and counts)


def test_impossible_instructions_are_refused() -> None:
    seen = (
        ObjectDescription(1, "red block", "block", "red", -0.1),
        ObjectDescription(2, "blue block", "block", "blue", 0.1),
    )
    for instruction, message in (
        ("Pick up the green block.", r"fits nothing, but blue block is meant; there are red block, blue block"),
        ("Pick up the red block.", r"fits red block, but blue block is meant"),
        ("Pick up the dance.", "names no object"),
        ("", "0 characters; expected words"),
        ("block " * 2000, "expected words, up to 1000"),
    ):
        with pytest.raises(EmbodiedError, match=message):
            dialogue(seen, 2, instruction)
    with pytest.raises(EmbodiedError, match="0 characters; expected words"):
        resolved(seen, "Pick up the block.", "")
    said = [dialogue(seen, 2, text) for text in instructions("block", 1)]
    assert said[0] == Dialogue(
        "Lift the block off the table.", "Which block do you mean: the red one or the blue one?", "The blue one."
    )
    assert clarified(said)[2] == "Pick up the block. The blue one."
    clear = dialogue(seen, 1, "Pick up the red block.")
    assert (clear.question, clarified([clear])) == (
        None, ("Pick up the red block.", "Pick up the red block. The red block.")
    )  # fmt: skip


# In the simulator.


@pytest.fixture(scope="module")
def env() -> Any:
    return world("manipulation/pick-among", "mujoco", 12)


def run(env: Any, rule: Any, steps: int = 150) -> tuple[torch.Tensor, torch.Tensor]:
    """Which episodes succeed, and which fail, first."""
    obs, solved, failed = env.reset(3), torch.zeros(12, dtype=torch.bool), torch.zeros(12, dtype=torch.bool)
    for _ in range(steps):
        step = env.step(rule(obs))
        obs, solved = step.obs, solved | (step.success & ~failed)
        failed |= step.terminated & ~solved
        if (solved | failed).all():
            break
    return solved, failed


def test_the_script_picks_up_what_is_meant_and_so_does_who_hears_all_of_it(env: Any) -> None:
    for rule in (load_policy("expert", env), InstructedExpert(env.task, env, default_instructions(env))):
        solved, failed = run(env, rule)
        assert solved.all()
        assert not failed.any()


def test_who_is_told_wrong_fails_and_who_hears_the_first_sentence_alone_may(env: Any) -> None:
    solved, failed = run(env, InstructedExpert(env.task, env, wrong_instructions(env)))
    assert failed.all()
    assert not solved.any()
    env.reset(3)
    unclear = torch.tensor([said.ambiguous for said in dialogues_of(env)])
    assert unclear.any()
    assert not unclear.all()
    first = lambda rows, obs: [said.instruction for said in dialogues_of(env, rows.tolist())]  # noqa: E731
    solved, failed = run(env, InstructedExpert(env.task, env, first))
    assert solved[~unclear].all()
    assert (solved ^ failed).all()


@pytest.mark.slow
def test_the_command_compares_who_asks_from_the_same_starts(tmp_path: Path) -> None:
    words = ["manipulation/pick-among", "--episodes", "24", "--json", str(tmp_path / "asking.json"), "--seed", "3"]
    assert command.main(words) == 0
    never, always, oracle, wrong = json.loads((tmp_path / "asking.json").read_text())["results"]
    assert [row["by"] for row in (never, always, oracle, wrong)] == ["never", "always", "oracle", command.WRONG]
    assert never["ambiguous"] == always["ambiguous"] == oracle["ambiguous"] > 0
    assert never["asked"] == 0 < oracle["asked"] == oracle["ambiguous"] < always["asked"] == 1
    assert oracle["success_any"] == always["success_any"] == never["success_any_when_clear"] == 1
    assert never["success_any_when_ambiguous"] < 1
    assert never["wrong_object"] == pytest.approx(1 - never["success_any"])
    assert (wrong["success_any"], wrong["wrong_object"]) == (0, 1)


def test_words_are_each_environments_own(env: Any) -> None:
    env.reset(3)
    everyone = instructions_of(env)
    assert instructions_of(env, [3, 5]) == [everyone[3], everyone[5]]
    assert len({words.paraphrases[0] for words in everyone}) > 6
    state = env.task_state
    alone = jax.tree.map(lambda leaf: np.asarray(leaf)[3], state)
    assert env.task.language.instruction(alone) == everyone[3]
    one = make("manipulation/pick-among", num_envs=1, engine="mujoco", device="cpu")
    one.reset(3)
    assert instructions_of(one) == everyone[:1]
    assert isinstance(state, TaskState)
    assert jnp.shape(state.stands) == (12, 3, 3)
