"""Pointing: expected places are those of the labels, and a network learns to point at what it is told."""

from __future__ import annotations

import pytest
import torch

from policies.vla.model.pointing import Pointer, cells, places, pointing_loss

RESOLUTION = (32, 24)  # width and height, pixels


def fitted(keypoints: torch.Tensor) -> torch.Tensor:
    """The logits with the least loss for some labels (..., 2)."""
    rows, columns = cells(RESOLUTION)
    logits = torch.zeros(*keypoints.shape[:-1], rows * columns + 1, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.5)
    for _ in range(100):
        optimizer.zero_grad()
        pointing_loss(logits, keypoints, RESOLUTION).backward()
        optimizer.step()
    return logits.detach()


def test_the_expected_place_is_the_labels_between_cells_too():
    # Centres of the outermost cells are half a cell, 2 pixels, from the rim.
    shares = torch.rand(20, 2, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    found = places(fitted(shares), RESOLUTION)
    torch.testing.assert_close((found[:, :2] + 1) / 2, shares, atol=0.01, rtol=0)
    assert (found[:, 2] > 0.99).all()


@pytest.mark.parametrize("outside", [[-0.2, 0.5], [0.5, 1.0], [-1.0, -1.0], [2.0, 0.3]])
def test_what_is_outside_of_the_image_is_nowhere(outside):
    assert places(fitted(torch.tensor([outside])), RESOLUTION)[0, 2] < 0.01


def test_it_learns_to_point_at_the_colour_that_it_is_told():
    torch.manual_seed(0)
    pointer, told = Pointer(1, 2), torch.eye(2)
    optimizer = torch.optim.Adam(pointer.parameters(), 1e-2)

    def drawn(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Images with a red and a green square of 4 pixels; which is meant; where that is."""
        pixels = torch.full((count, 24, 32, 3), 120, dtype=torch.uint8)
        corner = torch.stack([torch.randint(0, 28, (count, 2)), torch.randint(0, 20, (count, 2))], -1)
        for colour, paint in enumerate(torch.tensor([[255, 0, 0], [0, 255, 0]], dtype=torch.uint8)):
            right, down = (corner[:, colour, axis, None, None] for axis in (0, 1))
            columns, rows = torch.arange(32) - right, torch.arange(24)[:, None] - down
            inside = (columns >= 0) & (columns < 4) & (rows >= 0) & (rows < 4)
            pixels = torch.where(inside[..., None], paint, pixels)
        meant = torch.randint(0, 2, (count,))
        middle = (corner[torch.arange(count), meant] + 2.0) / torch.tensor(RESOLUTION)
        return pixels, meant, middle

    for _ in range(50):
        pixels, meant, middle = drawn(32)
        optimizer.zero_grad()
        pointing_loss(pointer(pixels, told[meant])[:, 0], middle, RESOLUTION).backward()
        optimizer.step()
    pixels, meant, middle = drawn(64)
    found = (places(pointer(pixels, told[meant])[:, 0], RESOLUTION)[:, :2] + 1) / 2
    assert ((found - middle).abs() < 0.06).all(-1).float().mean() > 0.8
