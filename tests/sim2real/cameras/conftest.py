"""What tests of cameras share: boards seen without a renderer, and photographs where there is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from embodied.errors import EmbodiedError
from embodied.rendering.opengl import choose_backend
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera
from sim2real.cameras.detect import View


@pytest.fixture(scope="session")
def board() -> Board:
    return Board.parse("8x6:24mm:18mm:5X5_100")


@pytest.fixture(scope="session")
def camera() -> Camera:
    return Camera(480, 360, 440.0, 436.0, 231.0, 186.0, (-0.25, 0.08, 0.001, -0.0015))


@pytest.fixture(scope="session")
def seen(board: Board, camera: Camera) -> Callable[..., View]:
    """`seen(pose, rng, noise, name)`: the corners that fall into the picture, without drawing it."""

    def see(board_to_camera: np.ndarray, rng: np.random.Generator, noise: float = 0.1, name: str = "view") -> View:
        pixels = camera.project(board.corners, board_to_camera)
        size = np.array([camera.width, camera.height])
        inside = np.flatnonzero(((pixels > 0) & (pixels < size - 1)).all(1))
        spoiled = pixels[inside] + noise * rng.standard_normal((len(inside), 2))
        return View(name, (camera.width, camera.height), inside, spoiled)

    return see


@pytest.fixture(scope="session")
def drawing() -> None:
    """Skips the test where nothing can be drawn."""
    try:
        choose_backend()
    except EmbodiedError as error:
        pytest.skip(str(error))
