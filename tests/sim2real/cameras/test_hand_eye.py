import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import mujoco
import numpy as np
import pytest

from embodied.math import transforms
from sim2real.cameras import calibrate as intrinsics_command
from sim2real.cameras import calibrate_hand_eye as command
from sim2real.cameras import camera as files
from sim2real.cameras import hand_eye
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError, Parent
from sim2real.cameras.detect import View, detect
from sim2real.cameras.hand_eye import calibrate
from sim2real.cameras.hand_eye_refinement import Session
from sim2real.cameras.lens import Lens
from tests.kit import rehearsal
from tests.kit.commands import refused
from tests.kit.fakes import given

See = Callable[..., View]
MIDDLE = np.array([0.096, 0.072, 0.0])  # m, of the board


def session(
    board: Board, seen: See, parent: Parent, seed: int = 0, count: int = 12, noise: float = 0.1,
    robot: tuple[float, float] = (0.0, 0.0), turns: np.ndarray | None = None,
) -> tuple[list[View], np.ndarray, np.ndarray]:  # fmt: skip
    """Views, hand_to_base, camera_to_parent; `robot` in m and rad, `turns` (count, 3) of the board in rad."""
    rng = np.random.default_rng(seed)
    camera_to_parent = transforms.pose(rng.normal(0, 0.5, 3), rng.normal(0, 0.1, 3))
    board_to_frame = transforms.pose(rng.normal(0, 0.5, 3), rng.normal(0, 0.5, 3))
    views, poses = [], []
    turns = rng.normal(0, 0.35, (count, 3)) if turns is None else turns
    for number, turn in enumerate(turns):
        to_camera = transforms.pose(turn, np.array([*rng.normal(0, 0.02, 2), rng.uniform(0.3, 0.5)]))
        to_camera[:3, 3] -= to_camera[:3, :3] @ MIDDLE
        views.append(seen(to_camera, rng, noise, f"{number:02d}.png"))
        chain = board_to_frame @ transforms.inverse(camera_to_parent @ to_camera)
        chain = chain @ transforms.pose(rng.normal(0, robot[1], 3), rng.normal(0, robot[0], 3))
        poses.append(chain if parent is Parent.HAND else transforms.inverse(chain))
    return views, np.array(poses), camera_to_parent


def refined(
    board: Board, camera: Camera, seen: See, parent: Parent, seed: int, **options: Any
) -> tuple[Session, hand_eye.Place, hand_eye.Place, np.ndarray]:
    """Measurements, the closed form's place, the place of least squares in pixels, and the truth."""
    views, poses, truth = session(board, seen, parent, seed, **options)
    boards = np.array([hand_eye.detect.pose(view, board, camera) for view in views])
    measured = Session(tuple(views), poses, boards, board, camera, parent)
    closed = hand_eye.closed_form(measured)
    return measured, closed, hand_eye.refine(measured, closed)[0], truth


def apart(result: hand_eye.HandEye, truth: np.ndarray) -> tuple[float, float]:
    """mm and degrees."""
    error = transforms.inverse(truth) @ result.camera_to_parent
    return 1e3 * float(np.linalg.norm(error[:3, 3])), float(np.degrees(transforms.angle(error[:3, :3])))


@pytest.mark.parametrize("parent", list(Parent))
def test_perfect_views_give_the_place_back(parent: Parent, board: Board, camera: Camera, seen: See) -> None:
    views, poses, truth = session(board, seen, parent, count=6, noise=0.0)
    result = calibrate(views, poses, board, camera, parent)
    assert apart(result, truth) < (1e-3, 1e-3)
    assert result.mount.parent is parent
    np.testing.assert_allclose(result.mount.camera_to_parent, result.camera_to_parent, atol=1e-12)
    board_in_frame = (poses if parent is Parent.HAND else transforms.inverse(poses)) @ truth
    found = transforms.inverse(board_in_frame) @ result.board_to_frame @ [*MIDDLE, 1.0]
    middles = [hand_eye.detect.pose(view, board, camera) @ [*MIDDLE, 1.0] for view in views]
    np.testing.assert_allclose(found, middles, atol=1e-5)


