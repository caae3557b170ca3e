"""Films of what a visitor sees, in true time however long the browser takes to draw."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import viser

from embodied.errors import EmbodiedError
from embodied.viewer.film import VideoWriter

FPS = 30.0  # frames per second, at most
LARGEST = (1280, 720)  # pixels, width and height of a frame, at most
PATIENCE = 20.0  # s to wait for a frame


class Recorder:
    """Requests frames of a visitor's browser and writes them to an `.mp4`."""

    def __init__(self, client: viser.ClientHandle, control_dt: float, speed: float) -> None:
        """Begin a film.

        Args:
            control_dt: s per control step.
            speed: Simulated seconds per second of the film.
        """
        self.client = client
        self.stride = max(1, math.ceil(speed / (FPS * control_dt) - 1e-6))
        """Control steps per frame."""
        self._folder = tempfile.TemporaryDirectory()
        width, height = client.camera.image_width, client.camera.image_height
        shrunk = min(1.0, LARGEST[0] / width, LARGEST[1] / height)
        self.size = tuple(max(16, int(side * shrunk) // 2 * 2) for side in (width, height))
        self._writer = VideoWriter(Path(self._folder.name) / "film.mp4", speed / (self.stride * control_dt))
        self._waited = 0

    @property
    def seconds(self) -> float:
        """s of film so far."""
        return self._writer.frames / self._writer.fps

    def step(self) -> bool:
        """Count a control step; whether the next frame is due."""
        self._waited += 1
        return self._waited % self.stride == 0

    def capture(self) -> None:
        """Append the visitor's present view.

        Raises:
            EmbodiedError: the visitor left, or does not answer.
        """
        width, height = self.size
        try:
            frame = self.client.get_render(height, width, timeout=PATIENCE)
        except (RuntimeError, TimeoutError) as error:
            raise EmbodiedError(f"the page gave no picture: {error}") from error
        self._writer.add(np.ascontiguousarray(frame[..., :3]))

    def finish(self, name: str) -> int:
        """End the film and let the visitor's browser save it as `name`; returns its size in bytes."""
        with self._folder:
            self._writer.close()
            content = self._writer.path.read_bytes()
        self.client.send_file_download(name, content, save_immediately=True)
        return len(content)

    def discard(self) -> None:
        """Stop without a film."""
        self._writer.discard()
        self._folder.cleanup()
