"""Learners of other libraries learn our tasks through the adapters."""

from typing import Any

import pytest


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 4 minutes on two idle cores
@pytest.mark.parametrize("library", ["rsl_rl", "skrl", "stable_baselines3", "torchrl"])
def test_hover_is_learned_to_90_percent(library: Any) -> None:
    pytest.importorskip(library, reason=f'{library} is not installed: pip install -e ".[adapters]"')
    from benchmarks.adapters.__main__ import Settings, measure

    assert float(measure(Settings(library))["success"]) >= 0.9
