"""Pages of camera calibrations: numbers, where the corners were, how far off each was, and the photographs."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from embodied.errors import reason
from embodied.evaluation.report import STYLE
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
MORE_STYLE = """
td.value, th.value { text-align: right; font-variant-numeric: tabular-nums; } .note { border-left: 3px solid #d09a2b;
  padding-left: .8rem; } .wide { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .82rem; color: var(--soft); }
"""


def intrinsics_page(result: Calibration, board: Board, photographs: Mapping[str, np.ndarray], command: str) -> str:
    """The page of a calibration of intrinsic parameters.

    Args:
        result: The calibration.
        board: What the photographs show.
        photographs: Name of a view -> image (h, w, 3) uint8; views without one are shown by number only.
        command: As which it can be repeated.
    """
    shown = [
        result.camera.project(view.points(board), pose)
        for view, pose in zip(result.views, result.fit.poses, strict=True)
    ]
    large = {
        f"{result.fit.rms:.3f} px": f"reprojection error in {len(result.views)} views",
        f"{result.held_out:.3f} px": "in views it was not fitted to",
        f"{100 * result.coverage:.0f} %": "of the picture covered by corners",
    }
    notes = [*result.advice, *(f"not used: {item.name}: {item.reason}" for item in result.rejected)]
    parts = [
        _head("Camera calibration", f"{result.camera.width} x {result.camera.height} pixels, board {board}", command),
        _large(large), _notes(notes), "<h2>Parameters, with 95 % intervals</h2>", _table(result.rows()),
        "<h2>Errors of all corners</h2>", _field(result.camera, result.views, shown),
        "<h2>Views</h2>", _bars(result.views, {"px": result.fit.errors}), _figures(result.views, shown, photographs),
    ]  # fmt: skip
    return _page("Camera calibration", parts)


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
        f"{hand_eye.rms(result.millimetres):.2f} mm": "between the board as seen and as expected",
        f"{hand_eye.rms(result.degrees):.3f}°": "the same for its rotation",
        f"{hand_eye.rms(result.pixels):.3f} px": f"reprojection error in {len(views)} views",
    }
    errors = {"px": result.pixels, "mm": result.millimetres, "degrees": result.degrees}
    parts = [
        _head(f"Hand-eye calibration, camera on the {result.parent}", f"board {board}", command),
        _large(large), "<h2>Where the camera is, with 95 % intervals</h2>", _table(result.rows()),
        "<h2>For MuJoCo</h2>", f"<pre>{html.escape(mjcf)}</pre>",
        "<h2>Errors of all corners</h2>", _field(camera, views, expected),
        "<h2>Views</h2>", _bars(views, errors), _figures(views, expected, photographs),
    ]  # fmt: skip
    return _page("Hand-eye calibration", parts)


def write(path: Path, page: str) -> None:
    """Write a page.

    Raises:
        CameraError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, page.encode())
    except OSError as error:
        raise CameraError(f"cannot write '{path}': {reason(error)}") from error


def _page(title: str, parts: Sequence[str]) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{title}</title><style>{STYLE}{MORE_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _head(title: str, what: str, command: str) -> str:
    return f"<h1>{html.escape(title)}</h1><p>{html.escape(what)}<br><code>{html.escape(command)}</code></p>"


def _large(numbers: Mapping[str, str]) -> str:
    items = "".join(
        f"<div><b>{html.escape(n)}</b><span>{html.escape(what)}</span></div>" for n, what in numbers.items()
    )
    return f'<div class="numbers">{items}</div>'


def _notes(notes: Sequence[str]) -> str:
    return "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)


def _table(rows: Mapping[str, str]) -> str:
    lines = "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
    return f"<table>{lines}</table>"


def _field(camera: Camera, views: Sequence[View], expected: Sequence[np.ndarray]) -> str:
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
    picture = (
        f'<svg class="wide" viewBox="-0.5 -0.5 {camera.width} {camera.height}" width="100%">'
        f'<g stroke="#d9482b" stroke-width="{1.2 * unit:.2f}" opacity=".8">{lines}</g>'
        f'<g fill="var(--any)">{dots}</g></svg>'
    )
    middle = float(np.median(np.linalg.norm(errors, axis=1)))
    return (
        f"{picture}<p>{len(found)} corners where they were found, with lines to where the calibration puts them, "
        f"enlarged {factor:.0f} times; median error {middle:.3f} px, 99 % are below {longest:.3f} px. Lines that point "
        "the same way in one area mean a lens that the model does not describe.</p>"
    )


def _bars(views: Sequence[View], errors: Mapping[str, np.ndarray]) -> str:
    """One line for each view: its errors as numbers, the first also as a bar."""
    first = next(iter(errors.values()))
    longest = float(first.max()) or 1.0
    head = "".join(f"<th class=value>{unit}</th>" for unit in errors)
    lines = []
    for number, view in enumerate(views):
        bar = f'<svg viewBox="0 0 400 10" width="100%" height="10" preserveAspectRatio="none"><rect width="{400 * first[number] / longest:.1f}" height="10" rx="2" fill="var(--any)"/></svg>'  # noqa: E501
        cells = "".join(f'<td class="value">{values[number]:.3f}</td>' for values in errors.values())
        lines.append(f"<tr><td>{html.escape(view.name)}</td><td>{len(view.numbers)}</td><td>{bar}</td>{cells}</tr>")
    return f"<table><tr><th>view</th><th>corners</th><th></th>{head}</tr>{''.join(lines)}</table>"


def _figures(views: Sequence[View], expected: Sequence[np.ndarray], photographs: Mapping[str, np.ndarray]) -> str:
    """Photographs with what was found in them."""
    figures = []
    for view, shown in zip(views, expected, strict=True):
        if view.name not in photographs or len(figures) == MOST_PHOTOGRAPHS:
            continue
        data = base64.b64encode(_photograph(photographs[view.name], view, shown)).decode("ascii")
        rms = np.sqrt(((shown - view.pixels) ** 2).sum(1).mean())
        figures.append(
            f'<figure><img alt="" src="data:image/jpeg;base64,{data}"><figcaption>{html.escape(view.name)}'
            f"<span>{len(view.numbers)} corners, {rms:.3f} px</span></figcaption></figure>"
        )
    if not figures:
        return ""
    return f'<p>Green: corners as found; red: as expected.</p><div class="grid">{"".join(figures)}</div>'


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
