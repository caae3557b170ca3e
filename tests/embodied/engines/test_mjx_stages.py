"""Refreshing the sensors after a step gives what the whole of MJX's forward dynamics gives."""

from __future__ import annotations

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from embodied.engines.mjx.stages import sensor_refresh

pytestmark = pytest.mark.timeout(280)

ARM = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <camera name="side" pos="0 -2 1"/>
    <body name="upper" pos="0 0 .6">
      <joint name="shoulder" axis="0 1 0" range="-60 60" limited="true"/>
      <geom name="arm" type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1"/>
      <site name="tip" pos=".4 0 0" euler="10 20 30"/>
      <camera name="eye" pos=".2 0 .1"/>
      <body name="lower" pos=".4 0 0">
        <joint name="elbow" axis="0 1 0" damping=".1"/>
        <geom name="hand" type="sphere" size=".05" mass=".5"/>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="both"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-.5"/></fixed></tendon>
  <actuator>
    <position name="pull" tendon="both" kp="5" kv=".2"/><motor name="turn" joint="shoulder" gear="2"/>
  </actuator>
  <sensor>
    <framepos name="eye" objtype="camera" objname="eye"/>
    <framequat name="tip_quat" objtype="site" objname="tip" reftype="body" refname="lower"/>
    <framelinvel name="tip_vel" objtype="site" objname="tip"/>
    <jointpos joint="elbow"/>
    <jointvel joint="elbow"/>
    <tendonpos tendon="both"/>
    <tendonvel tendon="both"/>
    <actuatorpos actuator="pull"/>
    <actuatorvel actuator="pull"/>
    <subtreecom body="upper"/>
    <subtreelinvel body="upper"/>
    <gyro site="tip"/>
    <accelerometer site="tip"/>{more}
  </sensor>
</mujoco>
"""
POLE = """
<mujoco>
  <worldbody>
    <body name="pole">
      <joint name="hinge" axis="0 1 0"/>
      <geom type="sphere" size=".1" pos=".4 0 0"/>
      <site name="tip" pos=".4 0 0"/>
      <camera name="eye" pos=".2 0 .1"/>
    </body>
  </worldbody>
  <actuator><motor name="turn" joint="hinge" gear="2"/></actuator>
  <sensor>
    <framepos name="eye" objtype="camera" objname="eye"/>
    <framelinvel name="tip_vel" objtype="site" objname="tip"/>
    <actuatorvel actuator="turn"/>
    <accelerometer site="tip"/>
  </sensor>
</mujoco>
"""
"""A sensor of each stage, in a third of the time that the arm with its tendons takes to compile."""
MODELS = [pytest.param(POLE, id="pole"), pytest.param(ARM.format(more=""), id="arm", marks=pytest.mark.slow)]
DISTANCE = '<distance geom1="hand" geom2="floor" cutoff="1"/>'
FORCES_ONLY = "<mujoco><worldbody><body><joint/><geom size='.1'/><site name='s'/></body></worldbody>{}</mujoco>"


@pytest.mark.parametrize("warp", [True, False], ids=["warp", "jax"])
@pytest.mark.parametrize("xml", MODELS)
def test_sensors_before_the_forces_are_those_of_forward(warp: bool, xml: str) -> None:
    """In a state in motion: refreshed in MJX, against those of C MuJoCo."""
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = [0.5, -0.7][: model.nq], [1.0, -2.0][: model.nv]
    mujoco.mj_forward(model, data)
    refresh = sensor_refresh(model, warp)
    assert refresh is not None
    assert refresh is not mjx.forward
    impl = "warp" if warp else "jax"
    there = mjx.make_data(model, impl=impl, **({"naconmax": 32, "njmax": 64} if warp else {}))
    moving = there.replace(qpos=data.qpos, qvel=data.qvel)
    sensed = np.asarray(jax.jit(refresh)(mjx.put_model(model, impl=impl), moving).sensordata)
    early = np.repeat(model.sensor_needstage != mujoco.mjtStage.mjSTAGE_ACC, model.sensor_dim)
    np.testing.assert_allclose(sensed[early], data.sensordata[early], atol=1e-5)


@pytest.mark.parametrize("warp", [True, False], ids=["warp", "jax"])
def test_sensors_of_contacts_need_the_whole_of_it(warp: bool) -> None:
    model = mujoco.MjModel.from_xml_string(ARM.format(more=DISTANCE))
    assert sensor_refresh(model, warp) is mjx.forward


def test_a_model_that_senses_forces_only_needs_none() -> None:
    model = mujoco.MjModel.from_xml_string(FORCES_ONLY.format("<sensor><accelerometer site='s'/></sensor>"))
    assert sensor_refresh(model, warp=True) is None
