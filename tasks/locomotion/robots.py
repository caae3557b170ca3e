"""Legged robots as tasks need them: asset, joints, feet, stance. Names come from the model, never places in a list."""

from __future__ import annotations

import dataclasses

import mujoco
import numpy as np

from embodied.math.symmetry import PSEUDOVECTOR, VECTOR, Reflection, partners

UNLIKE = 0.05  # of the height, and of the cosine between axes: what two sides of one robot may differ by


@dataclasses.dataclass(frozen=True)
class LeggedRobot:
    """A floating body on legs with position-controlled joints."""

    name: str
    asset: str
    """MJCF file below `assets/`; has the keyframe `home`, and the sensors of a Go1 (see its file)."""
    trunk: str
    """Name of the floating body."""
    joint_names: tuple[str, ...]
    """Names of the n actuated joints, and of their actuators, in the order of actions."""
    feet: tuple[str, ...]
    """Names of the k feet: prefixes of their sensors `_touch`, `_pos`, `_linvel_w`."""
    foot_radius: float
    """m from a foot's position sensor down to its sole."""
    height: float
    """m of the trunk above the floor in the home pose."""
    pose_weights: tuple[float, ...]
    """Weight of each joint's squared distance from the home pose, 1/rad^2."""
    reach: tuple[float, ...] | None = None
    """Reach of an action on each joint's target, in multiples of the config's `action_scale`; None: 1 each."""

    def __post_init__(self) -> None:
        count = len(self.joint_names)
        for name, values in (("pose_weights", self.pose_weights), ("reach", self.reach)):
            if values is not None and len(values) != count:
                raise ValueError(f"{self.name}: {len(values)} {name} for {count} joints")

    def layout(self, model: mujoco.MjModel) -> Layout:
        """Addresses of this robot's parts in a compiled model."""
        joints = [model.joint(name) for name in self.joint_names]
        actuators = [model.actuator(name).id for name in self.joint_names]
        root = model.body(self.trunk).jntadr[0]
        home = model.key("home")
        return Layout(
            root_qpos=int(model.jnt_qposadr[root]),
            root_qvel=int(model.jnt_dofadr[root]),
            qpos=np.array([joint.qposadr[0] for joint in joints]),
            qvel=np.array([joint.dofadr[0] for joint in joints]),
            actuators=np.array(actuators),
            home=np.array([home.qpos[joint.qposadr[0]] for joint in joints], np.float32),
            stance=np.array([home.ctrl[actuator] for actuator in actuators], np.float32),
            limits=np.array([joint.range for joint in joints], np.float32),
            trunk=model.body(self.trunk).id,
        )

    def reflections(self, model: mujoco.MjModel) -> tuple[Reflection, Reflection]:
        """Left-right reflections of joints (n) and feet (k), from where they and their axes lie in the home pose.

        A mirrored joint turns about its mirrored axis, which is a pseudovector, and counts the other way where its
        partner's axis points the other way.

        Raises:
            EmbodiedError: a joint or a foot has no mirror image; names it.
        """
        data = mujoco.MjData(model)
        root = model.jnt_qposadr[model.body(self.trunk).jntadr[0]]
        data.qpos = model.key("home").qpos
        data.qpos[root : root + 7] = [0, 0, self.height, 1, 0, 0, 0]
        mujoco.mj_forward(model, data)
        joints = [model.joint(name).id for name in self.joint_names]
        along = PSEUDOVECTOR(data.xaxis[joints]) @ data.xaxis[joints].T
        index = partners(self._apart(data.xanchor[joints]) + 1 - np.abs(along), self.joint_names, UNLIKE)
        sign = tuple(1 if along[i, j] > 0 else -1 for i, j in enumerate(index))
        places = np.array([data.sensor(f"{foot}_pos").data for foot in self.feet])
        feet = partners(self._apart(places), self.feet, UNLIKE)
        return Reflection(index, sign), Reflection(feet, (1,) * len(feet))

    def _apart(self, places: np.ndarray) -> np.ndarray:
        """(n, n) distance of each mirrored place (n, 3) from each, as a fraction of the height."""
        return np.linalg.norm(VECTOR(places)[:, None] - places, axis=-1) / self.height


@dataclasses.dataclass(frozen=True)
class Layout:
    """Addresses in a compiled model; joints in the order of `LeggedRobot.joint_names`."""

    root_qpos: int
    """First of the floating base's 7 entries in qpos."""
    root_qvel: int
    """First of its 6 entries in qvel."""
    qpos: np.ndarray
    """(n,) addresses in qpos."""
    qvel: np.ndarray
    """(n,) addresses in qvel."""
    actuators: np.ndarray
    """(n,) actuator ids."""
    home: np.ndarray
    """(n,) rad, the home pose."""
    stance: np.ndarray
    """(n,) rad, servo targets that hold the home pose against gravity."""
    limits: np.ndarray
    """(n, 2) rad."""
    trunk: int
    """Body id."""


def quadruped(name: str, *, foot_radius: float, height: float) -> LeggedRobot:
    """A four-legged robot whose MJCF uses the Go1's names: legs FR FL RR RL, joints hip, thigh, calf."""
    legs = ("FR", "FL", "RR", "RL")
    return LeggedRobot(
        name=name,
        asset=f"robots/{name}/{name}.xml",
        trunk="trunk",
        joint_names=tuple(f"{leg}_{joint}" for leg in legs for joint in ("hip", "thigh", "calf")),
        feet=tuple(f"{leg}_foot" for leg in legs),
        foot_radius=foot_radius,
        height=height,
        pose_weights=(1.0, 1.0, 0.1) * len(legs),
    )
