"""A 3-D view in the browser, built with viser from a MuJoCo model's own shapes.

`Scene` shows the environments; `Panel` is what the user may press and read. Neither knows how environments move: see
`embodied.play`.
"""

from __future__ import annotations

import collections
import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import trimesh
import viser
from viser import uplot

from embodied.errors import EmbodiedError
from embodied.rendering.meshes import VISIBLE_GROUPS, Part, body_parts, geom_colour, tint
from embodied.rendering.pictures import COLOURS, FollowCamera, marker_radius
from embodied.rendering.scene_state import SceneState, set_scene

ENDLESS = 40.0  # m, how wide a plane of infinite size is drawn
SETTLING = 2.0  # s after which a new visitor's camera is trusted
SMOOTH = 0.4  # of the way to what it follows that the camera goes with each picture
HISTORY = 300  # control steps in the reward plot
PALETTE = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#ff9da7", "#888888")


class Scene:
    """The environments in the browser: planes once, every body as one instance per environment."""

    def __init__(self, server: viser.ViserServer, model: mujoco.MjModel, shown: int) -> None:
        """Build the scene for `shown` environments, all at the origin until the first `update`."""
        self.server, self.model, self.shown = server, model, shown
        self._data = mujoco.MjData(model)
        self.parts = body_parts(model)
        self.planes: list[int] = []
        self._markers: dict[str, Any] = {}
        self._ghosts: dict[str, list[Any]] = {}
        self._still = np.flatnonzero(model.body_weldid == 0)
        with server.atomic():
            server.scene.set_up_direction("+z")
            server.scene.configure_default_lights(cast_shadow=True)
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
        self.server.scene.add_grid(
            f"/plane{geom}",
            width=size[0],
            height=size[1],
            cell_size=0.5,
            section_size=1.0,
            cell_color=tint(colour, 0.9),
            section_color=tint(colour, 1.25),
            plane_color=tint(colour, 1.0),
            plane_opacity=float(colour[3]),
            shadow_opacity=0.35,
            fade_distance=ENDLESS,
            wxyz=quat,
            position=self._data.geom_xpos[geom],
        )
        self.planes.append(geom)

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
        """(3,) m, by how much environment `index` is set aside: places on a square grid, `spacing` m apart."""
        columns = math.ceil(math.sqrt(self.shown))
        return spacing * np.array([index % columns, index // columns, 0.0])

    def update(self, state: SceneState, spacing: float = 0.0) -> np.ndarray:
        """Move everything to `state`; returns (shown, nbody, 3), where every body now is."""
        places = np.zeros((self.shown, self.model.nbody, 3))
        turns = np.zeros((self.shown, self.model.nbody, 4))
        for index in range(self.shown):
            set_scene(self.model, self._data, state, index)
            places[index] = self._data.xpos + self.offset(index, spacing)
            turns[index] = self._data.xquat
        with self.server.atomic():
            for part, handle in zip(self.parts, self._handles, strict=True):
                handle.batched_positions = places[:, part.body].astype(np.float32)
                handle.batched_wxyzs = turns[:, part.body].astype(np.float32)
            offsets = np.stack([self.offset(index, spacing) for index in range(self.shown)])
            self._update_markers(state, offsets)
            self._update_ghosts(state, offsets)
        return places

    def _update_markers(self, state: SceneState, offsets: np.ndarray) -> None:
        for (name, points), colour in zip(
            state.debug_markers.items(), COLOURS * len(state.debug_markers), strict=False
        ):
            where = (points[: self.shown] + offsets[:, None]).reshape(-1, 3).astype(np.float32)
            if name not in self._markers:
                ball = trimesh.creation.icosphere(3, marker_radius(self.model))
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
            self._markers[name].batched_positions = where

    def _update_ghosts(self, state: SceneState, offsets: np.ndarray) -> None:
        for name, rows in state.goal_visualization.items():
            if name not in self._ghosts:
                parts = [part for part in self.parts if part.body == self.model.body(name).id]
                self._ghosts[name] = [self._add_part(f"/ghosts/{name}/{i}", part) for i, part in enumerate(parts)]
            for handle in self._ghosts[name]:
                handle.batched_positions = (rows[: self.shown, :3] + offsets).astype(np.float32)
                handle.batched_wxyzs = rows[: self.shown, 3:].astype(np.float32)

    def first_view(self, state: SceneState) -> tuple[np.ndarray, np.ndarray]:
        """Position and point of a camera that sees environment 0 as `embodied.rendering.pictures` films it."""
        set_scene(self.model, self._data, state, 0)
        camera = FollowCamera(self.model).update(self._data, 0.0, state.marked_points(0))
        azimuth, elevation = math.radians(camera.azimuth), math.radians(camera.elevation)
        forward = np.array(
            [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
        )
        return np.array(camera.lookat) - camera.distance * forward, np.array(camera.lookat)


class Panel:
    """Buttons, sliders and readings. What the user pressed is read by the loop; nothing here steps anything."""

    def __init__(
        self, server: viser.ViserServer, title: str, policies: Sequence[str], num_envs: int, spacing: float
    ) -> None:
        gui = server.gui
        gui.configure_theme(dark_mode=False, show_logo=False)
        gui.set_panel_label(title)
        self.reset_wanted = False
        self.pause = gui.add_checkbox("Pause", False)
        self.reset = gui.add_button("Reset")
        self.speed = gui.add_slider("Speed", 0.1, 4.0, 0.1, 1.0, hint="1 is real time")
        self.policy = gui.add_dropdown("Policy", tuple(policies), initial_value=policies[0])
        self.follow = gui.add_checkbox("Follow", True, hint="The camera travels with the robot")
        self.index = gui.add_slider("Environment", 0, max(1, num_envs - 1), 1, 0, disabled=num_envs == 1)
        self.spacing = gui.add_slider("Spacing (m)", 0.0, 5.0, 0.1, spacing, disabled=num_envs == 1)
        self.index.visible = self.spacing.visible = num_envs > 1
        self.status = gui.add_markdown("compiling ...")
        self._gui = gui
        self._plot: Any = None
        self._terms: dict[str, collections.deque[float]] = {}
        self._steps: collections.deque[float] = collections.deque(maxlen=HISTORY)

        @self.reset.on_click
        def _(_: Any) -> None:
            self.reset_wanted = True

    def record(self, time: float, terms: Mapping[str, float]) -> None:
        """Remember one control step's weighted reward terms for the plot."""
        self._steps.append(time)
        for name, value in terms.items():
            self._terms.setdefault(name, collections.deque(maxlen=HISTORY)).append(value)

    def clear(self) -> None:
        """Forget the plot: another environment, or a fresh start."""
        self._steps.clear()
        self._terms.clear()

    def refresh(self, status: str) -> None:
        """Show new text and the plot."""
        self.status.content = status
        if len(self._steps) < 2:
            return
        data = (np.array(self._steps), *(np.array(values) for values in self._terms.values()))
        if self._plot is None:
            series = [uplot.Series(label="s")]
            series += [
                uplot.Series(label=name, stroke=PALETTE[i % len(PALETTE)], width=2)
                for i, name in enumerate(self._terms)
            ]
            self._plot = self._gui.add_uplot(
                data, tuple(series), title="reward terms per step", scales={"x": uplot.Scale(time=False)}, aspect=1.2
            )
        else:
            self._plot.data = data


class ChaseCamera:
    """Carries each visitor's camera along with what it follows, and leaves the angle and distance to the visitor."""

    def __init__(self, server: viser.ViserServer, first_view: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        """Send every new visitor to the first view."""
        self.server = server
        self._aim: np.ndarray | None = None
        self._joined: dict[int, float] = {}
        position, lookat = first_view()
        camera = server.initial_camera
        camera.up, camera.near = (0.0, 0.0, 1.0), 0.005
        camera.position, camera.look_at = position, lookat

        @server.on_client_connect
        def _(client: viser.ClientHandle) -> None:
            self._joined[client.client_id] = time.monotonic()

    def update(self, target: np.ndarray, active: bool) -> None:
        """Look at `target` (3,) from where each visitor looks now: only angle and distance are theirs."""
        if self._aim is None or not active:
            self._aim = target.copy()
        self._aim += SMOOTH * (target - self._aim)
        if not active:
            return
        for client in self.server.get_clients().values():
            # A page that is just opening still reports viser's own view, and would be held at that distance.
            if time.monotonic() - self._joined.get(client.client_id, math.inf) < SETTLING:
                continue
            # What a client reports is some moments old, but its position and aim are of one moment.
            away = np.asarray(client.camera.position) - np.asarray(client.camera.look_at)
            with client.atomic():
                client.camera.position = self._aim + away
                client.camera.look_at = self._aim


def start_server(host: str, port: int) -> viser.ViserServer:
    """A quiet viser server.

    Raises:
        EmbodiedError: no port is free, or the address is not this machine's.
    """
    try:
        # viser binds in a thread of its own and would wait for ever for one that has failed.
        socket.create_server((host, 0)).close()
        return viser.ViserServer(host=host, port=port, label="embodied", verbose=False)
    except (OSError, RuntimeError) as error:
        raise EmbodiedError(f"cannot open the viewer on {host}:{port}: {error}") from error
