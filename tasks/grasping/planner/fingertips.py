"""A hand whose fingertips face the thumb's across any opening: for precision grasps as wide as the object.

Found by inverse kinematics of the hand alone, damped least squares on the places and directions of its fingertips.
Palm's frame: x from the thumb to the fingers, z out of the palm; m and rad.

    tips = fingertips_of(hand)
    tips.pose(0.11)             # the pads 11 cm apart
    tips.middle, tips.widest    # where that is in the palm's frame, and how wide it gets
"""

from __future__ import annotations

import dataclasses
import functools

import mujoco
import numpy as np

from embodied.core.scenes import compile_spec
from tasks.grasping.hands.hand import Hand, Pose, poses, spec_of

TIP = 0.014  # m, from a fingertip's site to its pad: half the thickest finger, LEAP's, rounded up
OPENINGS = np.round(np.linspace(-0.06, 0.12, 19), 3)  # m, from pad to pad; below 0: where servos push
MIDDLES = tuple((x, 0.0, z) for z in (0.10, 0.09, 0.08) for x in (0.0, 0.01, 0.02, 0.03, 0.04))
"""m, places between the tips that are tried: the farthest from the palm first."""
NEAR = 0.006  # m, by which tips may miss their places
STEPS = 40  # of least squares for each opening, from the one before: they then move by less than 0.1 mm
FIRST = 200  # steps for the first one
DAMPING = 1e-4  # m^2 per rad^2: steps shrink by half in directions in which 1 cm needs 1 rad
STRIDE = 0.1  # rad, of a joint in a step at most
FACING = 0.03  # m: a pad that faces 10 degrees away from the object counts like one that is 5 mm off
ACROSS = 0.3  # weight of the places along y, which an object does not need to be exact
RESTING = 0.002  # m per rad off half closed, which decides what all this leaves free


@dataclasses.dataclass(frozen=True, eq=False)
class Fingertips:
    """Shapes of a hand for one opening after the other."""

    middle: np.ndarray
    """(3,) m, between the pads, in the palm's frame: the same for all openings."""
    openings: np.ndarray
    """(k,) m, rising, from pad to pad along x."""
    joints: np.ndarray
    """(k, n) rad."""
    targets: np.ndarray
    """(k, m) rad, of the servos."""
    reached: tuple[float, float]
    """m, the narrowest and the widest opening at which tips are where they belong, as between these."""

    def pose(self, opening: float) -> Pose:
        """The shape for an opening in m, between those that were found; beyond them the nearest."""

        def between(columns: np.ndarray) -> np.ndarray:
            return np.array([np.interp(opening, self.openings, column) for column in columns.T], np.float32)

        return Pose(between(self.joints), between(self.targets))


@functools.cache
def fingertips_of(hand: Hand) -> Fingertips:
    """The shapes around the middle, of those that are tried, that allows the longest range of openings."""
    return _best(_Solver(hand))


@functools.cache
def pressing_of(hand: Hand, shift: float) -> Fingertips:
    """The same around a middle that is `shift` m nearer to the fingers: where servos push, the thumb's farther."""
    return _Solver(hand).shapes(fingertips_of(hand).middle + np.array([shift, 0.0, 0.0]))


def _best(solver: _Solver) -> Fingertips:
    """The best of the shapes around all middles."""
    best: Fingertips | None = None
    for middle in MIDDLES:
        found = solver.shapes(np.array(middle))
        if best is None or np.ptp(found.reached) > np.ptp(best.reached):
            best = found
        if best.reached == (0.0, OPENINGS[-1]):
            break
    assert best is not None
    return best


