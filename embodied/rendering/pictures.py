"""Pictures of environments with MuJoCo's renderer, with or without a display.

    renderer = Renderer(env, size=(640, 360))
    image = renderer.frame(0)                # one environment, the camera follows its robot
    image = renderer.frame(0, range(16))     # the other robots too, translucent
    image = renderer.grid(range(16))         # one tile per environment

What is drawn comes from `env.world()`, so every engine can be filmed. Robots with a floating base are followed;
`Pictures.markers` are drawn as translucent balls, and bodies of primitive shapes a second time at their goals
(`Pictures.goals`).
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence

import mujoco
import numpy as np

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.rendering.meshes import VISIBLE_GROUPS, geom_colour
from embodied.rendering.opengl import choose_backend, draws_on_gpu, renderer
from embodied.rendering.scene_state import (
    RenderableEnv,
    SceneReader,
    SceneState,
    carried_by,
    floating_bodies,
    radius_of,
    set_scene,
)

Image = np.ndarray
"""(height, width, 3) uint8."""

MOST_SHOWN = 16  # environments in one picture: more are too small, or too crowded, to tell apart
OTHERS_ALPHA = 0.3  # opacity of the other environments' robots
MAX_GEOMS = 20_000  # shapes in one scene: 16 robots of a few hundred, with room to spare
COLOURS = ((1.0, 0.35, 0.15), (0.15, 0.7, 0.3), (0.2, 0.5, 1.0), (0.9, 0.75, 0.1), (0.7, 0.3, 0.9))
"""Of the markers, in the order in which the task names them."""
MARKER_ALPHA = 0.4


FILLED = 0.7  # of a picture's width or height that the followed bodies fill
BEHIND = 0.2  # of its distance: the most by which the camera's smooth way may lag behind what is followed
NEARBY = 2.5  # m from a robot (of a large one three radii) within which markers are kept in the picture
FAR = 15.0  # radii beyond which they are not: a small robot would be too small to see
SUN = "sun"  # name of the light whose shadows follow the robot, in assets/scenes/floor.xml
SHADED_ROBOT, SHADED_SCENE = 6.0, 2.0  # radii of a robot, extents of a scene, within which shadows fall: fewer, sharper
CORNERS = np.array(list(itertools.product((-1, 1), repeat=3)))  # of a box, in half its sides
LAMP = 0.06  # radius of a lamp over its distance where shadows are to be soft: as wide as a window's
TRAIL = 0.25  # of a robot's radius: half the width of its trail where it is now
SPECK = 0.02  # of its distance: a robot of a team whose radius is smaller gets a ball in its colour around it


@dataclasses.dataclass(frozen=True)
class View:
    """Content, direction of sight and softness of shadows of a picture, where the scene's own view does not suffice."""

    bodies: tuple[str, ...] = ()
    """Bodies that fill it, with all attached bodies. By default the robots with a floating base and what is marked
    near them, and where there are none the scene's own view."""
    azimuth: float | None = None
    """deg, direction of sight about z from x; by default the scene's."""
    elevation: float | None = None
    """deg, direction of sight above the horizontal; by default the scene's."""
    filled: float = FILLED
    """Share of the picture's width or height that they fill."""
    trail: float = 0.0
    """s, how far back the ways of the followed robots are drawn, each in a colour of its own."""
    light_samples: int = 1
    """Points of each lamp whose shadows are averaged: with 16 they are soft, and a picture takes 16 times as long."""


SCENES_VIEW = View()


