"""Policies of several tasks are told theirs by a number or by words; what words say is the same everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import embodied
from embodied.core.instruction import SENTENCE, sentence_vector
from embodied.env.options import EnvOptions
from embodied.env.registry import TaskEncoding
from embodied.env.suites import JoinedEnv
from embodied.env.wrappers.task_encoding import of_rows, one_hot, spoken, varied
from embodied.errors import EmbodiedError
from embodied.evaluation.suites import build_suite, find_suite, told_of
from embodied.storage import checkpoints
from policies.networks.mlp import GaussianActor, NetworkConfig
from policies.policy import NormalizedActor, Policy
from policies.training.loading import load_policy, suite_policies
from tests.kit.learning import PointMass

OBSERVED = 39


def test_a_sentence_is_near_what_shares_its_words_and_the_same_in_every_process() -> None:
    drawer, again = sentence_vector("Open the drawer."), sentence_vector("  open THE drawer ")
    np.testing.assert_array_equal(drawer, again)
    assert drawer.shape == (SENTENCE,)
    assert np.mean(drawer**2) == pytest.approx(1.0, abs=1e-5)
    near, far = sentence_vector("Open up the drawers!"), sentence_vector("Insert a peg sideways.")
    assert drawer @ near > 2 * abs(drawer @ far)
    np.testing.assert_allclose(drawer[:3], [-0.5744, -0.9956, -0.1723], atol=1e-4)
    with pytest.raises(EmbodiedError, match="says nothing"):
        sentence_vector("...")


def test_codes_are_taken_in_turn() -> None:
    codes = spoken(["Close it.", "Shut it."])
    rows = of_rows(codes, 5)
    assert torch.equal(rows[0], rows[2])
    assert torch.equal(rows[1], codes[1])
    assert one_hot(1, 3).tolist() == [[0.0, 1.0, 0.0]]


def test_variants_lie_among_the_sentences_they_are_made_of() -> None:
    suite = find_suite("mt10")
    codes = {task: varied(suite.instructions(task), 40, 0) for task in suite.tasks}
    door, drawer = codes["manipulation/door-open"], codes["manipulation/drawer-close"]
    assert torch.equal(door, varied(suite.instructions("manipulation/door-open"), 40, 0))
    assert torch.equal(door[:9], spoken(suite.instructions("manipulation/door-open")))
    torch.testing.assert_close(door.square().mean(1), torch.ones(40))
    nearer = door @ door[:9].mean(0) > door @ drawer[:9].mean(0)
    assert nearer.float().mean() > 0.8
    assert len(torch.unique(door, dim=0)) > 35
    assert torch.equal(varied(["Close it.", "Shut it."], 1, 0), spoken(["Close it."]))


def test_what_is_held_out_is_said_by_no_other_sentence_and_made_of_known_words() -> None:
    suite = find_suite("mt10")
    assert set(suite.held_out_paraphrases) == set(suite.tasks) == set(suite.paraphrases)
    known = [text for task in suite.tasks for text in suite.instructions(task)]
    unheard = [text for texts in suite.held_out_paraphrases.values() for text in texts]
    assert len({*known, *unheard}) == len(known) + len(unheard)
    words = set(itertools.chain.from_iterable(text.lower().strip(".:").split() for text in known))
    strange = {word for text in unheard for word in text.lower().strip(".:").split()} - words
    assert len(strange) <= 6, strange
    assert not find_suite("ml10").paraphrases


def test_each_row_of_a_suite_hears_one_of_its_task_s_sentences() -> None:
    suite, rows = find_suite("mt10"), 3
    told = told_of(suite, TaskEncoding.WORDS)
    assert list(told) == list(suite.tasks)
    envs = {task: PointMass(rows) for task in suite.tasks[:2]}
    env = JoinedEnv(envs, told={task: told[task] for task in envs})
    heard = env.reset()["policy"][:, 2:]
    assert torch.equal(heard, torch.cat([spoken(suite.instructions(task)[:rows]) for task in envs]))
    with pytest.raises(
        EmbodiedError, match="ml10 tells no policy which task it is in, by words neither; expected mt10"
    ):
        build_suite(EnvOptions("ml10", 10), TaskEncoding.WORDS)


def test_a_policy_by_words_is_told_what_the_command_says(tmp_path) -> None:
    """A policy that repeats what it is told, in four numbers."""
    size, config = OBSERVED + SENTENCE, NetworkConfig((8,))
    actor = GaussianActor(size, 4, config, 1.0, torch.Generator().manual_seed(0))
    described, tensors = Policy(NormalizedActor(actor, torch.zeros(size), torch.ones(size), 10.0), config).to_tensors()
    meta = {"policy": described, "task": "mt10", "identities": list(find_suite("mt10").tasks), "task_encoding": "words"}
    path = checkpoints.save(tmp_path, 1, {f"policy/{name}": tensor for name, tensor in tensors.items()}, meta)
    env = embodied.make("manipulation/reach", 3, seed=0)
    obs = {"policy": torch.randn(3, OBSERVED, generator=torch.Generator().manual_seed(1))}
    own = load_policy(path, env)(obs)
    assert env.task.language is not None
    assert torch.equal(load_policy(path, env, instruction=env.task.language.instructions[0])(obs), own)
    others = [
        load_policy(path, env, wrong_instruction=True)(obs),
        load_policy(path, env, held_out_instruction=True)(obs),
        load_policy(path, env, instruction="Close the drawer.")(obs),
    ]
    assert all(not torch.allclose(other, own, atol=1e-4) for other in others)
    held_out = suite_policies(find_suite("mt10"), str(path), held_out_instruction=True)(env)
    assert torch.equal(held_out(obs), others[1])
    with pytest.raises(EmbodiedError, match="the shipped policy is not told what to do in words"):
        load_policy("shipped", env, held_out_instruction=True)
    stranger = embodied.make("manipulation/hammer", 1)
    with pytest.raises(EmbodiedError, match=r"mt10 holds no instruction of manipulation/hammer out from training"):
        load_policy(path, stranger, held_out_instruction=True)