def test_park_martin_alone_is_exact_without_noise(board: Board, camera: Camera, seen: See) -> None:
    rng = np.random.default_rng(0)
    x = transforms.pose(rng.normal(size=3), rng.normal(size=3))
    chain = np.array([transforms.pose(rng.normal(0, 0.7, 3), rng.normal(size=3)) for _ in range(5)])
    board_to_frame = transforms.pose(rng.normal(size=3), rng.normal(size=3))
    seen_poses = transforms.inverse(chain @ x) @ board_to_frame
    np.testing.assert_allclose(hand_eye.park_martin(chain, seen_poses), x, atol=1e-9)
    np.testing.assert_allclose(hand_eye.mean_board(chain, x, seen_poses), board_to_frame, atol=1e-9)


def test_refinement_is_better_than_the_closed_form(board: Board, camera: Camera, seen: See) -> None:
    errors = []
    for seed in range(6):
        _, start, end, truth = refined(board, camera, seen, Parent.HAND, seed, noise=0.3)
        errors.append([np.linalg.norm((place.camera_to_parent - truth)[:3, 3]) for place in (start, end)])
    closed, better = np.mean(errors, 0)
    assert better < 0.7 * closed


@pytest.mark.parametrize("parent", [Parent.HAND, pytest.param(Parent.BASE, marks=pytest.mark.slow)])
def test_a_loose_robot_is_trusted_less(parent: Parent, board: Board, camera: Camera, seen: See) -> None:
    """Where the hand is off by 0.5 mm and 1 mrad, least squares in pixels alone are worse than knowing that."""
    plain, weighed, spreads = [], [], []
    for seed in range(5):
        measured, _, place, truth = refined(board, camera, seen, parent, seed, count=15, robot=(5e-4, 1e-3))
        plain.append(transforms.angle(truth[:3, :3].T @ place.camera_to_parent[:3, :3]))
        for _ in range(2):
            place, _ = hand_eye.refine(measured, place, hand_eye.estimate_spread(measured, place))
        weighed.append(transforms.angle(truth[:3, :3].T @ place.camera_to_parent[:3, :3]))
        spread = hand_eye.estimate_spread(measured, place)
        spreads.append((spread.pixels, spread.position, spread.rotation))
    assert hand_eye.rms(np.array(weighed)) < 0.6 * hand_eye.rms(np.array(plain))
    np.testing.assert_allclose(np.median(spreads, axis=0), (0.1, 5e-4, 1e-3), rtol=0.4)


@pytest.mark.parametrize("seeds", [6, pytest.param(12, marks=pytest.mark.slow)])
def test_intervals_hold_what_they_promise(seeds: int, board: Board, camera: Camera, seen: See) -> None:
    scores = []
    for seed in range(seeds):
        # With and without errors of the robot's own.
        robot = (2e-4, 2e-4) if seed % 2 else (0, 0)
        measured, _, place, truth = refined(board, camera, seen, Parent.HAND, seed, robot=robot)
        place, std = hand_eye.refine(measured, place, hand_eye.estimate_spread(measured, place))
        found = place.camera_to_parent
        error = [*transforms.logarithm(truth[:3, :3].T @ found[:3, :3]), *(found - truth)[:3, 3]]
        scores.append(error / std)
    assert (np.abs(scores) < 1.96).mean() > 0.8  # of 72; with 12 views the spread itself is known to a fifth
    assert 0.6 < np.std(scores) < 1.5


