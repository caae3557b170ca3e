"""Frames to H.264, with access to any of them, and back: by the ffmpeg that comes with imageio-ffmpeg."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Self

import numpy as np

from embodied.errors import EmbodiedError, reason
from embodied.storage.files import require_regular

GROUP = 10  # frames from one that stands alone to the next: how many are decoded to show any one
X264 = ("-crf", "12", "-preset", "veryfast", "-g", str(GROUP), "-bf", "0")
"""Finer than videos for people: a learner's images have few pixels. Without frames that refer to later ones, the first
is at 0 s for every reader."""


class Decoder:
    """Reads frames of one video in their order.

    with Decoder(path, (64, 64), fps=80, first=200) as decoder:
        frames = decoder.read(50)      # (50, 64, 64, 3) uint8
    """

    def __init__(self, path: Path, size: tuple[int, int], fps: int, first: int = 0) -> None:
        """Start at the frame `first`; `size` is width and height in pixels.

        Raises:
            EmbodiedError: there is no such file.
        """
        import imageio_ffmpeg

        self.path, self.size = path, size
        if not path.is_file():
            raise EmbodiedError(f"the video '{path}' is missing")
        # Half a frame early, so that no rounding skips the frame. Only mp4, since a playlist could name other files.
        seek = ["-ss", f"{(first - 0.5) / fps:.6f}"] if first else []
        source = ["-protocol_whitelist", "file", "-f", "mov", "-threads", "1", *seek, "-i", f"file:{path}"]
        target = ["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-nostdin", *source, *target]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._read = 0

    def read(self, count: int) -> np.ndarray:
        """The next `count` frames, (count, height, width, 3) uint8.

        Raises:
            EmbodiedError: the video ends before, or is damaged.
        """
        width, height = self.size
        wanted = count * height * width * 3
        assert self._process.stdout is not None
        data = self._process.stdout.read(wanted)
        if len(data) != wanted:
            there = self._read + len(data) // (height * width * 3)
            raise EmbodiedError(
                f"the video '{self.path}' is truncated, damaged or not of {width} x {height} pixels: "
                f"{there} frames could be read, expected {self._read + count} or more"
            )
        self._read += count
        return np.frombuffer(data, np.uint8).reshape(count, height, width, 3)

    def close(self) -> None:
        """Stop reading."""
        self._process.kill()
        with contextlib.suppress(OSError, AttributeError):
            self._process.stdout.close()  # type: ignore[union-attr]
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_whole(path: Path) -> None:
    """Check that an mp4 ends where its boxes end, without decoding it.

    Raises:
        EmbodiedError: it is missing, truncated, or no mp4. Source: ISO/IEC 14496-12, section 4.2.
    """
    try:
        require_regular(path)
        with path.open("rb") as file:
            end, place, kinds = file.seek(0, 2), 0, []
            while place < end:
                file.seek(place)
                header = file.read(16)
                size, kind = int.from_bytes(header[:4], "big"), header[4:8]
                size = int.from_bytes(header[8:16], "big") if size == 1 else size or end - place
                kinds.append(kind)
                place += max(size, 8)
    except FileNotFoundError:
        raise EmbodiedError(f"the video '{path}' is missing") from None
    except OSError as error:
        raise EmbodiedError(f"cannot read the video '{path}': {reason(error)}") from error
    if place != end or not {b"ftyp", b"moov", b"mdat"} <= set(kinds):
        raise EmbodiedError(f"the video '{path}' is truncated or damaged: it has {end} bytes, its parts say {place}")
