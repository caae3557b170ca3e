"""`python -m tasks.grasping.planner.grasp_library`: planned grasps of many objects in a file, for the lifting task.

A planner takes 0.1 s, and no accelerator runs it; an episode's start must be drawn in microseconds, on one. So each
hand has its plans ready in `assets/grasps/HAND.safetensors`, which the command makes for the hand that it is given.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tyro
from safetensors import safe_open
from safetensors.numpy import save_file

from embodied import cli
from embodied.core.scenes import compile_spec
from embodied.errors import EmbodiedError, UnknownNameError, guard
from embodied.storage.paths import asset
from tasks.grasping.hands.arm import arm_scene
from tasks.grasping.hands.hand import Hand
from tasks.grasping.hands.models import hand_named
from tasks.grasping.objects.drop_and_settle import put_down
from tasks.grasping.objects.household import HELD_OUT, HOUSEHOLD, TRAIN, household
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.pointclouds import DepthNoise, PlacedObject, visible_cloud
from tasks.grasping.objects.random_objects import is_held_out, random_object
from tasks.grasping.objects.variable_object import add_variable_object, fits, object_fields
from tasks.grasping.planner.planner import VIEW, Plan, Planner

PLACES = 8  # per object
RANDOM = 200  # seeds of random objects, every fifth of them held out
WITHIN = ((-0.15, 0.15), (0.45, 0.65))  # m, x and y where objects stand
SEED = 20260000  # of the places


@dataclasses.dataclass(frozen=True, eq=False)
class Plans:
    """p planned grasps, each of an object at a place where it stands."""

    objects: tuple[str, ...]
    """Names of all objects that were tried."""
    tried: np.ndarray
    """(objects,) places that were tried of each."""
    item: np.ndarray
    """(p,) which object."""
    place: np.ndarray
    """(p, 7) its pose at rest: m, wxyz."""
    shape: np.ndarray
    """(p, 12) the superquadric that it was taken for: position m, quaternion wxyz, half axes m, exponents."""
    palm: np.ndarray
    """(p, 7) the palm's pose in the grasp: m, wxyz."""
    width: np.ndarray
    """(p,) m, between the contacts."""
    joints: np.ndarray
    """(p, 7) rad, of the arm at the pre-grasp."""
    pinch: np.ndarray
    """(p,) bool, whether it is taken between the fingertips."""

    def reachable(self) -> np.ndarray:
        """(objects,) share of each object's places for which there is a plan."""
        return np.bincount(self.item, minlength=len(self.objects)) / self.tried

    def of(self, names: Sequence[str]) -> Plans:
        """Only the plans for some objects; `objects` stays as it is."""
        chosen = np.isin(self.item, [self.objects.index(name) for name in names])
        rows = {name: getattr(self, name)[chosen] for name in ROWS}
        return dataclasses.replace(self, **rows)


SHAPES: Mapping[str, tuple[int, ...]] = {
    "place": (7,),
    "shape": (12,),
    "palm": (7,),
    "width": (),
    "joints": (7,),
    "pinch": (),
}
"""Shape of one row of each array but `item`."""
ROWS = ("item", *SHAPES)


def object_named(name: str) -> ObjectSpec:
    """A household object, or `random_SEED`."""
    prefix, _, seed = name.rpartition("_")
    if prefix == "random" and seed.isdigit():
        return random_object(int(seed))
    return household(name)


def names_of(objects: str, known: Sequence[str]) -> tuple[str, ...]:
    """The objects of a set: train, held-out, household or all, or one of that name."""
    sets = {
        "train": tuple(name for name in known if not held_out(name)),
        "held-out": tuple(name for name in known if held_out(name)),
        "household": tuple(name for name in known if name in HOUSEHOLD),
        "all": tuple(known),
    }
    if objects not in sets and objects not in known:
        raise UnknownNameError("object", objects, (*sets, *known))
    return sets.get(objects, (objects,))


def held_out(name: str) -> bool:
    """Whether an object is never trained with."""
    prefix, _, seed = name.rpartition("_")
    return is_held_out(int(seed)) if prefix == "random" else name in HELD_OUT


def candidates() -> tuple[ObjectSpec, ...]:
    """Household and random objects that are made of few enough shapes."""
    things = [household(name) for name in (*TRAIN, *HELD_OUT)] + [random_object(seed) for seed in range(RANDOM)]
    return tuple(item for item in things if fits(item))


