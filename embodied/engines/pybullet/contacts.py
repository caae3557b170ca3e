"""Pairs of shapes that may touch in Bullet, and their friction.

MuJoCo decides the friction of a pair of shapes by a rule, Bullet multiplies a factor of each body. Where no factors
give every pair MuJoCo's friction, bodies have several copies of their shapes, each with a factor and contacts of its
own: *layers* of pairs, within each of which factors exist.
"""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.engines.pybullet.model import Link, Tree, stands

CLOSE = 0.01  # of the logarithm of a pair's friction: 1 %


@dataclasses.dataclass(frozen=True)
class Collider:
    """Shapes that Bullet treats alike: a link, or one static shape."""

    tree: int
    """Index of the tree; -1: static."""
    link: str
    """Name of the link, or of a static shape: its geom's id, and the layer where it is a copy."""
    geom: int
    """One of its shapes, which represents the others."""


@dataclasses.dataclass(frozen=True)
class Contacts:
    """All that may touch."""

    forest: tuple[Tree, ...]
    """The trees, with copies of links."""
    statics: dict[str, int]
    """Name of a static shape -> geom."""
    parts: tuple[Collider, ...]
    """Everything that may touch anything."""
    pairs: tuple[tuple[int, int], ...]
    """Pairs of `parts` that may touch each other."""
    frictions: np.ndarray
    """(parts,) factors of sliding friction."""


def contacts(model: mujoco.MjModel, forest: tuple[Tree, ...]) -> Contacts:
    """Possible contacts in a model of these trees, by MuJoCo's rules."""
    statics = {str(geom): geom for geom in static_geoms(model)}
    parts = list(colliders(model, forest))
    originals, trees = tuple(parts), list(forest)
    pairs: list[tuple[int, int]] = []
    frictions = np.ones(len(parts))
    for number, (together, factors) in enumerate(layers(model, originals, admitted(model, originals))):
        places = {part: part for pair in together for part in pair}
        if number:
            for part in sorted(places):
                places[part] = len(parts)
                parts.append(_copied(originals[part], number, trees, statics))
            frictions = np.append(frictions, np.ones(len(parts) - len(frictions)))
        frictions[list(places.values())] = factors[list(places)]
        pairs += [(places[i], places[j]) for i, j in together]
    return Contacts(tuple(trees), statics, tuple(parts), tuple(pairs), frictions)


def _copied(part: Collider, layer: int, trees: list[Tree], statics: dict[str, int]) -> Collider:
    """A second collider with the shapes of `part`; it joins `trees` or `statics`."""
    name = f"{part.link}_{layer}"
    if part.tree < 0:
        statics[name] = part.geom
        return Collider(-1, name, part.geom)
    tree = trees[part.tree]
    parent = next((n for n, link in enumerate(tree.links) if link.name == part.link), -1)
    geoms, body = (tree.geoms, tree.free) if parent < 0 else (tree.links[parent].geoms, tree.links[parent].body)
    copy = Link(name, parent, body, -1, False, geoms)
    trees[part.tree] = dataclasses.replace(tree, links=(*tree.links, copy))
    return Collider(part.tree, name, part.geom)


def static_geoms(model: mujoco.MjModel) -> list[int]:
    """Colliding shapes that never move by themselves."""
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    return [int(geom) for geom in np.flatnonzero(collides) if stands(model, int(model.geom_bodyid[geom]))]


def colliders(model: mujoco.MjModel, forest: tuple[Tree, ...]) -> tuple[Collider, ...]:
    """Everything that may touch anything, once."""
    found = [Collider(-1, str(geom), geom) for geom in static_geoms(model)]
    for index, tree in enumerate(forest):
        if tree.geoms:
            found.append(Collider(index, "base", tree.geoms[0]))
        found += [Collider(index, link.name, link.geoms[0]) for link in tree.links if link.geoms]
    return tuple(found)


def admitted(model: mujoco.MjModel, parts: tuple[Collider, ...]) -> list[tuple[int, int]]:
    """Pairs of colliders that MuJoCo's filter lets meet: contype/conaffinity, parent and child, excludes."""
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT:
        return []
    keep_parents = bool(model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in model.exclude_signature}
    pairs = []
    for i, first in enumerate(parts):
        for j, second in enumerate(parts[:i]):
            a, b = first.geom, second.geom
            bodies = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
            weld = [int(model.body_weldid[body]) for body in bodies]
            above = [int(model.body_weldid[model.body_parentid[body]]) for body in weld]
            family = weld[0] and weld[1] and (weld[0] == above[1] or weld[1] == above[0])
            meets = (
                model.geom_contype[a] & model.geom_conaffinity[b] or model.geom_contype[b] & model.geom_conaffinity[a]
            )
            if not meets or weld[0] == weld[1] or (family and not keep_parents) or all(stands(model, w) for w in weld):
                continue
            if bodies not in excluded and bodies[::-1] not in excluded:
                pairs.append((i, j))
    return pairs


def layers(
    model: mujoco.MjModel, parts: tuple[Collider, ...], pairs: list[tuple[int, int]]
) -> list[tuple[list[tuple[int, int]], np.ndarray]]:
    """The pairs, split into sets within each of which factors (parts,) have the pairs' frictions as products."""
    wanted = {(i, j): np.log(max(_pair_friction(model, parts[i].geom, parts[j].geom), 1e-9)) for i, j in pairs}
    found = []
    while wanted:
        chosen = dict(wanted)
        while True:
            factors, errors = _fitted(chosen, len(parts))
            if errors.max() <= CLOSE:
                break
            del chosen[list(chosen)[int(errors.argmax())]]
        found.append((list(chosen), np.exp(factors)))
        wanted = {pair: value for pair, value in wanted.items() if pair not in chosen}
    return found


def _fitted(wanted: dict[tuple[int, int], float], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (count,) whose sums over the pairs are nearest to what is wanted, and the error of each pair (k,)."""
    rows, table = np.arange(len(wanted)), np.zeros((len(wanted), count))
    for column in np.array(list(wanted)).T:
        table[rows, column] = 1.0
    sums = np.array(list(wanted.values()))
    factors = np.linalg.lstsq(table, sums, rcond=None)[0]
    return factors, np.abs(table @ factors - sums)


def _pair_friction(model: mujoco.MjModel, a: int, b: int) -> float:
    """Sliding friction between two geoms by MuJoCo's rules."""
    order = int(model.geom_priority[a]) - int(model.geom_priority[b])
    deciding = [a, b] if order == 0 else [a if order > 0 else b]
    if max(int(model.geom_condim[geom]) for geom in deciding) == 1:
        return 0.0
    return max(float(model.geom_friction[geom, 0]) for geom in deciding)
