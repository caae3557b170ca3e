"""The airframe of a multirotor: one rigid body and its rotors, from the file, the description, and by rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import ModelError
from embodied.robot.description import NAME, Description, Vector
from embodied.robot.rotors.places import Place, find_places
from embodied.robot.rotors.rotor import DRAG_OF_MASS, GRAVITY, LAG, THRUST_TO_WEIGHT, TORQUE_OF_ARM, Airframe, Rotor
from embodied.robot.rotors.urdf import Remarks
from embodied.robot.tree import Tree

SKEW = 0.05  # of the smallest moment: larger products of inertia are worth a warning
APART = 10.0  # degrees between neighbours about the vertical, below which neighbours are ambiguous


@dataclasses.dataclass(frozen=True)
class Body:
    """All bodies of a robot as one."""

    mass: float
    centre: np.ndarray
    """(3,) m, trunk's frame."""
    inertia: np.ndarray
    """(3, 3) kg m^2 about the centre of mass, trunk's axes."""


def find_airframe(path: Path, tree: Tree, data: mujoco.MjData, said: Description) -> tuple[Airframe, list[str]]:
    """A multirotor's airframe, and a warning for all assumptions.

    Args:
        tree: All joints, those of the rotors included.
        data: The home pose, after `mj_forward`.

    Raises:
        ModelError: there are no rotors, their number is not that of what was said of them, or how they turn cannot be
            told; names the key of `robot.toml` that settles it.
    """
    remarks = Remarks.of(path)
    places = find_places(path, tree, data, said, remarks)
    if not places:
        raise ModelError(
            f"{path}: no rotors: no thrusters at sites, no joints that spin, nothing called rotor or prop with a "
            f"number; say rotors = [[x, y, z], ...] (m, in the frame of {tree.model.body(tree.root).name!r}) in {NAME}"
        )
    _check_counts(path, len(places), said)
    body = one_body(tree, data, remarks)
    turn = data.xmat[tree.root].reshape(3, 3)
    points = [turn.T @ (place.point - data.xpos[tree.root]) - body.centre for place in places]
    axes = [turn.T @ place.axis for place in places]
    if said.rotor_axes:
        axes = [np.array(axis) / np.linalg.norm(axis) for axis in said.rotor_axes]
    assumed: list[tuple[str, str]] = []
    spins = _spins(path, places, points, said, remarks, assumed)
    thrusts = _thrusts(places, body.mass, said, remarks, assumed)
    if sum(thrust * axis[2] for thrust, axis in zip(thrusts, axes, strict=True)) <= 0:
        raise ModelError(
            f"{path}: its rotors push down or sideways together; say rotor_axes in {NAME}, [0, 0, 1] for up"
        )
    torques = _torques(places, points, said, remarks, assumed)
    lag, drag = said.rotor_lag, said.drag
    if lag is None:
        lag = LAG
        assumed.append(("rotor_lag", f"rotors follow in {LAG:g} s"))
    if drag is None:
        usual = DRAG_OF_MASS * body.mass
        drag = (usual, usual, usual)
        assumed.append(("drag", f"{usual:.3g} N s/m of drag"))
    rotors = tuple(
        Rotor(place.name, _triple(point), _triple(axis), spin, thrust, torque, lag)
        for place, point, axis, spin, thrust, torque in zip(places, points, axes, spins, thrusts, torques, strict=True)
    )
    airframe = Airframe(body.mass, _triple(body.centre), _triple(np.diag(body.inertia)), rotors, drag)
    return airframe, [*_skewed(body), *_assumed(assumed)]


def one_body(tree: Tree, data: mujoco.MjData, remarks: Remarks) -> Body:
    """Mass, centre and inertia of all that is attached to the trunk, in the pose of `data`."""
    model, root = tree.model, tree.root
    bodies = [
        body for body in range(1, model.nbody) if tree.carries(body) and model.body(body).name not in remarks.massless
    ]
    masses = model.body_mass[bodies]
    mass = float(masses.sum())
    centre = masses @ data.xipos[bodies] / mass
    inertia = np.zeros((3, 3))
    for body, share in zip(bodies, masses, strict=True):
        frame, away = data.ximat[body].reshape(3, 3), data.xipos[body] - centre
        inertia += frame @ np.diag(model.body_inertia[body]) @ frame.T
        inertia += share * (away @ away * np.eye(3) - np.outer(away, away))
    turn = data.xmat[root].reshape(3, 3)
    return Body(mass, turn.T @ (centre - data.xpos[root]), turn.T @ inertia @ turn)