class FollowCamera:
    """Looks at the followed robots and the markers near them; moves smoothly, and cuts where an episode begins.

    It is as near as shows all of them: their shapes, as they are now, fill most of the picture.
    """

    def __init__(self, model: mujoco.MjModel, aspect: float = 16 / 9, view: View = SCENES_VIEW) -> None:
        """Find the bodies to follow; `bodies` is empty where the camera stands still. `aspect` is width over height.

        Raises:
            UnknownNameError: the view has a body that the model lacks.
        """
        names = [model.body(number).name for number in range(model.nbody)]
        for name in view.bodies:
            if name not in names:
                raise UnknownNameError("body", name, filter(None, names))
        self.bodies = [names.index(name) for name in view.bodies] or floating_bodies(model)
        self.radius = max((radius_of(model, body) for body in self.bodies), default=float(model.stat.extent))
        ours = np.isin(model.geom_bodyid, carried_by(model, self.bodies)) & (model.geom_group < VISIBLE_GROUPS)
        self._geoms = np.flatnonzero(ours)
        self._model = model
        self._upright = math.tan(math.radians(model.vis.global_.fovy / 2)) * view.filled
        self._level = self._upright * aspect
        self._marked = not view.bodies
        self.camera = mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, self.camera)
        if view.azimuth is not None:
            self.camera.azimuth = view.azimuth
        if view.elevation is not None:
            self.camera.elevation = view.elevation
        self._time = math.inf

    def update(self, data: mujoco.MjData, time: float, marked: np.ndarray) -> mujoco.MjvCamera:
        """The camera for `data`, an environment `time` s into its episode, and what is marked there, (k, 3) m."""
        if not self.bodies:
            return self.camera
        points = data.xipos[self.bodies]
        reach = min(FAR * self.radius, max(NEARBY, 3 * self.radius)) if self._marked else 0.0
        near = marked[np.linalg.norm(marked - points.mean(axis=0), axis=1) < reach]
        lookat, distance = self._fitted(np.concatenate([points, near, self._corners(data)]))
        elapsed = time - self._time
        aim = zoom = 1.0
        if 0 <= elapsed < 1:
            aim, zoom = 1 - math.exp(-elapsed / 0.12), 1 - math.exp(-elapsed / 0.5)
        self._time = time
        lag = (1 - aim) * (self.camera.lookat - lookat)
        self.camera.distance += zoom * (distance - self.camera.distance)
        most = BEHIND * self.camera.distance
        self.camera.lookat[:] = lookat + lag * min(1.0, most / max(float(np.linalg.norm(lag)), 1e-9))
        return self.camera

    def _fitted(self, points: np.ndarray) -> tuple[np.ndarray, float]:
        """Point to look at, (3,) m, and distance, m: the least at which the points (k, 3) m fill no more than they may.

        A point x to the right and z beyond what is looked at is in the picture where |x - a| <= t (d + z), with the
        tangent t of half the angle of view, the distance d and the point a that is looked at. These are two bounds on
        a, which meet at the smallest d.
        """
        turn, rise = math.radians(self.camera.azimuth), math.radians(self.camera.elevation)
        ahead = np.array([math.cos(rise) * math.cos(turn), math.cos(rise) * math.sin(turn), math.sin(rise)])
        right = np.array([math.sin(turn), -math.cos(turn), 0.0])
        axes = np.stack([right, np.cross(right, ahead), ahead])
        *across, deep = axes @ points.T
        middle = (deep.min() + deep.max()) / 2
        places, distances = [], [(deep.max() - deep.min()) / 2]
        for place, tangent in zip(across, (self._level, self._upright), strict=True):
            low, high = (place - tangent * (deep - middle)).max(), (place + tangent * (deep - middle)).min()
            places.append((low + high) / 2)
            distances.append((low - high) / (2 * tangent))
        return np.array([*places, middle]) @ axes, float(max(distances))

    def _corners(self, data: mujoco.MjData) -> np.ndarray:
        """(8 n, 3) m: corners of the boxes around the followed robots' shapes."""
        turn = data.geom_xmat[self._geoms].reshape(-1, 3, 3)
        boxes = np.stack([_box(self._model, int(geom)) for geom in self._geoms])
        corners = boxes[:, None, :3] + CORNERS * boxes[:, None, 3:]
        return (data.geom_xpos[self._geoms, None] + np.einsum("kij,kcj->kci", turn, corners)).reshape(-1, 3)


