"""Films: frames to an mp4, a WebP, a gif or a contact sheet, whole or absent; and a policy filmed at work."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import shutil
import uuid
import warnings
from collections.abc import Generator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from embodied.cli import COMPILING, Line
from embodied.env.env import Env
from embodied.env.vec_env import PolicyFunction
from embodied.errors import EmbodiedError, reason
from embodied.rendering.pictures import MOST_SHOWN, SCENES_VIEW, Image, Renderer, View
from embodied.rendering.video_files import check_whole
from embodied.storage.files import TEMPORARY

KINDS = (".mp4", ".webp", ".gif", ".png")
LOOPS: Mapping[str, Mapping[str, int]] = {".gif": {}, ".webp": {"quality": 45, "method": 6}}
"""Kinds that are written at once, and Pillow's options for them."""
FULL = 2**16  # bytes of free space below which a disk is called full
SHEET = 12  # pictures on a contact sheet
FASTEST = {".mp4": 60.0, ".webp": 17.0, ".gif": 25.0, ".png": 6.0}  # frames per second worth storing
X264 = ("-crf", "20", "-preset", "veryfast")  # of films for people: visually clean


class Layout(StrEnum):
    """Layout of several environments in a picture."""

    ONE = "one"
    """The first environment alone."""
    SHARED = "shared"
    """The first environment, and the others' robots translucently in its scene."""
    GRID = "grid"
    """A tile for each environment."""


@dataclasses.dataclass(frozen=True)
class Recording:
    """Result of `record`."""

    path: Path
    frames: int
    fps: float
    reward: float
    """Mean reward per control step."""
    success: float
    """Fraction of environments that are or were solved."""


class VideoWriter:
    """Collects frames of one size; the file appears under its name when the last one is written, or never.

    `.mp4` is H.264 that any browser plays; `.webp` and `.gif` loop, and a `.webp` is a fifth as large; `.png` is a
    contact sheet of a dozen frames evenly spread over the film (a single frame stays itself).
    """

    def __init__(self, path: Path | str, fps: float, x264: Sequence[str] = X264) -> None:
        """Begin a film.

        Args:
            x264: ffmpeg's options for the encoder of an `.mp4`.

        Raises:
            EmbodiedError: a kind of file that is not written, or a frame rate that is not positive.
        """
        self.path, self.fps, self._x264 = Path(path), fps, tuple(x264)
        self.frames = 0
        self._kind = check_kind(self.path)
        if not fps > 0:
            raise EmbodiedError(f"cannot film at {fps} frames per second; expected more than 0")
        self._temporary = self.path.with_name(f"{TEMPORARY}{uuid.uuid4().hex[:8]}-{self.path.name}")
        self._stream: Generator[None, Any, None] | None = None
        self._kept: list[Image] = []
        self._stride = 1
        self._shape: tuple[int, ...] = ()

    @property
    def written(self) -> int:
        """Bytes on the disk so far; the newest frames may still be in the encoder."""
        return self._temporary.stat().st_size if self._temporary.exists() else 0

    def add(self, frame: Image) -> None:
        """Append a frame (height, width, 3) uint8."""
        if not self._shape:
            self._shape = frame.shape
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if frame.shape != self._shape:
            raise EmbodiedError(f"a frame of shape {frame.shape} does not fit a film of {self._shape}")
        if self._kind == ".mp4":
            try:
                self._encoder(frame).send(np.ascontiguousarray(frame))
            except OSError as error:  # ffmpeg has ended; imageio repeats its output on many lines
                raise EmbodiedError(f"cannot write '{self.path}': {reason(error).splitlines()[0]}") from error
        elif self._kind in LOOPS:
            self._kept.append(frame)
        elif self.frames % self._stride == 0:
            self._kept.append(frame)
            if len(self._kept) > 4 * SHEET:
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self.frames += 1

    def close(self) -> None:
        """Finish the file and give it its name.

        Raises:
            EmbodiedError: there are no frames, or the file cannot be written.
        """
        if not self.frames:
            raise EmbodiedError(f"no frames were filmed, so '{self.path}' was not written")
        try:
            self._finish()
            os.replace(self._temporary, self.path)
        except (OSError, RuntimeError, EmbodiedError) as error:
            unsaid = not (isinstance(error, OSError) and error.errno)  # ffmpeg does not say why
            full = unsaid and shutil.disk_usage(self.path.parent).free < FULL
            said = "no space is left on the device" if full else reason(error)
            raise EmbodiedError(f"cannot write '{self.path}': {said}") from error
        finally:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def discard(self) -> None:
        """Stop without a file."""
        if self._stream is not None:
            self._stream.close()
        with contextlib.suppress(OSError):  # what stopped it is said, not that nothing is there
            self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _encoder(self, frame: Image) -> Generator[None, Any, None]:
        """The running ffmpeg."""
        stream = self._stream
        if stream is None:
            import imageio_ffmpeg

            stream = imageio_ffmpeg.write_frames(
                str(self._temporary),
                (frame.shape[1], frame.shape[0]),
                fps=self.fps,  # pyright: ignore[reportArgumentType] - ffmpeg takes fractions too
                codec="libx264",
                pix_fmt_out="yuv420p",
                macro_block_size=2,
                ffmpeg_log_level="error",
                output_params=[*self._x264, "-movflags", "+faststart"],
            )
            with warnings.catch_warnings():
                # JAX warns of every fork; ffmpeg's is followed by exec at once, so no lock is ever waited for.
                warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
                stream.send(None)
            self._stream = stream
        return stream

    def _finish(self) -> None:
        if self._stream is not None:
            self._stream.close()
            check_whole(self._temporary)  # ffmpeg reports a full disk on the terminal only
            return
        import imageio.v3 as iio

        # Encoded in memory: imageio's own files try once more when they are forgotten, and complain again.
        shown = self._kept if self._kind in LOOPS else contact_sheet(self._kept)
        timing: dict[str, Any] = {}
        if self._kind in LOOPS:
            timing = {"duration": round(1000 / self.fps), "loop": 0, **LOOPS[self._kind]}
        data = iio.imwrite("<bytes>", shown, plugin="pillow", extension=self._kind, **timing)
        self._temporary.write_bytes(cast("bytes", data))


