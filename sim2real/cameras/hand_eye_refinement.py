"""Hand-eye calibration as least squares on reprojection, weighted by the accuracies of pictures and robot.

Corners are found to a tenth of a pixel, and a robot's hand is known to some tenths of a millimetre, which are several
pixels. Least squares that attribute all errors to the corners fit the nearest views best, and do worse than the
closed form. So the robot's spread is estimated from the residuals, and each view's errors are whitened by the
covariance that corners and hand give them together: feasible generalised least squares (Aitken 1936).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from embodied.math import transforms
from sim2real.cameras.board import Board
from sim2real.cameras.camera import Camera, CameraError, Parent
from sim2real.cameras.detect import View

ROBUST = 3.0  # standard deviations: errors beyond count less than their square
FIRST = 1.0  # pixels, of all errors, before any spread is known
STEP = 1e-6  # m and rad, of difference quotients
PERFECT = 1e-6  # pixels, the smallest spread that corners may have
GRID = np.concatenate([[0.0], np.geomspace(1e-5, 3e-2, 36)])  # rad and m, spreads that a robot may have
TAILS = 10.0  # degrees of freedom of the t distribution: a little wider than a normal one


@dataclasses.dataclass(frozen=True)
class Spread:
    """Standard deviations of what is measured."""

    pixels: float
    """Of each coordinate of a corner."""
    position: float = 0.0
    """m, of the hand along each of its axes."""
    rotation: float = 0.0
    """rad, of the hand about each of its axes."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Poses of camera and board, the two unknowns of a hand-eye calibration."""

    camera_to_parent: np.ndarray
    """(4, 4)."""
    board_to_frame: np.ndarray
    """(4, 4), the board in the base (camera on the hand) or on the hand (camera beside the robot)."""

    def moved(self, step: np.ndarray) -> Place:
        """Both turned by step[:3], step[6:9] rad about their own axes and moved by the rest, m along their parents'."""
        return Place(_moved(self.camera_to_parent, step[:6]), _moved(self.board_to_frame, step[6:]))


@dataclasses.dataclass(frozen=True)
class Session:
    """Measurements of a hand-eye calibration: views of the board and poses of the robot's hand."""

    views: tuple[View, ...]
    hand_to_base: np.ndarray
    """(views, 4, 4)."""
    seen: np.ndarray
    """(views, 4, 4) board_to_camera, of each picture alone."""
    board: Board
    camera: Camera
    parent: Parent

    @property
    def chain(self) -> np.ndarray:
        """(views, 4, 4) A in board_to_frame = A X B: parent of the camera to the frame in which the board is fixed."""
        return chain_of(self.hand_to_base, self.parent)

    def part(self, rows: Sequence[int]) -> Session:
        views = tuple(self.views[row] for row in rows)
        return dataclasses.replace(self, views=views, hand_to_base=self.hand_to_base[rows], seen=self.seen[rows])

    @property
    def owner(self) -> np.ndarray:
        """(corners,) index of each corner's view."""
        return np.repeat(np.arange(len(self.views)), [len(view.numbers) for view in self.views])

    @property
    def pixels(self) -> np.ndarray:
        """(corners, 2) where they were found."""
        return np.concatenate([view.pixels for view in self.views])

    def project(self, to_camera: np.ndarray) -> np.ndarray:
        """(corners, 2) pixels, of boards at (views, 4, 4) board_to_camera."""
        points, each = np.concatenate([view.points(self.board) for view in self.views]), to_camera[self.owner]
        return self.camera.project(np.einsum("nij,nj->ni", each[:, :3, :3], points) + each[:, :3, 3], np.eye(4))

    def expected(self, place: Place, hand_to_base: np.ndarray | None = None) -> np.ndarray:
        """(views, 4, 4) board_to_camera by the robot's poses."""
        chain = self.chain if hand_to_base is None else chain_of(hand_to_base, self.parent)
        return transforms.inverse(chain @ place.camera_to_parent) @ place.board_to_frame


def chain_of(hand_to_base: np.ndarray, parent: Parent) -> np.ndarray:
    """(..., 4, 4) hand_to_base for a camera on the hand, its inverse for one beside the robot."""
    return hand_to_base if parent is Parent.HAND else transforms.inverse(hand_to_base)


def _moved(transform: np.ndarray, step: np.ndarray) -> np.ndarray:
    return transforms.pose(transform[:3, :3] @ transforms.exponential(step[:3]), transform[:3, 3] + step[3:])


