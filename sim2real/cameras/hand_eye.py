"""Hand-eye calibration: the pose of a camera on a robot's hand, or of one beside the robot.

With the camera on the hand, camera_to_hand X and the board's place in the base are unknown and the same in all views;
with the board on the hand, camera_to_base and the board's place on the hand are. With A the pose of the hand in the
base, or its inverse, both read

    board_to_frame = A_i X B_i,    A_i = hand_to_base (camera on the hand) or base_to_hand (camera beside the robot),

B_i = board_to_camera, so two views give A_j^-1 A_i X = X B_j B_i^-1, which is AX = XB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from embodied.math import transforms
from sim2real.cameras import detect
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError, Mount, Parent
from sim2real.cameras.detect import View
from sim2real.cameras.hand_eye_refinement import Place, Session, Spread, estimate_spread, pairs, refine

FEWEST_POSES = 4  # two motions about two axes fix the camera; four poses leave something to check it by
SMALLEST_ROTATION = np.radians(5.0)  # of the hand between two informative poses
LARGEST_ROTATION = np.radians(170.0)  # beyond, the axis of a rotation may flip
PARALLEL = 0.05  # smallest share of the rotations' squares that the second of their axes must have
MISMATCH = np.radians(3.0)  # between how far hand and camera turn; robots and boards agree to tenths of a degree
WORST = np.radians(5.0)  # median rotation that is left over; beyond, poses and pictures do not belong together
PASSES = 2  # of estimating how exact the robot is, and using it
ADVICE = (
    "move the hand to 12 or more poses from which the board is seen, turning it by 20 to 60 degrees about at least two "
    "axes that are not parallel"
)


@dataclasses.dataclass(frozen=True)
class HandEye:
    """A camera's pose in its parent's frame, with uncertainties and errors."""

    parent: Parent
    place: Place
    std: np.ndarray
    """(6,) standard deviations of camera_to_parent: turn about the camera's x, y, z in rad, its position along the
    parent's x, y, z in m."""
    spread: Spread
    """Of corners and of the robot's hand, as estimated."""
    names: tuple[str, ...]
    """Of the views."""
    pixels: np.ndarray
    """(views,) root mean squared reprojection error."""
    millimetres: np.ndarray
    """(views,) mm between the board as the view shows it and as the robot's pose predicts."""
    degrees: np.ndarray
    """(views,) the same for its rotation."""
    held_out: tuple[float, float]
    """mm and degrees, root mean squares of the same in views that were left out of the calibration, one at a time."""

    @property
    def camera_to_parent(self) -> np.ndarray:
        """(4, 4)."""
        return self.place.camera_to_parent

    @property
    def board_to_frame(self) -> np.ndarray:
        """(4, 4)."""
        return self.place.board_to_frame

    @property
    def mount(self) -> Mount:
        return Mount.of(self.parent, self.camera_to_parent)

    def rows(self) -> dict[str, str]:
        turn = np.degrees(1.96 * self.std[:3])
        place = 1e3 * self.camera_to_parent[:3, 3]
        quat = self.mount.quat
        return {
            f"camera in the {self.parent} frame": ", ".join(
                f"{axis} {p:.2f} ± {1.96e3 * s:.2f} mm" for axis, p, s in zip("xyz", place, self.std[3:], strict=True)
            ),
            "orientation (wxyz, OpenCV's axes)": " ".join(f"{q:.5f}" for q in quat),
            "uncertainty of its rotation": f"± {turn.max():.3f} degrees about the worst axis",
            "reprojection error": f"{rms(self.pixels):.3f} px in {len(self.names)} views",
            "robot's own spread, estimated": f"{1e3 * self.spread.position:.2f} mm, "
            f"{np.degrees(self.spread.rotation):.3f} degrees along and about each axis",
            "board: seen against expected": f"{rms(self.millimetres):.2f} mm, {rms(self.degrees):.3f} degrees",
            "held out": f"{self.held_out[0]:.2f} mm, {self.held_out[1]:.3f} degrees",
        }


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def calibrate(views: Sequence[View], hand_to_base: np.ndarray, board: Board, camera: Camera, parent: Parent) -> HandEye:
    """Find the camera: Park and Martin's closed form, then least squares on reprojection.

    Args:
        views: The board in each photograph; every one must have enough corners.
        hand_to_base: (views, 4, 4) the hand in the robot's base frame when each was taken.
        board: What they show.
        camera: Intrinsic parameters.
        parent: What the camera is fixed to.

    Raises:
        CameraError: the poses do not fix the camera, or contradict the pictures; with advice.
    """
    if len(views) < FEWEST_POSES:
        raise CameraError(f"{len(views)} poses with a view of the board; expected at least {FEWEST_POSES}: {ADVICE}")
    seen = np.array([detect.pose(view, board, camera) for view in views])
    session = Session(tuple(views), hand_to_base, seen, board, camera, parent)
    check_agreement([view.name for view in views], session.chain, seen)
    place, _ = refine(session, closed_form(session))
    spread, std = estimate_spread(session, place), np.zeros(6)
    _, _, turned = residuals(session, place)
    if np.median(np.radians(turned)) > WORST:
        other = Parent.BASE if parent is Parent.HAND else Parent.HAND
        raise CameraError(
            f"poses and pictures contradict each other by {np.median(turned):.0f} degrees (median): is the camera "
            f"fixed to the {parent} (not to the {other}), is each pose hand_to_base, in m, with quaternions wxyz?"
        )
    for _ in range(PASSES):
        place, std = refine(session, place, spread)
        spread = estimate_spread(session, place)
    names = tuple(view.name for view in views)
    return HandEye(parent, place, std, spread, names, *residuals(session, place), held_out(session, spread))


