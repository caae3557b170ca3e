"""A parameter's value arrives in the model, and nothing else changes."""

import functools
from typing import Any

import mujoco
import numpy as np
import pytest

from benchmarks import calibration_logs as logs
from embodied.errors import ModelError, UnknownNameError
from sim2real.identification import parameters as pm
from sim2real.identification.parameters import CalibrationError, Kind, Parameter
from sim2real.twins import panda
from sim2real.twins.named import make_twin

JOINT = "FR_calf"
VALUES = {
    Kind.MASS: 0.3,
    Kind.COM_X: 0.01,
    Kind.COM_Y: 0.02,
    Kind.COM_Z: -0.1,
    Kind.FRICTION: 0.7,
    Kind.FRICTION_TIME: 0.01,
    Kind.DAMPING: 0.11,
    Kind.ARMATURE: 0.009,
    Kind.STIFFNESS: 20.0,
    Kind.SERVO_DAMPING: 0.9,
}


def parameter(kind, target=JOINT, **changes):
    return Parameter(
        **{"kind": kind, "target": target, "nominal": 1.0, "lower": 0.0, "upper": 2.0, "spread": 1.0, **changes}
    )


@functools.cache
def leg() -> Any:
    """The twin of a Go1's leg."""
    return make_twin("go1", logs.empty(("joint_pos", "joint_vel"), ("FR_hip", "FR_thigh", "FR_calf")))


@pytest.fixture
def spec():
    return leg().spec.copy()


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_that_was_applied_is_read_back(spec, kind):
    before = pm.read(spec.compile(), kind, JOINT)
    pm.apply(spec, [parameter(kind)], [VALUES[kind]])
    model = spec.compile()
    assert pm.read(model, kind, JOINT) == pytest.approx(VALUES[kind])
    assert before != pytest.approx(VALUES[kind])
    for other in set(VALUES) - {kind}:  # and no other kind changed with it
        assert pm.read(model, other, JOINT) == pytest.approx(pm.read(leg().spec.compile(), other, JOINT))


def test_nominal_values_change_nothing(spec):
    """No payload among them."""
    model = spec.compile()
    parameters = leg().parameters
    pm.apply(spec, parameters, [p.nominal for p in parameters])
    again = spec.compile()
    for field in ("body_mass", "body_inertia", "dof_damping", "dof_frictionloss", "dof_armature", "actuator_biasprm"):
        np.testing.assert_allclose(getattr(again, field), getattr(model, field), rtol=1e-12)


@pytest.mark.parametrize("target", ["link3", "hand"])
def test_a_heavier_link_is_one_of_higher_density(target):
    whole = mujoco.MjSpec.from_file(str(panda.asset(panda.MODEL)))
    before = whole.compile()
    mass = before.body(target).mass[0]
    pm.apply(whole, [parameter(Kind.MASS, target)], [1.7 * mass])
    after = whole.compile()
    np.testing.assert_allclose(after.body(target).inertia, 1.7 * before.body(target).inertia, rtol=1e-6)
    np.testing.assert_allclose(after.body(target).ipos, before.body(target).ipos)
    np.testing.assert_allclose(after.body("link0").subtreemass - before.body("link0").subtreemass, 0.7 * mass)


def test_constants_derived_from_a_mass_follow(spec):
    before = spec.compile()
    pm.apply(spec, [parameter(Kind.MASS)], [0.4])
    after = spec.compile()
    stale = mujoco.MjModel.from_xml_string(spec.to_xml())
    np.testing.assert_allclose(after.dof_invweight0, stale.dof_invweight0, rtol=1e-4)
    assert not np.allclose(after.dof_invweight0, before.dof_invweight0)


