"""Legged robots as tasks need them: asset, joints, stance. Names come from the model, never positions in a list."""

from __future__ import annotations

import dataclasses
import functools

import mujoco
import numpy as np


@dataclasses.dataclass(frozen=True)
class Quadruped:
    """A four-legged robot with three position-controlled joints a leg."""

    name: str
    asset: str
    """MJCF file below `assets/`; has the keyframe `home`."""
    trunk: str
    """Name of the floating body."""
    legs: tuple[str, ...]
    """Prefixes of the legs, in the order of joints and actuators."""
    joints: tuple[str, ...]
    """Suffixes of a leg's joints, from the trunk down."""
    foot_radius: float
    """m."""
    height: float
    """m of the trunk above the floor in the home pose."""

    @functools.cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the twelve actuated joints, leg by leg."""
        return tuple(f"{leg}_{joint}" for leg in self.legs for joint in self.joints)

    def layout(self, model: mujoco.MjModel) -> Layout:
        """Where this robot's parts lie in a compiled model."""
        joints = [model.joint(name) for name in self.joint_names]
        root = model.body(self.trunk).jntadr[0]
        home = model.key("home").qpos
        return Layout(
            root_qpos=int(model.jnt_qposadr[root]),
            root_qvel=int(model.jnt_dofadr[root]),
            qpos=np.array([joint.qposadr[0] for joint in joints]),
            qvel=np.array([joint.dofadr[0] for joint in joints]),
            actuators=np.array([model.actuator(name).id for name in self.joint_names]),
            home=np.array([home[joint.qposadr[0]] for joint in joints], np.float32),
            stance=np.array([model.key("home").ctrl[model.actuator(name).id] for name in self.joint_names], np.float32),
            limits=np.array([joint.range for joint in joints], np.float32),
            trunk=model.body(self.trunk).id,
        )


@dataclasses.dataclass(frozen=True)
class Layout:
    """Addresses in a compiled model; joints in the order of `Quadruped.joint_names`."""

    root_qpos: int
    """First of the floating base's 7 entries in qpos."""
    root_qvel: int
    """First of its 6 entries in qvel."""
    qpos: np.ndarray
    """(12,) addresses in qpos."""
    qvel: np.ndarray
    """(12,) addresses in qvel."""
    actuators: np.ndarray
    """(12,) actuator ids."""
    home: np.ndarray
    """(12,) rad, the home pose."""
    stance: np.ndarray
    """(12,) rad, servo targets that hold the home pose against gravity."""
    limits: np.ndarray
    """(12, 2) rad."""
    trunk: int
    """Body id."""


GO1 = Quadruped(
    name="go1",
    asset="robots/go1/go1.xml",
    trunk="trunk",
    legs=("FR", "FL", "RR", "RL"),
    joints=("hip", "thigh", "calf"),
    foot_radius=0.023,
    height=0.278,
)
"""Unitree Go1; constants and their origin in its MJCF."""

GO2 = Quadruped(
    name="go2",
    asset="robots/go2/go2.xml",
    trunk="trunk",
    legs=("FR", "FL", "RR", "RL"),
    joints=("hip", "thigh", "calf"),
    foot_radius=0.022,
    height=0.2868,
)
"""Unitree Go2; constants and their origin in its MJCF."""
