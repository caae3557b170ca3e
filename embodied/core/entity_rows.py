"""The observation of an agent among others: what it knows of itself, then one row for each thing around it.

A task for many agents gives each of them a vector that begins with numbers of its own (`own` of them, as many as the
task likes) and goes on with rows of `WIDTH` numbers: team-mates, obstacles, targets, in any order. Rows of zeros stand
for nothing, so the number of rows need not be the number of things. A network for such observations
(`policies.networks.structured.entity_attention`) takes any number of rows, so a policy trained among eight flies among
a thousand. Features after the graphs of InforMARL (Nayak et al., "Scalable multi-agent reinforcement learning through
intelligent information aggregation", ICML 2023): relative position and velocity, and the kind of the entity.
"""

from __future__ import annotations

import itertools
from enum import StrEnum

import jax.numpy as jnp
from jax import Array

from embodied.core.body_rows import Feature
from embodied.math.tracing import traced_once


class Kind(StrEnum):
    """Kind of an entity, as its observer sees it."""

    TEAMMATE = "teammate"
    OBSTACLE = "obstacle"
    TARGET = "target"


FEATURES = (
    Feature("present", 1, 1.0),  # 1; 0 where there is nothing
    Feature("kind", len(Kind), 1.0),  # one of them is 1
    Feature("offset", 3, 1.0),  # m, from the agent to the entity, in the frame of the agent's observation
    Feature("velocity", 3, 0.5),  # m/s, of the entity relative to the agent
    Feature("closeness", 1, 1.0),  # 1 where the two touch, 0 far away: exp(-gap / m)
    Feature("size", 1, 1.0),  # m, radius of the entity
    Feature("passing", 3, 1.0),  # m, the offset when the two come nearest within `FORESIGHT`, if both go on as they do
    Feature("threat", 1, 1.0),  # 1 where they will touch then, 0 where they miss by far: exp(-gap / 0.2 m)
)
"""Features of a row. One layer cannot form `passing` and `threat`, which are products of offset and velocity: without
them, and a cost of meeting within half a second, formations collided however long they trained."""

WIDTH = sum(feature.size for feature in FEATURES)
"""Length of a row."""

_ENDS = list(itertools.accumulate(feature.size for feature in FEATURES))
COLUMNS = {feature.name: slice(end - feature.size, end) for feature, end in zip(FEATURES, _ENDS, strict=True)}
"""Feature -> its columns in a row."""

FORESIGHT = 1.0  # s; what comes nearest later is not yet a threat
MISS = 0.2  # m


@traced_once("kind")
def entity_rows(kind: Kind, offset: Array, velocity: Array, size: Array | float, present: Array) -> Array:
    """Rows (..., WIDTH) of entities of one kind.

    Args:
        kind: Their kind.
        offset: (..., 3) m from the agent.
        velocity: (..., 3) m/s relative to the agent.
        size: (...) m, radius.
        present: (...) bool; the others become zeros.
    """
    shape = present.shape
    sizes = jnp.broadcast_to(jnp.asarray(size, jnp.float32), shape)
    gap = jnp.maximum(jnp.sqrt(jnp.sum(offset**2, -1) + 1e-12) - sizes, 0.0)
    which = jnp.broadcast_to(jnp.array([float(kind is other) for other in Kind]), (*shape, len(Kind)))
    nearest = passing(offset, velocity, FORESIGHT)
    miss = jnp.maximum(jnp.sqrt(jnp.sum(nearest**2, -1) + 1e-12) - sizes, 0.0)
    row = [jnp.ones((*shape, 1)), which, offset, velocity, jnp.exp(-gap)[..., None], sizes[..., None], nearest,
           jnp.exp(-miss / MISS)[..., None]]  # fmt: skip
    return jnp.where(present[..., None], jnp.concatenate(row, -1), 0.0)


def passing(offset: Array, velocity: Array, within: float) -> Array:
    """(..., 3) m, nearest position, `within` so many s, of something at (..., 3) m that moves by (..., 3) m/s."""
    soonest = -jnp.sum(offset * velocity, -1) / (jnp.sum(velocity**2, -1) + 1e-6)
    return offset + velocity * jnp.clip(soonest, 0.0, within)[..., None]


def rows_in(observation_size: int, own: int) -> int:
    """Number of rows after the `own` numbers of an observation of that length.

    Raises:
        ValueError: the rest is not made of such rows.
    """
    rows, rest = divmod(observation_size - own, WIDTH)
    if rest or rows < 0:
        raise ValueError(
            f"an observation of length {observation_size} is not {own} numbers of the agent's own and rows of {WIDTH} "
            "for the entities around it"
        )
    return rows
