"""`python -m sim2real.reconstruct`: the layout of a few coloured blocks on a table, from a picture, for the twin."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import tyro

from embodied import cli
from embodied.core.initial_states import save
from embodied.env.registry import join_content
from embodied.errors import EmbodiedError, guard
from embodied.math import transforms
from embodied.storage.bounds import Bounded
from embodied.storage.files import write_atomic
from sim2real.cameras import camera as cameras
from sim2real.cameras.camera import CameraError, Parent
from sim2real.cameras.detect import read_image
from sim2real.cameras.reconstruction import layout
from sim2real.cameras.reconstruction.blocks import Block, Found, find

FORM = "NAME=COLOUR, NAME=COLOUR:EDGE or NAME=COLOUR:LENGTHxWIDTHxHEIGHT with edges in m"
STATES = 64  # initial states that are written, alike but for what the picture does not show


@dataclasses.dataclass(frozen=True)
class Settings(Bounded):
    """Find coloured blocks on a table in a picture of a calibrated camera, and give the twin their layout.

    Writes OUT.json (m, rad, world frame) and OUT.xml, the table with the blocks. With --task, also OUT.safetensors, the
    initial states of a task in which they lie so. Examples:

        python -m sim2real.reconstruct photo.png --camera camera.json --blocks object=green:0.04 --out layout
        python -m sim2real.reconstruct photo.png --camera camera.json --blocks puck=blue:0.04x0.04x0.04 lid=red \\
            --base 0 0.12 0.175 90 --out layout --task manipulation/push --joints object=puck
        python -m embodied.train manipulation/push --initial-states layout.safetensors
    """

    picture: tyro.conf.Positional[Path]
    """The picture, as the camera took it."""
    camera: Path
    """File that python -m sim2real.cameras.calibrate_hand_eye --parent base wrote: lens, and place beside the robot."""
    blocks: tuple[str, ...]
    """Blocks to find, each NAME=COLOUR, NAME=COLOUR:EDGE or NAME=COLOUR:LENGTHxWIDTHxHEIGHT, edges in m as it lies;
    without any it is a cube whose edge is found, too. Colours: red, orange, yellow, green, cyan, blue, purple."""
    out: Path = Path("layout")
    """Path of the results, without the ending."""
    base: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """x, y, z (m) and yaw (degrees) of the robot's base in the world; the table tasks' Panda: 0 0.12 0.175 90."""
    table: float = 0.0
    """m, height of the table's top in the world."""
    task: str | None = None
    """Task whose initial states are to be written."""
    joints: tuple[str, ...] = ()
    """With --task: which of its free joints lies where which block was found, each JOINT=NAME."""


@guard
def main(arguments: list[str] | None = None) -> int:
    settings = cli.parse(Settings, arguments, "sim2real.reconstruct")
    blocks = [parsed(text) for text in settings.blocks]
    joints = dict(pair(text, "--joints", "JOINT=NAME") for text in settings.joints)
    file = cameras.load(settings.camera)
    found = find(read_image(settings.picture), file.camera, placed(file, settings), blocks, settings.table)
    states = None
    if settings.task is not None:
        entry = join_content()[settings.task]
        states = layout.initial_states(entry.load()(entry.load().config_type()), found, joints, STATES)
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"picture": settings.picture.name, "blocks": layout.document(found)}
    write_atomic(settings.out.with_suffix(".json"), (json.dumps(document, indent=2) + "\n").encode())
    write_atomic(settings.out.with_suffix(".xml"), layout.scene(found).to_xml().encode())
    written = [settings.out.with_suffix(ending) for ending in (".json", ".xml")]
    if states is not None:
        written.append(settings.out.with_suffix(".safetensors"))
        save(written[-1], states)
    rows = {one.block.name: shown(one) for one in found}
    cli.show(cli.table(f"{len(found)} blocks in {settings.picture.name}", rows))
    cli.show(f"-> {', '.join(str(path) for path in written)}")
    return 0


def placed(file: cameras.Document, settings: Settings) -> np.ndarray:
    """(4, 4) camera_to_world.

    Raises:
        CameraError: the file does not hold the pose of the camera, or it moves with the hand.
    """
    if file.mount is None or file.mount.parent is not Parent.BASE:
        where = "on the hand" if file.mount is not None else "nowhere"
        raise CameraError(
            f"'{settings.camera}' says that the camera is {where}; expected one beside the robot: "
            "python -m sim2real.cameras.calibrate_hand_eye --parent base"
        )
    *position, yaw = settings.base
    base = transforms.pose(transforms.exponential(np.array([0.0, 0.0, np.radians(yaw)])), np.array(position))
    return base @ file.mount.camera_to_parent


def parsed(text: str) -> Block:
    """A block by its words on the command line.

    Raises:
        EmbodiedError: they are not of the form.
    """
    name, rest = pair(text, "--blocks", FORM)
    colour, _, size = rest.partition(":")
    if not size:
        return Block(name, colour)
    try:
        edges = [float(edge) for edge in size.split("x")]
    except ValueError:
        edges = []
    if len(edges) not in (1, 3) or not all(0 < edge < np.inf for edge in edges):
        raise EmbodiedError(f"--blocks {text}: expected {FORM}")
    length, width, height = edges * 3 if len(edges) == 1 else edges
    return Block(name, colour, (length / 2, width / 2, height / 2))


def pair(text: str, flag: str, form: str) -> tuple[str, str]:
    """Both sides of `NAME=VALUE`.

    Raises:
        EmbodiedError: there are no two sides.
    """
    left, sign, right = text.partition("=")
    if not (left and sign and right):
        raise EmbodiedError(f"{flag} {text}: expected {form}")
    return left, right


def shown(found: Found) -> str:
    x, y, _ = found.position
    edges = " x ".join(f"{2e3 * half:.1f}" for half in found.half)
    return (
        f"{found.block.colour}, x {x:.4f} y {y:.4f} m, yaw {np.degrees(found.yaw):.1f} degrees, {edges} mm "
        f"(outline off by {found.residual:.2f} px)"
    )


if __name__ == "__main__":
    sys.exit(main())
