"""Intrinsic parameters from views of a board: focal lengths, principal point, distortion, and their uncertainties.

Zhang, "A flexible new technique for camera calibration", IEEE TPAMI 22 (2000), through OpenCV.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from embodied.errors import listing
from embodied.evaluation.tables import plus_minus
from embodied.math import transforms
from sim2real.cameras import detect
from sim2real.cameras.board import Board
from sim2real.cameras.camera import COEFFICIENTS, Camera, CameraError
from sim2real.cameras.detect import View

FEWEST_VIEWS = 6  # three fix a camera with perfect corners; six leave something to check it by
ADVISED_VIEWS = 15
SMALLEST_TURN = np.radians(15.0)  # rad between the boards' normals: with less, distance and focal length look the same
LARGEST_DOUBT = 0.01  # standard deviation of a focal length, relative to it
COVERED = 0.5  # of the picture's area that corners should reach; the lens beyond is extrapolated
MOVED = 1.0  # pixels, mean, by which a view must differ from the others to count as another one
FOLDS = 5  # of cross-validation
UNFIT = 1.0  # pixels of reprojection error; corners are found to a tenth
OUTLIER = 4.0  # robust standard deviations of the views' errors above their median, beyond which a view is left out
OUTLIER_RATIO = 1.5  # times the median that an outlier must have at least
MOST_OUTLIERS = 1 / 3  # of all views; more of them mean that something else is wrong
ADVICE = (
    "photograph the board from 15 or more places: near and far, in the middle and in each corner of the picture, "
    "tilted by 20 to 45 degrees to the left, right, top and bottom"
)


class Lens(StrEnum):
    """Which distortion is estimated."""

    NONE = "none"
    """A pinhole."""
    BROWN = "brown"
    """k1, k2, p1, p2: ordinary lenses."""
    BROWN5 = "brown5"
    """And k3: wide ones."""
    RATIONAL = "rational"
    """k1 to k6, p1, p2: very wide ones; needs views up to the picture's rim."""


@dataclasses.dataclass(frozen=True)
class Model:
    """OpenCV's flags and number of coefficients for a distortion model."""

    flags: tuple[str, ...]
    """Names of its flags."""
    coefficients: int


MODELS = {
    Lens.NONE: Model(("CALIB_ZERO_TANGENT_DIST", "CALIB_FIX_K1", "CALIB_FIX_K2", "CALIB_FIX_K3"), 0),
    Lens.BROWN: Model(("CALIB_FIX_K3",), 4),
    Lens.BROWN5: Model((), 5),
    Lens.RATIONAL: Model(("CALIB_RATIONAL_MODEL",), 8),
}


@dataclasses.dataclass(frozen=True)
class Fit:
    """A camera fitted to views, none left out."""

    camera: Camera
    std: np.ndarray
    """(4 + k,) standard deviations of fx, fy, cx, cy in pixels, and of the distortion; see `deviations`."""
    rms: float
    """pixels, of all corners: root of the mean squared distance."""
    errors: np.ndarray
    """(views,) the same of each view."""
    poses: np.ndarray
    """(views, 4, 4) board_to_camera."""


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A photograph that is not used."""

    name: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A calibrated camera, with uncertainties, errors and advice."""

    fit: Fit
    views: tuple[View, ...]
    """Those used."""
    rejected: tuple[Rejected, ...]
    held_out: float
    """pixels, root mean squared distance in views that the camera was not fitted to, at corners that their pose was not
    fitted to."""
    coverage: float
    """Share of the picture's area within the corners' convex hull."""
    advice: tuple[str, ...]
    """Content that further photographs should show."""

    @property
    def camera(self) -> Camera:
        return self.fit.camera

    def rows(self) -> dict[str, str]:
        camera = self.camera
        values = (camera.fx, camera.fy, camera.cx, camera.cy, *camera.distortion)
        names = ("fx", "fy", "cx", "cy", *COEFFICIENTS)
        rows = {
            name: plus_minus(value, 1.96 * std, "px" if index < 4 else "")
            for index, (name, value, std) in enumerate(zip(names, values, self.fit.std, strict=False))
        }
        return rows | {
            "reprojection error": f"{self.fit.rms:.3f} px in {len(self.views)} views",
            "held out": f"{self.held_out:.3f} px",
            "coverage": f"{100 * self.coverage:.0f} % of the picture",
        }


def calibrate(views: Sequence[View], board: Board, lens: Lens = Lens.BROWN) -> Calibration:
    """The camera that took the views.

    Views that show too little, that repeat another, or that the others contradict are left out and named.

    Raises:
        CameraError: the views do not fix the camera; with advice on what to photograph.
    """
    kept, rejected = select(views, board)
    check_enough(kept, rejected)
    fitted = fit(kept, board, lens)
    most = int(MOST_OUTLIERS * len(kept))
    for _ in range(most):
        worst = outlier(fitted.errors)
        if worst is None or len(kept) <= FEWEST_VIEWS:
            break
        rejected.append(Rejected(kept[worst].name, f"its error is {fitted.errors[worst]:.2f} px, the others' median "
                                                   f"{np.median(fitted.errors):.2f} px"))  # fmt: skip
        kept = kept[:worst] + kept[worst + 1 :]
        fitted = fit(kept, board, lens)
    check_degenerate(fitted)
    unseen_error, covered = held_out(kept, board, lens), coverage(kept)
    return Calibration(fitted, tuple(kept), tuple(rejected), unseen_error, covered, _advice(kept, covered))


