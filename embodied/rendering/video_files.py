"""Frames to H.264, with access to any of them, and back: by the ffmpeg that comes with imageio-ffmpeg."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

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


@dataclasses.dataclass(frozen=True)
class FilmHeader:
    """What an mp4 says of its pictures, without decoding any. Source: ISO/IEC 14496-12."""

    size: tuple[int, int]
    """Width and height, pixels."""
    times: np.ndarray
    """(T,) s at which each frame begins."""

    @classmethod
    def read(cls, path: Path) -> FilmHeader:
        """Read the header of the first track of pictures.

        Raises:
            EmbodiedError: the file is missing, truncated, or no mp4 with pictures.
        """
        check_whole(path)
        with path.open("rb") as file:
            begin, end = next((begin, end) for kind, begin, end in _boxes(file) if kind == b"moov")
            file.seek(begin)
            moov = file.read(end - begin)
        try:
            for track in _within(moov, b"trak"):
                (media,) = _within(track, b"mdia")
                if next(_within(media, b"hdlr"))[8:12] == b"vide":
                    return cls._of_track(media)
        except (ValueError, StopIteration, struct.error) as error:
            raise EmbodiedError(f"the video '{path}' is damaged: its header is no mp4's") from error
        raise EmbodiedError(f"the video '{path}' has no pictures")

    @classmethod
    def _of_track(cls, media: bytes) -> FilmHeader:
        clock = next(_within(media, b"mdhd"))
        (rate,) = struct.unpack_from(">I", clock, 20 if clock[0] == 1 else 12)
        table = next(_within(next(_within(media, b"minf")), b"stbl"))
        size = struct.unpack_from(">HH", next(_within(table, b"stsd")), 8 + 32)
        stts = next(_within(table, b"stts"))
        (entries,) = struct.unpack_from(">I", stts, 4)
        counts, durations = np.frombuffer(stts, ">u4", 2 * entries, 8).reshape(-1, 2).T.astype(np.int64)
        (frames,) = struct.unpack_from(">I", next(_within(table, b"stsz")), 8)
        if counts.sum() != frames or not rate:
            raise ValueError("frames without times")
        ends = np.cumsum(np.repeat(durations, counts))
        return cls(size, np.concatenate([[0], ends[:-1]])[:frames] / rate)


def check_whole(path: Path) -> None:
    """Check that an mp4 ends where its boxes end, without decoding it.

    Raises:
        EmbodiedError: it is missing, truncated, or no mp4. Source: ISO/IEC 14496-12, section 4.2.
    """
    try:
        require_regular(path)
        with path.open("rb") as file:
            boxes, end = list(_boxes(file)), file.seek(0, 2)
    except FileNotFoundError:
        raise EmbodiedError(f"the video '{path}' is missing") from None
    except OSError as error:
        raise EmbodiedError(f"cannot read the video '{path}': {reason(error)}") from error
    place = boxes[-1][2] if boxes else 0
    if place != end or not {b"ftyp", b"moov", b"mdat"} <= {kind for kind, _, _ in boxes}:
        raise EmbodiedError(f"the video '{path}' is truncated or damaged: it has {end} bytes, its parts say {place}")


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Kind of each box of a file or of a box's content, and where its content begins and ends."""
    end, place = file.seek(0, 2), 0
    while place < end:
        file.seek(place)
        header = file.read(16)
        size, kind, long = int.from_bytes(header[:4], "big"), header[4:8], header[:4] == b"\0\0\0\1"
        size = int.from_bytes(header[8:16], "big") if long else size or end - place
        begin, place = place + (16 if long else 8), place + max(size, 8)
        yield kind, begin, place


def _within(content: bytes, kind: bytes) -> Iterator[bytes]:
    """The contents of the boxes of a kind in the content of another."""
    return (content[begin:end] for found, begin, end in _boxes(io.BytesIO(content)) if found == kind)
