"""Contacts of one environment: where, and with which force."""

from __future__ import annotations

import copy
import dataclasses

import mujoco
import numpy as np

from embodied.engines.mujoco import MujocoEngine
from embodied.env.env import Env


@dataclasses.dataclass(frozen=True)
class Contacts:
    """Points and forces of contacts."""

    positions: np.ndarray
    """(k, 3) m, world frame."""
    forces: np.ndarray | None
    """(k, 3) N, world frame, on what moves, by what it touches; None where the engine gives none."""

    @property
    def total_force(self) -> float:
        """N, the sum of the forces' sizes; NaN where they are not known."""
        return float("nan") if self.forces is None else float(np.linalg.norm(self.forces, axis=1).sum())


class ContactReader:
    """Reads contacts: of C MuJoCo with the forces of this instant, of other engines from the bodies' places alone."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self._model = copy.copy(env.task.model)
        self._data = mujoco.MjData(self._model)

    def read(self, index: int) -> Contacts:
        engine = self.env.engine
        if isinstance(engine, MujocoEngine):
            return contacts_of(*engine.data(index), forces=True)
        world = self.env.world()
        self._data.qpos[:] = np.nan_to_num(np.asarray(world.qpos[index]))
        mujoco.mj_fwdPosition(self._model, self._data)
        return contacts_of(self._model, self._data, forces=False)


def contacts_of(model: mujoco.MjModel, data: mujoco.MjData, *, forces: bool) -> Contacts:
    """The contacts in `data`; with `forces`, of which the dynamics must have been computed."""
    touching = [number for number in range(data.ncon) if data.contact[number].dist < 0]
    positions = np.array([data.contact[number].pos for number in touching]).reshape(-1, 3)
    if not forces:
        return Contacts(positions, None)
    found = np.zeros((len(touching), 3))
    local = np.zeros(6)
    for row, number in enumerate(touching):
        contact = data.contact[number]
        mujoco.mj_contactForce(model, data, number, local)
        found[row] = contact.frame.reshape(3, 3).T @ local[:3]  # on the second shape's body, by the first's
        if not model.body_weldid[model.geom_bodyid[contact.geom[1]]]:
            found[row] *= -1
    return Contacts(positions, found)