class _Solver:
    """Inverse kinematics of one hand."""

    def __init__(self, hand: Hand) -> None:
        self.model = compile_spec(spec_of(hand))
        self.data = mujoco.MjData(self.model)
        self.layout = hand.layout(self.model)
        self.tips = [self.model.site(f"{finger}_tip").id for finger in hand.fingers]
        self.rest = (poses(hand).opened.joints + poses(hand).closed.joints) / 2
        # Towards the thumb, -1, or the fingers, +1; fingers stay where they are when opened, the thumb opposite.
        self.side = np.array([1.0] * (len(self.tips) - 1) + [-1.0])
        self._place(poses(hand).opened.joints)
        self.across = self.data.site_xpos[self.tips, 1].copy()
        self.across[-1] = self.across[:-1].mean()

    def shapes(self, middle: np.ndarray) -> Fingertips:
        """Shapes for all openings, as near as the hand comes."""
        joints, found, near = self._solved(self.rest, middle, OPENINGS[-1], FIRST), [], []
        for opening in OPENINGS[::-1]:
            joints = self._solved(joints, middle, opening, STEPS)
            near.append(opening > -1e-9 and self._miss(middle, opening) < NEAR)
            mujoco.mj_transmission(self.model, self.data)
            found.append((joints, self.data.actuator_length[self.layout.actuators].copy()))
        rows, targets = (np.array(column[::-1]) for column in zip(*found, strict=True))
        return Fingertips(middle, OPENINGS, rows, targets, _longest(OPENINGS, np.array(near[::-1])))

    def _solved(self, joints: np.ndarray, middle: np.ndarray, opening: float, steps: int) -> np.ndarray:
        """Joints (n,) rad after so many steps from others."""
        low, high = self.layout.limits.T
        for _ in range(steps):
            self._place(joints)
            error, slope = self._errors(middle, opening, joints)
            step = np.linalg.solve(slope.T @ slope + DAMPING * np.eye(len(joints)), -slope.T @ error)
            joints = np.clip(joints + np.clip(step, -STRIDE, STRIDE), low, high)
        self._place(joints)
        return joints

    def _errors(self, middle: np.ndarray, opening: float, joints: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals, (r,) m, and their derivative by the joints, (r, n) m/rad."""
        errors, slopes = [RESTING * (joints - self.rest)], [RESTING * np.eye(len(joints))]
        weight = np.array([1.0, ACROSS, 1.0])
        moved, turned = np.zeros((3, self.model.nv)), np.zeros((3, self.model.nv))
        for tip, wanted, side in zip(self.tips, self._places(middle, opening), self.side, strict=True):
            mujoco.mj_jacSite(self.model, self.data, moved, turned, tip)
            pad = self.data.site_xmat[tip].reshape(3, 3)[:, 2]
            errors += [weight * (self.data.site_xpos[tip] - wanted), FACING * (pad - (-side, 0, 0))[:2]]
            swing = np.cross(turned[:, self.layout.qvel].T, pad).T
            slopes += [weight[:, None] * moved[:, self.layout.qvel], FACING * swing[:2]]
        return np.concatenate(errors), np.concatenate(slopes)

    def _places(self, middle: np.ndarray, opening: float) -> np.ndarray:
        """(fingers, 3) m, where the tips belong."""
        x = middle[0] + self.side * (opening / 2 + TIP)
        return np.stack([x, self.across + middle[1], np.full(len(x), middle[2])], -1)

    def _miss(self, middle: np.ndarray, opening: float) -> float:
        """m, by which the worst tip misses its place, across the fingers aside."""
        off = self.data.site_xpos[self.tips] - self._places(middle, opening)
        return float(np.abs(off[:, [0, 2]]).max())

    def _place(self, joints: np.ndarray) -> None:
        self.data.qpos[self.layout.qpos] = joints
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_tendon(self.model, self.data)


def _longest(values: np.ndarray, chosen: np.ndarray) -> tuple[float, float]:
    """The first and the last value of the longest run that is chosen; (0, 0) where none is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], chosen, [False]])))
    runs = [(float(values[first]), float(values[end - 1])) for first, end in edges.reshape(-1, 2)]
    return max(runs, key=np.ptp, default=(0.0, 0.0))