def test_strength_scales_what_the_gains_were_set_to(spec):
    for order in ([Kind.STRENGTH, Kind.STIFFNESS], [Kind.STIFFNESS, Kind.STRENGTH]):
        fresh = leg().spec.copy()
        values = {Kind.STRENGTH: 0.5, Kind.STIFFNESS: 20.0}
        pm.apply(fresh, [parameter(kind) for kind in order], [values[kind] for kind in order])
        actuator = fresh.compile().actuator(JOINT)
        assert actuator.gainprm[0] == pytest.approx(10.0)
        np.testing.assert_allclose(actuator.biasprm[1:3], [-10.0, -0.25])


def test_a_start_is_off_the_bound_it_is_nominally_on():
    assert parameter(Kind.DAMPING, nominal=0.0).start == pytest.approx(0.1)
    assert parameter(Kind.DAMPING, nominal=2.0).start == pytest.approx(1.9)
    assert parameter(Kind.DAMPING, nominal=0.7).start == 0.7


def test_parameters_are_chosen_by_patterns():
    all_ = [parameter(Kind.MASS), parameter(Kind.FRICTION), parameter(Kind.STRENGTH, free=False)]
    freed = pm.choose(all_, ["*.strength"], ["*.mass"], {"*.friction": 1.5})
    assert [p.free for p in freed] == [False, False, True]
    assert freed[1].nominal == 1.5
    with pytest.raises(UnknownNameError, match=r"'\*.fricton'; did you mean|unknown parameter '\*.fricton'"):
        pm.choose(all_, [], ["*.fricton"], {})
    with pytest.raises(CalibrationError, match=r"'FR_calf.mass' = 9 1 is outside \[0, 2\]"):
        pm.choose(all_, [], [], {"*.mass": 9.0})
    with pytest.raises(CalibrationError, match="no parameter is left"):
        pm.choose(all_, [], ["*"], {})


def test_nonsense_is_refused(spec):
    with pytest.raises(CalibrationError, match=r"'FR_calf.mass': nominal 3 in \[0, 2\]"):
        parameter(Kind.MASS, nominal=3.0)
    with pytest.raises(UnknownNameError, match="unknown body 'RR_calf'; did you mean 'FR_calf'"):
        pm.apply(spec, [parameter(Kind.MASS, "RR_calf")], [1.0])
    bare = mujoco.MjSpec.from_string('<mujoco><worldbody><body name="a"><geom size="1"/></body></worldbody></mujoco>')
    with pytest.raises(ModelError, match="'a' has no inertial element"):
        pm.apply(bare, [parameter(Kind.MASS, "a")], [1.0])


def test_a_payload_is_a_point_mass_at_its_site(spec):
    """As MuJoCo itself adds a body of that mass, welded there; whatever else is set, the payload comes on top."""
    welded = spec.copy()
    mass = parameter(Kind.MASS)
    pm.apply(spec, [parameter(Kind.PAYLOAD, "FR_foot"), mass], [0.08, 0.25])
    pm.apply(welded, [mass], [0.25])
    foot = welded.site("FR_foot")
    foot.parent.add_body(pos=foot.pos, mass=0.08, ipos=[0, 0, 0], inertia=[1e-12] * 3, explicitinertial=True)
    ours, theirs = spec.compile(), welded.compile()
    assert ours.body("FR_calf").mass[0] == pytest.approx(0.33)
    inertias = []
    for model in (ours, theirs):
        data = mujoco.MjData(model)
        data.qpos[:] = [0.3, 0.8, -1.6]
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        inertias.append((full, data.qfrc_bias.copy()))
    for mine, yours in zip(*inertias, strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-6, atol=1e-9)


def test_what_is_fixed_or_known_is_no_longer_assumed():
    parameters = (parameter(Kind.MASS, free=False), parameter(Kind.STRENGTH, free=False), parameter(Kind.DAMPING))
    assert [p.assumed for p in parameters] == [True, True, False]
    chosen = pm.choose(parameters, (), ("*.mass",), {"*.strength": 0.9})
    assert [p.assumed for p in chosen] == [False, False, False]
    assert chosen[1].nominal == 0.9