def refine(session: Session, start: Place, spread: Spread | None = None) -> tuple[Place, np.ndarray]:
    """The place that explains the corners best.

    Args:
        session: What was measured.
        start: Near enough, such as the closed form gives it.
        spread: Of corners and hand; without it, all errors are the corners'.

    Returns:
        The place, and standard deviations (6,) of camera_to_parent: turn about the camera's axes in rad, position along
        the parent's in m. They let the errors of a view depend on each other (see `intrinsics.deviations`).
    """
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise CameraError('hand-eye calibration needs scipy: pip install "embodied-sim[sim2real]"') from None
    views, rows = len(session.views), np.repeat(session.owner, 2)
    whiteners = None if spread is None else whitening(session, start, spread)
    found_at = session.pixels

    def errors(step: np.ndarray) -> np.ndarray:
        apart = (session.project(session.expected(start.moved(step))) - found_at).ravel()
        if whiteners is None:
            return apart
        return np.concatenate([whitener @ apart[rows == view] for view, whitener in enumerate(whiteners)])

    scale = FIRST if spread is None else ROBUST
    found = least_squares(errors, np.zeros(12), loss="soft_l1", f_scale=scale, x_scale="jac")
    # scipy has weighted the rows of `jac` by the loss; the errors get the same weights here.
    left = errors(found.x)
    weighted = left / (1 + (left / scale) ** 2) ** 0.25
    inverse = np.linalg.pinv(found.jac.T @ found.jac)
    scores = np.array([found.jac[rows == view].T @ weighted[rows == view] for view in range(views)])
    clustered = inverse @ (scores.T @ scores) @ inverse * views / max(views - 2, 1)
    usual = inverse * (weighted @ weighted) / max(len(weighted) - 12, 1)
    return start.moved(found.x), np.sqrt(np.maximum(np.diag(clustered), np.diag(usual)))[:6]


def by_hand(session: Session, place: Place) -> np.ndarray:
    """(2 corners, 6) change of each pixel coordinate with errors of its view's hand pose, by rad and m in its frame."""

    def shown(error: np.ndarray) -> np.ndarray:
        hand = session.hand_to_base @ transforms.pose(error[:3], error[3:])
        return session.project(session.expected(place, hand))

    columns = [(shown(STEP * unit) - shown(-STEP * unit)).ravel() / (2 * STEP) for unit in np.eye(6)]
    return np.stack(columns, axis=1)


def whitening(session: Session, place: Place, spread: Spread) -> list[np.ndarray]:
    """For each view the matrix that makes its n pixel coordinates' errors independent, of variance 1: (n, n)."""
    slopes, rows = by_hand(session, place), np.repeat(session.owner, 2)
    hand = np.repeat([spread.rotation, spread.position], 3) ** 2
    result = []
    for view in range(len(session.views)):
        slope = slopes[rows == view]
        covariance = spread.pixels**2 * np.eye(len(slope)) + (slope * hand) @ slope.T
        result.append(np.linalg.inv(np.linalg.cholesky(covariance)))
    return result


def estimate_spread(session: Session, place: Place) -> Spread:
    """Standard deviations of corners and hand, estimated from the residuals of a calibration.

    Corners by how well a board fits each picture alone. The hand by where the pictures put it: of all spreads of the
    grid, the one under which these distances are likeliest, the corners' own part in them known for each view. They
    follow a multivariate t distribution, so that one wrong pose among many does not count for much.
    """
    slopes, rows, views = by_hand(session, place), np.repeat(session.owner, 2), len(session.views)
    apart = (session.project(session.seen) - session.pixels).ravel()
    # Rendered or copied corners may be perfect, which no covariance may be.
    variance = max(float(apart @ apart) / max(len(apart) - 6 * views, 1), PERFECT**2)
    own = [slopes[rows == view] for view in range(views)]
    by_corners = variance * np.array([np.linalg.pinv(slope.T @ slope) for slope in own])
    implied = place.board_to_frame @ transforms.inverse(place.camera_to_parent @ session.seen)
    off = transforms.inverse(session.hand_to_base) @ chain_of(implied, session.parent)
    twists = np.array([[*transforms.logarithm(each[:3, :3]), *each[:3, 3]] for each in off])
    # 12 parameters were fitted to 6 numbers of each view, which made these smaller.
    twists *= np.sqrt(views / max(views - 2, 1))
    turns, shifts = (grid.ravel() for grid in np.meshgrid(GRID, GRID))
    added = np.repeat(np.stack([turns, shifts], axis=1), 3, axis=1) ** 2
    covariance = by_corners + np.eye(6) * added[:, None, None, :]  # (spreads, views, 6, 6)
    distance = np.einsum("vi,svi->sv", twists, np.linalg.solve(covariance, twists[:, :, None])[..., 0])
    unlikely = np.linalg.slogdet(covariance)[1] + (TAILS + 6) * np.log1p(distance / TAILS)
    best = int(np.argmin(unlikely.sum(1)))
    return Spread(variance**0.5, float(shifts[best]), float(turns[best]))


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of `count` views, as two rows of indices."""
    first, second = np.array(list(itertools.combinations(range(count), 2))).T
    return first, second
