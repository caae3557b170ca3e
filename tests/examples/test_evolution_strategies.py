"""The example of a third party's learner meets the contract of learners, and the training command takes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from embodied import list as listing
from embodied import train as command
from embodied.errors import EmbodiedError
from embodied.storage.runs import Run
from examples.evolution_strategies import ENTRY, ESConfig
from policies.policy import rebuild
from policies.registry import ALGORITHMS, AlgorithmEntry, find_algorithm, register
from policies.training.loop import Trainer, train
from tests.kit.commands import run
from tests.kit.learning import PointMass, assert_resumed_run_equals_whole, heading, success_of
from tests.kit.training import NUM_ENVS, SMALL
from tests.kit.training import hover_compiled as hover_compiled

SMALL_STEP = NUM_ENVS * 4
WORDS = (*SMALL, "--algorithm", "es", "--es.unroll", "4", "--evaluate-episodes", "0")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(ENTRY)
    yield
    del ALGORITHMS[ENTRY.name]


def test_it_is_listed_and_another_one_of_its_name_is_refused() -> None:
    register(ENTRY)  # again, as when content is joined twice
    assert find_algorithm("es").config_type is ESConfig
    assert "evolution strategies" in run(listing.main, "--learners").out
    with pytest.raises(EmbodiedError, match=r"'es' is registered twice: by .*evolution_strategies:ES and by other:ES"):
        register(AlgorithmEntry("es", "other:Config", "other:ES", "another"))
    with pytest.raises(EmbodiedError, match=r"'ppo' is registered twice"):
        register(AlgorithmEntry("ppo", "other:Config", "other:PPO", "another"))


def test_its_policy_gets_better_on_the_point_mass() -> None:
    before = Trainer(PointMass(64), ESConfig(), total_steps=1).policy
    trainer = train(PointMass(64), ESConfig(unroll=20, step=1.0), total_steps=64 * 20 * 20)
    assert heading(before) < 0.1
    assert heading(trainer.policy) > 0.9
    assert success_of(trainer.policy) > success_of(before)


def test_it_resumes_bit_for_bit_and_its_policy_is_rebuilt_from_numbers() -> None:
    whole = assert_resumed_run_equals_whole(lambda seed: PointMass(16, seed), ESConfig(unroll=4))
    obs = PointMass(8, 5).reset()
    action = whole.policy(obs)
    assert action.abs().sum() > 0
    assert torch.equal(rebuild(*whole.policy.to_tensors())(obs), action)


def test_it_starts_from_a_policy_of_its_kind() -> None:
    first = train(PointMass(16), ESConfig(), total_steps=16 * 32 * 4).policy
    again = Trainer(PointMass(16), ESConfig(), total_steps=1)
    again.algorithm.start_from(first)
    obs = PointMass(8, 5).reset()
    assert torch.equal(again.policy(obs), first(obs))


@pytest.mark.usefixtures("hover_compiled")
def test_the_command_trains_with_it_and_resumes(tmp_path: Path) -> None:
    def trained(name: str, steps: int) -> Run:
        assert command.main([*WORDS, "--out", str(tmp_path / name), "--steps", str(steps)]) == 0
        return Run.open(tmp_path / name)

    whole, half = trained("whole", 2 * SMALL_STEP), trained("half", SMALL_STEP)
    assert command.main(["--resume", str(half.path), "--steps", str(2 * SMALL_STEP)]) == 0
    first, second = (one.load().tensors for one in (whole, Run.open(half.path)))
    assert first.keys() == second.keys()
    assert not [key for key, tensor in first.items() if not torch.equal(tensor, second[key])]