@functools.cache
def plans_for(hand: Hand) -> Plans:
    """The plans that come with the package; where there are none, the error says how to make them."""
    try:
        path = asset(f"grasps/{hand.name}.safetensors")
    except EmbodiedError:
        raise EmbodiedError(
            f"no grasps were planned for the hand {hand.name!r}; "
            f"'python -m tasks.grasping.planner.grasp_library {hand.name}' does it"
        ) from None
    return load(path)


def load(path: Path) -> Plans:
    with safe_open(path, framework="numpy") as file:
        meta = file.metadata() or {}
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return Plans(objects=tuple(json.loads(meta["objects"])), **arrays)


def save(path: Path, plans: Plans) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(getattr(plans, name)) for name in (*ROWS, "tried")}
    save_file(arrays, path, metadata={"objects": json.dumps(plans.objects)})


def make_plans(hand: Hand, things: Sequence[ObjectSpec], places: int, seed: int = SEED) -> Iterator[Plans]:
    """Plan grasps of each object at so many places, one object after the other.

    The planner sees what `VIEW` sees of the object alone, with the noise of a depth camera.
    """
    spec = arm_scene(hand)
    add_variable_object(spec)
    model = compile_spec(spec)
    fields, planner = object_fields(model, things), Planner(hand, model)
    for number, item in enumerate(things):
        for field, values in fields.fields.items():
            getattr(model, field)[:] = values[number]
        found = [_at(planner, item, np.random.default_rng([seed, number, place])) for place in range(places)]
        rows = [_row(place, plan) for place, plan in found if plan is not None]
        stacked = {
            name: np.array([row[name] for row in rows], np.float32).reshape(len(rows), *shape)
            for name, shape in SHAPES.items()
        }
        stacked["pinch"] = stacked["pinch"].astype(bool)
        yield Plans(objects=(item.name,), tried=np.array([places]), item=np.zeros(len(rows), int), **stacked)


def joined(parts: Sequence[Plans]) -> Plans:
    """Plans of several objects together."""
    rows = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ROWS[1:]}
    item = np.concatenate([np.full(len(part.item), number) for number, part in enumerate(parts)])
    names = tuple(name for part in parts for name in part.objects)
    return Plans(objects=names, tried=np.concatenate([part.tried for part in parts]), item=item, **rows)


def _at(planner: Planner, item: ObjectSpec, random: np.random.Generator) -> tuple[np.ndarray, Plan | None]:
    """An object's pose (7,) at rest at a place drawn anew, and the best plan for it there; none where it rolls away."""
    yaw, way, x, y = *random.uniform(-np.pi, np.pi, 2), random.uniform(*WITHIN[0]), random.uniform(*WITHIN[1])
    settled = put_down(item, yaw, way)
    rest = settled.objects[0]
    pos, quat = (rest.pos[0] + x, rest.pos[1] + y, rest.pos[2]), rest.quat
    place = np.array([*pos, *quat])
    if settled.failure:
        return place, None
    cloud = visible_cloud([PlacedObject(item, pos, quat)], VIEW, noise=DepthNoise(), seed=int(random.integers(1 << 31)))
    qpos = planner.model.qpos0.copy()
    first = planner.model.joint("object").qposadr[0]
    qpos[first : first + 7] = place
    planned = planner.plan(cloud.points, VIEW.pos, qpos)
    return place, planned.plans[0] if planned.plans else None


def _row(place: np.ndarray, plan: Plan) -> dict[str, np.ndarray]:
    shape = plan.shape
    return {
        "place": place.astype(np.float32),
        "shape": np.concatenate([shape.pos, shape.quat, shape.axes, shape.exponents]).astype(np.float32),
        "palm": np.concatenate([plan.grasp.pos, plan.grasp.quat]).astype(np.float32),
        "width": np.array(plan.grasp.width, np.float32),
        "joints": plan.joints,
        "pinch": np.array(plan.pinch),
    }


@dataclasses.dataclass(frozen=True)
class Settings:
    """Plan grasps of many objects for a hand, and write them where the lifting task looks for them."""

    hand: tyro.conf.Positional[str]
    """Name of the hand."""
    out: Path | None = None
    """File to write; by default the one among the assets."""
    places: int = PLACES
    """Places to try per object."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "tasks.grasping.planner.grasp_library")
    hand, things = hand_named(settings.hand), candidates()
    parts: list[Plans] = []
    with cli.Line("objects", len(things)) as line:
        for part in make_plans(hand, things, settings.places):
            parts.append(part)
            line.update(len(parts), f"{part.objects[0]}: {len(part.item)} of {settings.places} places")
    plans = joined(parts)
    out = settings.out or asset("grasps") / f"{hand.name}.safetensors"
    save(out, plans)
    cli.show(f"{len(plans.item)} plans, {plans.reachable().mean():.1%} of all places -> {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