def test_motions_that_leave_it_open_are_named(board: Board, camera: Camera, seen: See) -> None:
    still = np.tile([0.1, 0.2, 0.3], (8, 1))
    views, poses, _ = session(board, seen, Parent.HAND, turns=still)
    with pytest.raises(CameraError, match=r"the hand turns by at most 0\.\d degrees .* motions without rotation"):
        calibrate(views, poses, board, camera, Parent.HAND)
    about_one = np.linspace(-0.5, 0.5, 8)[:, None] * [0.0, 0.6, 0.8]
    views, poses, _ = session(board, seen, Parent.HAND, turns=about_one)
    with pytest.raises(CameraError, match=r"all rotations between the 8 poses are about one axis, \(.*two axes"):
        calibrate(views, poses, board, camera, Parent.HAND)
    with pytest.raises(CameraError, match="3 poses with a view of the board; expected at least 4"):
        calibrate(views[:3], poses[:3], board, camera, Parent.HAND)


def test_poses_of_other_pictures_are_noticed(board: Board, camera: Camera, seen: See) -> None:
    views, poses, _ = session(board, seen, Parent.HAND)
    with pytest.raises(CameraError, match=r"the hand turns by .* the board in the picture by"):
        calibrate(views, np.roll(poses, 1, axis=0), board, camera, Parent.HAND)
    one = poses.copy()
    one[4] = one[4] @ transforms.pose(np.array([0.3, 0.2, 0.0]), np.zeros(3))
    with pytest.raises(CameraError, match=r"04\.png disagrees with most others"):
        calibrate(views, one, board, camera, Parent.HAND)


@pytest.mark.parametrize("parent", list(Parent))
def test_the_wrong_parent_is_noticed(parent: Parent, board: Board, camera: Camera, seen: See) -> None:
    views, poses, _ = session(board, seen, parent, count=8)
    other = Parent.BASE if parent is Parent.HAND else Parent.HAND
    with pytest.raises(CameraError, match=rf"is the camera fixed to the {other} \(not to the {parent}\)"):
        calibrate(views, poses, board, camera, other)


@pytest.mark.parametrize("robot", [(0.0, 0.0), (1e-3, 2e-3)], ids=["exact", "loose"])
def test_held_out_errors_grow_with_the_robots(
    robot: tuple[float, float], board: Board, camera: Camera, seen: See
) -> None:
    views, poses, _ = session(board, seen, Parent.HAND, count=8, robot=robot)
    result = calibrate(views, poses, board, camera, Parent.HAND)
    if any(robot):
        assert result.held_out > (1.0, 0.1)
        assert hand_eye.rms(result.millimetres) < result.held_out[0]
    else:
        assert result.held_out < (0.7, 0.3)


POSES = "image,x,y,z,qw,qx,qy,qz\na/0.png,1,2,3,1,0,0,0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the columns image, x, y"),
        ("image,x,y,z,qx,qy,qz\n", "lacks the columns qw; expected the header image,x,y,z,qw,qx,qy,qz"),
        (POSES + "1.png,1,2,x,1,0,0,0\n", "line 3: expected numbers"),
        (POSES + "1.png,1,2\n", "line 3: expected numbers"),
        (POSES + "1.png,1,2,3,0.5,0,0,0\n", "line 3: the quaternion has length 0.5; expected 1, as qw,qx,qy,qz"),
        (POSES + "1.png,1,2,nan,1,0,0,0\n", "line 3"),
        (POSES + "0.png,1,2,3,1,0,0,0\n", "line 3: '0.png' has a pose already"),
    ],
)
def test_files_of_poses_are_read_strictly(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "poses.csv").write_text(text)
    with pytest.raises(CameraError, match=message):
        command.read_poses(tmp_path / "poses.csv")
    (tmp_path / "poses.csv").write_text(POSES)
    np.testing.assert_array_equal(command.read_poses(tmp_path / "poses.csv")["0.png"][:3, 3], [1, 2, 3])


