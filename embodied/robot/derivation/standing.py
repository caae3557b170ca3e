"""The torques that hold a legged robot in its home pose, by statics: what its feet carry, and what its joints hold."""

from __future__ import annotations

import mujoco
import numpy as np

from embodied.robot.tree import Limb, Tree, lowest_point, sole

FLAT = 5  # joints of a leg whose foot is a sole, which takes moments too
MOMENT = 0.1  # m: a moment of a sole counts as much as a force with this lever


def standing_torques(tree: Tree, data: mujoco.MjData, legs: tuple[Limb, ...]) -> np.ndarray:
    """(njnt of the tree,) N m or N of each joint, in the order of `tree.joints`, on level ground.

    The ground's forces are the least ones that hold the base.

    Args:
        tree: The robot, whose base floats.
        data: In its home pose, after `mj_forward`.
        legs: On which it stands.
    """
    model = tree.model
    first = int(model.jnt_dofadr[model.body_jntadr[tree.root]])
    rows = []
    for leg in legs:
        body, point = sole(data, model, leg)
        bottom, _ = lowest_point(data, model, leg.bodies)
        point[2] = bottom if np.isfinite(bottom) else point[2]
        force, moment = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jac(model, data, force, moment, point, body)
        rows += [force, moment / MOMENT] if len(leg.joints) >= FLAT else [force]
    jacobian = np.concatenate(rows)
    bias = data.qfrc_bias - data.qfrc_passive
    ground, *_ = np.linalg.lstsq(jacobian[:, first : first + 6].T, bias[first : first + 6], rcond=1e-6)
    return (bias - jacobian.T @ ground)[model.jnt_dofadr[list(tree.joints)]]
