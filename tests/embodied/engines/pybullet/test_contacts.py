"""The friction of every pair that may touch is MuJoCo's."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from embodied.engines.pybullet.contacts import admitted, colliders, contacts
from embodied.engines.pybullet.model import trees

# No factors fit these: pads decide (1), the wall's 1 is the largest of its pairs, the puck slides on the table by .5.
SCENE = """
<mujoco>
  <worldbody>
    <geom name="table" type="plane" size="1 1 1" friction=".5" conaffinity="0"/>
    <geom name="wall" type="box" size=".1 .1 .1" pos="1 0 0" friction="1" conaffinity="0"/>
    <body name="puck"><freejoint/><geom name="puck" size=".1" friction=".5"/></body>
    <body name="hand" pos="0 0 1">
      <joint/>
      <geom name="palm" size=".1" contype="0" friction="1"/>
      <geom name="pad" size=".1" contype="0" priority="1" friction="1"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(SCENE)


def test_products_of_factors_are_the_pairs_friction(model: mujoco.MjModel) -> None:
    found = contacts(model, trees(model))
    friction = {}
    for i, j in found.pairs:
        names = frozenset(model.geom(found.parts[part].geom).name for part in (i, j))
        assert names not in friction, "a pair touches once"
        friction[names] = float(found.frictions[i] * found.frictions[j])
    expected = {("puck", "table"): 0.5, ("puck", "wall"): 1, ("puck", "palm"): 1, ("puck", "pad"): 1,
                ("palm", "table"): 1, ("palm", "wall"): 1, ("pad", "table"): 1, ("pad", "wall"): 1}  # fmt: skip
    assert friction.keys() == {frozenset(pair) for pair in expected}
    for pair, value in expected.items():
        assert friction[frozenset(pair)] == pytest.approx(value, rel=0.01), pair


def test_copies_are_made_only_where_no_factors_fit(model: mujoco.MjModel) -> None:
    forest = trees(model)
    original = colliders(model, forest)
    assert len(contacts(model, forest).parts) > len(original)
    alike = model.__copy__()
    alike.geom_friction[:] = 0.7
    found = contacts(alike, forest)
    assert found.parts == original
    assert found.forest == forest
    assert list(found.pairs) == admitted(alike, original)
    np.testing.assert_allclose([found.frictions[i] * found.frictions[j] for i, j in found.pairs], 0.7, rtol=1e-6)


ICE = """
<mujoco>
  <worldbody>
    <geom name="ice" type="plane" size="1 1 1" condim="1" friction=".8"/>
    <body name="skate" pos="0 0 .1"><freejoint/><geom name="skate" size=".11" condim="1" friction=".9"/></body>
    <body name="boot" pos="1 0 .1"><freejoint/><geom name="boot" size=".11" condim="3" friction=".9"/></body>
    <body name="sledge" pos="2 0 .1"><freejoint/><geom name="sledge" size=".11" condim="1" priority="1"/></body>
    <body name="fur" pos="3 0 .1"><freejoint/><geom name="fur" size=".11" condim="3" friction=".7" priority="1"/></body>
  </worldbody>
</mujoco>
"""


def test_pairs_without_friction_are_mujocos() -> None:
    """Of one dimension are contacts whose deciding shapes both are."""
    model = mujoco.MjModel.from_xml_string(ICE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    expected = {int(one.geom2): one.friction[0] if one.dim > 1 else 0.0 for one in data.contact}
    assert sorted(expected.values()) == pytest.approx([0, 0, 0.7, 0.9])
    found = contacts(model, trees(model))
    for i, j in found.pairs:
        first, second = sorted(found.parts[part].geom for part in (i, j))
        if first == 0:
            assert found.frictions[i] * found.frictions[j] == pytest.approx(expected[second], rel=0.01, abs=1e-4)
