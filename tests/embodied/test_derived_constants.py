"""`DerivedConstants` is `mj_setConst` in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from embodied.core.randomization import DerivedConstants
from embodied.errors import EngineError

DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0")


def random_model(seed: int) -> mujoco.MjModel:
    """A random forest of bodies with every kind of joint, tilted inertias and joints away from the frame's origin."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec()
    parents = [spec.worldbody]
    for index in range(8):
        parent = parents[rng.integers(len(parents))]
        quat = rng.normal(size=4)
        body = parent.add_body(name=f"b{index}", pos=rng.uniform(-0.5, 0.5, 3), quat=quat / np.linalg.norm(quat))
        body.explicitinertial = True
        body.mass = rng.uniform(0.2, 3.0)
        moments = rng.uniform(0.5, 1.0, 3) * 1e-2
        body.inertia, body.ipos = moments, rng.uniform(-0.2, 0.2, 3)
        tilt = rng.normal(size=4)
        body.iquat = tilt / np.linalg.norm(tilt)
        kind = rng.choice(["free" if parent is spec.worldbody else "hinge", "ball", "hinge", "slide", "both", "weld"])
        joint = {"free": mujoco.mjtJoint.mjJNT_FREE, "ball": mujoco.mjtJoint.mjJNT_BALL}
        axis = rng.normal(size=3)
        if kind in joint:
            body.add_joint(
                type=joint[kind], pos=rng.uniform(-0.1, 0.1, 3) * (kind == "ball"), armature=rng.uniform(0, 0.01)
            )
        if kind in ("hinge", "both"):
            body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis, pos=rng.uniform(-0.1, 0.1, 3), ref=0.3)
        if kind in ("slide", "both"):
            body.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE, axis=axis, armature=0.02)
        parents.append(body)
    return spec.compile()


@pytest.mark.parametrize(
    "seed", [0, 9, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(1, 9), 10, 11))]
)
def test_derived_constants_equal_mj_set_const(seed: int) -> None:
    model = random_model(seed)
    assert model.nv, "every body is welded"
    rng = np.random.default_rng(100 + seed)
    changed = model.__copy__()
    changed.body_mass[1:] *= rng.uniform(0.5, 2.0, model.nbody - 1)
    changed.body_inertia[1:] *= rng.uniform(0.5, 2.0, (model.nbody - 1, 1))
    changed.body_ipos[1:] += rng.uniform(-0.05, 0.05, (model.nbody - 1, 3))
    changed.dof_armature += rng.uniform(0.0, 0.1, model.nv)
    turned = changed.body_iquat[1:] + 0.2 * rng.normal(size=(model.nbody - 1, 4))
    changed.body_iquat[1:] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    fields = ("body_mass", "body_inertia", "body_ipos", "body_iquat", "dof_armature")
    derive = DerivedConstants.from_model(model)
    derived = jax.jit(lambda values: derive(values))({name: getattr(changed, name) for name in fields})
    mujoco.mj_setConst(changed, mujoco.MjData(changed))
    for name in DERIVED:
        expected = getattr(changed, name)
        # Single precision against double: relative to the largest entry, since small ones are differences of large.
        np.testing.assert_allclose(derived[name], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(), err_msg=name)
        assert not np.allclose(expected, getattr(model, name))


def test_other_fields_pass_through_and_geometry_is_refused() -> None:
    model = random_model(0)
    derive = DerivedConstants.from_model(model)
    fields = {"geom_friction": jnp.ones((1, 3))}
    assert derive(fields) is fields
    with pytest.raises(EngineError, match=r"body_pos.*move the reference pose"):
        derive({"body_pos": jnp.asarray(model.body_pos)})
