"""A MuJoCo model as Brax's maximal-coordinate pipelines take it, and into how many finer steps each step is split.

In one step every joint takes away the same share of its error. All joints answer at once, so a link with several
joints is corrected several times, by a factor known from the model (`stiffness`): the share is what keeps that
stable. A joint then yields by F w dt^2 / share under a force F, where w (1/kg) is how easily the force moves its
links against each other, and the physics step is split until the weight of the whole model, put on any one joint,
bends it by `YIELD` at most.
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

from embodied.engines.servos import SCALAR
from embodied.errors import EngineError

FREE = int(mujoco.mjtJoint.mjJNT_FREE)
NUMERICS: Mapping[str, float] = {
    "baumgarte_erp": 0.1,
    "vel_damping": 0.0,
    "ang_damping": 0.0,
    "elasticity": 0.0,
}
"""Brax's own parameters where a model's `custom` numerics do not give them; its other ones have no effect here."""
YIELD = 2e-3
"""m, how far a joint may give way under the weight of the whole model."""
LONGEST = 1e-3
"""s, no finer step is longer where there are joints, whatever the weight."""
STABLE = 0.8
"""What all joints together take away of any error in a step; `positional` is unstable above 4/3."""
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
        if int(model.jnt_type[joint]) != SCALAR[0] and model.dof_armature[model.jnt_dofadr[joint]]:
            raise EngineError(f"engine brax: the joint {name!r} has armature, which Brax can take of hinges only")
    for body in range(1, model.nbody):
        name, count = model.body(body).name or f"#{body}", int(model.body_jntnum[body])
        joints = slice(model.body_jntadr[body], model.body_jntadr[body] + count)
        if not 1 <= count <= 3:
            raise EngineError(
                f"engine brax: the body {name!r} has {count} joints; Brax needs one to three on every body"
            )
        if np.ptp(model.jnt_pos[joints], axis=0).any():
            raise EngineError(f"engine brax: the joints of the body {name!r} lie at different places; Brax needs one")
        if model.jnt_type[joints.start] != FREE and not _simple(model.jnt_type[joints], model.jnt_axis[joints]):
            raise EngineError(
                f"engine brax: the joints of the body {name!r} must be slides, then hinges, each kind at right angles"
            )
    counts = {
        "equality constraints": model.neq,
        "tendons": model.ntendon,
        "mocap bodies": model.nmocap,
        "explicit contact pairs": model.npair,
    }
    for what, count in counts.items():
        if count:
            raise EngineError(f"engine brax has no {what}; the model has {count}")


def _simple(kinds: np.ndarray, axes: np.ndarray) -> bool:
    """Whether Brax finds the coordinates of these joints of one body."""
    sorted_kinds = bool((np.diff(kinds) >= 0).all())  # slides have the smaller number
    square = [
        np.allclose(axes[kinds == kind] @ axes[kinds == kind].T, np.eye((kinds == kind).sum())) for kind in SCALAR
    ]
    return sorted_kinds and all(square)


def load(model: mujoco.MjModel) -> Any:
    """Brax's system of a checked model, at the model's time step.

    Raises:
        EngineError: Brax or MJX refuses the model; says why.
    """
    from brax.io import mjcf

    copy = model.__copy__()  # Brax writes infinities into the ranges of what it is given
    copy.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    copy.opt.cone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Brax is no longer developed, at every load
        try:
            system = mjcf.load_model(copy)
        except (NotImplementedError, RuntimeError, ValueError) as error:
            raise EngineError(f"engine brax does not support this model: {' '.join(str(error).split())}") from None
    given = {model.numeric(i).name for i in range(model.nnumeric)}
    defaults = {name: value for name, value in NUMERICS.items() if name not in given and name != "elasticity"}
    return system.replace(mj_model=None, **{name: jnp.asarray(value) for name, value in defaults.items()})


def varied(system: Any, fields: Mapping[str, Array]) -> Any:
    """The system with an episode's own fields."""
    inertia = system.link.inertia
    if "body_mass" in fields:
        inertia = inertia.replace(mass=fields["body_mass"][1:])
    if "body_inertia" in fields:
        inertia = inertia.replace(i=jax.vmap(jnp.diag)(fields["body_inertia"][1:]))
    if "body_ipos" in fields:
        inertia = inertia.replace(transform=inertia.transform.replace(pos=fields["body_ipos"][1:]))
    system = system.replace(link=system.link.replace(inertia=inertia))
    return system.replace(geom_friction=fields["geom_friction"]) if "geom_friction" in fields else system


def answer(model: mujoco.MjModel, easy: np.ndarray, taken_away: np.ndarray) -> tuple[float, int]:
    """What share of its error a joint takes away in a step, and into how many steps a physics step is split.

    Args:
        model: The model, at its physics step.
        easy: (links,) 1 / kg, see `embodied.engines.brax.links.stiffness`.
        taken_away: (k, k), see there.
    """
    if not taken_away.any():  # Free bodies have no joints to bend: their step is MuJoCo's, to the last term.
        return 0.5, 1
    share = min(0.5, STABLE / max(float(np.abs(np.linalg.eigvals(taken_away)).max()), STABLE))
    weight = float(model.body_mass.sum() * np.linalg.norm(model.opt.gravity))
    longest = min(LONGEST, np.sqrt(YIELD * share / max(weight * float(easy.max()), 1e-12)))
    return share, int(np.ceil(model.opt.timestep / longest - 1e-6))
