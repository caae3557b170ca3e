"""Home poses found by least squares: legs bent alike, every foot below its hip; an arm bent, its tip ahead of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import mujoco
import numpy as np

from embodied.robot.derivation.chain import Chain, least_squares
from embodied.robot.tree import NEIGHBOURS, Limb, Tree, ancestors, joints_between, sole

BEND = {4: 0.8, 2: 0.97}  # number of legs -> height of the hip over the foot, of the leg's whole length
NEUTRAL = 0.05  # of a leg's length: weight of a radian away from the neutral angle; and
FLAT = 0.01  # that of a radian of pitch where a foot is to be flat, which leaves less to choose
MARGIN = 0.05  # of a joint's range that is left free at both ends
BALANCES = 3  # solutions for two legs: bending them moves the centre of mass
ASIDE = 0.3  # of a leg's length: further to the side than this a neutral leg's foot does not stay
STEPS = (0.2, -0.2, 0.4, -0.4, 0.6, -0.6)  # rad by which an arm's joint is turned to bring it out of the body
APART = 0.005  # m that shapes may be inside each other
ALIKE = 1e-9  # m^2, between costs of poses of which the first is as good as any
PATTERNS = (0.0, 0.5, -0.5, 1.0, -1.0)  # rad of pitch joints from which the search begins
ASKEW = 1e-3  # rad or m, by which every joint is off where a search begins: no slope leads out of a plane of symmetry
BENT = (0.3, 1.0, -1.0)  # rad, the same of an arm
DOWN = np.array([0.0, 0.0, -1.0])
AHEAD, UP = 0.55, 0.35  # of an arm's length beyond its first joint: where the tip is, from that joint's foot
TURNED, LOWERED = 0.1, 1.0  # lengths: what a hand that does not point down weighs, and an elbow that is not above it
SHORTEST = 1e-3  # m of an arm, whose joints may all meet where its tip is
ELBOW = 0.25, 0.75  # of the length: where an arm's elbow is
ABOVE = 0.15  # of the length: how much higher than the tip it should be


def neutral_pose(model: mujoco.MjModel, joints: tuple[int, ...]) -> np.ndarray:
    """(n,) rad or m: zero, or the nearest angle inside the limits."""
    low, high = limits(model, joints)
    return np.clip(np.zeros(len(joints)), low, high)


def limits(model: mujoco.MjModel, joints: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(n,) lowest and highest angle, a margin inside the joints' ranges; half a turn each way without any."""
    ranges = np.array([model.jnt_range[joint] if model.jnt_limited[joint] else (-np.pi, np.pi) for joint in joints])
    ranges = ranges.reshape(-1, 2)
    room = MARGIN * (ranges[:, 1] - ranges[:, 0])
    return ranges[:, 0] + room, ranges[:, 1] - room


def standing_pose(tree: Tree, legs: tuple[Limb, ...]) -> np.ndarray:
    """(njnt of the tree,) rad or m, in the order of `tree.joints`: legs bent alike, all other joints neutral."""
    model = tree.model
    pose = neutral_pose(model, tree.joints)
    data = mujoco.MjData(model)
    place(model, data, tree.joints, pose)
    goals = [_Goal(tree, leg, data, len(legs)) for leg in legs]
    patterns = np.array(list(itertools.product(PATTERNS, repeat=min(3, *(len(goal.pitch) for goal in goals)))))
    order = {joint: index for index, joint in enumerate(tree.joints)}
    for _ in range(BALANCES if len(legs) == 2 else 1):
        place(model, data, tree.joints, pose)
        mujoco.mj_comPos(model, data)
        for goal in goals:
            goal.balance(data)
        found = [goal.solve(data, patterns) for goal in goals]
        costs = np.sum([cost for cost, _ in found], axis=0)
        best = int(np.argmax(costs < costs.min() + ALIKE))
        for goal, (_, angles) in zip(goals, found, strict=True):
            pose[[order[joint] for joint in goal.leg.joints]] = angles[best]
        patterns = patterns[best : best + 1]
    return _apart(tree, legs, pose)