def _check_counts(path: Path, count: int, said: Description) -> None:
    for key, values in (("rotor_axes", said.rotor_axes), ("spin", said.spin), ("thrust", said.thrust)):
        if values and len(values) != count and not (key == "thrust" and len(values) == 1):
            raise ModelError(f"{path}: {len(values)} entries of {key} in {NAME} for {count} rotors")


def _spins(
    path: Path,
    places: list[Place],
    points: list[np.ndarray],
    said: Description,
    remarks: Remarks,
    assumed: list[tuple[str, str]],
) -> list[int]:
    """Sense of rotation of each rotor; unless it is known of all, neighbours turn against each other."""
    if said.spin:
        return list(said.spin)
    known = [place.spin for place in places if place.spin is not None]
    if len(known) == len(places):
        return known
    angles = np.degrees([np.arctan2(point[1], point[0]) for point in points]) % 360
    order = np.argsort(angles)
    gaps = np.diff(angles[order], append=angles[order[0]] + 360)
    if len(places) % 2 or gaps.min() < APART:
        raise ModelError(
            f"{path}: cannot tell how its {len(places)} rotors turn; say spin in {NAME}, for each 1 (counter-clockwise "
            "seen from above) or -1"
        )
    ranks = np.argsort(order)
    if remarks.torque_per_thrust is None:  # in files for gym-pybullet-drones it is so: rotors 0 and 2 counter-clockwise
        assumed.append(("spin", "neighbours turn against each other"))
    return [1 if (rank - ranks[0]) % 2 == 0 else -1 for rank in ranks]


def _thrusts(
    places: list[Place], mass: float, said: Description, remarks: Remarks, assumed: list[tuple[str, str]]
) -> list[float]:
    """N that each rotor gives at most."""
    if said.thrust:
        return list(said.thrust) if len(said.thrust) == len(places) else list(said.thrust) * len(places)
    known = [place.max_thrust for place in places if place.max_thrust is not None]
    if len(known) == len(places) and said.thrust_to_weight is None:
        return known
    ratio = said.thrust_to_weight or remarks.thrust_to_weight
    if ratio is None:
        ratio = THRUST_TO_WEIGHT
        assumed.append(("thrust", f"rotors lift {ratio:g} weights"))
    return [ratio * mass * GRAVITY / len(places)] * len(places)


def _torques(
    places: list[Place], points: list[np.ndarray], said: Description, remarks: Remarks, assumed: list[tuple[str, str]]
) -> list[float]:
    """m, torque per thrust of each rotor."""
    if said.torque_per_thrust is not None:
        return [said.torque_per_thrust] * len(places)
    known = [place.torque_per_thrust for place in places if place.torque_per_thrust is not None]
    if len(known) == len(places):
        return known
    torque = remarks.torque_per_thrust
    if torque is None:
        torque = TORQUE_OF_ARM * float(np.mean([np.hypot(point[0], point[1]) for point in points]))
        assumed.append(("torque_per_thrust", f"{torque:.3g} N m of torque for each N"))
    return [torque] * len(places)


def _skewed(body: Body) -> list[str]:
    moments = np.diag(body.inertia)
    skew = float(np.abs(body.inertia - np.diag(moments)).max() / moments.min())
    if skew <= SKEW:
        return []
    return [f"products of inertia of {skew:.0%} of the smallest moment are left out in tasks: turn the trunk's frame"]


def _assumed(assumed: list[tuple[str, str]]) -> list[str]:
    if not assumed:
        return []
    what = ", ".join(text for _, text in assumed)
    return [f"assumed: {what}; say {', '.join(key for key, _ in assumed)} in {NAME}"]


def _triple(vector: np.ndarray) -> Vector:
    x, y, z = (float(number) for number in vector)
    return x, y, z
