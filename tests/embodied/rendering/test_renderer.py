import dataclasses
import math

import mujoco
import numpy as np
import pytest
import torch
from jax import Array

from embodied.errors import EmbodiedError, UnknownNameError
from embodied.rendering.render_state import RenderState
from embodied.rendering.renderer import BatchRenderer, Images

SIZE = (40, 30)
FAR = 20.0  # m, MuJoCo's zfar times its extent: nothing is drawn beyond
KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid")


def body(kind: str, shape: str) -> str:
    return f'<body name="{kind}"><freejoint/><geom name="{kind}" {shape} rgba="1 .2 .2 1"/></body>'


SCENE = f"""
<mujoco>
  <visual><map znear=".001" zfar="{FAR}"/></visual>
  <statistic extent="1" center="0 0 0"/>
  <asset>
    <texture name="checker" type="2d" builtin="checker" rgb1="1 1 1" rgb2="0 0 0" width="64" height="64"/>
    <material name="checker" texture="checker" texrepeat="4 4"/>
    <mesh name="wedge" vertex="0 0 0  .3 0 0  0 .3 0  0 0 .3"/>
    <hfield name="hills" nrow="4" ncol="4" size=".5 .5 .2 .05"
      elevation="0 0 0 0  0 1 3 0  0 2 1 0  0 0 0 0"/>
  </asset>
  <worldbody>
    <light pos="0 0 3" dir="0 0 -1"/>
    <camera name="above" pos="0 0 2" xyaxes="1 0 0 0 1 0" fovy="50"/>
    <camera name="beside" pos="2 -2 1" xyaxes=".7071 .7071 0 -.2357 .2357 .9428" fovy="60"/>
    <geom name="floor" type="plane" size="0 0 1" material="checker"/>
    <geom name="hills" type="hfield" hfield="hills" pos="-.9 .8 -.01"/>
    <geom name="post" type="box" size=".1 .1 .1" pos="0 0 -3"/>
    <geom name="hidden" type="sphere" size=".5" group="3"/>
    {body("sphere", 'type="sphere" size=".15"')}
    {body("capsule", 'type="capsule" size=".1 .2"')}
    {body("box", 'type="box" size=".1 .15 .2"')}
    {body("cylinder", 'type="cylinder" size=".1 .2"')}
    {body("ellipsoid", 'type="ellipsoid" size=".1 .2 .15"')}
    {body("mesh", 'type="mesh" mesh="wedge"')}
  </worldbody>
</mujoco>
"""


def drawn(images: torch.Tensor | None) -> torch.Tensor:
    """What was asked for, and so is there."""
    assert images is not None
    return images


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(SCENE)


@pytest.fixture(scope="module")
def renderer(model: mujoco.MjModel) -> BatchRenderer:
    renderer = BatchRenderer(model, 4, ("above", "beside"), SIZE, depth=True, segmentation=True)
    renderer.render(scattered(model, 4))  # compiles its kernels
    return renderer


def scattered(model: mujoco.MjModel, count: int, seed: int = 0) -> RenderState:
    """Every body anywhere in front of the cameras, turned anyhow."""
    random = np.random.default_rng(seed)
    pos = random.uniform((-0.8, -0.8, 0.2), (0.8, 0.8, 1.0), (count, model.njnt, 3))
    quat = random.normal(size=(count, model.njnt, 4))
    quat /= np.linalg.norm(quat, axis=-1, keepdims=True)
    return RenderState(np.concatenate([pos, quat], -1).reshape(count, -1).astype(np.float32))


def far_away(model: mujoco.MjModel) -> RenderState:
    """Every body below the floor."""
    qpos = np.tile([0.0, 0.0, -5.0, 1.0, 0.0, 0.0, 0.0], model.njnt)
    return RenderState(qpos[None].astype(np.float32))


def rays(model: mujoco.MjModel, camera: str, size: tuple[int, int]) -> np.ndarray:
    """(height, width, 3) through the pixels' centres, in the camera's frame, 1 long along its axis."""
    width, height = size
    half = math.tan(math.radians(model.camera(camera).fovy[0]) / 2)
    y = half * (1 - 2 * (np.arange(height) + 0.5) / height)
    x = half * width / height * (2 * (np.arange(width) + 0.5) / width - 1)
    return np.stack(np.broadcast_arrays(x[None, :], y[:, None], -1.0), -1)


