"""Command line: the intrinsic parameters of a camera from photographs of a board.

python -m sim2real.cameras.calibrate photos/ --board 8x6:30mm:22mm:5X5_100 --out camera.json
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

from embodied import cli
from embodied.errors import guard
from sim2real.cameras import camera as files
from sim2real.cameras import detect, report
from sim2real.cameras.board import DEFAULT, Board
from sim2real.cameras.detect import View
from sim2real.cameras.intrinsics import Calibration, Lens, calibrate


@dataclasses.dataclass(frozen=True)
class Settings:
    """Calibrate a camera's intrinsic parameters."""

    images: tyro.conf.Positional[tuple[Path, ...]]
    """Photographs of the board, or folders of them; at least 6, better 15 to 30, all with the same focus."""
    board: str = DEFAULT
    """COLUMNSxROWS:SQUARE:MARKER:DICTIONARY; lengths as measured on the paper."""
    lens: Lens = Lens.BROWN
    """Distortion to estimate: none, brown (k1 k2 p1 p2), brown5 (and k3), rational (k1 to k6, p1, p2)."""
    out: Path = Path("camera.json")
    """File for the camera."""
    html: Path | None = None
    """Path of the page; by default beside the camera's file."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.cameras.calibrate")
    board = Board.parse(settings.board)
    views, photographs = look(detect.find_images(settings.images), board)
    result = calibrate(views, board, settings.lens)
    print_result(result)
    files.save(settings.out, result.camera, report=summary(result, board))
    page = settings.html or settings.out.with_suffix(".html")
    command = cli.command_line("sim2real.cameras.calibrate")
    report.write(page, report.intrinsics_page(result, board, photographs, command))
    cli.show(f"-> {settings.out}, {page}")
    return 0


def look(paths: Sequence[Path], board: Board) -> tuple[list[View], dict[str, np.ndarray]]:
    """Find the board in images; also gives the first images themselves, for the page."""
    views, photographs = [], {}
    with cli.Line("looking for corners", len(paths)) as line:
        for number, path in enumerate(paths, start=1):
            image = detect.read_image(path)
            views.append(detect.detect(image, board, path.name))
            if len(views[-1].numbers) and len(photographs) < report.MOST_PHOTOGRAPHS:
                photographs[path.name] = image
            line.update(number, f"{len(views[-1].numbers)} corners in {path.name}")
    return views, photographs


def print_result(result: Calibration) -> None:
    cli.show(cli.table(f"camera of {result.camera.width} x {result.camera.height} pixels", result.rows()))
    for item in result.rejected:
        cli.say(f"not used: {item.name}: {item.reason}")
    for advice in result.advice:
        cli.say(f"note: {advice}")


def summary(result: Calibration, board: Board) -> dict[str, object]:
    camera = result.camera
    names = ("fx", "fy", "cx", "cy", *files.COEFFICIENTS[: len(camera.distortion)])
    return {
        "board": str(board),
        "rms_px": result.fit.rms,
        "held_out_px": result.held_out,
        "coverage": result.coverage,
        "std": dict(zip(names, result.fit.std.tolist(), strict=True)),
        "views": {view.name: float(e) for view, e in zip(result.views, result.fit.errors, strict=True)},
        "rejected": {item.name: item.reason for item in result.rejected},
    }


if __name__ == "__main__":
    sys.exit(main())
