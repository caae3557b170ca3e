"""Which episodes are learned from: the first of each task, in the dataset's order, always the same."""

import pytest

from embodied.errors import EmbodiedError, UnknownNameError
from policies.vla.data.selection import Selection
from policies.vla.fine_tuning.trials import suite_of, within
from tests.policies.vla.shown import episode

ROWS = [
    episode(number, length=1, task=task, success=success)
    for number, (task, success) in enumerate(
        [("toy/a", False), ("toy/b", True), ("toy/a", True), ("toy/c", False), ("toy/a", True), ("toy/b", True)]
    )
]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (Selection(failures=True), (0, 1, 2, 3, 4, 5)),
        (Selection(), (1, 2, 4, 5)),
        (Selection(("toy/b", "toy/a"), 1), (1, 2)),
        (Selection(("toy/a",), 2), (2, 4)),
        (Selection(per_task=1, failures=True), (0, 1, 3)),
    ],
)
def test_the_first_of_each_task_in_their_order(chosen, expected):
    assert chosen.of(ROWS) == expected


def test_messages():
    with pytest.raises(UnknownNameError, match="unknown task among the demonstrations 'toy/d'"):
        Selection(("toy/d",)).of(ROWS)
    with pytest.raises(EmbodiedError, match="'toy/a' has 2 successful episodes; 3 of each task were asked for"):
        Selection(("toy/a", "toy/b"), 3).of(ROWS)
    with pytest.raises(EmbodiedError, match="none of 1 demonstrated episodes succeeded; there is nothing to learn"):
        Selection().of(ROWS[:1])


def test_several_names_are_one_suite_and_a_part_of_it_another():
    suite = suite_of("manipulation/reach", "mt10")
    assert suite.tasks == ("manipulation/reach", *(t for t in suite_of("mt10").tasks if t != "manipulation/reach"))
    assert within(suite, ()) is suite
    assert within(suite, ("manipulation/push", "manipulation/reach")).tasks == (
        "manipulation/reach", "manipulation/push",
    )  # fmt: skip
    with pytest.raises(EmbodiedError, match="none of toy/a is a task of 'mt10', which has manipulation/"):
        within(suite_of("mt10"), ("toy/a",))