def written(folder: Path, images: list[np.ndarray], poses: np.ndarray | None = None) -> None:
    folder.mkdir(parents=True)
    lines = ["image,x,y,z,qw,qx,qy,qz"]
    for number, image in enumerate(images):
        cv2.imwrite(str(folder / f"{number:02d}.png"), image[..., ::-1])
        if poses is not None:
            numbers = [*poses[number][:3, 3], *transforms.wxyz_from_matrix(poses[number][:3, :3])]
            lines.append(f"{number:02d}.png," + ",".join(f"{n:.17g}" for n in numbers))
    (folder / "poses.csv").write_text("\n".join(lines))


@pytest.mark.parametrize("parent", [Parent.HAND, pytest.param(Parent.BASE, marks=pytest.mark.slow)])
def test_a_camera_is_found_from_photographs(
    parent: Parent, board: Board, camera: Camera, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within 1 mm and 0.1 degrees, with noise and distortion."""
    lens, images = Lens.of(camera, 1), []

    def taken(pose: np.ndarray, rng: np.random.Generator, noise: float, name: str) -> View:
        images.append(rehearsal.photograph(board, lens, pose, rng))
        return View(name, (camera.width, camera.height), np.zeros(0, int), np.zeros((0, 2)))

    _, poses, truth = session(board, taken, parent, count=8)
    written(tmp_path / "photos", images, poses)
    files.save(tmp_path / "camera.json", camera)
    words = [str(tmp_path / "photos"), "--poses", str(tmp_path / "photos" / "poses.csv"), "--parent", str(parent)]
    words += ["--camera", str(tmp_path / "camera.json"), "--board", str(board), "--out", str(tmp_path / "eye.json")]
    assert command.main(words) == 0
    document = files.load(tmp_path / "eye.json")
    assert document.camera == camera
    error = transforms.inverse(truth) @ given(document.mount).camera_to_parent
    assert 1e3 * np.linalg.norm(error[:3, 3]) < 1.0
    assert np.degrees(transforms.angle(error[:3, :3])) < 0.1
    element = capsys.readouterr().out.strip()
    assert mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{element}</worldbody></mujoco>").ncam == 1
    page = (tmp_path / "eye_hand_eye.html").read_text()
    assert "data:image/jpeg" in page
    assert page.count("<img") == 7  # of one the board is half outside


def test_the_command_line_calibrates_a_folder_of_photographs(
    board: Board, camera: Camera, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    small = dataclasses.replace(camera.scaled(0.75), distortion=camera.distortion)
    lens, images = Lens.of(small, 1), [np.zeros((small.height, small.width, 3), np.uint8)]
    images += [rehearsal.photograph(board, lens, pose, rng) for pose in rehearsal.views(board, small, 9, rng)]
    written(tmp_path / "photos", images)
    words = [str(tmp_path / "photos"), "--board", str(board), "--out", str(tmp_path / "camera.json")]
    assert intrinsics_command.main(words) == 0
    said = capsys.readouterr().err
    assert "not used: 00.png: 0 of 35 corners found" in said
    found = files.load(tmp_path / "camera.json").camera
    assert found.fx == pytest.approx(small.fx, rel=5e-3)
    assert "00.png" in (tmp_path / "camera.html").read_text()
    for wrong, message in (
        ([str(tmp_path / "none.png")], "there is no image"),
        ([str(tmp_path / "photos" / "poses.csv")], "is no image that OpenCV reads"),
        ([str(tmp_path / "photos"), "--board", "8x6:24mm:18mm:6X6_100"], "0 views of the board, of 10 images"),
        ([str(tmp_path)], "no images in"),
    ):
        assert message in refused(intrinsics_command.main, *wrong, "--out", str(tmp_path / "x.json"))
    assert not (tmp_path / "x.json").exists()


def test_a_blank_image_has_no_corners(board: Board) -> None:
    view = detect(np.full((100, 100, 3), 255, np.uint8), board)
    assert view.pixels.shape == (0, 2)
    with pytest.raises(CameraError, match="shows 0 corners"):
        hand_eye.detect.pose(view, board, Camera(100, 100, 100.0, 100.0, 50.0, 50.0))
