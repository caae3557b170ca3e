"""What only a GPU shows: `pytest -m gpu tests/gpu`. The checks are those of `python -m embodied.doctor --gpu`."""

from __future__ import annotations

import pytest

from embodied.doctor import examination

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


@pytest.mark.parametrize("check", examination.CHECKS, ids=lambda check: check.name)
def test_check(check: examination.Check) -> None:
    try:
        assert check.run(examination.FULL)
    except examination.NotHereError as error:
        pytest.skip(str(error))
