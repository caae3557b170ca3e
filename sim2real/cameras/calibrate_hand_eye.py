"""Command line: where a camera sits on a robot's hand, or beside the robot, from photographs and the robot's poses.

python -m sim2real.cameras.calibrate_hand_eye photos/ --poses poses.csv --camera camera.json --parent hand

The poses are a CSV file with a header and a line for each photograph:

    image,x,y,z,qw,qx,qy,qz
    0001.png,0.412,-0.031,0.507,0.003,0.921,0.389,0.011

the hand in the robot's base frame, m and a quaternion. "Hand" is whichever body's pose the robot gives, as long as it
is the same one that the camera is then fixed to in the simulation.
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tyro

from embodied import cli
from embodied.errors import guard, listing, reason
from embodied.math import transforms
from embodied.storage.files import require_regular
from sim2real.cameras import camera as files
from sim2real.cameras import detect, hand_eye, report
from sim2real.cameras.board import DEFAULT, Board
from sim2real.cameras.calibrate import look
from sim2real.cameras.camera import CameraError, Parent
from sim2real.cameras.detect import View
from sim2real.cameras.mujoco_camera import Attributes

COLUMNS = ("image", "x", "y", "z", "qw", "qx", "qy", "qz")
MOST_BYTES = 64 << 20  # of a file of poses
UNIT = 0.01  # by which a quaternion's length may differ from 1


@dataclasses.dataclass(frozen=True)
class Settings:
    """Find where a camera sits."""

    images: tyro.conf.Positional[tuple[Path, ...]]
    """Photographs of the board, or folders of them; 12 or more, with the hand turned about two axes."""
    poses: Path
    """CSV: image,x,y,z,qw,qx,qy,qz, hand_to_base in m and wxyz."""
    parent: Parent
    """hand: the camera moves with the hand; base: it stands still, and the board is on the hand."""
    camera: Path = Path("camera.json")
    """Intrinsic parameters, from `sim2real.cameras.calibrate`."""
    board: str = DEFAULT
    """COLUMNSxROWS:SQUARE:MARKER:DICTIONARY; lengths as measured on the paper."""
    out: Path | None = None
    """File for the camera with its place; by default the camera's own."""
    html: Path | None = None
    """Path of the page; by default beside it, as NAME_hand_eye.html."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.cameras.calibrate_hand_eye")
    board, camera = Board.parse(settings.board), files.load(settings.camera).camera
    poses = read_poses(settings.poses)
    found, photographs = look(detect.find_images(settings.images), board)
    views, unused = usable(found, poses, board, (camera.width, camera.height))
    for name, why in unused.items():
        cli.say(f"not used: {name}: {why}")
    chain = np.array([poses[view.name] for view in views]).reshape(-1, 4, 4)
    result = hand_eye.calibrate(views, chain, board, camera, settings.parent)
    cli.show(cli.table(f"camera on the {settings.parent}", result.rows()))
    out = settings.out or settings.camera
    mjcf = Attributes.of(camera, result.camera_to_parent).mjcf(out.stem)
    print(mjcf)
    files.save(out, camera, result.mount, summary(result, mjcf))
    page = settings.html or out.with_name(f"{out.stem}_hand_eye.html")
    frame = chain if settings.parent is Parent.HAND else transforms.inverse(chain)
    to_camera = transforms.inverse(frame @ result.camera_to_parent) @ result.board_to_frame
    expected = [camera.project(view.points(board), t) for view, t in zip(views, to_camera, strict=True)]
    command = cli.command_line("sim2real.cameras.calibrate_hand_eye")
    report.write(page, report.hand_eye_page(result, views, board, camera, expected, photographs, mjcf, command))
    cli.show(f"-> {out}, {page}")
    return 0


def usable(
    views: Sequence[View], poses: Mapping[str, np.ndarray], board: Board, size: tuple[int, int]
) -> tuple[list[View], dict[str, str]]:
    """Views that have a pose and enough corners, and why the others are not used.

    Raises:
        CameraError: the images have another size than the camera's, or none of them is in the file of poses.
    """
    if wrong := [view for view in views if view.size != size]:
        raise CameraError(
            f"'{wrong[0].name}' has {wrong[0].size[0]} x {wrong[0].size[1]} pixels; the camera was calibrated for "
            f"{size[0]} x {size[1]}"
        )
    if not any(view.name in poses for view in views):
        raise CameraError(
            f"none of the images is in the file of poses: images {listing((v.name for v in views), 3)}; poses "
            f"{listing(poses, 3)}"
        )
    unused = {view.name: "no pose in the file" for view in views if view.name not in poses}
    few = [view for view in views if view.name in poses and not detect.usable(view, board)]
    unused |= {view.name: f"{len(view.numbers)} corners found, or all on one line" for view in few}
    return [view for view in views if view.name not in unused], unused


def read_poses(path: Path) -> dict[str, np.ndarray]:
    """Image's name -> (4, 4) hand_to_base.

    Raises:
        CameraError: no such file, or a line that holds no pose; names the line.
    """
    try:
        require_regular(path)
        if path.stat().st_size > MOST_BYTES:
            raise CameraError(f"'{path}' has more than {MOST_BYTES >> 20} MiB; expected a file of poses")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CameraError(f"cannot read the poses '{path}': {reason(error)}") from error
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise CameraError(f"'{path}' lacks the columns {listing(missing)}; expected the header {','.join(COLUMNS)}")
    poses: dict[str, np.ndarray] = {}
    for row in reader:
        where = f"'{path}', line {reader.line_num}"
        try:
            numbers = np.array([float(row[name]) for name in COLUMNS[1:]])
        except (TypeError, ValueError):
            raise CameraError(f"{where}: expected numbers for {','.join(COLUMNS[1:])}") from None
        if not np.isfinite(numbers).all() or abs(np.linalg.norm(numbers[3:]) - 1) > UNIT:
            raise CameraError(
                f"{where}: the quaternion has length {np.linalg.norm(numbers[3:]):.3g}; expected 1, as qw,qx,qy,qz"
            )
        name = Path(row["image"]).name
        if name in poses:
            raise CameraError(f"{where}: '{name}' has a pose already")
        poses[name] = transforms.pose(transforms.matrix_from_wxyz(numbers[3:]), numbers[:3])
    return poses


def summary(result: hand_eye.HandEye, mjcf: str) -> dict[str, object]:
    return {
        "mjcf": mjcf,
        "std_rad": result.std[:3].tolist(),
        "std_m": result.std[3:].tolist(),
        "robot_m": result.spread.position,
        "robot_rad": result.spread.rotation,
        "rms_px": hand_eye.rms(result.pixels),
        "rms_mm": hand_eye.rms(result.millimetres),
        "rms_degrees": hand_eye.rms(result.degrees),
        "held_out_mm": result.held_out[0],
        "held_out_degrees": result.held_out[1],
        "views": list(result.names),
    }


if __name__ == "__main__":
    sys.exit(main())