def select(views: Sequence[View], board: Board) -> tuple[list[View], list[Rejected]]:
    """Views that can be used, and why the others cannot; a `CameraError` where images differ in size."""
    sizes = {view.size for view in views}
    if len(sizes) > 1:
        raise CameraError(
            f"the images have different sizes: {listing(f'{w} x {h}' for w, h in sorted(sizes))}; a camera has one, "
            "and one zoom and focus"
        )
    kept: list[View] = []
    rejected = []
    for view in views:
        if not detect.usable(view, board):
            total = len(board.corners)
            rejected.append(Rejected(view.name, f"{len(view.numbers)} of {total} corners found, or all on one line"))
        elif repeated := next((other.name for other in kept if moved(view, other) < MOVED), None):
            rejected.append(Rejected(view.name, f"the same view as {repeated}"))
        else:
            kept.append(view)
    return kept, rejected


def moved(view: View, other: View) -> float:
    """pixels, mean distance between the corners that both views show; inf without any."""
    common, first, second = np.intersect1d(view.numbers, other.numbers, return_indices=True)
    if not len(common):
        return np.inf
    return float(np.linalg.norm(view.pixels[first] - other.pixels[second], axis=1).mean())


def check_enough(kept: Sequence[View], rejected: Sequence[Rejected]) -> None:
    """Raise a `CameraError` where the views are too few; it names what is wrong with the others."""
    if len(kept) >= FEWEST_VIEWS:
        return
    unused = f"; not used: {listing((f'{r.name} ({r.reason})' for r in rejected), 4)}" if rejected else ""
    raise CameraError(
        f"{len(kept)} views of the board, of {len(kept) + len(rejected)} images; expected at least {FEWEST_VIEWS}: "
        f"{ADVICE}{unused}"
    )


def fit(views: Sequence[View], board: Board, lens: Lens) -> Fit:
    """Fit a camera to all the views; a `CameraError` where OpenCV finds none."""
    import cv2

    model = MODELS[lens]
    flags = sum(getattr(cv2, name) for name in model.flags)
    matched = [
        board.charuco.matchImagePoints(view.pixels.astype(np.float32)[:, None], view.numbers.astype(np.int32)[:, None])
        for view in views
    ]
    width, height = views[0].size
    try:
        rms, matrix, distortion, turns, positions, _, _, errors = cv2.calibrateCameraExtended(
            [points for points, _ in matched], [pixels for _, pixels in matched], (width, height),
            None, None, flags=flags,  # pyright: ignore[reportArgumentType, reportCallIssue]  (stubs know no None)
        )  # fmt: skip
    except cv2.error as error:
        raise CameraError(f"no camera explains the {len(views)} views: {ADVICE}") from error
    numbers = [*np.ravel(matrix)[[0, 4, 2, 5]], *np.ravel(distortion)[: model.coefficients]]
    if not np.isfinite(numbers).all() or min(numbers[:2]) <= 0:
        raise CameraError(f"no camera explains the {len(views)} views: {ADVICE}")
    fx, fy, cx, cy, *coefficients = (float(number) for number in numbers)
    camera = Camera(width, height, fx, fy, cx, cy, tuple(coefficients))
    poses = np.array([transforms.pose(t.ravel(), p) for t, p in zip(turns, positions, strict=True)])
    return Fit(camera, deviations(views, board, camera, poses), float(rms), np.ravel(errors), poses)


def deviations(views: Sequence[View], board: Board, camera: Camera, poses: np.ndarray) -> np.ndarray:
    """(4 + k,) standard deviations of a camera's parameters, of the views' `poses` (views, 4, 4).

    The ordinary ones treat the errors of all corners as independent. Those of one view are not: the same blur, the
    same bend of the board. The larger is given of these and of those that let errors within a view depend on each
    other (cluster-robust covariance: Liang and Zeger, Biometrika 73, 1986).
    """
    import cv2

    size = 4 + len(camera.distortion)
    known, scores, squares, count = np.zeros((size, size)), [], 0.0, 0
    for view, pose in zip(views, poses, strict=True):
        placed = view.points(board), transforms.logarithm(pose[:3, :3]), pose[:3, 3].copy()
        shown, jacobian = cv2.projectPoints(*placed, camera.matrix, camera.coefficients)
        errors = (view.pixels - shown.reshape(-1, 2)).ravel()
        by_pose, by_camera = jacobian[:, :6], jacobian[:, 6 : 6 + size]
        # What is left of the camera's influence when the view's own pose has explained all it can.
        rest = by_camera - by_pose @ np.linalg.lstsq(by_pose, by_camera, rcond=None)[0]
        known += rest.T @ rest
        scores.append(rest.T @ errors)
        squares, count = squares + errors @ errors, count + len(errors) - 6
    inverse = np.linalg.pinv(known)
    usual = inverse * squares / max(count - size, 1)
    between = np.array(scores)
    clustered = inverse @ (between.T @ between) @ inverse * len(views) / max(len(views) - 1, 1)
    return np.sqrt(np.maximum(np.diag(usual), np.diag(clustered)))