def motions(chain: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, 4, 4) twice, A and B of AX = XB for every pair of poses chain (n, 4, 4) and board_to_camera (n, 4, 4)."""
    first, second = pairs(len(chain))
    return transforms.inverse(chain[second]) @ chain[first], seen[second] @ transforms.inverse(seen[first])


def check_agreement(names: Sequence[str], chain: np.ndarray, seen: np.ndarray) -> None:
    """Check that hand and camera turn equally far between views, whatever the calibration: A and B are similar.

    Raises:
        CameraError: they do not, in half of the pairs that some view is in; or the hand hardly turns.
    """
    moved, observed = motions(chain, seen)
    by_hand, by_eye = (np.array([transforms.angle(m[:3, :3]) for m in motion]) for motion in (moved, observed))
    if by_hand.max() < SMALLEST_ROTATION:
        raise CameraError(
            f"the hand turns by at most {np.degrees(by_hand.max()):.1f} degrees between the {len(names)} poses: "
            f"motions without rotation do not tell where the camera is; {ADVICE}"
        )
    wrong = np.zeros((len(names), len(names)), bool)
    wrong[np.triu_indices(len(names), 1)] = np.abs(by_hand - by_eye) > MISMATCH
    share = (wrong | wrong.T).sum(0) / (len(names) - 1)
    worst = int(np.argmax(share))
    if share[worst] > 0.5:
        both = np.array(pairs(len(names)))
        pair = int(np.argmax(np.abs(by_hand - by_eye) * (both == worst).any(0)))
        first, second = (names[index] for index in both[:, pair])
        raise CameraError(
            f"between {first} and {second} the hand turns by {np.degrees(by_hand[pair]):.1f} degrees, the board in the "
            f"picture by {np.degrees(by_eye[pair]):.1f}: {names[worst]} disagrees with most others. Does each pose "
            "belong to its picture, with quaternions wxyz, the robot at rest, and board and camera fixed?"
        )


def park_martin(chain: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(4, 4) X of AX = XB, in closed form.

    Park and Martin, "Robot sensor calibration: solving AX = XB on the Euclidean group", IEEE T-RA 10 (1994): rotation
    (M^T M)^(-1/2) M^T with M the sum of log(B) log(A)^T, here by singular values; then position by least squares.

    Raises:
        CameraError: all rotations are about one axis.
    """
    moved, observed = motions(chain, seen)
    alpha, beta = (np.array([transforms.logarithm(m[:3, :3]) for m in motion]) for motion in (moved, observed))
    size = np.linalg.norm(alpha, axis=1)
    used = (size > SMALLEST_ROTATION) & (size < LARGEST_ROTATION)
    if not used.any():
        raise CameraError(f"no two poses differ by a rotation of 5 to 170 degrees; {ADVICE}")
    spread, axes = np.linalg.eigh(alpha[used].T @ alpha[used])
    if spread[1] < PARALLEL * spread[2]:
        axis = ", ".join(f"{n:+.2f}" for n in axes[:, 2] * np.sign(axes[np.argmax(np.abs(axes[:, 2])), 2]))
        raise CameraError(
            f"all rotations between the {len(chain)} poses are about one axis, ({axis}) in the parent's frame: the "
            f"camera's place along it and its turn about it stay open; {ADVICE}"
        )
    left, _, right = np.linalg.svd(alpha[used].T @ beta[used])
    rotation = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    # (R_A - 1) t = R t_B - t_A, of all pairs.
    sides = (moved[:, :3, :3] - np.eye(3)).reshape(-1, 3)
    goals = (observed[:, :3, 3] @ rotation.T - moved[:, :3, 3]).ravel()
    return transforms.pose(rotation, np.linalg.lstsq(sides, goals, rcond=None)[0])


def closed_form(session: Session) -> Place:
    """Initial estimate: Park and Martin's camera, and the board that the views then show on average."""
    camera_to_parent = park_martin(session.chain, session.seen)
    return Place(camera_to_parent, mean_board(session.chain, camera_to_parent, session.seen))


def mean_board(chain: np.ndarray, camera_to_parent: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """(4, 4) board_to_frame, the mean over the views: chordal mean of rotations, mean of positions."""
    each = chain @ camera_to_parent @ seen
    left, _, right = np.linalg.svd(each[:, :3, :3].sum(0))
    rotation = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    return transforms.pose(rotation, each[:, :3, 3].mean(0))


def residuals(session: Session, place: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(views,) each: pixels of reprojection, mm at the board's middle, and degrees, between seen and expected board."""
    expected = session.expected(place)
    squares = ((session.project(expected) - session.pixels) ** 2).sum(1)
    pixels = [np.sqrt(squares[session.owner == view].mean()) for view in range(len(session.views))]
    middle = np.array([*session.board.size, 0.0, 2.0]) / 2
    apart = np.linalg.norm((expected @ middle - session.seen @ middle)[:, :3], axis=1)
    turned = [transforms.angle(e[:3, :3].T @ s[:3, :3]) for e, s in zip(expected, session.seen, strict=True)]
    return np.array(pixels), 1e3 * apart, np.degrees(turned)


def held_out(session: Session, spread: Spread) -> tuple[float, float]:
    """mm and degrees, root mean squares over views left out one at a time; nan where the rest is too little."""
    apart, turned = [], []
    for number in range(len(session.views)):
        rest = session.part([index for index in range(len(session.views)) if index != number])
        try:
            place, _ = refine(rest, closed_form(rest), spread)
        except CameraError:
            continue
        _, distance, rotation = residuals(session.part([number]), place)
        apart.append(distance[0])
        turned.append(rotation[0])
    return (rms(np.array(apart)), rms(np.array(turned))) if apart else (float("nan"), float("nan"))
