"""Pages of camera calibrations: numbers, where the corners were, how far off each was, and the photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from embodied.errors import reason
from embodied.evaluation import page as pages
from embodied.evaluation.page import Html
from embodied.storage.files import write_atomic
from sim2real.cameras import hand_eye
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError
from sim2real.cameras.detect import View
from sim2real.cameras.hand_eye import HandEye
from sim2real.cameras.intrinsics import Calibration

MOST_PHOTOGRAPHS = 24  # on a page
WIDTH = 420  # pixels of a photograph on the page
QUALITY = 80  # of JPEG
LONGEST = 0.04  # of the picture's width, that the longest error is drawn with
FOUND, EXPECTED = (60, 200, 60), (255, 60, 60)


def intrinsics_page(result: Calibration, board: Board, photographs: Mapping[str, np.ndarray], command: str) -> str:
    """The page of a calibration of intrinsic parameters.

    Args:
        result: The calibration.
        board: What the photographs show.
        photographs: Name of a view -> image (h, w, 3) uint8; views without one are shown by number only.
        command: As which it can be repeated.
    """
    posed = zip(result.views, result.fit.poses, strict=True)
    shown = [result.camera.project(view.points(board), pose) for view, pose in posed]
    large = {
        f"reprojection error in {len(result.views)} views": f"{result.fit.rms:.3f} px",
        "in views it was not fitted to": f"{result.held_out:.3f} px",
        "of the picture covered by corners": f"{100 * result.coverage:.0f} %",
    }
    notes = [*result.advice, *(f"not used: {item.name}: {item.reason}" for item in result.rejected)]
    parts = [
        pages.numbers(large), *(pages.paragraph(note, "note") for note in notes),
        pages.heading("Parameters, with 95 % intervals"), pages.table(("", ""), result.rows().items()),
        pages.heading("Errors of all corners"), _error_field(result.camera, result.views, shown),
        pages.heading("Views"), _error_table(result.views, {"px": result.fit.errors}),
        *_photographs(result.views, shown, photographs),
    ]  # fmt: skip
    subtitle = f"{result.camera.width} x {result.camera.height} pixels, board {board}"
    return pages.page("Camera calibration", subtitle, command, parts)


def hand_eye_page(
    result: HandEye, views: Sequence[View], board: Board, camera: Camera, expected: Sequence[np.ndarray],
    photographs: Mapping[str, np.ndarray], mjcf: str, command: str,
) -> str:  # fmt: skip
    """The page of a hand-eye calibration.

    Args:
        result: The calibration.
        views: What it used.
        board: What they show.
        camera: That took them.
        expected: (n, 2) pixels of each view's corners, by the robot's pose and the calibration.
        photographs: As in `intrinsics_page`.
        mjcf: The camera as an element for MuJoCo.
        command: As which it can be repeated.
    """
    large = {
        "between the board as seen and as expected": f"{hand_eye.rms(result.millimetres):.2f} mm",
        "the same for its rotation": f"{hand_eye.rms(result.degrees):.3f}°",
        f"reprojection error in {len(views)} views": f"{hand_eye.rms(result.pixels):.3f} px",
    }
    errors = {"px": result.pixels, "mm": result.millimetres, "degrees": result.degrees}
    parts = [
        pages.numbers(large),
        pages.heading("Where the camera is, with 95 % intervals"), pages.table(("", ""), result.rows().items()),
        pages.heading("For MuJoCo"), Html(f"<pre>{pages.markup(mjcf)}</pre>"),
        pages.heading("Errors of all corners"), _error_field(camera, views, expected),
        pages.heading("Views"), _error_table(views, errors), *_photographs(views, expected, photographs),
    ]  # fmt: skip
    return pages.page(f"Hand-eye calibration, camera on the {result.parent}", f"board {board}", command, parts)


def write(path: Path, page: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, page.encode())
    except OSError as error:
        raise CameraError(f"cannot write '{path}': {reason(error)}") from error


def _error_field(camera: Camera, views: Sequence[View], expected: Sequence[np.ndarray]) -> Html:
    """The picture's area with each corner's error as a line, enlarged."""
    found = np.concatenate([view.pixels for view in views])
    errors = np.concatenate(list(expected)) - found
    longest = float(np.quantile(np.linalg.norm(errors, axis=1), 0.99)) or 1.0
    factor = LONGEST * camera.width / longest
    unit = camera.width / 900  # the drawing is 900 wide on the page
    lines = "".join(
        f'<path d="M{x:.1f} {y:.1f}l{factor * dx:.1f} {factor * dy:.1f}"/>'
        for (x, y), (dx, dy) in zip(found, errors, strict=True)
    )
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.4 * unit:.2f}"/>' for x, y in found)
    shapes = (
        f'<g stroke="#d9482b" stroke-width="{1.2 * unit:.2f}" opacity=".8">{lines}</g>',
        f'<g fill="var(--accent)">{dots}</g>',
    )
    middle = float(np.median(np.linalg.norm(errors, axis=1)))
    text = (
        f"{len(found)} corners where they were found, with lines to where the calibration puts them, enlarged "
        f"{factor:.0f} times; median error {middle:.3f} px, 99 % are below {longest:.3f} px. Lines that point the same "
        "way in one area mean a lens that the model does not describe."
    )
    return pages.figure(pages.svg(camera.width, camera.height, shapes, origin=(-0.5, -0.5)), text)


def _error_table(views: Sequence[View], errors: Mapping[str, np.ndarray]) -> Html:
    """One line for each view: its errors as numbers, the first also as a bar."""
    first = next(iter(errors.values()))
    longest = float(first.max()) or 1.0
    rows = []
    for number, view in enumerate(views):
        width = 400 * first[number] / longest
        bar = pages.svg(400, 10, [f'<rect width="{width:.1f}" height="10" rx="2" fill="var(--accent)"/>'], "bar")
        rows.append((view.name, len(view.numbers), bar, *(f"{values[number]:.3f}" for values in errors.values())))
    return pages.table(("view", "#corners", "", *(f"#{unit}" for unit in errors)), rows, {2: "width: 50%"})


def _photographs(
    views: Sequence[View], expected: Sequence[np.ndarray], photographs: Mapping[str, np.ndarray]
) -> list[Html]:
    figures = []
    for view, shown in zip(views, expected, strict=True):
        if view.name not in photographs or len(figures) == MOST_PHOTOGRAPHS:
            continue
        rms = np.sqrt(((shown - view.pixels) ** 2).sum(1).mean())
        picture = pages.jpeg(_photograph(photographs[view.name], view, shown))
        figures.append(pages.figure(picture, view.name, f"{len(view.numbers)} corners, {rms:.3f} px"))
    return [pages.paragraph("Green: corners as found; red: as expected."), pages.grid(figures)] if figures else []


def _photograph(image: np.ndarray, view: View, shown: np.ndarray) -> bytes:
    """A small JPEG with a ring at each corner found and a dot where it was expected."""
    import cv2

    scale = WIDTH / view.size[0]
    small = cv2.resize(image, (WIDTH, round(view.size[1] * scale)), interpolation=cv2.INTER_AREA)

    def fixed(point: np.ndarray) -> tuple[int, int]:
        x, y = np.rint(16 * ((point + 0.5) * scale - 0.5)).astype(int)  # cv2 takes sixteenths of a pixel
        return int(x), int(y)

    for found, expected in zip(view.pixels, shown, strict=True):
        cv2.circle(small, fixed(found), 16 * 4, FOUND, 1, cv2.LINE_AA, 4)
        cv2.circle(small, fixed(expected), 16, EXPECTED, -1, cv2.LINE_AA, 4)
    _, data = cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return data.tobytes()
