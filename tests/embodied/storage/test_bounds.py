"""Bounds that settings declare with their types: checked, inherited, and said by the complete help."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import pytest

from embodied.cli.flags import flags_of
from embodied.storage.bounds import BELOW_ONE, FRACTION, NOT_NEGATIVE, OPEN_RANGE, POSITIVE, Bounded, at_least


@dataclasses.dataclass(frozen=True)
class Weights:
    near: float = 1.0
    each: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    count: Annotated[int, at_least(2)] = 2
    rate: Annotated[float | None, POSITIVE] = None
    share: Annotated[float, FRACTION] = 0.5
    rest: Annotated[float, BELOW_ONE] = 0.0
    weight: Annotated[float, NOT_NEGATIVE] = 0.0
    free: float = -1.0
    pair: tuple[float, float] = (0.0, 1.0)
    open: Annotated[tuple[float, float], OPEN_RANGE] = (0.0, math.inf)
    weights: Weights = dataclasses.field(default_factory=Weights)


@dataclasses.dataclass(frozen=True)
class Derived(Settings):
    count: int = 3
    more: Annotated[int, at_least(1)] = 1


@pytest.mark.parametrize("kind", [Settings, Derived])
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 1, "count=1 must be at least 2"),
        ("rate", 0.0, "rate=0.0 must be positive"),
        ("share", 1.5, "share=1.5 must be between 0 and 1"),
        ("rest", 1.0, "rest=1.0 must be 0 or more and less than 1"),
        ("weight", -0.5, "weight=-0.5 must be 0 or more"),
        ("weight", math.inf, "weight=inf must be finite"),
        ("free", math.nan, "free=nan must be finite"),
        ("open", (0.0, math.nan), r"open=\(0.0, nan\) must be two numbers, the smaller first; inf for no end"),
        ("open", (1.0, -math.inf), r"open=\(1.0, -inf\) must be two numbers, the smaller first; inf for no end"),
        ("free", 1e300, r"free=1e\+300 must be finite"),
        ("weights", Weights(near=math.inf), "weights.near=inf must be finite"),
        ("weights", Weights(each=(0.0, -math.inf)), "weights.each=-inf must be finite"),
        ("pair", (0.0, math.inf), r"pair=\(0.0, inf\) must be finite"),
    ],
)
def test_a_value_out_of_bounds_is_refused_also_where_a_field_is_declared_again(
    kind: Any, name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=f"^{expected}$"):
        kind(**{name: value})


def test_values_within_bounds_are_taken() -> None:
    found = Derived(count=2, rate=1e-9, share=1.0, rest=0.0, weight=0.0, free=-5.0, more=1)
    assert (found.count, found.share) == (2, 1.0)
    assert Settings().rate is None
    with pytest.raises(ValueError, match="more=0 must be at least 1"):
        Derived(more=0)


def test_flags_know_their_bounds() -> None:
    bounds = {flag.names[0]: flag.bound for flag in flags_of(Derived, Derived())}
    assert bounds["--count"] == "at least 2"
    assert bounds["--rate"] == "positive"
    assert bounds["--free"] == ""
