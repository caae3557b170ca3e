"""Shortest paths of a hand among obstacles, exactly; and how near an answer's path comes to them.

The hand moves on a level plane, straight down, turned any way. Objects that rise into it are rectangles around their
sides, wider by the hand's half diagonal on each side, so that the tcp must stay outside; the arm's own foot is a
polygon around points that it does not reach. Among convex polygons a shortest path runs straight from corner to corner
(Lozano-Perez and Wesley, "An algorithm for planning collision-free paths among polyhedral obstacles", CACM 22, 1979).
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tasks.grasping.objects.pointclouds import PlacedObject
from tasks.grasping.objects.shapes import matrix
from tasks.questions.cooperation.robots import Arm, ring
from tasks.questions.cooperation.scenes import CooperationScene

LEVEL = 0.12  # m, height of the tcp over the table, our choice: a hand passes over blocks and cans that lie
PALM = 0.037  # m from the tcp up to the hand's body; panda.xml, hand_collision
SLACK = 0.02  # m, by which things may stay below the hand's fingertips
HAND = math.hypot(0.1, 0.0315)  # m, half the hand's diagonal seen from above; panda.xml, hand_collision
FEELERS = math.hypot(0.055, 0.0105)  # m, the same of its fingers, open; panda.xml, left_pad and FINGER_LIMITS
SIDES = 16  # of the polygon around an arm's foot
NEAREST, FARTHEST = 0.3, 0.9  # m, range of the straight line from start to end
CUT = 0.02  # m, by which the straight way cuts into something: more than the tolerance of answers
TRIES = 400  # pairs of points that are tried for a path with a detour
TOUCH = 1e-9  # m: paths may touch obstacles

Polygon = np.ndarray
"""(corners, 2) m, convex, counter-clockwise."""


@dataclasses.dataclass(frozen=True)
class PathTask:
    """Start, end, path."""

    arm: str
    obstacles: tuple[Polygon, ...]
    path: np.ndarray
    """(corners, 2) m, the shortest one, from the start to the end."""

    @property
    def length(self) -> float:
        return path_length(self.path)


def obstacle(placed: PlacedObject) -> Polygon | None:
    """Area closed to the tcp at `LEVEL`; None where the hand passes over the object."""
    top = placed.pos[2] + float(placed.item.extents[2]) / 2
    if top <= LEVEL - SLACK:
        return None
    wide = HAND if top > LEVEL + PALM - SLACK else FEELERS
    half = placed.item.extents[:2] / 2 + wide
    corners = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * half
    return corners @ matrix(placed.quat)[:2, :2].T + np.array(placed.pos[:2])


def foot(arm: Arm) -> Polygon:
    """A regular polygon around what is too near to an arm's foot to be reached at `LEVEL`."""
    least, _ = ring(LEVEL - arm.pos[2])
    angles = 2 * math.pi * np.arange(SIDES) / SIDES
    return np.array(arm.pos[:2]) + least / math.cos(math.pi / SIDES) * np.column_stack([np.cos(angles), np.sin(angles)])


def path_task(scene: CooperationScene, random: np.random.Generator) -> PathTask | None:
    """A start and an end within reach of one of a scene's arms, with something between them; None where nothing is.

    Only such whose shortest path is within reach at every corner, and so all along: a disc is convex.
    """
    things = [*scene.objects, *(place.placed for place in scene.places)]
    around = [polygon for placed in things if (polygon := obstacle(placed)) is not None]
    arms = [robot for robot in scene.robots if isinstance(robot, Arm)]
    feet = {arm.name: foot(arm) for arm in arms}
    for _ in range(TRIES):
        arm = arms[int(random.integers(len(arms)))]
        obstacles = (feet[arm.name], *around)
        ends = random.uniform([-0.6, -0.36], [0.6, 0.3], (2, 2))
        # Cheap tests go first: most pairs fail by reach.
        if not NEAREST <= float(np.linalg.norm(ends[1] - ends[0])) <= FARTHEST:
            continue
        if not all(arm.reaches((*end, LEVEL)) and not _inside(end, obstacles) for end in ends):
            continue
        if clear(ends, around, CUT):
            continue
        path = shortest_path(ends[0], ends[1], obstacles)
        if path is not None and all(arm.reaches((*corner, LEVEL)) for corner in _nudged(path, arm)):
            return PathTask(arm.name, obstacles, path)
    return None


def _nudged(path: np.ndarray, arm: Arm) -> np.ndarray:
    """A path's corners, a hair away from the foot: the polygon's flats touch the ring."""
    away = path - np.array(arm.pos[:2])
    return path + 1e-3 * away / np.linalg.norm(away, axis=1, keepdims=True)


def shortest_path(start: np.ndarray, end: np.ndarray, obstacles: Sequence[Polygon]) -> np.ndarray | None:
    """The shortest path outside convex polygons, (corners, 2) m from start to end; None where there is none.

    Dijkstra's search over the graph of corners that see one another.
    """
    corners = [corner for polygon in obstacles for corner in polygon if not _inside(corner, obstacles)]
    nodes = np.array([start, end, *corners])
    best = np.full(len(nodes), math.inf)
    best[0] = 0.0
    before = np.full(len(nodes), -1)
    queue, done = [(0.0, 0)], set[int]()
    while queue:
        _, at = heapq.heappop(queue)
        if at == 1:
            break
        if at in done:
            continue
        done.add(at)
        for to in set(range(len(nodes))) - done:
            far = best[at] + float(np.linalg.norm(nodes[to] - nodes[at]))
            if far < best[to] and clear(nodes[[at, to]], obstacles):
                best[to], before[to] = far, at
                heapq.heappush(queue, (far, to))
    if not math.isfinite(best[1]):
        return None
    order = [1]
    while order[-1] != 0:
        order.append(int(before[order[-1]]))
    return nodes[order[::-1]]


def clear(path: np.ndarray, obstacles: Sequence[Polygon], slack: float = 0.0) -> bool:
    """Whether a path (corners, 2) m meets no polygon's inside; `slack` m of each is forgiven along its edges."""
    return not any(
        _crosses(start, end, polygon, slack) for start, end in itertools.pairwise(path) for polygon in obstacles
    )


def _crosses(start: np.ndarray, end: np.ndarray, polygon: Polygon, slack: float) -> bool:
    """Whether more than a point of a segment is inside: clipped by one edge after the other (Cyrus and Beck, 1978)."""
    edges = np.roll(polygon, -1, axis=0) - polygon
    outward = np.column_stack([edges[:, 1], -edges[:, 0]]) / np.linalg.norm(edges, axis=1, keepdims=True)
    depth = -slack - TOUCH
    first = np.einsum("nk,nk->n", start - polygon, outward) - depth
    last = np.einsum("nk,nk->n", end - polygon, outward) - depth
    if ((first >= 0) & (last >= 0)).any():
        return False
    # Along each edge's normal the segment goes from `first` to `last`; below 0 it is inside.
    with np.errstate(divide="ignore", invalid="ignore"):
        share = first / (first - last)
    enter = share[(first >= 0)].max(initial=0.0)
    leave = share[(last >= 0)].min(initial=1.0)
    return bool(enter < leave)


def _inside(point: np.ndarray, obstacles: Sequence[Polygon]) -> bool:
    for polygon in obstacles:
        edges, away = np.roll(polygon, -1, axis=0) - polygon, point - polygon
        if (edges[:, 0] * away[:, 1] - edges[:, 1] * away[:, 0] > TOUCH).all():
            return True
    return False


def path_length(path: np.ndarray) -> float:
    """m, or pixels, of a path (corners, 2)."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())
