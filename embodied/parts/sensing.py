"""Errors of sensors: noise on every reading, and joint encoders that are off by a constant."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from embodied.core.randomization import Range, Term, require_ranges
from embodied.math.sampling import between


@dataclasses.dataclass(frozen=True)
class ObservationNoise:
    """Uniform noise on observed terms, drawn at every step."""

    half_widths: Mapping[str, float]
    """Observed term -> the largest error, in the term's unit; a term that is not named has none."""
    name: str = "observation_noise"
    """Of the variation."""
    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Observed term -> its unit, for the listing."""

    def term(self) -> Term:
        """The variation that a task declares."""
        units = {name: self.units.get(name, "of the term") for name in self.half_widths}
        ranges = tuple(Range.spread(name, size, units[name]) for name, size in self.half_widths.items())
        why = "" if ranges else "no term is given noise"
        return Term(self.name, "noise on readings, new at every step", ranges=ranges, no_range=why)

    def add(self, readings: Mapping[str, Array], key: Array, varied: frozenset[str]) -> dict[str, Array]:
        """The readings with noise, for `observe`, which gives its key; without where the task does not vary it."""
        ends = np.cumsum([value.size for value in readings.values()])
        drawn = jnp.split(2 * jax.random.uniform(key, (ends[-1],)) - 1, ends[:-1])
        return {
            name: value + self.half_widths.get(name, 0.0) * z.reshape(value.shape) * (self.name in varied)
            for (name, value), z in zip(readings.items(), drawn, strict=True)
        }


@dataclasses.dataclass(frozen=True)
class EncoderBias:
    """The range of joint encoders' constant errors, which the task keeps in the field `encoder_bias` of its state."""

    low: float = -0.02
    """rad or m."""
    high: float = 0.02
    """rad or m."""
    name: str = "encoder_bias"
    """Of the variation, and of the field."""
    unit: str = "rad or m"
    """Of the range, for the listing."""

    def __post_init__(self) -> None:
        require_ranges("EncoderBias", {self.name: (self.low, self.high)})

    def term(self) -> Term:
        """The variation that a task declares."""
        ranges = (Range("error", self.low, self.high, self.unit),)
        return Term(self.name, "error of each joint encoder", state_field=self.name, ranges=ranges)

    def draw(self, key: Array, joints: int, varied: frozenset[str]) -> Array:
        """(joints,) for an episode; zeros where the task does not vary it."""
        return self.drawn(jax.random.uniform(key, (joints,)), varied)

    def drawn(self, uniform: Array, varied: frozenset[str]) -> Array:
        """The same from numbers (joints,) in [0, 1) that the task drew."""
        return between((self.low, self.high), uniform) * (self.name in varied)