def _apart(tree: Tree, legs: tuple[Limb, ...], pose: np.ndarray) -> np.ndarray:
    """The pose with each limb that is no leg turned by one joint, if that brings it out of the rest of the body."""
    model, data = tree.model, mujoco.MjData(tree.model)
    order = {joint: index for index, joint in enumerate(tree.joints)}
    low, high = limits(model, tree.joints)
    for limb in (limb for limb in tree.limbs if limb not in legs):
        own = [
            joint
            for joint in limb.joints
            if not any(joint in other.joints for other in tree.limbs if other is not limb)
        ]
        bodies = {int(model.jnt_bodyid[joint]) for joint in own}
        least = _depth(tree, data, pose, bodies)
        if least <= APART:
            continue
        best = pose
        for step, joint in itertools.product(STEPS, own):
            trial, index = pose.copy(), order[joint]
            trial[index] = np.clip(trial[index] + step, low[index], high[index])
            depth = _depth(tree, data, trial, bodies)
            if depth < least - APART:
                least, best = depth, trial
            if depth <= APART:
                break
        pose = best
    return pose


def _depth(tree: Tree, data: mujoco.MjData, pose: np.ndarray, bodies: set[int]) -> float:
    """m: how deep a shape that hangs on any of the bodies is inside one that does not, neighbours left out."""
    model = tree.model
    data.qpos[model.jnt_qposadr[list(tree.joints)]] = pose
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    deepest = 0.0
    for contact in data.contact:
        first, second = (int(model.geom_bodyid[geom]) for geom in contact.geom)
        apart = first and second and joints_between(model, first, second) > NEIGHBOURS
        if apart and not bodies.isdisjoint(ancestors(model, first) + ancestors(model, second)):
            deepest = max(deepest, -float(contact.dist))
    return deepest


def place(model: mujoco.MjModel, data: mujoco.MjData, joints: tuple[int, ...], angles: np.ndarray) -> None:
    """Write joint angles and those of joints that copy them, and compute where everything is."""
    data.qpos[model.jnt_qposadr[list(joints)]] = angles
    follow(model, data.qpos)
    mujoco.mj_kinematics(model, data)


def qpos_of(model: mujoco.MjModel, angles: Mapping[str, float]) -> np.ndarray:
    """(nq,) with joints at angles in rad or m, those that copy them too; others as the file has them."""
    qpos = model.qpos0.copy()
    for name, angle in angles.items():
        qpos[model.joint(name).qposadr[0]] = angle
    follow(model, qpos)
    return qpos


def follow(model: mujoco.MjModel, qpos: np.ndarray) -> None:
    """Move joints that copy another, by an equality, to the angle that it sets; in place."""
    pairs = [index for index in range(model.neq) if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT)]
    for _ in pairs:  # a follower may have followers
        before = qpos.copy()
        for index in pairs:
            first, second = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
            if second >= 0:
                leader, copy = model.jnt_qposadr[second], model.jnt_qposadr[first]
                moved = np.polyval(model.eq_data[index, 4::-1], qpos[leader] - model.qpos0[leader])
                qpos[copy] = model.qpos0[copy] + moved
        if np.array_equal(before, qpos):
            break


def reaching_pose(tree: Tree, tip: str) -> np.ndarray:
    """(n,) rad or m, in the order of `tree.joints`: an arm bent, its tip ahead and pointing down, its elbow above."""
    model = tree.model
    pose = neutral_pose(model, tree.joints)
    low, high = limits(model, tree.joints)
    pose = np.where((model.jnt_range[list(tree.joints)].T * [[1], [-1]] > 0).any(0), (low + high) / 2, pose)
    data = mujoco.MjData(model)
    place(model, data, tree.joints, pose)
    goal = _Reach(tree, tip, data, pose)
    order = {joint: index for index, joint in enumerate(tree.joints)}
    patterns = itertools.product(BENT, repeat=min(len(goal.pitch), 3))
    costs, angles = goal.solve(data, np.array(list(patterns)))
    pose[[order[joint] for joint in goal.joints]] = angles[costs.argmin()]
    return pose


def carrier(model: mujoco.MjModel, name: str) -> tuple[int, np.ndarray]:
    """Body that carries a site or body of this name, and its place (3,) m in that one's frame."""
    for site in range(model.nsite):
        if model.site(site).name == name:
            return int(model.site_bodyid[site]), model.site_pos[site].copy()
    return int(model.body(name).id), np.zeros(3)


