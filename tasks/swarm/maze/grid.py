"""Obstacles on a grid that never divide the ground, and the shortest ways around them between any two cells."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

# In a circle; the even ones share sides.
AROUND = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
NEIGHBOURS = AROUND[::2]  # cells that a way goes on to
NOWHERE = np.iinfo(np.int16).max  # cells to go where no way leads


@dataclasses.dataclass(frozen=True)
class Grid:
    """A square of cells along the floor about the origin; a cell has a number, row by row along x."""

    count: int
    """Cells along a side."""
    pitch: float
    """m, side of a cell."""

    @property
    def half(self) -> float:
        """m, half the square's side."""
        return self.count * self.pitch / 2

    @property
    def centres(self) -> np.ndarray:
        """(cells, 2) m."""
        middle = (np.arange(self.count) + 0.5) * self.pitch - self.half
        return np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)

    @property
    def beside(self) -> np.ndarray:
        """(cells, 4) int32 the cells on the sides of each; itself where the square ends."""
        place = np.stack(np.divmod(np.arange(self.count**2), self.count), -1)
        near = place[:, None] + np.array(NEIGHBOURS)
        inside = ((near >= 0) & (near < self.count)).all(-1)
        own = np.arange(self.count**2)[:, None]
        return np.where(inside, near[..., 0] * self.count + near[..., 1], own).astype(np.int32)

    def cell(self, place: Array) -> Array:
        """(...) int32 number of the cell over which (..., 2) m lies, the nearest one outside the square."""
        row = jnp.clip(jnp.floor((place + self.half) / self.pitch).astype(jnp.int32), 0, self.count - 1)
        return row[..., 0] * self.count + row[..., 1]

    def maze(self, key: Array, obstacles: int) -> Array:
        """(cells,) bool, cells in which an obstacle stands: at most `obstacles`, and all others stay connected.

        Cells are taken in random order, and one is blocked if its free sides stay connected through the cells around
        it: then every way through it has a detour (a simple point of digital topology, Kong and Rosenfeld 1989). So the
        ground is never divided, whatever the order.
        """
        around = np.array(AROUND) + 1

        def tried(carry: tuple[Array, Array], cell: Array) -> tuple[tuple[Array, Array], None]:
            free, left = carry  # with a border that is blocked
            row, column = jnp.divmod(cell, self.count)
            ring = free[row + around[:, 0], column + around[:, 1]]
            before = jnp.roll(ring, 1)
            # Runs of free cells around it that hold a side begin at a side after a blocked cell, or at a corner that is
            # free between a blocked cell and a free side.
            starts = ring & ~before
            sides = starts[::2] | (starts[1::2] & jnp.roll(ring[::2], -1))
            parted = jnp.sum(sides) > 1
            block = (left > 0) & ~parted & jnp.any(ring[::2])
            return (free.at[row + 1, column + 1].set(~block), left - block), None

        free = jnp.pad(jnp.ones((self.count, self.count), bool), 1)
        order = jax.random.permutation(key, self.count**2)
        (free, _), _ = jax.lax.scan(tried, (free, jnp.asarray(obstacles)), order)
        return ~free[1:-1, 1:-1].reshape(-1)

    def distances(self, blocked: Array) -> Array:
        """(cells, cells) int16 steps along sides from each cell (second) to each goal (first) around the `blocked`
        (cells,); `NOWHERE` where no way leads."""
        near = jnp.eye(self.count**2, dtype=bool) & ~blocked

        def widened(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            found, far, step = carry
            square = jnp.pad(found.reshape(-1, self.count, self.count), ((0, 0), (1, 1), (1, 1)))
            shared = square[:, 2:, 1:-1] | square[:, :-2, 1:-1] | square[:, 1:-1, 2:] | square[:, 1:-1, :-2]
            reached = shared.reshape(found.shape) & ~blocked & ~found
            return found | reached, jnp.where(reached, step, far), step + 1

        far = jnp.where(near, 0, NOWHERE).astype(jnp.int16)
        cells = jnp.asarray(self.count**2, jnp.int16)
        going = lambda carry: jnp.any(carry[1] == carry[2] - 1) & (carry[2] < cells)  # noqa: E731
        return jax.lax.while_loop(going, widened, (near, far, jnp.ones((), jnp.int16)))[1]

    def way(self, far: Array, cell: Array, steps: int) -> tuple[Array, Array]:
        """The next cells (A, steps) int32 on the shortest way from `cell` (A,), and how many are left behind the first.

        Args:
            far: (A, cells) steps to each drone's goal, rows of `distances`.
            cell: (A,) where the drones are; from a blocked cell the way leads out of it first.
            steps: Number of next cells; once there, the goal's own.
        """
        beside, found = jnp.asarray(self.beside), []
        for _ in range(steps):
            choices = jnp.concatenate([beside[cell], cell[:, None]], 1)
            ahead = jnp.take_along_axis(far, choices, 1)
            cell = jnp.take_along_axis(choices, jnp.argmin(ahead, 1)[:, None], 1)[:, 0]
            found.append((cell, jnp.min(ahead, 1)))
        return jnp.stack([cell for cell, _ in found], 1), found[0][1]
