"""`Scene`: environments in the browser, drawn by viser from a MuJoCo model's own shapes."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import trimesh
import viser

from embodied.rendering.meshes import VISIBLE_GROUPS, Part, body_parts, geom_colour, tint
from embodied.rendering.pictures import COLOURS, FollowCamera, View, marker_radius
from embodied.rendering.scene_state import SceneState, floating_bodies, radius_of, set_scene
from embodied.viewer.contacts import Contacts

ENDLESS = 40.0  # m, how wide a plane of infinite size is drawn
HORIZON = (223, 230, 238)  # colour of the fog, into which the floor fades
ZENITH = (170, 194, 222)
CONTACT = (235, 64, 52)  # colour of contact points and forces
WEIGHT_LENGTH = 1.2  # radii of the robot, how long the arrow of a force is that equals its weight
LONGEST = 3.0  # radii, the longest arrow
SECTION = 1.0  # m between the lines of the floor
SMALL = 0.03  # radius by distance below which a robot gets a halo
HALO = 0.018  # radius of a halo by distance
MARKER = 0.007  # radius by distance of a marker beside robots with halos
HALO_COLOUR = (255, 128, 0)
SMOOTH = 0.4  # of the way to what is followed that the scene goes with each picture
FILLED = 0.5  # of the page that robots fill at first, as the camera looks at their middles and the panel takes room
JUMP = 10.0  # radii beyond which it goes all the way at once: another episode has begun


class Scene:
    """The environments in the browser: planes once, every body as one instance per environment.

    What is followed stays where it is, and the floor passes below: a camera that travelled along would have to be moved
    for each visitor, against what they do with it, and would drift: a browser reports position and aim of different
    moments.
    """

    def __init__(self, server: viser.ViserServer, model: mujoco.MjModel, shown: int) -> None:
        """Build the scene for `shown` environments, all at the origin until the first `update`."""
        self.server, self.model, self.shown = server, model, shown
        self._data = mujoco.MjData(model)
        self.parts = body_parts(model)
        self.planes: dict[int, tuple[Any, np.ndarray]] = {}
        self.centre = np.zeros(3)
        self._markers: dict[str, Any] = {}
        self._ghosts: dict[str, list[Any]] = {}
        self._forces: Any = None
        self._touches: Any = None
        self.followed = floating_bodies(model)
        self.radius = max((radius_of(model, body) for body in self.followed), default=0.3 * float(model.stat.extent))
        self._marker_radius = marker_radius(model)
        self._halos: Any = None
        self._stems: Any = None
        moving = [body for body in range(model.nbody) if model.body_weldid[body]]
        self._weight = 9.81 * max((float(model.body_subtreemass[body]) for body in moving), default=1.0)
        with server.atomic():
            server.scene.set_up_direction("+z")
            server.scene.set_background_image(sky())
            for geom in range(model.ngeom):
                if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE and model.geom_group[geom] < VISIBLE_GROUPS:
                    self._add_plane(geom)
            self._handles = [
                self._add_part(f"/bodies/{number}-{self.model.body(part.body).name or 'world'}", part)
                for number, part in enumerate(self.parts)
            ]

    def _add_plane(self, geom: int) -> None:
        model = self.model
        mujoco.mj_kinematics(model, self._data)
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, self._data.geom_xmat[geom])
        size = [2 * half if half > 0 else ENDLESS for half in model.geom_size[geom, :2]]
        colour = np.clip(geom_colour(model, geom), 0, 1)
        handle = self.server.scene.add_grid(
            f"/plane{geom}",
            width=size[0],
            height=size[1],
            cell_size=0.5,
            section_size=SECTION,
            cell_color=tint(colour, 0.9),
            section_color=tint(colour, 1.25),
            plane_color=tint(colour, 1.0),
            plane_opacity=float(colour[3]),
            shadow_opacity=0.35,
            fade_distance=ENDLESS,
            wxyz=quat,
            position=self._data.geom_xpos[geom],
        )
        self.planes[geom] = (handle, self._data.geom_xpos[geom].copy())

    def _add_part(self, name: str, part: Part) -> Any:
        here, upright = np.zeros((self.shown, 3)), np.tile([1.0, 0.0, 0.0, 0.0], (self.shown, 1))
        if part.opaque:
            mesh = trimesh.Trimesh(
                part.vertices, part.faces, vertex_normals=part.normals, vertex_colors=part.colours, process=False
            )
            # Several thin parts lie within millimetres of each other: a coarser level of detail would tear them.
            return self.server.scene.add_batched_meshes_trimesh(name, mesh, upright, here, lod="off")
        # Vertex colours carry no transparency here, so what shines through gets one colour and one opacity.
        rgba = part.colours.astype(float).mean(axis=0)
        return self.server.scene.add_batched_meshes_simple(
            name,
            part.vertices,
            part.faces,
            upright,
            here,
            batched_colors=rgba[:3].astype(np.uint8),
            opacity=float(rgba[3] / 255),
            lod="off",
            side="double",
            cast_shadow=False,
        )

    def offset(self, index: int, spacing: float) -> np.ndarray:
        """(3,) m from where things are in environment `index` to where they are shown.

        Environments stand on a square grid, `spacing` m apart, and what is followed at the origin.
        """
        columns = math.ceil(math.sqrt(self.shown))
        return spacing * np.array([index % columns, index // columns, 0.0]) - self.centre

    def seen_from(self, distance: float) -> None:
        """Make out what is to be seen from a distance, m: haze beyond it, and halos around robots that are small there.

        A halo is a translucent ball around a robot, with a line down to the ground below, so that its height is seen.
        """
        self.server.scene.configure_fog(near=1.6 * distance, far=max(25.0, 12.0 * distance), color=HORIZON)
        if self.radius > SMALL * distance or not self.followed:
            return
        self._marker_radius = max(self._marker_radius, MARKER * distance)
        ball = trimesh.creation.icosphere(3, HALO * distance)
        count = self.shown * len(self.followed)
        self._halos = self.server.scene.add_batched_meshes_simple(
            "/halos", np.asarray(ball.vertices), np.asarray(ball.faces), np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            np.zeros((count, 3)), batched_colors=HALO_COLOUR, opacity=0.35, lod="off", cast_shadow=False,
        )  # fmt: skip
        self._stems = self.server.scene.add_line_segments(
            "/stems", np.zeros((count, 2, 3)), HALO_COLOUR, thickness=1.5, thickness_units="screen"
        )

    def follow(self, state: SceneState, index: int, spacing: float, *, at_once: bool = False) -> None:
        """Let the middle of the robots of environment `index` come to the origin with the next `update`."""
        if not self.followed:
            return
        set_scene(self.model, self._data, state, index)
        target = self._data.xpos[self.followed].mean(axis=0) + self.offset(index, spacing) + self.centre
        way = target - self.centre
        self.centre = self.centre + (1.0 if at_once or np.linalg.norm(way) > JUMP * self.radius else SMOOTH) * way

    def update(self, state: SceneState, spacing: float = 0.0, *, goals: bool = True) -> np.ndarray:
        """Move everything to `state`; returns (shown, nbody, 3), where every body now is.

        Args:
            state: Where everything is.
            spacing: m between environments.
            goals: Whether to show the task's markers and goals.
        """
        places = np.zeros((self.shown, self.model.nbody, 3))
        turns = np.zeros((self.shown, self.model.nbody, 4))
        for index in range(self.shown):
            set_scene(self.model, self._data, state, index)
            places[index] = self._data.xpos + self.offset(index, spacing)
            turns[index] = self._data.xquat
        with self.server.atomic():
            for geom, (handle, place) in self.planes.items():
                endless = self.model.geom_size[geom, :2] == 0
                passed = np.where([*endless, False], self.centre % SECTION, self.centre)
                handle.position = place - passed
            for part, handle in zip(self.parts, self._handles, strict=True):
                handle.batched_positions = places[:, part.body].astype(np.float32)
                handle.batched_wxyzs = turns[:, part.body].astype(np.float32)
            offsets = np.stack([self.offset(index, spacing) for index in range(self.shown)])
            if self._halos is not None:
                robots = places[:, self.followed].reshape(-1, 3)
                ground = np.column_stack([robots[:, :2], np.full(len(robots), -self.centre[2])])
                self._halos.batched_positions = robots.astype(np.float32)
                self._stems.points = np.stack([ground, robots], axis=1).astype(np.float32)
            self._update_markers(state, offsets, goals)
            self._update_ghosts(state, offsets, goals)
        return places

    def show_contacts(self, contacts: Contacts | None, offset: np.ndarray) -> None:
        """Show contacts, their points and the forces as arrows, set aside by `offset` (3,) m; None shows none.

        An arrow of the weight of what moves is `WEIGHT_LENGTH` radii long, and none is longer than `LONGEST`.
        """
        positions = np.zeros((0, 3)) if contacts is None else contacts.positions + offset
        forces = np.zeros((0, 3)) if contacts is None or contacts.forces is None else contacts.forces
        scene, radius = self.server.scene, self.radius
        if self._touches is None:
            if not len(positions):
                return
            self._touches = scene.add_point_cloud(
                "/contacts/points",
                positions.astype(np.float32),
                CONTACT,
                point_size=0.05 * radius,
                point_shape="circle",
            )
            self._forces = scene.add_arrows(
                "/contacts/forces", np.zeros((1, 2, 3)), CONTACT, shaft_radius=0.02 * radius,
                head_radius=0.05 * radius, head_length=0.1 * radius,
            )  # fmt: skip
        arrows = forces * WEIGHT_LENGTH * radius / self._weight
        size = np.linalg.norm(arrows, axis=1, keepdims=True)
        arrows = arrows * np.minimum(1.0, LONGEST * radius / np.maximum(size, 1e-9))
        strong = size[:, 0] > 0.02 * radius  # an arrow's head is longer than what is left out
        starts = positions[: len(arrows)][strong]
        self._touches.visible = bool(len(positions))
        self._forces.visible = bool(strong.any())
        if len(positions):
            self._touches.points = positions.astype(np.float32)
        if strong.any():
            self._forces.points = np.stack([starts, starts + arrows[strong]], axis=1).astype(np.float32)

    def hit(
        self, state: SceneState, spacing: float, origin: np.ndarray, direction: np.ndarray
    ) -> tuple[int, int, np.ndarray] | None:
        """The first thing on a ray: environment, body and (3,) m from the body's centre of mass; None of what is fixed.

        Args:
            state: What is shown.
            spacing: m between environments.
            origin: (3,) m, where the ray begins, in the scene.
            direction: (3,) of unit length.
        """
        nearest, found = math.inf, None
        geom = np.zeros(1, np.int32)
        groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)
        for index in range(self.shown):
            set_scene(self.model, self._data, state, index)
            start = origin - self.offset(index, spacing)
            distance = mujoco.mj_ray(self.model, self._data, start, direction, groups, 1, -1, geom)
            if not 0 <= distance < nearest:
                continue
            nearest, body = distance, int(self.model.geom_bodyid[geom[0]])
            point = start + distance * direction - self._data.xipos[body]
            found = (index, body, point) if self.model.body_weldid[body] else None
        return found

    def camera_pose(
        self, state: SceneState, index: int, spacing: float, camera: str
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Position (3,) m, orientation wxyz (4,) and height rad of what one of the model's cameras sees, along +z."""
        set_scene(self.model, self._data, state, index)
        number = self.model.camera(camera).id
        matrix = self._data.cam_xmat[number].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])  # MuJoCo's looks along -z
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, matrix.ravel())
        place = self._data.cam_xpos[number] + self.offset(index, spacing)
        return place, quat, math.radians(float(self.model.cam_fovy[number]))

    def _update_markers(self, state: SceneState, offsets: np.ndarray, shown: bool) -> None:
        for (name, points), colour in zip(
            state.debug_markers.items(), COLOURS * len(state.debug_markers), strict=False
        ):
            where = (points[: self.shown] + offsets[:, None]).reshape(-1, 3).astype(np.float32)
            if name not in self._markers:
                ball = trimesh.creation.icosphere(3, self._marker_radius)
                self._markers[name] = self.server.scene.add_batched_meshes_simple(
                    f"/markers/{name}",
                    np.asarray(ball.vertices),
                    np.asarray(ball.faces),
                    np.tile([1.0, 0.0, 0.0, 0.0], (len(where), 1)),
                    where,
                    batched_colors=np.round(255 * np.array(colour)).astype(np.uint8),
                    opacity=0.45,
                    lod="off",
                    cast_shadow=False,
                )
            self._markers[name].visible = shown
            self._markers[name].batched_positions = where

    def _update_ghosts(self, state: SceneState, offsets: np.ndarray, shown: bool) -> None:
        for name, rows in state.goal_visualization.items():
            if name not in self._ghosts:
                parts = [part for part in self.parts if part.body == self.model.body(name).id]
                self._ghosts[name] = [self._add_part(f"/ghosts/{name}/{i}", part) for i, part in enumerate(parts)]
            for handle in self._ghosts[name]:
                handle.visible = shown
                handle.batched_positions = (rows[: self.shown, :3] + offsets).astype(np.float32)
                handle.batched_wxyzs = rows[: self.shown, 3:].astype(np.float32)

    def first_view(self, state: SceneState) -> tuple[np.ndarray, np.ndarray, float]:
        """Position and point (3,) m, and height rad of the view of `embodied.rendering.pictures` on environment 0.

        It looks at what is followed, as far as `follow` has brought that to the origin.
        """
        set_scene(self.model, self._data, state, 0)
        camera = FollowCamera(self.model, view=View(filled=FILLED)).update(self._data, 0.0, state.marked_points(0))
        azimuth, elevation = math.radians(camera.azimuth), math.radians(camera.elevation)
        forward = np.array(
            [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
        )
        lookat = np.zeros(3) if self.followed else np.array(camera.lookat)
        return lookat - camera.distance * forward, lookat, math.radians(float(self.model.vis.global_.fovy))


def sky() -> np.ndarray:
    """(64, 2, 3) uint8, from the zenith down to the horizon's haze, which fills the lower half."""
    up = np.clip(1.0 - np.arange(64) / 40, 0.0, 1.0)[:, None, None] * np.ones((1, 2, 1))
    return np.round((1 - up) * np.array(HORIZON) + up * np.array(ZENITH)).astype(np.uint8)
