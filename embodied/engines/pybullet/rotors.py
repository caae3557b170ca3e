"""Forces that correct the effect of armature on a body's parents, which Bullet cannot express.

Armature resists a joint's own speed, as the rotor of a geared motor does. In Bullet it is added to the inertia of the
link behind the joint, which is right for the joint and for impacts on the link, but then resists the link's speed in
the world, and turns with it like a gyroscope. With M the joint-space inertia with armature and M_B Bullet's, J_j the
Jacobian of the turning rate w_j of the link behind joint j, a_j the axis and e_j the direction of the joint's speed:

    D = M_B - M = sum_j A_j (J_j' a_j a_j' J_j - e_j e_j')
    h = sum_j A_j J_j' (a_j a_j' dJ_j/dt qvel + (a_j . w_j) w_j x a_j)

Bullet solves M_B qacc = F - h + Q, so that Q = D qacc + h with qacc = M^-1 F makes it find the acceleration of M. F is
what acts in this step: our own forces, and all others (gravity, contacts ...) as they were one step ago. Source: the
Newton-Euler equations of a body with the inertia A a a'.
"""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.engines.pybullet.model import FREE
from embodied.engines.sensors import cross


class Rotors:
    """The correction for one world; feed it every step in order."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Find the hinges with armature, and which degrees of freedom turn the links behind them."""
        self._model, self._data = model, mujoco.MjData(model)
        hinges = model.jnt_dofadr[model.jnt_type == int(mujoco.mjtJoint.mjJNT_HINGE)]
        self._dofs = hinges[model.dof_armature[hinges] > 0]
        self._armature = model.dof_armature[self._dofs]
        # The chain ends at the joint itself: links on the way to a body do not feel the body's later joints.
        self._moved_by = np.zeros((len(self._dofs), model.nv))
        for row, dof in enumerate(self._dofs):
            while dof >= 0:
                self._moved_by[row, dof] = 1.0
                dof = model.dof_parentid[dof]
        self.others = np.zeros(model.nv)
        """(nv,) N, N m: all forces but ours, in the last step."""

    @property
    def active(self) -> bool:
        """Whether there is anything to correct."""
        return len(self._dofs) > 0

    def begin(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Start at a state: nothing is touched, gravity and centrifugal forces act."""
        self._data.qpos[:], self._data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_comVel(self._model, self._data)
        mujoco.mj_rne(self._model, self._data, 0, self.others)
        self.others *= -1.0

    def compensation(self, qpos: np.ndarray) -> np.ndarray:
        """Joint forces (nv,) N, N m that carry the weight of bodies with gravity compensation."""
        model, data = self._model, self._data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_passive(model, data)
        return data.qfrc_gravcomp.copy()

    def forces(self, qpos: np.ndarray, qvel: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The forces Q (nv,) to add in this step.

        Args:
            qpos: (nq,) at the beginning of the step.
            qvel: (nv,) likewise.
            own: (nv,) N, N m, our other forces: actuators, springs, damping.
        """
        model, data = self._model, self._data
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_makeM(model, data)
        inertia = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, inertia)
        difference, gyroscopic = self._excess(qvel)
        acceleration = np.linalg.solve(inertia, self.others + own)
        self._bullet_inertia = inertia + difference
        self._known = own + difference @ acceleration
        return self._known - own + gyroscopic

    def _excess(self, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D (nv, nv) and h (nv,) at the state in `data`."""
        axes, changes = self._data.cdof[:, :3], self._data.cdof_dot[:, :3]  # of all turns, world frame
        axis, spin = axes[self._dofs], self._moved_by @ (axes * qvel[:, None])
        drift = np.sum(axis * (self._moved_by @ (changes * qvel[:, None])), axis=1)
        along = self._moved_by * (axis @ axes.T)
        across = self._moved_by * (cross(np, spin, axis) @ axes.T)
        difference = (along.T * self._armature) @ along
        difference[self._dofs, self._dofs] -= self._armature
        speed = np.sum(axis * spin, axis=1)
        return difference, (self._armature * drift) @ along + (self._armature * speed) @ across

    def observe(self, change: np.ndarray, dt: float) -> None:
        """Update the other forces from a step; `change` (nv,) is that of qvel."""
        self.others = self._bullet_inertia @ (change / dt) - self._known

    def wrenches(self, forces: np.ndarray, qpos: np.ndarray) -> dict[int, np.ndarray]:
        """The torques (3,) N m in the world frame that `forces` (nv,) exert on floating bodies."""
        model = self._model
        torques = {}
        for joint in np.flatnonzero(model.jnt_type == FREE):
            turn = np.zeros(3)
            where, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
            mujoco.mju_rotVecQuat(turn, forces[dof + 3 : dof + 6], qpos[where + 3 : where + 7])
            torques[int(model.jnt_bodyid[joint])] = turn
        return torques
