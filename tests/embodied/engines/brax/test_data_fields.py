"""MjData's fields as Brax's engine computes them, from the bodies and contacts of C MuJoCo: no Brax runs here."""

from __future__ import annotations

import jax.numpy as jnp
import mujoco
import numpy as np

from embodied.engines.brax.data_fields import FIELDS, Instant
from embodied.engines.brax.step import Pushes
from embodied.engines.sensors import Bodies

STACK = """
<mujoco>
  <option gravity="1 -.5 -9"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body pos="0 0 .099"><freejoint/><geom size=".1" mass="2" condim="3"/></body>
    <body pos=".05 .02 .255" quat=".9 .1 0 .2"><freejoint/><geom type="box" size=".1 .05 .06" mass="1" condim="3"/>
      <body pos=".2 0 0"><joint axis="0 1 0"/><geom size=".03" mass=".3"/></body>
    </body>
  </worldbody>
</mujoco>
"""


def test_forces_of_contacts_and_pushes_from_outside_are_those_of_c_mujoco() -> None:
    """Of two bodies that lie on each other, one of them with an arm, whose motions are about another point."""
    model = mujoco.MjModel.from_xml_string(STACK)
    data = mujoco.MjData(model)
    data.xfrc_applied[1:] = np.random.default_rng(0).normal(size=(model.nbody - 1, 6))
    mujoco.mj_forward(model, data)
    mujoco.mj_rnePostConstraint(model, data)
    assert {(int(one.geom1), int(one.geom2)) for one in data.contact} >= {(0, 1), (1, 2)}
    bodies = Bodies(data.xpos, data.xquat, np.zeros((4, 3)), np.zeros((4, 3)), model.body_ipos, model.body_iquat)
    own = model.body_mass, model.body_inertia
    moved = Instant(model, bodies, *own, data.qfrc_actuator, data.xfrc_applied, pushes_of(model, data))
    np.testing.assert_allclose(FIELDS["cfrc_ext"](moved), data.cfrc_ext, atol=1e-4)


def pushes_of(model: mujoco.MjModel, data: mujoco.MjData) -> Pushes:
    """C MuJoCo's contacts; their frames' first rows point from the first shape to the second."""
    own = np.zeros((data.ncon, 6))
    for number in range(data.ncon):
        mujoco.mj_contactForce(model, data, number, own[number])
    frames = np.array([one.frame.reshape(3, 3) for one in data.contact])
    return Pushes(
        first=jnp.array([one.geom1 for one in data.contact]),
        second=jnp.array([one.geom2 for one in data.contact]),
        point=jnp.array([one.pos for one in data.contact]),
        depth=jnp.array([-one.dist for one in data.contact]),
        force=jnp.einsum("ck,cki->ci", own[:, :3], frames),
        normal=jnp.asarray(own[:, 0]),
    )
