"""Blocks are found where they lie in rendered pictures, and what is not there is named."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import mujoco
import numpy as np
import pytest

from benchmarks.reconstruction import layout as random_layout
from benchmarks.reconstruction import looking, picture
from embodied.core.initial_states import load
from embodied.errors import EmbodiedError, UnknownNameError
from embodied.math import transforms
from sim2real import reconstruct
from sim2real.cameras import camera as cameras
from sim2real.cameras.camera import Camera, Mount, Parent
from sim2real.cameras.reconstruction.blocks import Block, Found, find
from sim2real.cameras.reconstruction.colours import regions
from sim2real.cameras.reconstruction.layout import initial_states, scene
from tests.kit.commands import refused
from tests.kit.rehearsal import Sensor
from tests.kit.worlds import task_of

pytestmark = pytest.mark.timeout(200)

DISTORTION = (-0.25, 0.08, 0.001, -0.0015)
CAMERA = dataclasses.replace(Camera(640, 480, 560.0, 556.0, 311.0, 246.0).scaled(0.75), distortion=DISTORTION)
Taken = tuple[np.ndarray, np.ndarray, list[Found]]


@pytest.fixture(scope="module")
def taken(drawing: None) -> Taken:
    """A picture of four blocks with distortion, blur and noise; camera_to_world; the blocks."""
    del drawing
    rng = np.random.default_rng(5)
    to_world, blocks = looking(rng), random_layout(4, rng)
    return picture(CAMERA, to_world, blocks, Sensor(4.0, 0.6), rng), to_world, blocks


def test_blocks_of_known_size_are_found_to_a_millimetre_and_two_degrees(taken: Taken) -> None:
    image, to_world, blocks = taken
    asked = [dataclasses.replace(one.block, half=one.half) for one in blocks]
    for found, one in zip(find(image, CAMERA, to_world, asked), blocks, strict=True):
        assert np.linalg.norm(found.position - one.position) < 1e-3
        period = np.pi / 2 if one.half[0] == one.half[1] else np.pi
        turned = (found.yaw - one.yaw + period / 2) % period - period / 2
        assert abs(turned) < np.radians(2.0)
        assert found.residual < 0.5


def test_a_cubes_edge_is_found_too(taken: Taken) -> None:
    image, to_world, blocks = taken
    cube = next(one for one in blocks if len({*one.half}) == 1)
    found = find(image, CAMERA, to_world, [cube.block])[0]
    assert np.linalg.norm(found.position - cube.position) < 2e-3
    np.testing.assert_allclose(found.half, cube.half, atol=1e-3)


def test_what_is_not_there_or_is_another_block_is_named(taken: Taken) -> None:
    image, to_world, blocks = taken
    absent = next(colour for colour in ("red", "green", "blue", "purple", "cyan") if colour not in
                  {one.block.colour for one in blocks})  # fmt: skip
    with pytest.raises(EmbodiedError, match=f"no {absent} region is left in the picture for the block 'a'"):
        find(image, CAMERA, to_world, [Block("a", absent, (0.02, 0.02, 0.02))])
    huge = dataclasses.replace(blocks[0].block, half=(0.1, 0.02, 0.02))
    with pytest.raises(EmbodiedError, match=r"does not look like the block .* is it hidden, another size"):
        find(image, CAMERA, to_world, [huge])
    with pytest.raises(UnknownNameError, match="unknown colour 'pink'"):
        regions(image, "pink")


def test_the_twin_has_the_blocks_where_they_were_found(taken: Taken) -> None:
    _, _, blocks = taken
    model = scene(blocks).compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for one in blocks:
        np.testing.assert_allclose(data.body(one.block.name).xpos, one.position, atol=1e-6)
    task = task_of("manipulation/push")
    buffer = initial_states(task, blocks, {"object": blocks[0].block.name}, 3)
    first = int(task.model.joint("object").qposadr[0])
    np.testing.assert_allclose(buffer.reset_states.qpos[:, first : first + 3], [blocks[0].position] * 3, atol=1e-6)
    goals = np.asarray(buffer.reset_states.task_state.goal)
    assert len(np.unique(goals[:, 0])) == 3, "what the picture does not show is drawn as ever"
    with pytest.raises(EmbodiedError, match=r"no block lies anywhere in Push.* its free joints: object"):
        initial_states(task, blocks, {}, 3)
    with pytest.raises(EmbodiedError, match="has no free joint 'cup'; it has object"):
        initial_states(task, blocks, {"cup": blocks[0].block.name}, 3)


def test_the_command_writes_layout_scene_and_initial_states(taken: Taken, tmp_path: Path) -> None:
    import cv2

    image, to_world, blocks = taken
    base = transforms.pose(transforms.exponential(np.array([0.0, 0.0, np.pi / 2])), np.array([0.0, 0.12, 0.175]))
    mount = Mount.of(Parent.BASE, transforms.inverse(base) @ to_world)
    cameras.save(tmp_path / "camera.json", CAMERA, mount)
    cv2.imwrite(str(tmp_path / "photo.png"), image[..., ::-1])
    one = blocks[0]
    edges = "x".join(str(2 * half) for half in one.half)
    words = [str(tmp_path / "photo.png"), "--camera", str(tmp_path / "camera.json"),
             "--blocks", f"thing={one.block.colour}:{edges}", "--out", str(tmp_path / "layout"),
             "--base", "0", "0.12", "0.175", "90", "--task", "manipulation/push",
             "--joints", "object=thing"]  # fmt: skip
    assert reconstruct.main(words) == 0
    found = json.loads((tmp_path / "layout.json").read_text())["blocks"][0]
    np.testing.assert_allclose(found["position"], one.position, atol=2e-3)
    assert mujoco.MjModel.from_xml_path(str(tmp_path / "layout.xml")).body("thing").id > 0
    task = task_of("manipulation/push")
    assert len(load(tmp_path / "layout.safetensors", task)) == reconstruct.STATES


@pytest.mark.parametrize("text", ["green", "a=green:wide", "a=green:1x2", "a=green:-1", "=green"])
def test_a_block_that_is_not_described_is_one_line(text: str) -> None:
    with pytest.raises(EmbodiedError, match="expected NAME=COLOUR"):
        reconstruct.parsed(text)


@pytest.mark.parametrize("flag", [("--table", "-inf"), ("--base", "inf", "0", "0", "0"), ("--table", "nan")])
def test_a_place_that_is_none_is_one_line(flag: tuple[str, ...]) -> None:
    words = ("photo.png", "--camera", "camera.json", "--blocks", "a=green", *flag)
    assert re.search(r"must be finite$|is nan or too large; expected a number$", refused(reconstruct.main, *words))
