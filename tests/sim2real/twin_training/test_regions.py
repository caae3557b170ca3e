"""Regions of initial states, by conditions on the numbers in which they differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from embodied.env.registry import join_content
from embodied.errors import EmbodiedError
from sim2real.failures.failure_map import Features
from sim2real.twin_training.regions import inside, split
from tests.kit.task_file import mass

FEATURES = Features(("qpos.x", "goal.0"), np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]]))


def test_all_conditions_hold_inside() -> None:
    assert inside(FEATURES, ["qpos.x<1.5"]).tolist() == [True, True, False]
    assert inside(FEATURES, ["qpos.x < 1.5", "goal.0>1"]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("qpos.y<1", r"--region 'qpos.y<1': expected NAME<VALUE or NAME>VALUE of 'qpos.x', 'goal.0'|qpos.x"),
        ("qpos.x=1", "expected NAME<VALUE or NAME>VALUE"),
        ("qpos.x<left", "'left' is no number"),
    ],
)
def test_a_wrong_condition_is_one_line(condition: str, message: str) -> None:
    with pytest.raises(EmbodiedError, match=message):
        inside(FEATURES, [condition])


def test_a_task_is_split_by_what_it_draws(tmp_path: Path) -> None:
    task = join_content()[mass(tmp_path)].load()()
    found = split(task, ["task_state.goal<0"], 0, 64)
    assert len(found.drawn) == 64
    assert (np.asarray(found.inside.reset_states.task_state.goal) < 0).all()
    assert found.halves.weights[found.within].sum() == pytest.approx(found.halves.weights[~found.within].sum())
    first = found.first_within(["task_state.goal<0"], 5, 200)
    assert 0.35 < first.mean() < 0.65
    with pytest.raises(EmbodiedError, match="64 of 64 initial states lie in it; expected some in it and some out"):
        split(task, ["task_state.goal<9"], 0, 64)
