"""`swarm/visual-hover`: hold a point over a mark on the floor that only a camera under the drone sees."""

from __future__ import annotations

import dataclasses
import functools

import mujoco
from jax import Array

from embodied.core.facets import Language, Operator
from embodied.core.hooks import PROPRIO, Observation
from embodied.core.world import World
from tasks.swarm.single.hover import Hover, TaskState

CAMERA = "down"
FIELD_OF_VIEW = 90.0  # degrees, of both sides of a square picture: level, 1 m up, it reaches 1 m aside; our choice
UNDER = 0.016  # m below the drone's middle, where the camera is: its rays then meet no part of the drone
RINGS = ((0.6, (0.92, 0.92, 0.90)), (0.4, (0.80, 0.12, 0.10)), (0.2, (0.92, 0.92, 0.90)))
"""Radius in m and colour of the mark's discs, from below; many edges show its place and its distance. Our choice."""
THICK = 0.002  # m, of which each disc lies above the one below


class VisualHover(Hover):
    """`swarm/hover` by pictures: the policy does not observe its position.

    A mark of three discs lies on the floor beneath the target, and the drone carries the camera `down`. The group
    `proprio` is its state without a picture: attitude and rates of its inertial sensors, and the velocity that a
    Crazyflie with a flow deck estimates. `policy` and `critic` are hover's, for a teacher that knows the place. Start,
    randomisation, reward and what counts as success are hover's.
    """

    language = Language.of("Hover over the mark.", "Hold still two metres above the red ring.")

    def build_spec(self) -> mujoco.MjSpec:
        spec = super().build_spec()
        # The top of the picture is the drone's front.
        spec.body("cf").add_camera(name=CAMERA, pos=[0, 0, -UNDER], xyaxes=[0, -1, 0, 1, 0, 0], fovy=FIELD_OF_VIEW)
        for layer, (radius, colour) in enumerate(RINGS):
            spec.worldbody.add_geom(
                name=f"mark{layer}",
                type=mujoco.mjtGeom.mjGEOM_CYLINDER,
                size=[radius, THICK * (layer + 1) / 2, 0],
                pos=[*self.target[:2], THICK * (layer + 1) / 2],
                rgba=[*colour, 1],
                group=2,
                contype=0,
                conaffinity=0,
            )
        return spec

    @functools.cached_property
    def operator(self) -> Operator:
        """No command: the mark stays where it is."""
        return dataclasses.replace(super().operator, commands={}, ranges=(), measured=None)

    def observe(self, world: World, state: TaskState, key: Array) -> Observation:
        """Hover's groups `policy` and `critic`, and the drone's own measurements without a picture.

        `proprio`: up (3) and velocity (3) m/s in the body frame, gyro (3) rad/s, last action (rotors); as `policy` has
        them, with its noise. `policy` and `critic`: as `swarm/hover` has them.
        """
        seen = super().observe(world, state, key)
        own = {name: value for name, value in seen["policy"].items() if name != "position"}
        return {**seen, PROPRIO: own}
