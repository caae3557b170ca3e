"""A ChArUco board: described in one word, printed at true scale, and put into MuJoCo scenes.

python -m sim2real.cameras.board --board 8x6:30mm:22mm:5X5_100 --out board.pdf

A board's frame is OpenCV's: the origin in its top left corner, x to the right, y down, z into the paper; one looks at
it from where z is negative.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from embodied import cli
from embodied.errors import UnknownNameError, guard, reason
from embodied.storage.files import write_atomic
from sim2real.cameras.camera import CameraError

if TYPE_CHECKING:
    import mujoco

DEFAULT = "8x6:30mm:22mm:5X5_100"
"""Fits A4 and US Letter across, with margins of more than 15 mm."""
PATTERN = re.compile(r"(\d{1,3})x(\d{1,3}):([\d.]+)(mm|m):([\d.]+)(mm|m):([A-Za-z0-9_]+)(:legacy)?")
MOST_SQUARES = 64  # along an edge
POINTS = 72 / 25.4e-3  # per m: PDF's unit is 1/72 inch
SMALLEST_MARKER = 0.4  # of a square; smaller markers are seen from too near only
LARGEST_MARKER = 0.9  # of a square: the white rim that is left is what markers are found by
THICKNESS = 0.003  # m, of a board in MuJoCo


@dataclasses.dataclass(frozen=True)
class Board:
    """A chessboard whose white squares hold markers."""

    columns: int
    """Squares along x."""
    rows: int
    """Squares along y."""
    square: float
    """m, edge of a square."""
    marker: float
    """m, edge of a marker."""
    dictionary: str = "5X5_100"
    """OpenCV's name of the set of markers, without DICT_."""
    legacy: bool = False
    """Whether it was made by OpenCV before 4.6, whose boards with an even number of rows begin with another square."""

    def __post_init__(self) -> None:
        if not (2 <= self.columns <= MOST_SQUARES and 2 <= self.rows <= MOST_SQUARES and self.columns * self.rows > 4):
            raise CameraError(
                f"a board of {self.columns} x {self.rows} squares; expected 3 x 2 to {MOST_SQUARES} x {MOST_SQUARES}"
            )
        if not (self.square > 0 and SMALLEST_MARKER <= self.marker / self.square <= LARGEST_MARKER):
            raise CameraError(
                f"a board with squares of {1e3 * self.square:g} mm and markers of {1e3 * self.marker:g} mm; expected "
                f"markers of {SMALLEST_MARKER:g} to {LARGEST_MARKER:g} of a square"
            )
        held = self.columns * self.rows // 2
        if len(self.markers.bytesList) < held:
            raise CameraError(
                f"a board of {self.columns} x {self.rows} squares needs {held} markers; the dictionary "
                f"'{self.dictionary}' has {len(self.markers.bytesList)}"
            )

    @staticmethod
    def parse(text: str) -> Board:
        """The board that a word such as `8x6:30mm:22mm:5X5_100` describes; `:legacy` may follow.

        Raises:
            CameraError: it describes none.
            UnknownNameError: its dictionary is unknown.
        """
        match = PATTERN.fullmatch(text)
        if match is None:
            raise CameraError(
                f"--board {text!r}; expected COLUMNSxROWS:SQUARE:MARKER:DICTIONARY, such as {DEFAULT}: 8 squares along "
                "x, 6 along y, lengths in mm or m as measured on the paper"
            )
        columns, rows, square, square_unit, marker, marker_unit, dictionary, legacy = match.groups()
        try:
            sides = [float(n) * (1e-3 if u == "mm" else 1) for n, u in ((square, square_unit), (marker, marker_unit))]
        except ValueError:
            raise CameraError(f"--board {text!r}: '{square}' and '{marker}' are not both numbers") from None
        name = dictionary.upper().removeprefix("DICT_")
        return Board(int(columns), int(rows), sides[0], sides[1], name, legacy=legacy is not None)

    def __str__(self) -> str:
        end = ":legacy" if self.legacy else ""
        return f"{self.columns}x{self.rows}:{1e3 * self.square:g}mm:{1e3 * self.marker:g}mm:{self.dictionary}{end}"

    @functools.cached_property
    def markers(self) -> Any:
        """OpenCV's dictionary of markers."""
        import cv2

        known = {n.removeprefix("DICT_").upper(): n for n in dir(cv2.aruco) if n.startswith("DICT_")}
        if self.dictionary not in known:
            raise UnknownNameError("dictionary of markers", self.dictionary, known)
        return cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, known[self.dictionary]))

    @functools.cached_property
    def charuco(self) -> Any:
        import cv2

        board = cv2.aruco.CharucoBoard((self.columns, self.rows), self.square, self.marker, self.markers)
        board.setLegacyPattern(self.legacy)
        return board

    @property
    def corners(self) -> np.ndarray:
        """((columns - 1) (rows - 1), 3) m, inner corners in the board's frame; a corner's number is its row here."""
        return np.asarray(self.charuco.getChessboardCorners(), float)

    @property
    def size(self) -> tuple[float, float]:
        """m, width and height."""
        return self.columns * self.square, self.rows * self.square

    def picture(self, pixels_per_square: int) -> np.ndarray:
        """(rows n, columns n) uint8, the board without a margin, n pixels per square.

        Each marker lies where its true edge rounds to whole pixels, OpenCV's way.
        """
        return self.charuco.generateImage((self.columns * pixels_per_square, self.rows * pixels_per_square))

    def rectangles(self) -> list[tuple[float, float, float, float]]:
        """Every black rectangle as (x, y, width, height) in m, in the board's frame; exact, as for printing."""
        import cv2

        # A picture with one pixel per module is the marker itself, with its black rim.
        modules = self.markers.markerSize + 2
        module = self.marker / modules
        marker_at = {}
        for number, points in zip(self.charuco.getIds().ravel(), self.charuco.getObjPoints(), strict=True):
            corner = np.asarray(points).reshape(-1, 3).min(0)
            marker_at[int(corner[0] // self.square), int(corner[1] // self.square)] = (int(number), corner)
        black = []
        for row in range(self.rows):
            for column in range(self.columns):
                if (column, row) not in marker_at:
                    black.append((column * self.square, row * self.square, self.square, self.square))
                    continue
                number, corner = marker_at[column, row]
                bits = cv2.aruco.generateImageMarker(self.markers, number, modules)
                black += [
                    (corner[0] + x * module, corner[1] + y * module, run * module, module)
                    for y, line in enumerate(bits)
                    for x, run in _runs(line == 0)
                ]
        return [(float(x), float(y), float(w), float(h)) for x, y, w, h in black]

    def add_to(
        self, parent: mujoco.MjsBody, spec: mujoco.MjSpec, name: str = "board", pixels_per_square: int = 64
    ) -> mujoco.MjsBody:
        """Add the board as a body, whose frame is the board's, to a MuJoCo scene.

        It collides with nothing and weighs nothing. Its back shows the pattern too, mirrored, which no detector takes
        for it.

        Args:
            parent: Where it hangs.
            spec: The scene; gets a texture and a material called `name`.
            name: Of the body.
            pixels_per_square: Of the texture.
        """
        import mujoco

        picture = self.picture(pixels_per_square)
        height, width = picture.shape
        texture = spec.add_texture(name=name, type=mujoco.mjtTexture.mjTEXTURE_2D, width=width, height=height)
        texture.nchannel = 3
        # MuJoCo's textures on boxes run against y.
        texture.data = np.repeat(picture[::-1, :, None], 3, axis=2).tobytes()
        material = spec.add_material(name=name, specular=0.0, shininess=0.0, reflectance=0.0)
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
        material.texuniform, material.texrepeat = False, [1.0, 1.0]
        half = np.array([*self.size, THICKNESS]) / 2
        body = parent.add_body(name=name)
        geom = body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half, pos=half, material=name)
        geom.contype, geom.conaffinity, geom.mass, geom.group = 0, 0, 0.0, 2
        return body


def _runs(line: np.ndarray) -> list[tuple[int, int]]:
    """(start, length) of each run of true values in (n,) booleans."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], line, [False]]).astype(int)))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def pdf(board: Board, margin: float) -> bytes:
    """A page of PDF with the board at true scale, and below it a ruler to check the print by.

    Source of the format: ISO 32000-1:2008, sections 7.5 (file structure) and 8.5 (paths).

    Args:
        board: What to draw, as exact rectangles.
        margin: m of white around it.
    """
    width, height = ((length + 2 * margin) * POINTS for length in board.size)
    lines = ["0 g"]
    for x, y, w, h in board.rectangles():
        left, bottom = (x + margin) * POINTS, height - (y + h + margin) * POINTS
        lines.append(f"{left:.4f} {bottom:.4f} {w * POINTS:.4f} {h * POINTS:.4f} re")
    ruler = min(0.1, board.size[0] // 0.01 * 0.01)
    left, base = margin * POINTS, 0.4 * margin * POINTS
    lines += ["f", f"0.5 w {left:.4f} {base:.4f} m {left + ruler * POINTS:.4f} {base:.4f} l S"]
    for tick in range(round(ruler / 0.01) + 1):
        x = left + tick * 0.01 * POINTS
        lines.append(f"{x:.4f} {base:.4f} m {x:.4f} {base + 4:.4f} l S")
    caption = (
        f"{board}   this line is {1e3 * ruler:.0f} mm: print at 100 %, then measure a square and pass what you find"
    )
    lines.append(f"BT /F1 7 Tf {left:.4f} {base - 9:.4f} Td ({caption}) Tj ET")
    drawing = "\n".join(lines).encode("ascii")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %.4f %.4f] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>" % (width, height),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data, starts = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        starts.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end


def png(board: Board, margin: float, pixels_per_square: int) -> bytes:
    """The board as PNG, with the resolution at which it prints in true size.

    Args:
        board: What to draw.
        margin: m of white around it.
        pixels_per_square: Resolution.
    """
    import cv2

    border = round(margin / board.square * pixels_per_square)
    picture = np.pad(board.picture(pixels_per_square), border, constant_values=255)
    _, encoded = cv2.imencode(".png", picture)
    data = encoded.tobytes()
    # The chunk pHYs (PNG specification, 11.3.5.3): pixels per metre in both directions; it follows IHDR, 33 bytes in.
    content = b"pHYs" + struct.pack(">IIB", *[round(pixels_per_square / board.square)] * 2, 1)
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return data[:33] + chunk + data[33:]


@dataclasses.dataclass(frozen=True)
class Settings:
    """A ChArUco board to print. Glue it to something flat: a bent board calibrates a bent camera."""

    board: str = DEFAULT
    """COLUMNSxROWS:SQUARE:MARKER:DICTIONARY."""
    out: Path = Path("board.pdf")
    """File to write, .pdf (exact) or .png."""
    margin: float = 15.0
    """mm of white around the board."""
    pixels_per_square: int = 200
    """Resolution of a PNG."""

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1000 or not 8 <= self.pixels_per_square <= 2000:
            raise CameraError(
                f"--margin {self.margin} and --pixels-per-square {self.pixels_per_square}; expected 0 to 1000 mm and 8 "
                "to 2000 pixels"
            )


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.cameras.board")
    board, margin = Board.parse(settings.board), 1e-3 * settings.margin
    draw = {".pdf": lambda: pdf(board, margin), ".png": lambda: png(board, margin, settings.pixels_per_square)}
    suffix = settings.out.suffix.lower()
    if suffix not in draw:
        raise UnknownNameError("kind of picture", suffix or settings.out.name, draw)
    try:
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(settings.out, draw[suffix]())
    except OSError as error:
        raise CameraError(f"cannot write '{settings.out}': {reason(error)}") from error
    width, height = (1e3 * length for length in board.size)
    cli.show(f"{board}: {width:.0f} x {height:.0f} mm, {len(board.corners)} corners -> {settings.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
