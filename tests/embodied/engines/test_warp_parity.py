"""MJX-Warp on the CPU against C MuJoCo, for every task that it runs; quick tests do so on toys: `test_promises.py`."""

from __future__ import annotations

import pytest

from benchmarks.warp_parity import compared
from embodied.env.registry import join_content

pytestmark = pytest.mark.timeout(290)

FIRST_STEP = 1e-3  # m or rad after one control step with contacts; rounding alone gives some 1e-6
CAUGHT = 5e-3  # the same of an object that strikes a hand, whose impacts amplify rounding within the step
ROUGH = 0.05  # the same on height fields, whose contacts Warp finds by another method than C MuJoCo
NAMES = [name for name in join_content() if "mjx" in join_content()[name].engines]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_step_is_that_of_c_mujoco(name: str) -> None:
    row = compared(name, 2, 2)
    assert "why" not in row, row["why"]
    struck = name.endswith(("-catch", "-hand-over"))
    assert row["first_step"] < (ROUGH if name.endswith("-rough") else CAUGHT if struck else FIRST_STEP)