def cast(model: mujoco.MjModel, qpos: Array | np.ndarray, camera: str) -> tuple[np.ndarray, np.ndarray]:
    """(height, width) geom ids and depths, by MuJoCo's own rays, one by one."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    eye, turn = data.camera(camera).xpos, data.camera(camera).xmat.reshape(3, 3)
    groups, geom = np.array([1, 1, 1, 0, 0, 0], np.uint8), np.zeros(1, np.int32)
    ids, depths = np.zeros(SIZE[::-1], np.int32), np.zeros(SIZE[::-1])
    for at, ray in zip(np.ndindex(ids.shape), rays(model, camera, SIZE).reshape(-1, 3), strict=True):
        length = mujoco.mj_ray(model, data, eye, turn @ ray, groups, 1, -1, geom, None)
        # Of a ray that is 1 long along the axis, the length is the depth.
        ids[at], depths[at] = (geom[0], length) if 0 <= length < FAR else (-1, 0.0)
    return ids, depths


def test_a_batch_equals_a_loop(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    state = scattered(model, 4)
    together = renderer.render(state)
    for index in range(4):
        alone = renderer.render(state, torch.tensor([index]))
        for camera, images in together.items():
            for field in dataclasses.fields(Images):
                one, many = getattr(alone[camera], field.name), getattr(images, field.name)
                assert torch.equal(one[0], many[index]), (camera, field.name)


def test_images_are_what_they_say(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    images = renderer.render(scattered(model, 3))["above"]
    assert drawn(images.rgb).shape == (3, 30, 40, 3)
    assert drawn(images.rgb).dtype == torch.uint8
    assert drawn(images.depth).shape == drawn(images.segmentation).shape == (3, 30, 40)
    assert drawn(images.depth).dtype == torch.float32
    assert drawn(images.segmentation).dtype == torch.int32
    before = drawn(images.rgb).clone()
    renderer.render(scattered(model, 3, seed=1))
    assert torch.equal(before, drawn(images.rgb)), "the next picture was written over this one"


def test_geoms_are_where_exact_rays_meet_them(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    state = scattered(model, 4, seed=3)
    images = renderer.render(state)
    met = set()
    for camera, index in (("above", 0), ("beside", 1), ("above", 2), ("beside", 3)):
        ids, depths = cast(model, state.qpos[index], camera)
        seen = drawn(images[camera].segmentation)[index].numpy()
        # A ray that grazes an edge may fall to either side of it in single precision.
        same = ids == seen
        assert same.mean() > 0.998, camera
        np.testing.assert_allclose(drawn(images[camera].depth)[index].numpy()[same], depths[same], rtol=1e-3, atol=1e-4)
        met |= set(seen.ravel().tolist())
    expected = {model.geom(name).id for name in ("floor", "hills", "mesh", *KINDS)}
    assert met - {-1} == expected, "a shape was never seen, or one that is hidden was"


def test_where_a_ray_meets_nothing(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    turned = dataclasses.replace(
        far_away(model), fields={"cam_quat": np.tile(np.array([0.0, 1.0, 0.0, 0.0], np.float32), (1, 2, 1))}
    )
    upwards = BatchRenderer(model, 1, ("above",), SIZE, depth=True, segmentation=True).render(turned)["above"]
    assert (drawn(upwards.segmentation) == -1).all()
    assert (drawn(upwards.depth) == 0).all()


def test_a_camera_that_moves_moves_the_picture_as_projected(model: mujoco.MjModel) -> None:
    size, count = (120, 90), 3
    state = far_away(model)
    qpos = np.repeat(state.qpos, count, 0)
    address = model.jnt_qposadr[model.body("sphere").jntadr[0]]
    qpos[:, address : address + 3] = 0.1, -0.1, 0.5
    random = np.random.default_rng(0)
    pos = (model.cam_pos + random.uniform(-0.2, 0.2, (count, model.ncam, 3))).astype(np.float32)
    fovy = random.uniform(40, 70, (count, model.ncam)).astype(np.float32)
    renderer = BatchRenderer(model, count, ("above", "beside"), size, depth=True, segmentation=True)
    images = renderer.render(RenderState(qpos, None, {"cam_pos": pos, "cam_fovy": fovy}))["above"]
    for index in range(count):
        rows, columns = np.nonzero(drawn(images.segmentation)[index].numpy() == model.geom("sphere").id)
        x, y, z = np.array([0.1, -0.1, 0.5]) - pos[index, model.camera("above").id]
        focal = size[1] / 2 / math.tan(math.radians(fovy[index, model.camera("above").id]) / 2)
        assert columns.mean() + 0.5 == pytest.approx(size[0] / 2 - focal * x / z, abs=0.6)
        assert rows.mean() + 0.5 == pytest.approx(size[1] / 2 + focal * y / z, abs=0.6)


def test_colours_and_sizes_differ_between_environments(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    state = scattered(model, 2)
    state = dataclasses.replace(state, qpos=np.repeat(state.qpos[:1], 2, 0))
    rgba = np.repeat(model.geom_rgba[None], 2, 0).astype(np.float32)
    size = np.repeat(model.geom_size[None], 2, 0).astype(np.float32)
    sphere = model.geom("sphere").id
    rgba[1, sphere], size[1, sphere] = (0, 0, 1, 1), 0.3
    fields = {"geom_rgba": rgba, "geom_size": size}
    images = renderer.render(dataclasses.replace(state, fields=fields))["above"]
    small, large = (drawn(images.segmentation) == sphere).sum((1, 2)).tolist()
    assert large > 2 * small > 0
    red, blue = (drawn(images.rgb)[i][drawn(images.segmentation)[i] == sphere].float().mean(0) for i in range(2))
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    renderer.render(dataclasses.replace(state, fields={name: rows[[0, 0]] for name, rows in fields.items()}))


def test_what_stands_on_the_world_may_stand_elsewhere_in_each_environment(model: mujoco.MjModel) -> None:
    renderer = BatchRenderer(model, 2, ("above",), SIZE, segmentation=True)
    state, post = far_away(model), model.geom("post").id
    place = np.repeat(model.geom_pos[None], 2, 0).astype(np.float32)
    place[:, post] = (0.4, 0.0, 0.1), (-0.4, 0.0, 0.1)
    state = dataclasses.replace(state, qpos=np.repeat(state.qpos, 2, 0), fields={"geom_pos": place})
    seen = drawn(renderer.render(state)["above"].segmentation) == post
    middle = [np.argwhere(one.numpy())[:, 1].mean() for one in seen]
    assert middle[0] > 0.6 * SIZE[0]
    assert middle[1] < 0.4 * SIZE[0]


COLOURS = {
    "floor": (138.6, 138.6, 138.6),
    "hills": (118.7, 118.7, 118.7),
    "sphere": (94.5, 18.5, 18.5),
    "capsule": (197.7, 48.8, 48.8),
    "box": (131.4, 30.7, 30.7),
    "cylinder": (152.9, 30.2, 30.2),
    "ellipsoid": (162.8, 33.2, 33.2),
}
"""Geom -> the mean colour that Warp's own kernel draws of it from above, in the first of the environments below."""


