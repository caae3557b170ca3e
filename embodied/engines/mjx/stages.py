"""The stages of MJX that refresh the sensors of a state which a step has reached.

A step senses where it begins. Positions and velocities after it need kinematics and no dynamics: no collisions, no
constraints, no solver, which are most of the work of `mjx.forward`.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from embodied.engines.mjx.warp_library import import_warp

SENSES_CONTACTS = (
    mujoco.mjtSensor.mjSENS_GEOMDIST,
    mujoco.mjtSensor.mjSENS_GEOMNORMAL,
    mujoco.mjtSensor.mjSENS_GEOMFROMTO,
    mujoco.mjtSensor.mjSENS_CONTACT,
    mujoco.mjtSensor.mjSENS_JOINTLIMITPOS,
    mujoco.mjtSensor.mjSENS_JOINTLIMITVEL,
    mujoco.mjtSensor.mjSENS_TENDONLIMITPOS,
    mujoco.mjtSensor.mjSENS_TENDONLIMITVEL,
)
"""Sensors that MJX reads off the contacts and constraints of the state, though their stage comes before the forces."""

Refresh = Callable[[Any, Any], Any]
"""(mjx.Model, mjx.Data) -> the data with the sensors of its state."""


def sensor_refresh(model: mujoco.MjModel, warp: bool) -> Refresh | None:
    """Function that refreshes position and velocity sensors; None where all of `model`'s belong to a step's beginning.

    A model with sensors that need contacts gets the whole of `mjx.forward`.
    """
    from mujoco import mjx

    before_forces = model.sensor_needstage != int(mujoco.mjtStage.mjSTAGE_ACC)
    if not before_forces.any():
        return None
    if np.isin(model.sensor_type[before_forces], [int(kind) for kind in SENSES_CONTACTS]).any():
        return mjx.forward
    return _warp_stages() if warp else _jax_stages


def _jax_stages(model: Any, data: Any) -> Any:
    """Position and velocity sensors in JAX, in the order of `mjx.forward`."""
    from mujoco import mjx

    for stage in (mjx.kinematics, mjx.com_pos, mjx.camlight, mjx.tendon, mjx.transmission, mjx.sensor_pos):
        data = stage(model, data)
    data = data.tree_replace(
        {
            "_impl.actuator_velocity": data._impl.actuator_moment @ data.qvel,
            "_impl.ten_velocity": data._impl.ten_J @ data.qvel,
        }
    )
    return mjx.sensor_vel(model, mjx.com_vel(model, data))


@functools.cache
def _warp_stages() -> Refresh:
    """Position and velocity sensors in Warp.

    MJX wraps whole functions of MuJoCo Warp in generated code that hands over every field. That code is loaded a second
    time, with another function in the place of `forward`.
    """
    warp = import_warp()
    from mujoco.mjx.third_party.mujoco_warp._src import forward, sensor, smooth
    from mujoco.mjx.warp import forward as generated

    def sense(model: Any, data: Any) -> None:
        forward.fwd_kinematics(model, data)
        smooth.transmission(model, data)
        data.sensordata.zero_()
        sensor.sensor_pos(model, data)
        moments = [data.moment_rownnz, data.moment_rowadr, data.moment_colind, data.actuator_moment]
        tendons = [model.ten_J_rownnz, model.ten_J_rowadr, model.ten_J_colind]
        velocity = forward._actuator_velocity
        warp.launch(velocity, (data.nworld, model.nactuator), [data.qvel, *moments], [data.actuator_velocity])
        velocity = forward._tendon_velocity
        warp.launch(velocity, (data.nworld, model.ntendon), [*tendons, data.qvel, data.ten_J], [data.ten_velocity])
        smooth.com_vel(model, data)
        sensor.sensor_vel(model, data)

    specification = importlib.util.spec_from_file_location("embodied_mjx_sensing", generated.__file__)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.mjwarp = types.SimpleNamespace(forward=sense)
    return module.forward