def outlier(errors: np.ndarray) -> int | None:
    """The worst view, where its error (of (views,), in pixels) is beyond what the others' spread explains."""
    median = np.median(errors)
    spread = 1.4826 * np.median(np.abs(errors - median))  # of a Gaussian: its standard deviation
    worst = int(np.argmax(errors))
    return worst if errors[worst] > max(median + OUTLIER * spread, OUTLIER_RATIO * median) else None


def check_degenerate(fitted: Fit) -> None:
    """Check that the views fix the camera.

    Boards that all face the same way leave the focal length open (Zhang, section 3.4), however many there are.

    Raises:
        CameraError: they do not.
    """
    normals = fitted.poses[:, :3, 2]  # in the camera's frame
    turn = float(np.arccos(np.clip(normals @ normals.T, -1, 1)).max())
    # Where nothing fits, intervals are wide for another reason.
    unfit = f"; errors are {fitted.rms:.1f} px: is --lens wide enough, is --board right?" if fitted.rms > UNFIT else ""
    if turn < SMALLEST_TURN:
        raise CameraError(
            f"the board faces the same way, within {np.degrees(turn):.1f} degrees, in all {len(fitted.poses)} views, "
            f"so focal length and distance cannot be told apart; {ADVICE}{unfit}"
        )
    camera = fitted.camera
    doubt = fitted.std[:2] / (camera.fx, camera.fy)
    if doubt.max() > LARGEST_DOUBT:
        axis = "xy"[int(np.argmax(doubt))]
        about = {"x": "to the left and right", "y": "to the top and bottom"}[axis]
        raise CameraError(
            f"the views leave the focal length f{axis} open to {100 * doubt.max():.1f} % (standard deviation; at most "
            f"{100 * LARGEST_DOUBT:g} %): photograph the board tilted {about}, larger in the picture, and from more "
            f"places{unfit}"
        )


def coverage(views: Sequence[View]) -> float:
    """Share of the picture within the convex hull of all corners."""
    import cv2

    hull = cv2.convexHull(np.concatenate([view.pixels for view in views]).astype(np.float32))
    width, height = views[0].size
    return float(cv2.contourArea(hull) / (width * height))


def held_out(views: Sequence[View], board: Board, lens: Lens) -> float:
    """pixels, error in views that the camera was not fitted to; by cross-validation in `FOLDS` parts.

    A held-out view's pose comes from every second of its corners, and the error from the others, so nothing that is
    counted was fitted.
    """
    squares: list[np.ndarray] = []
    for fold in range(min(FOLDS, len(views))):
        camera = fit([view for number, view in enumerate(views) if number % FOLDS != fold], board, lens).camera
        squares += [unseen(view, board, camera) for view in views[fold::FOLDS]]
    return float(np.sqrt(np.concatenate(squares).mean()))


def unseen(view: View, board: Board, camera: Camera) -> np.ndarray:
    """(n,) squared pixels, each corner's error under a pose from the other half of the corners."""
    even = np.arange(len(view.numbers)) % 2 == 0
    squares = []
    for half in (even, ~even):
        part, rest = view.part(half), view.part(~half)
        shown = camera.project(rest.points(board), detect.pose(part, board, camera))
        squares.append(((shown - rest.pixels) ** 2).sum(1))
    return np.concatenate(squares)


def _advice(views: Sequence[View], covered: float) -> tuple[str, ...]:
    advice = []
    if len(views) < ADVISED_VIEWS:
        advice.append(f"{len(views)} views are few: {ADVISED_VIEWS} or more give narrower intervals")
    width, height = views[0].size
    pixels = np.concatenate([view.pixels for view in views])
    sides = {
        "left": pixels[:, 0].min() > 0.15 * width,
        "right": pixels[:, 0].max() < 0.85 * width,
        "top": pixels[:, 1].min() > 0.15 * height,
        "bottom": pixels[:, 1].max() < 0.85 * height,
    }
    if empty := [side for side, missing in sides.items() if missing]:
        advice.append(f"no corner lies near the picture's {listing(empty)}: the lens is extrapolated there")
    elif covered < COVERED:
        advice.append(f"corners cover {100 * covered:.0f} % of the picture: the lens is extrapolated beyond")
    return tuple(advice)