def test_the_kernel_made_for_the_scene_draws_the_colours_of_warps_own(model, renderer: BatchRenderer) -> None:
    images = renderer.render(scattered(model, 4, seed=4))["above"]
    ids, rgb = drawn(images.segmentation)[0], drawn(images.rgb)[0].float()
    seen = {model.geom(int(geom)).name: rgb[ids == geom].mean(0).tolist() for geom in ids.unique() if geom >= 0}
    assert seen.keys() == COLOURS.keys()
    for name, colour in COLOURS.items():
        assert seen[name] == pytest.approx(colour, abs=1.0), name


@pytest.mark.slow
def test_the_kernel_made_for_the_scene_draws_what_warps_own_does(
    model: mujoco.MjModel, renderer: BatchRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embodied.rendering.ray_caster.specialised", lambda *given: None)
    own = BatchRenderer(model, 4, renderer.cameras, SIZE, depth=True, segmentation=True)
    state = scattered(model, 4, seed=4)
    fovy = {"cam_fovy": np.repeat(model.cam_fovy[None], 4, 0).astype(np.float32)}  # rays are computed pixel by pixel
    for camera, images in own.render(dataclasses.replace(state, fields=fovy)).items():
        seen = renderer.render(state)[camera]
        assert torch.equal(drawn(seen.segmentation), drawn(images.segmentation))
        assert (drawn(seen.rgb).int() - drawn(images.rgb).int()).abs().max() <= 1
        torch.testing.assert_close(drawn(seen.depth), drawn(images.depth), rtol=1e-6, atol=0)


def test_threads_change_no_pixel(
    model: mujoco.MjModel, renderer: BatchRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embodied.rendering.renderer.SHARE", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    shared_out = BatchRenderer(model, 4, renderer.cameras, SIZE, depth=True, segmentation=True)
    state = scattered(model, 4, seed=5)
    colours = np.random.default_rng(0).uniform(0.1, 1, (4, model.ngeom, 4)).astype(np.float32)
    coloured = dataclasses.replace(state, fields={"geom_rgba": colours})
    for rows in (None, None, torch.tensor([2]), torch.tensor([3, 1])):
        for camera, images in renderer.render(coloured, rows).items():
            seen = shared_out.render(coloured, rows)[camera]
            for field in dataclasses.fields(Images):
                assert torch.equal(getattr(seen, field.name), getattr(images, field.name)), (camera, field.name)
    assert "_threads" in vars(shared_out)
    renderer.render(dataclasses.replace(state, fields={"geom_rgba": np.repeat(model.geom_rgba[None], 4, 0)}))


def test_what_diverged_leaves_its_neighbours_alone(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    state = scattered(model, 2)
    sound = drawn(renderer.render(state)["beside"].rgb)[1]
    state.qpos[0] = np.nan
    assert torch.equal(drawn(renderer.render(state)["beside"].rgb)[1], sound)


def test_physics_that_warp_does_not_know_is_no_obstacle() -> None:
    xml = """<mujoco>
      <option><flag midphase="disable"/></option>
      <worldbody><camera name="eye" pos="0 0 1"/><geom name="ball" size=".2"/></worldbody>
      <sensor><user name="cacc" dim="6"/></sensor>
    </mujoco>"""
    renderer = BatchRenderer(mujoco.MjModel.from_xml_string(xml), 1, ("eye",), (8, 8), rgb=False, depth=True)
    depth = drawn(renderer.render(RenderState(np.zeros((1, 0), np.float32)))["eye"].depth)
    assert depth[depth > 0].min() == pytest.approx(0.8, abs=0.02)


def test_what_cannot_be_drawn_is_refused_in_words(model: mujoco.MjModel, renderer: BatchRenderer) -> None:
    with pytest.raises(UnknownNameError, match="unknown camera 'abvoe'; did you mean 'above'"):
        BatchRenderer(model, 1, ("abvoe",), SIZE)
    with pytest.raises(UnknownNameError, match="known: above, beside"):
        BatchRenderer(model, 1, ("xyz",), SIZE)
    with pytest.raises(EmbodiedError, match=r"cameras=\(\); expected a tuple of names among above, beside"):
        BatchRenderer(model, 1, (), SIZE)
    with pytest.raises(EmbodiedError, match="cannot render 2 x 64 pixels; expected 4 to 4096"):
        BatchRenderer(model, 1, ("above",), (2, 64))
    with pytest.raises(EmbodiedError, match="cannot render 5 environments; this renderer was made for 1 to 4"):
        renderer.render(scattered(model, 5))
    with pytest.raises(EmbodiedError, match="model field 'geom_colour' cannot differ between environments"):
        renderer.render(dataclasses.replace(scattered(model, 1), fields={"geom_colour": np.zeros((1, 3))}))