def _box(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """(6,) m: middle and half sides of the box around a shape, in its frame, as large as it is in this episode."""
    radius, length, _ = size = model.geom_size[geom]
    match mujoco.mjtGeom(int(model.geom_type[geom])):
        case mujoco.mjtGeom.mjGEOM_BOX | mujoco.mjtGeom.mjGEOM_ELLIPSOID:
            return np.array([0, 0, 0, *size])
        case mujoco.mjtGeom.mjGEOM_SPHERE:
            return np.array([0, 0, 0, radius, radius, radius])
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            return np.array([0, 0, 0, radius, radius, length + radius])
        case mujoco.mjtGeom.mjGEOM_CYLINDER:
            return np.array([0, 0, 0, radius, radius, length])
    return model.geom_aabb[geom]


class Renderer:
    """Draws the environments of one `Env`. Close it, or use it as a context, to free its graphics state."""

    def __init__(
        self,
        env: RenderableEnv,
        size: tuple[int, int] = (1280, 720),
        camera: str | None = None,
        debug_visualization: bool = True,
        view: View = SCENES_VIEW,
    ) -> None:
        """Prepare pictures of `size`; call `env.reset` before the first.

        Args:
            env: What to draw.
            size: Width and height in pixels.
            camera: A camera of the model; by default one that follows a floating base, else the scene's own view.
            debug_visualization: Whether to draw the task's debug markers and goals.
            view: Content of the picture where no camera is named, and softness of shadows.

        Raises:
            EmbodiedError: no such camera or body, an impossible size, or a machine that cannot render.
        """
        if min(size) < 16 or max(size) > 8192:
            raise EmbodiedError(f"cannot render {size[0]} x {size[1]} pixels; expected 16 to 8192 on each side")
        choose_backend()
        self.env, self.size, self.view = env, size, view
        self.model = copy.copy(env.task.visual_model)
        self.model.vis.global_.offwidth = max(size[0], self.model.vis.global_.offwidth)
        self.model.vis.global_.offheight = max(size[1], self.model.vis.global_.offheight)
        if not draws_on_gpu():
            # In software each picture takes a tenth to half a second: halve that where the eye hardly notices.
            self.model.vis.quality.offsamples = min(4, self.model.vis.quality.offsamples)
            self.model.vis.quality.shadowsize = min(2048, self.model.vis.quality.shadowsize)
        cameras = [self.model.camera(i).name for i in range(self.model.ncam)]
        if camera is not None and camera not in cameras:
            raise UnknownNameError("camera", camera, filter(None, cameras))
        self.camera = camera
        self.scene_reader = SceneReader(env, debug_visualization)
        self._data, self._other = mujoco.MjData(self.model), mujoco.MjData(self.model)
        self._sun = self._sharp_shadows()
        self._follow: dict[int, FollowCamera] = {}
        self._trails: dict[int, list[tuple[float, np.ndarray]]] = {}
        self._contexts: dict[tuple[int, int], mujoco.Renderer] = {}
        self._close = functools.partial(_close_all, self._contexts)

    def frame(self, index: int = 0, others: Iterable[int] = (), state: SceneState | None = None) -> Image:
        """A picture of environment `index`, with the robots of `others` drawn translucently in the same scene.

        Args:
            index: The environment that the camera follows.
            others: More environments; `index` among them is skipped, and so are those past the sixteenth.
            state: What `scene_reader.read()` gave; by default the scene is read now.
        """
        return self._draw(state or self.scene_reader.read(), index, others, self.size)

    def grid(self, indices: Iterable[int], state: SceneState | None = None) -> Image:
        """A picture of the renderer's size with one tile for each of up to sixteen environments."""
        shown = list(indices)[:MOST_SHOWN]
        state = state or self.scene_reader.read()
        columns = math.ceil(math.sqrt(len(shown)))
        rows = math.ceil(len(shown) / columns)
        gap = 4 if len(shown) > 1 else 0
        width = (self.size[0] - gap * (columns - 1)) // columns
        height = (self.size[1] - gap * (rows - 1)) // rows
        picture = np.full((self.size[1], self.size[0], 3), 24, np.uint8)
        for place_, index in enumerate(shown):
            top, left = (place_ // columns) * (height + gap), (place_ % columns) * (width + gap)
            picture[top : top + height, left : left + width] = self._draw(state, index, (), (width, height))
        return picture

    def close(self) -> None:
        """Free the graphics state; the next picture would allocate it again."""
        atexit.unregister(self._close)
        self._close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self, state: SceneState, index: int, others: Iterable[int], size: tuple[int, int]) -> Image:
        for number in (index, *others):
            if not 0 <= number < self.env.num_envs:
                raise EmbodiedError(f"there is no environment {number}; expected 0 to {self.env.num_envs - 1}")
        renderer = self._context(size)
        set_scene(self.model, self._data, state, index)
        camera = self._view(state, index)
        renderer.update_scene(self._data, camera)
        if not isinstance(camera, str) and self._follow[index].bodies:
            if self._sun >= 0:
                renderer.scene.lights[self._sun].pos[:2] += camera.lookat[:2]
            self._add_specks(renderer.scene, self._follow[index])
            self._add_trails(renderer.scene, index, float(state.time[index]))
        for other in [i for i in others if i != index][: MOST_SHOWN - 1]:
            self._add_other(renderer.scene, state, other)
        for (_, points), colour in zip(state.debug_markers.items(), COLOURS * len(state.debug_markers), strict=False):
            for point in points[index]:
                self._add_ball(renderer.scene, point, (*colour, MARKER_ALPHA))
        for name, rows in state.goal_visualization.items():
            self._add_body(renderer.scene, name, rows[index].astype(float))
        return self._lit(renderer, self._data.xpos.mean(axis=0) if isinstance(camera, str) else camera.lookat.copy())

    def _lit(self, renderer: mujoco.Renderer, lookat: np.ndarray) -> Image:
        """The picture of a scene, with the light of each lamp from several points around it, all towards the same."""
        count = self.view.light_samples
        if count == 1:
            return renderer.render().copy()
        lamps = [lamp for lamp in renderer.scene.lights[: renderer.scene.nlight] if lamp.castshadow]
        places = [(lamp.pos.copy(), lamp.dir.copy()) for lamp in lamps]
        total = np.zeros((renderer.height, renderer.width, 3), np.uint32)
        for number in range(count):
            # A sunflower's seeds: evenly spread over a disc (Vogel 1979).
            radius, angle = LAMP * math.sqrt((number + 0.5) / count), number * math.pi * (3 - math.sqrt(5))
            for lamp, (place, sight) in zip(lamps, places, strict=True):
                distance = float(np.linalg.norm(lookat - place))
                aside = np.linalg.svd(sight[None].astype(float))[2][1:]
                lamp.pos[:] = place + distance * radius * np.array([math.cos(angle), math.sin(angle)]) @ aside
                towards = place + distance * sight - lamp.pos
                lamp.dir[:] = towards / np.linalg.norm(towards)
            total += renderer.render()
        return ((total + count // 2) // count).astype(np.uint8)

    def _view(self, state: SceneState, index: int) -> mujoco.MjvCamera | str:
        if self.camera is not None:
            return self.camera
        follow = self._follow.setdefault(index, FollowCamera(self.model, self.size[0] / self.size[1], self.view))
        return follow.update(self._data, float(state.time[index]), state.marked_points(index))

    def _sharp_shadows(self) -> int:
        """Make the sun's shadows as sharp as the scene is small; its number among the scene's lights, or -1."""
        model = self.model
        names = [model.light(number).name for number in range(model.nlight)]
        follow = FollowCamera(model, view=self.view)
        if SUN not in names:
            return -1
        sun = names.index(SUN)
        if len(follow.bodies) > 1 and not self.view.bodies:
            return -1
        reach = (SHADED_ROBOT if follow.bodies else SHADED_SCENE) * follow.radius
        covered = math.degrees(math.atan(reach / float(model.light_pos[sun, 2]))) / float(model.light_cutoff[sun])
        model.vis.map.shadowscale = min(covered, float(model.vis.map.shadowscale))
        # The headlight comes first.
        return sun + int(model.vis.headlight.active)

    def _add_specks(self, scene: mujoco.MjvScene, follow: FollowCamera) -> None:
        """Mark robots of a team that are too small to see, each in a colour of its own."""
        distance = float(follow.camera.distance)
        if len(follow.bodies) < 2 or follow.radius > SPECK * distance:
            return
        for number, body in enumerate(follow.bodies):
            colour = (*COLOURS[number % len(COLOURS)], MARKER_ALPHA)
            self._add_ball(scene, self._data.xipos[body], colour, SPECK / 2 * distance)

    def _add_trails(self, scene: mujoco.MjvScene, index: int, time: float) -> None:
        """Draw the ways of the followed robots since `view.trail` s ago, thinner where they are older."""
        if not self.view.trail:
            return
        bodies, radius = self._follow[index].bodies, self._follow[index].radius
        known = self._trails.get(index, [])
        # Where time went back, an episode began.
        known = [past for past in known if time - self.view.trail <= past[0] < time]
        known.append((time, self._data.xipos[bodies].copy()))
        self._trails[index] = known
        for (old, before), (_, after) in itertools.pairwise(known):
            width = TRAIL * radius * (1 - (time - old) / self.view.trail)
            for number, ends in enumerate(zip(before, after, strict=True)):
                if scene.ngeom < scene.maxgeom:
                    colour = np.array((*COLOURS[number % len(COLOURS)], 1.0), np.float32)
                    geom, capsule = scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_CAPSULE
                    mujoco.mjv_initGeom(geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), colour)
                    mujoco.mjv_connector(geom, capsule, width, *ends)
                    scene.ngeom += 1

    def _add_other(self, scene: mujoco.MjvScene, state: SceneState, index: int) -> None:
        """Draw what moves in another environment, translucently."""
        set_scene(self.model, self._other, state, index)
        first = scene.ngeom
        option, perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
        mujoco.mjv_addGeoms(self.model, self._other, option, perturb, mujoco.mjtCatBit.mjCAT_DYNAMIC.value, scene)
        for number in range(first, scene.ngeom):
            scene.geoms[number].rgba[3] *= OTHERS_ALPHA
            scene.geoms[number].transparent = 1

    def _add_body(self, scene: mujoco.MjvScene, name: str, pose: np.ndarray) -> None:
        """Draw the shapes of a body a second time at `pose` (7,), m and wxyz: solid, to hide its back."""
        model = self.model
        ours = (model.geom_bodyid == model.body(name).id) & (model.geom_group < VISIBLE_GROUPS)
        for geom in map(int, np.flatnonzero(ours)):
            where, turn, matrix = np.zeros(3), np.zeros(4), np.zeros(9)
            mujoco.mju_mulPose(where, turn, pose[:3], pose[3:], model.geom_pos[geom], model.geom_quat[geom])
            mujoco.mju_quat2Mat(matrix, turn)
            kind, size, rgba = model.geom_type[geom], model.geom_size[geom], geom_colour(model, geom)
            self._add_shape(scene, kind, size, where, matrix, rgba)

    def _add_ball(
        self, scene: mujoco.MjvScene, point: np.ndarray, rgba: tuple[float, ...], radius: float | None = None
    ) -> None:
        size = np.full(3, marker_radius(self.model) if radius is None else radius)
        self._add_shape(scene, mujoco.mjtGeom.mjGEOM_SPHERE.value, size, point, np.eye(3).ravel(), rgba)

    def _add_shape(
        self,
        scene: mujoco.MjvScene,
        kind: int,
        size: np.ndarray,
        where: np.ndarray,
        matrix: np.ndarray,
        rgba: Sequence[float] | np.ndarray,
    ) -> None:
        if scene.ngeom >= scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        mujoco.mjv_initGeom(geom, kind, size, where.astype(float), matrix, np.array(rgba, np.float32))
        geom.transparent = rgba[3] < 1
        scene.ngeom += 1

    def _context(self, size: tuple[int, int]) -> mujoco.Renderer:
        """The MuJoCo renderer of a picture size."""
        if size not in self._contexts:
            self._contexts[size] = renderer(self.model, size, MAX_GEOMS)
            # Registered after MuJoCo's own, so that it runs before EGL is shut down at exit.
            atexit.unregister(self._close)
            atexit.register(self._close)
        return self._contexts[size]


def frame(
    env: RenderableEnv,
    index: int = 0,
    camera: str | None = None,
    size: tuple[int, int] = (640, 360),
    view: View = SCENES_VIEW,
) -> Image:
    """One picture of one environment; for many, keep a `Renderer`, which starts the graphics once."""
    with Renderer(env, size, camera, view=view) as renderer:
        return renderer.frame(index)


def marker_radius(model: mujoco.MjModel) -> float:
    """m, of the balls that mark points: in proportion to the followed robot, or to the scene."""
    followed = [radius_of(model, body) for body in floating_bodies(model)]
    size = 0.3 * max(followed) if followed else 0.02 * float(model.stat.extent)
    return min(max(size, 0.01), 0.06)


def _close_all(contexts: dict[tuple[int, int], mujoco.Renderer]) -> None:
    for context in contexts.values():
        context.close()
    contexts.clear()
