"""Room for contacts and constraints in MJX-Warp's buffers.

Its kernels run over the whole of their buffers: a third of the room is up to three times the speed on a CPU. Counting
what the collision filter admits gives far more than any state has, so the needs of tasks' own models were measured:
`python -m benchmarks.contact_buffers`, by random actions, experts and shipped policies.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math

import mujoco
import numpy as np

from embodied.storage.paths import asset

MEASURED = "contact_buffers.json"
HEADROOM = 1.5  # times the most that was ever seen in one environment
SPARE = 8  # contacts beyond that, of four constraints each: policies find untried poses


@dataclasses.dataclass(frozen=True)
class Room:
    """Contacts and constraints of one environment."""

    contacts: int
    """Pairs of geoms that the broad phase lets through, or contacts, whichever are more."""
    constraints: int
    """Rows of the constraint Jacobian: edges of friction pyramids, limits, friction and equalities."""


def room_for(model: mujoco.MjModel) -> Room:
    """Room with head room where the model was measured, and never more than `counted` gives."""
    most, seen = counted(model), _measured().get(fingerprint(model))
    if seen is None or "max_contacts" in _numerics(model):
        return most
    return Room(
        contacts=min(most.contacts, math.ceil(HEADROOM * seen.contacts) + SPARE),
        constraints=min(most.constraints, math.ceil(HEADROOM * seen.constraints) + 4 * SPARE),
    )


def counted(model: mujoco.MjModel) -> Room:
    """The most that any state could have, by counting the geom pairs that the collision filter admits.

    Four contacts a pair, 64 in all; a task that needs more sets the custom numeric `max_contacts` in its model.
    Constraints: four pyramid edges a contact, plus limits, friction and equalities.
    """
    wanted = model.numeric("max_contacts").data[0] if "max_contacts" in _numerics(model) else 64
    contacts = int(min(4 * admitted_pairs(model), wanted)) or 1
    limited = int(np.count_nonzero(model.jnt_limited)) + int(np.count_nonzero(model.tendon_limited))
    friction = int(np.count_nonzero(model.dof_frictionloss > 0))
    return Room(contacts, 4 * contacts + limited + friction + 6 * model.neq + 1)


def admitted_pairs(model: mujoco.MjModel) -> int:
    """Number of geom pairs that the collision filter admits (contype/conaffinity, parents, explicit pairs)."""
    count = model.npair
    for a in range(model.ngeom):
        for b in range(a + 1, model.ngeom):
            first, second = model.geom_bodyid[a], model.geom_bodyid[b]
            if model.body_weldid[first] == model.body_weldid[second]:
                continue
            meets = (
                model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a]
            )
            count += bool(meets)
    return count


def fingerprint(model: mujoco.MjModel) -> str:
    """Digest of the possible contacts: names, kinds and masks of geoms, and the tree of bodies and joints.

    Sizes are left out: they are floats, which another version of MuJoCo may round otherwise.
    """
    digest = hashlib.sha256(model.names)
    parts = (
        model.geom_type,
        model.geom_bodyid,
        model.geom_contype,
        model.geom_conaffinity,
        model.geom_condim,
        model.body_parentid,
        model.jnt_type,
        model.jnt_limited,
        model.eq_type,
    )
    for part in parts:
        digest.update(np.asarray(part, np.int32).tobytes())
    return digest.hexdigest()[:16]


@functools.cache
def _measured() -> dict[str, Room]:
    """Fingerprint -> the most that was seen in one environment."""
    rows = json.loads(asset(MEASURED).read_text())["models"]
    return {row["fingerprint"]: Room(row["contacts"], row["constraints"]) for row in rows}


def _numerics(model: mujoco.MjModel) -> set[str]:
    """The names of the model's custom numerics."""
    return {model.numeric(i).name for i in range(model.nnumeric)}
