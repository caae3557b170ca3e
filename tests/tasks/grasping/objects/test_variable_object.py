"""One body that can be any object: it moves as the object itself does."""

import mujoco
import numpy as np
import pytest

from embodied.core.scenes import compile_spec, load_spec
from embodied.errors import EmbodiedError
from tasks.grasping.hands.hand import set_physics
from tasks.grasping.objects.household import HOUSEHOLD, household
from tasks.grasping.objects.model import add_object
from tasks.grasping.objects.object_spec import ObjectSpec
from tasks.grasping.objects.variable_object import add_variable_object, fits, object_fields

BOXES = [name for name in HOUSEHOLD if fits(household(name)) and not household(name).rolls]


def scene() -> mujoco.MjSpec:
    spec = load_spec("scenes/floor.xml")
    set_physics(spec)
    return spec


def slotted(item: ObjectSpec) -> mujoco.MjModel:
    spec = scene()
    add_variable_object(spec)
    model = compile_spec(spec)
    for field, values in object_fields(model, [item]).fields.items():
        getattr(model, field)[:] = values[0]
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def fallen(model: mujoco.MjModel, item: ObjectSpec) -> np.ndarray:
    """(7,) its pose 0.3 s after it was dropped, tilted, from 5 cm."""
    data = mujoco.MjData(model)
    data.qpos[:3] = 0, 0, 0.05 - item.bounds[0][2]
    data.qpos[3:] = np.array([0.9, 0.1, 0.2, 0.3]) / np.linalg.norm([0.9, 0.1, 0.2, 0.3])
    mujoco.mj_step(model, data, nstep=60)
    return data.qpos.copy()


@pytest.mark.parametrize("name", BOXES)
def test_it_falls_tumbles_and_lies_as_the_object_does(name):
    item, spec = household(name), scene()
    add_object(spec, item)
    assert fallen(slotted(item), item) == pytest.approx(fallen(compile_spec(spec), item), abs=1e-4)


def test_balls_are_short_capsules_that_roll_on_slowly():
    item, spec = household("tennis_ball"), scene()
    add_object(spec, item)
    assert fallen(slotted(item), item)[:3] == pytest.approx(fallen(compile_spec(spec), item)[:3], abs=1e-3)


def test_what_has_too_many_shapes_is_refused_by_name():
    assert not fits(household("bowl"))
    spec = scene()
    add_variable_object(spec)
    with pytest.raises(EmbodiedError, match=r"'bowl' has 16 boxes and 0 round shapes; expected at most 5 and 3"):
        object_fields(compile_spec(spec), [household("bowl")])