def check_kind(path: Path | str) -> str:
    """The suffix of a film's file.

    Raises:
        EmbodiedError: not one that is written, or the name of a folder.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise EmbodiedError(f"'{path}' does not end in {', '.join(KINDS)}: the ending says what kind of film to write")
    if path.is_dir():
        raise EmbodiedError(f"'{path}' is a folder; expected the name of a file to write")
    return kind


def contact_sheet(frames: list[Image]) -> Image:
    """Up to a dozen of the frames, evenly spread and in reading order, on one picture; one frame stays itself."""
    if len(frames) == 1:
        return frames[0]
    picks = np.unique(np.linspace(0, len(frames) - 1, min(SHEET, len(frames))).round().astype(int))
    columns = math.ceil(math.sqrt(len(picks)))
    step = min(2, max(1, frames[0].shape[1] // 480))
    small = [frames[i][::step, ::step] for i in picks]
    height, width, _ = small[0].shape
    sheet = np.full((math.ceil(len(small) / columns) * (height + 4) - 4, columns * (width + 4) - 4, 3), 24, np.uint8)
    for i, picture in enumerate(small):
        top, left = (i // columns) * (height + 4), (i % columns) * (width + 4)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def record(
    env: Env,
    rule: PolicyFunction,
    path: Path | str,
    *,
    seconds: float | None = None,
    seed: int | None = None,
    camera: str | None = None,
    size: tuple[int, int] = (960, 540),
    layout: Layout = Layout.ONE,
    view: View = SCENES_VIEW,
    debug_visualization: bool = True,
    most_fps: float | None = None,
    quiet: bool = False,
) -> Recording:
    """Film a policy from a fresh start, in real time.

    One frame per control step, or per so many that no second has more than `most_fps`.

    Args:
        env: What is filmed; it is reset first.
        rule: Chooses the actions.
        path: The file, `.mp4`, `.webp`, `.gif` or `.png`.
        seconds: Length of the film; by default one episode.
        seed: Of the reset; by default the environment's.
        camera: See `Renderer`.
        size: Width and height in pixels.
        layout: Layout of more than one environment.
        view: See `Renderer`.
        debug_visualization: Whether to draw the task's debug markers and goals.
        most_fps: Frames per second at most; by default 60, in a WebP 17, in a gif 25.
        quiet: Without a progress line.

    Raises:
        EmbodiedError: a length, file, camera or machine with which no film can be made.
    """
    kind = check_kind(path)
    seconds = env.max_episode_steps * env.control_dt if seconds is None else seconds
    if not 0 < seconds < math.inf:
        raise EmbodiedError(f"cannot film {seconds} seconds; expected more than 0")
    most_fps = most_fps or FASTEST[kind]
    stride = max(1, math.ceil(1 / (most_fps * env.control_dt) - 1e-6))
    fps = 1 / (stride * env.control_dt)
    count = max(1, round(seconds * fps))
    reward, solved = 0.0, np.zeros(env.num_envs, bool)
    with (
        Renderer(env, size, camera, debug_visualization, view) as renderer,
        VideoWriter(path, fps) as writer,
        Line(f"filming {Path(path).name}", count, before="" if quiet else COMPILING) as line,
    ):
        obs = env.reset(seed)
        for number in range(count):
            writer.add(picture(renderer, layout))
            if not quiet:
                line.update(number + 1, f"frame {number + 1} of {count}")
            for _ in range(stride if number + 1 < count else 0):
                step = env.step(rule(obs))
                obs = step.obs
                reward += float(step.reward.mean())
                solved |= step.success.cpu().numpy()
    steps = max(1, (count - 1) * stride)
    return Recording(Path(path), count, fps, reward / steps, float(solved.mean()))


def picture(renderer: Renderer, layout: Layout) -> Image:
    """The picture of the environments now."""
    shown = range(min(renderer.env.num_envs, MOST_SHOWN))
    if layout is Layout.GRID:
        return renderer.grid(shown)
    return renderer.frame(0, shown if layout is Layout.SHARED else ())
