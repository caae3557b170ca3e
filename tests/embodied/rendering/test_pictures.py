import dataclasses
from collections.abc import Iterator
from unittest.mock import Mock

import imageio.v3 as iio
import mujoco
import numpy as np
import pytest
import torch

import embodied
from embodied.env.env import Env
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.rendering import opengl
from embodied.rendering.opengl import choose_backend
from embodied.rendering.pictures import FollowCamera, Renderer, View, frame
from embodied.rendering.scene_state import floating_bodies
from embodied.robot import Robot, draw
from embodied.viewer.film import VideoWriter, check_kind, contact_sheet, record

SIZE = (80, 48)


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    """Its pictures are coarse: shadows and smooth edges take most of the time without a graphics card."""
    env = embodied.make("swarm/hover", 3, "mujoco")
    quality = env.task.visual_model.vis.quality
    fine = quality.shadowsize, quality.offsamples
    quality.shadowsize, quality.offsamples = 512, 0
    env.reset()
    env.step(torch.zeros(3, 4))
    frame(env, 0, size=SIZE)
    yield env
    quality.shadowsize, quality.offsamples = fine


def test_a_frame_shows_something_and_changes_when_the_robot_moves(env: Env) -> None:
    env.reset()
    before = frame(env, 0, size=SIZE)
    assert before.shape == (48, 80, 3)
    assert before.dtype == np.uint8
    assert before.std() > 5
    for _ in range(20):
        env.step(torch.zeros(3, 4))
    assert np.abs(frame(env, 0, size=SIZE).astype(int) - before).max() > 30


def test_markers_other_robots_and_tiles_are_drawn(env: Env) -> None:
    env.reset()
    with Renderer(env, SIZE) as renderer:
        alone, together = renderer.frame(0), renderer.frame(0, range(3))
        tiles = renderer.grid(range(3))
    with Renderer(env, SIZE, debug_visualization=False) as renderer:
        bare = renderer.frame(0)
    assert (alone != together).any()
    assert (alone != bare).any()
    assert tiles.shape == alone.shape


def test_a_body_is_drawn_again_as_the_task_wants_it(env: Env) -> None:
    env.reset()
    body = mujoco.MjModel.body(env.task.visual_model, 1).name
    with Renderer(env, SIZE) as renderer:
        state = renderer.scene_reader.read()

        def drawn(where: np.ndarray) -> np.ndarray:
            return renderer.frame(0, state=dataclasses.replace(state, goal_visualization={body: where})).astype(int)

        alone, here = renderer.frame(0, state=state), state.qpos[:, :7]
        aside = here + np.array([0.1, 0, 0.05, 0, 0, 0, 0])
        same, other = (np.abs(drawn(where) - alone).mean() for where in (here, aside))
    assert other > 0.1
    assert same < other / 3  # what shines through is darker where it is drawn twice


JOINTS = {
    "<freejoint/>": True,
    "<joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/><joint type='hinge'/>": True,
    "<joint type='slide' axis='1 0 0' range='-1 1' limited='true'/>": False,
    "<joint type='hinge'/>": False,
}


@pytest.mark.parametrize("joints", JOINTS)
def test_cameras_follow_what_travels_and_not_what_is_bolted_down(joints: str) -> None:
    arm = "<body><joint/><geom size='.1'/></body>"
    xml = f"<mujoco><worldbody><body>{joints}<geom size='.1'/>{arm}</body></worldbody></mujoco>"
    assert floating_bodies(mujoco.MjModel.from_xml_string(xml)) == ([1] if JOINTS[joints] else [])


