"""A MuJoCo model as Brax's maximal-coordinate pipelines take it, and one physics step of each.

The steps are Brax's own (`brax.spring.pipeline`, `brax.positional.pipeline`), composed anew from the same parts because
Brax takes neither joint torques nor wrenches from outside, and leaves out joint damping, springs, dry friction and the
gyroscopic torque of spinning bodies, all of which are forces added here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from embodied.engines.servos import SCALAR, add_rotor
from embodied.errors import EngineError

FREE = int(mujoco.mjtJoint.mjJNT_FREE)
NUMERICS: Mapping[str, float] = {
    "spring_mass_scale": 0.0,
    "spring_inertia_scale": 0.0,
    "joint_scale_pos": 0.5,
    "joint_scale_ang": 0.2,
    "collide_scale": 1.0,
    "baumgarte_erp": 0.1,
    "vel_damping": 0.0,
    "ang_damping": 0.0,
    "elasticity": 0.0,
}
"""Brax's own parameters where a model's `custom` numerics do not give them: true masses, no artificial damping."""
VARIABLE = ("body_mass", "body_inertia", "body_ipos", "geom_friction")
"""Model fields of bodies and shapes that an episode may vary on this engine."""


def check(model: mujoco.MjModel) -> None:
    """Raise for what Brax cannot move.

    Raises:
        EngineError: something in the model has no counterpart in Brax; names it.
    """
    for joint in range(model.njnt):
        name = model.joint(joint).name or f"#{joint}"
        if int(model.jnt_type[joint]) not in (*SCALAR, FREE):
            raise EngineError(f"engine brax cannot move the ball joint {name!r}; it moves free, hinge and slide joints")
        if int(model.jnt_type[joint]) != FREE and model.qpos0[model.jnt_qposadr[joint]]:
            reference = model.qpos0[model.jnt_qposadr[joint]]
            raise EngineError(f"engine brax: the joint {name!r} has the reference {reference:g}; Brax needs 0")
    for body in range(1, model.nbody):
        name, count = model.body(body).name or f"#{body}", int(model.body_jntnum[body])
        joints = slice(model.body_jntadr[body], model.body_jntadr[body] + count)
        if not 1 <= count <= 3:
            raise EngineError(
                f"engine brax: the body {name!r} has {count} joints; Brax needs one to three on every body"
            )
        if np.ptp(model.jnt_pos[joints], axis=0).any():
            raise EngineError(f"engine brax: the joints of the body {name!r} lie at different places; Brax needs one")
    counts = {
        "equality constraints": model.neq,
        "tendons": model.ntendon,
        "mocap bodies": model.nmocap,
        "explicit contact pairs": model.npair,
    }
    for what, count in counts.items():
        if count:
            raise EngineError(f"engine brax has no {what}; the model has {count}")


def load(model: mujoco.MjModel) -> Any:
    """Brax's system of a checked model, at the model's time step.

    Raises:
        EngineError: Brax or MJX refuses the model; says why.
    """
    from brax.io import mjcf

    copy = model.__copy__()  # Brax writes infinities into the ranges of what it is given
    copy.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    copy.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    for joint in range(model.njnt):
        rotor = float(model.dof_armature[model.jnt_dofadr[joint]])
        body = int(model.jnt_bodyid[joint])
        if rotor and model.jnt_type[joint] == SCALAR[0]:
            # As in Bullet: exact for the joint, too much for a parent that turns about the same axis.
            moments, axes = add_rotor(copy.body_inertia[body], copy.body_iquat[body], model.jnt_axis[joint], rotor)
            copy.body_inertia[body], copy.body_iquat[body] = moments, axes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Brax is no longer developed, at every load
        try:
            system = mjcf.load_model(copy)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise EngineError(f"engine brax does not support this model: {' '.join(str(error).split())}") from None
    given = {model.numeric(i).name for i in range(model.nnumeric)}
    defaults = {name: value for name, value in NUMERICS.items() if name not in given and name != "elasticity"}
    return system.replace(mj_model=None, **{name: jnp.asarray(value) for name, value in defaults.items()})


def varied(system: Any, model: mujoco.MjModel, fields: Mapping[str, Array]) -> Any:
    """The system with an episode's own fields.

    A body that carries armature has its inertia scaled as a whole, the armature with it.
    """
    inertia = system.link.inertia
    if "body_mass" in fields:
        inertia = inertia.replace(mass=fields["body_mass"][1:])
    if "body_inertia" in fields:
        before = jnp.asarray(model.body_inertia[1:], jnp.float32)
        factor = jnp.sum(fields["body_inertia"][1:], axis=1) / jnp.sum(before, axis=1)
        plain = jax.vmap(jnp.diag)(fields["body_inertia"][1:])
        armed = np.isin(np.arange(1, model.nbody), model.jnt_bodyid[model.dof_jntid[model.dof_armature > 0]])
        inertia = inertia.replace(i=jnp.where(armed[:, None, None], inertia.i * factor[:, None, None], plain))
    if "body_ipos" in fields:
        inertia = inertia.replace(transform=inertia.transform.replace(pos=fields["body_ipos"][1:]))
    system = system.replace(link=system.link.replace(inertia=inertia))
    return system.replace(geom_friction=fields["geom_friction"]) if "geom_friction" in fields else system