class _Reach:
    """Goal of the tip of an arm."""

    def __init__(self, tree: Tree, tip: str, data: mujoco.MjData, neutral: np.ndarray) -> None:
        """`neutral`: (n,) rad or m of all the tree's joints, as they stand in `data`."""
        model = self.model = tree.model
        self.body, self.point = carrier(model, tip)
        above = ancestors(model, self.body)
        self.joints = tuple(sorted(joint for joint in tree.joints if int(model.jnt_bodyid[joint]) in above))
        self.low, self.high = limits(model, self.joints)
        self.low, self.high = np.maximum(self.low, -np.pi), np.minimum(self.high, np.pi)
        self.neutral = np.clip(neutral[[tree.joints.index(joint) for joint in self.joints]], self.low, self.high)
        anchors = np.array([*data.xanchor[list(self.joints)], self.tip(data)])
        along = np.cumsum(np.linalg.norm(np.diff(anchors, axis=0), axis=1))
        self.length = max(float(along[-1]), SHORTEST)
        share = np.concatenate([[0.0], along[:-1]]) / self.length
        middle = [joint for joint, at in zip(self.joints, share, strict=True) if ELBOW[0] <= at <= ELBOW[1]]
        self.elbows = middle or [self.joints[len(self.joints) // 2]]
        foot = data.xanchor[self.joints[0]]
        away = (self.tip(data) - foot)[:2]
        far = float(np.linalg.norm(away))
        ahead = away / far if far > 0.2 * self.length else np.array([1.0, 0.0])
        self.target = np.array([*(foot[:2] + AHEAD * self.length * ahead), data.xpos[tree.root, 2]])
        self.target[2] += UP * self.length
        sideways = np.array([-ahead[1], ahead[0], 0.0])
        self.pitch = [i for i, joint in enumerate(self.joints) if abs(data.xaxis[joint] @ sideways) > 0.7]

    def tip(self, data: mujoco.MjData) -> np.ndarray:
        """(3,) m."""
        return data.xpos[self.body] + data.xmat[self.body].reshape(3, 3) @ self.point

    def solve(self, data: mujoco.MjData, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Costs (k,) and angles (k, n) of the arm, from pitch joints bent by `patterns` (k, p)."""
        chain, length, n = Chain(self.model, data, self.joints), self.length, len(self.joints)
        foot, elbows = self.tip(data), [self.joints.index(joint) for joint in self.elbows]
        rest = np.diag(np.full(n, NEUTRAL * length))

        def residuals(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            chain.place(angles)
            tip, rows = chain.point(foot), np.arange(len(angles))
            by_tip = chain.slopes(tip, n)
            near = np.linalg.norm(tip[:, None] - chain.anchors, axis=-1) < 0.05 * length
            wrist = n - 1 - np.argmin(near[:, ::-1], axis=1)
            hand = tip - chain.anchors[rows, wrist]
            by_hand = by_tip - chain.slopes(chain.anchors[rows, wrist], wrist)
            far = np.maximum(np.linalg.norm(hand, axis=1), 1e-9)[:, None]
            along = hand / far
            across = (np.eye(3) - along[:, :, None] * along[:, None]) / far[..., None]
            elbow = np.array(elbows)[chain.anchors[:, elbows, 2].argmax(1)]
            low = tip[:, 2:] + ABOVE * length - chain.anchors[rows, elbow, 2:]
            by_low = (by_tip - chain.slopes(chain.anchors[rows, elbow], elbow))[:, 2:]
            left = [tip - self.target, TURNED * length * (along - DOWN), LOWERED * np.maximum(low, 0.0)]
            slopes = [by_tip, TURNED * length * across @ by_hand, LOWERED * by_low * (low > 0)[..., None]]
            return _with_rest(left, slopes, angles - self.neutral, rest)

        return least_squares(residuals, _bent(self.neutral, self.pitch, patterns), self.low, self.high)


class _Goal:
    """Goal of the foot of one leg."""

    def __init__(self, tree: Tree, leg: Limb, data: mujoco.MjData, legs: int) -> None:
        model, self.leg = tree.model, leg
        self.model = model
        self.low, self.high = limits(model, leg.joints)
        self.neutral = np.clip(np.zeros(len(leg.joints)), self.low, self.high)
        axes = data.xaxis[list(leg.joints)]
        self.pitch = [index for index, axis in enumerate(axes) if abs(axis[1]) > 0.7]
        self.flat = len(leg.joints) >= 5
        self.weights = np.full(len(leg.joints), NEUTRAL)
        self.weights[self.pitch if self.flat else []] = FLAT
        hip = leg.joints[self.pitch[0] if self.pitch else 0]
        level = mujoco.MjData(model)  # at zero, and not at the nearest angle inside the limits: feet are drawn flat
        mujoco.mj_kinematics(model, level)
        self.hip, self.foot = hip, self._foot(level if self.flat else data)
        bending = self.pitch[:2] if self.flat else self.pitch  # the ankle keeps the foot flat
        anchors = [data.xanchor[leg.joints[index]] for index in bending] or [data.xanchor[hip]]
        points = [*anchors, self.foot_position(data)]
        axis = axes[self.pitch[0]] if self.pitch else np.zeros(3)  # what bending does not shorten
        steps = [(b - a) - ((b - a) @ axis) * axis for a, b in itertools.pairwise(points)]
        self.length = sum(float(np.linalg.norm(step)) for step in steps)
        away = self.foot_position(data) - data.xanchor[hip]
        aside = float(away[1]) if abs(away[1]) < ASIDE * self.length else 0.0
        self.wanted = np.array([0.0, aside, -BEND.get(legs, BEND[4]) * self.length])
        self.carries = tree.root if legs == 2 else 0
        self.upright = level.xmat[leg.end].reshape(3, 3)

    def balance(self, data: mujoco.MjData) -> None:
        """Put the foot below the centre of mass if there are two; of four or more, each stands below its hip."""
        if self.carries:
            self.wanted[0] = float(data.subtree_com[self.carries, 0] - data.xanchor[self.hip, 0])

    def _foot(self, data: mujoco.MjData) -> tuple[int, np.ndarray]:
        """Body and point (3,) in its frame that stands on the ground."""
        body, point = sole(data, self.model, self.leg)
        return body, data.xmat[body].reshape(3, 3).T @ (point - data.xpos[body])

    def foot_position(self, data: mujoco.MjData) -> np.ndarray:
        """(3,) m."""
        body, point = self.foot
        return data.xpos[body] + data.xmat[body].reshape(3, 3) @ point

    def solve(self, data: mujoco.MjData, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Costs (k,) and angles (k, n) of the leg, from pitch joints bent by `patterns` (k, p)."""
        joints = self.leg.joints
        chain, hip = Chain(self.model, data, joints), joints.index(self.hip)
        foot, axes = self.foot_position(data), data.xmat[self.leg.end].reshape(3, 3)
        rest = np.diag(self.weights * self.length)

        def residuals(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            chain.place(angles)
            ends, hips = chain.point(foot), chain.anchors[:, hip]
            left, slopes = [ends - hips - self.wanted], [chain.slopes(ends, len(joints)) - chain.slopes(hips, hip)]
            if self.flat:
                upright = chain.turn @ axes
                turned = np.cross(chain.axes[:, None], np.swapaxes(upright, 1, 2)[:, :, None])[..., 2]
                left.append(0.5 * self.length * (upright[:, 2] - self.upright[2]))
                slopes.append(0.5 * self.length * turned * ~chain.slides[:, 0])
            return _with_rest(left, slopes, angles - self.neutral, rest)

        return least_squares(residuals, _bent(self.neutral, self.pitch, patterns), self.low, self.high)


def _bent(neutral: np.ndarray, pitch: list[int], patterns: np.ndarray) -> np.ndarray:
    """(k, n) rad or m: almost the neutral angles (n,), the first pitch joints bent by each of `patterns` (k, p)."""
    starts = np.tile(neutral + ASKEW, (len(patterns), 1))
    starts[:, pitch[: patterns.shape[1]]] += patterns
    return starts


def _with_rest(
    left: list[np.ndarray], slopes: list[np.ndarray], away: np.ndarray, rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals (k, m) and Jacobians (k, m, n) with those of joints `away` (k, n) from neutral, weighed by `rest`."""
    slopes = [*slopes, np.broadcast_to(rest, (len(away), *rest.shape))]
    return np.concatenate([*left, away @ rest], axis=1), np.concatenate(slopes, axis=1)