BOXES = """<mujoco><worldbody>
    <body name="near" pos="0 0 1"><freejoint/><geom type="box" size=".3 .1 .2"/></body>
    <body name="far" pos="1 2 1.5"><freejoint/><geom type="box" size=".1 .1 .6"/></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("bodies", [(), ("near",), ("near", "far")])
@pytest.mark.parametrize(("azimuth", "elevation"), [(90, 0), (140, -18), (-55, -70)])
def test_what_is_followed_just_fits_its_share_of_the_picture(bodies, azimuth: float, elevation: float) -> None:
    model = mujoco.MjModel.from_xml_string(BOXES)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    view = View(bodies, azimuth, elevation, filled=0.8)
    camera = FollowCamera(model, 2.0, view).update(data, 0.0, np.zeros((0, 3)))
    turn, rise = np.radians(azimuth), np.radians(elevation)
    ahead = np.array([np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)])
    right = np.array([np.sin(turn), -np.cos(turn), 0])
    eye = camera.lookat - camera.distance * ahead
    tall = np.tan(np.radians(model.vis.global_.fovy) / 2)
    ends = []
    for name in bodies or ("near", "far"):
        signs = np.stack(np.meshgrid(*[(-1, 1)] * 3), -1).reshape(-1, 3)
        seen = data.body(name).xpos + signs * model.geom_size[model.body(name).geomadr[0]] - eye
        depth = seen @ ahead
        ends.append(np.stack([seen @ right / depth / (2 * tall), seen @ np.cross(right, ahead) / depth / tall]))
    extent = np.abs(np.concatenate(ends, 1)).max(1)
    assert extent.max() == pytest.approx(0.8)


def test_shadows_become_soft_and_trails_appear(env: Env) -> None:
    env.reset()
    views = View(), View(light_samples=3), View(trail=1.0)
    pictures = []
    for view in views:
        with Renderer(env, SIZE, debug_visualization=False, view=view) as renderer:
            state = renderer.scene_reader.read()
            aside = state.qpos + np.eye(7)[0] * 0.1
            renderer.frame(0, state=dataclasses.replace(state, qpos=aside))
            pictures.append(renderer.frame(0, state=dataclasses.replace(state, time=state.time + 0.01)).astype(int))
    hard, soft, trailed = pictures
    assert (hard != soft).any()
    assert abs(hard.mean() - soft.mean()) < 3
    assert np.abs(hard - trailed).max() > 30


def test_what_cannot_be_drawn_is_refused_in_words(env: Env) -> None:
    with pytest.raises(UnknownNameError, match="unknown camera 'trak'; did you mean 'track'"):
        Renderer(env, SIZE, camera="trak")
    with pytest.raises(EmbodiedError, match="cannot render 4 x 4 pixels"):
        Renderer(env, (4, 4))
    with pytest.raises(UnknownNameError, match="unknown body 'wheel'; known: cf, world"):
        Renderer(env, SIZE, view=View(("wheel",)))
    with Renderer(env, SIZE) as renderer, pytest.raises(EmbodiedError, match="no environment 3; expected 0 to 2"):
        renderer.frame(3)


def test_a_machine_without_graphics_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opengl.sys, "platform", "linux")
    monkeypatch.setattr(opengl, "egl_works", lambda: False)
    monkeypatch.setattr(opengl, "library", lambda *names: None)
    with pytest.raises(EmbodiedError, match=r"neither EGL nor OSMesa works; .*apt-get install libegl1"):
        choose_backend.__wrapped__()
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(EmbodiedError, match="MUJOCO_GL=off"):
        choose_backend.__wrapped__()


@pytest.mark.parametrize("said", [RuntimeError("no device\n7"), ValueError("'x'"), mujoco.FatalError("no context")])
def test_a_backend_that_refuses_is_one_line_with_its_variables(
    env: Env, said: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mujoco, "Renderer", Mock(side_effect=said))
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "7")
    for draws in (lambda: draw(Robot.load("go1")), lambda: frame(env)):
        with pytest.raises(EmbodiedError, match=r"cannot render .*DEVICE_ID=7: .*; unset .*ID") as caught:
            draws()
        assert "\n" not in str(caught.value)


def test_a_film_decodes_to_its_frames(env: Env, tmp_path) -> None:
    made = record(env, lambda obs: torch.zeros(3, 4), tmp_path / "x.mp4", seconds=0.2, size=SIZE, quiet=True)
    frames = iio.imread(tmp_path / "x.mp4", plugin="FFMPEG")
    assert made.frames == len(frames) == 10
    assert made.fps == pytest.approx(50)
    assert [path.name for path in tmp_path.iterdir()] == ["x.mp4"]


@pytest.mark.parametrize("kind", ["gif", "webp", "png"])
def test_other_kinds_of_film(tmp_path, kind: str) -> None:
    with VideoWriter(tmp_path / f"x.{kind}", 20) as writer:
        for shade in range(0, 200, 10):
            writer.add(np.full((32, 48, 3), shade, np.uint8))
    with iio.imopen(tmp_path / f"x.{kind}", "r", plugin="pillow") as film:
        # A WebP keeps a frame longer instead of one more that hardly differs.
        assert len(list(film.iter())) in {"gif": [20], "webp": range(2, 21), "png": [1]}[kind]


def test_a_film_is_whole_or_absent(tmp_path) -> None:
    def interrupted() -> None:
        with VideoWriter(tmp_path / "x.mp4", 20) as writer:
            writer.add(np.zeros((32, 48, 3), np.uint8))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EmbodiedError, match="no frames"), VideoWriter(tmp_path / "x.mp4", 20):
        pass
    with pytest.raises(EmbodiedError, match=r"does not end in \.mp4, \.webp, \.gif, \.png"):
        check_kind("x.avi")


def test_a_contact_sheet_of_one_frame_is_that_frame() -> None:
    one = np.zeros((8, 8, 3), np.uint8)
    assert contact_sheet([one]) is one
