"""Tasks and suites by name, and parts of them."""

import pytest

from embodied.errors import EmbodiedError
from policies.vla.trials import restricted, suite_of


def test_several_names_are_one_suite_and_a_part_of_it_another():
    suite = suite_of("manipulation/reach", "mt10")
    assert suite.tasks == ("manipulation/reach", *(t for t in suite_of("mt10").tasks if t != "manipulation/reach"))
    assert restricted(suite, ()) is suite
    assert restricted(suite, ("manipulation/push", "manipulation/reach")).tasks == (
        "manipulation/reach", "manipulation/push",
    )  # fmt: skip
    with pytest.raises(EmbodiedError, match="none of toy/a is a task of 'mt10', which has manipulation/"):
        restricted(suite_of("mt10"), ("toy/a",))
